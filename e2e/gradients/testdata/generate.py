# usage: generate.py       writes mlp.pb, cnn.pb, lstm.pb and embedding.pb beside itself
# Models with a scalar "loss" of constants "x0", "x1"..., and the gradients that tf.gradients finds for these, as
# constants "want0", "want1"...
import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
random = np.random.RandomState(5)


def mlp(x):
    batch, labels = random.randn(8, 6), np.eye(4)[random.randint(0, 4, 8)]
    hidden = tf.nn.dropout(tf.nn.relu(tf.nn.xw_plus_b(batch, x(6, 5), x(5))), rate=0.0)
    hidden = tf.nn.elu(tf.squeeze(tf.matmul(hidden, x(5, 5))[:, None], 1) * x(5) + x())
    logits = tf.matmul(hidden, x(5, 4)) + x(1, 4)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits))
    return loss + 0.01 * tf.add_n([tf.nn.l2_loss(v) for v in x.all])


def cnn(x):
    y = x(2, 8, 8, 3)
    y = tf.nn.conv2d(y, x(3, 3, 3, 4), strides=1, padding="SAME")
    y, _, _ = tf.nn.fused_batch_norm(y, x(4), x(4), is_training=True)
    y = tf.nn.max_pool2d(tf.nn.relu6(y), 2, 2, "VALID")
    y = tf.nn.depthwise_conv2d(y, x(2, 2, 4, 2), strides=[1, 1, 1, 1], padding="VALID")
    y = tf.nn.bias_add(tf.nn.leaky_relu(y), x(8))
    y, _, _ = tf.nn.fused_batch_norm(y, x(8), x(8), mean=np.zeros(8, np.float32), variance=np.ones(8, np.float32), is_training=False)
    y = tf.concat([tf.nn.avg_pool2d(y, 2, 1, "SAME"), tf.space_to_depth(tf.pad(y, [[0, 0], [1, 2], [0, 3], [0, 0]]), 2)[..., :8]], axis=-1)
    y = tf.reshape(tf.reduce_max(y, axis=[1, 2]), [2, -1])
    logits = tf.matmul(y, x(16, 5))
    return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 3], logits=logits))


def lstm(x):
    kernel, bias, inputs = x(7, 16), x(16), x(3, 2, 3)
    state, cell = tf.zeros([2, 4], tf.float64), tf.zeros([2, 4], tf.float64)
    outputs = []
    for step in tf.unstack(inputs):
        i, j, f, o = tf.split(tf.matmul(tf.concat([step, state], 1), kernel) + bias, 4, axis=1)
        cell = tf.clip_by_value(cell * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j), -3.0, 3.0)
        state = tf.tanh(cell) * tf.sigmoid(o)
        outputs.append(state)
    return tf.reduce_sum(tf.stack(outputs, axis=1) ** 2 * tf.sequence_mask([2, 3], 3, tf.float64)[:, :, None])


def embedding(x):
    table, other = x(10, 4), x(6, 4)
    words = tf.gather(table, [[1, 5, 1], [9, 0, 5]])
    sums = tf.math.segment_mean(tf.gather(other, [0, 3, 3, 5]), [0, 0, 1, 1])
    scores = tf.einsum("bwd,bd->bw", words, sums) + tf.reduce_sum(table[2:8:2, ::-1]) + tf.norm(tf.gather(table, [1, 2], axis=1))
    best, _ = tf.nn.top_k(scores, 2)
    return tf.reduce_logsumexp(best) + tf.reduce_prod(tf.gather_nd(other, [[1, 1], [2, 3], [1, 1]]))


class Constants:
    def __init__(self, dtype):
        self.dtype, self.all = dtype, []

    def __call__(self, *shape):
        value = (random.randn(*shape) * 0.5 if shape else random.randn()) + 0.1
        self.all.append(tf.constant(value, self.dtype, name="x%d" % len(self.all)))
        return self.all[-1]


for model, dtype in (mlp, tf.float64), (cnn, tf.float32), (lstm, tf.float64), (embedding, tf.float64):
    with tf.Graph().as_default() as graph:
        constants = Constants(dtype)
        tf.identity(model(constants), name="loss")
        forward = graph.as_graph_def()
        gradients = [tf.convert_to_tensor(g) for g in tf.gradients(graph.get_tensor_by_name("loss:0"), constants.all)]
        with tf.Session() as sess:
            wanted = sess.run(gradients)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(forward, name="")
        for i, value in enumerate(wanted):
            tf.constant(value, name="want%d" % i)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), model.__name__ + ".pb"), "wb") as f:
            f.write(graph.as_graph_def().SerializeToString(deterministic=True))

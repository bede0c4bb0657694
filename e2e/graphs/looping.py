"""The graph of the soak test: a loop that fills a TensorArray, its gradient, and a loop of functions with a list."""
import base64

from support import tf
from tensorflow.python.ops import while_v2


def graph(cluster):
    """What `fetch` names needs `x`, 8 by 8 floats; base64 of a GraphDef."""
    del cluster
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [8, 8], name="x")
        with tf.device("/job:ps"):
            w = tf.constant(0.5, shape=[8, 8])
        rows = tf.TensorArray(tf.float32, size=10, clear_after_read=False)

        def body(i, value, rows):
            value = tf.tanh(tf.matmul(value, w) + tf.reduce_sum(rows.read(i - 1)))
            return i + 1, value, rows.write(i, value)

        _, value, rows = tf.while_loop(lambda i, *_: i < 10, body, [tf.constant(1), x, rows.write(0, x)])
        loss = tf.reduce_sum(rows.stack()) + tf.reduce_sum(value)
        gradient = tf.gradients(loss, x)[0]
        listed = while_v2.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, tf.sin(v) * 2.0), [tf.constant(0), x])[1]
        again = tf.gradients(listed, x)[0]
        tf.add_n([gradient, again, listed], name="fetch")
    return base64.b64encode(g.as_graph_def(add_shapes=False).SerializeToString()).decode()

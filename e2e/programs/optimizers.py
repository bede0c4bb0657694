# usage: optimizers.py TARGET OPTIMIZER STEPS      prints {"losses": [...], "average": [...]}
# A small model with an embedding, trained from values that a program in any language can compute, by an
# optimizer of tf.train. Its variables lie on the ps job.
import json
import sys

import numpy as np
import tensorflow as tf

target, which, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])


def values(seed, *shape):
    return np.sin(np.arange(np.prod(shape)) * 0.37 + seed).astype(np.float32).reshape(shape)


class AdamW(tf.train.AdamOptimizer):
    """Adam, after a decay of what has no sparse gradient."""

    def _resource_apply_dense(self, grad, var):
        with tf.control_dependencies([grad]):
            decay = var.assign_sub(var * (self._lr_t * 0.1), read_value=False)
        with tf.control_dependencies([decay]):
            return super()._resource_apply_dense(grad, var)

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        rows, at = tf.unique(indices)
        grad = tf.math.unsorted_segment_sum(grad, at, tf.size(rows))
        with tf.control_dependencies([grad]):
            decay = tf.raw_ops.ResourceScatterSub(resource=handle.handle, indices=rows, updates=tf.gather(handle, rows) * (self._lr_t * 0.1))
        with tf.control_dependencies([decay]):
            return super()._resource_apply_sparse(grad, handle, rows)


with tf.device("/job:ps/task:0"):
    def variable(name, seed, *shape):
        return tf.get_variable(name, initializer=values(seed, *shape), use_resource=True)

    table = variable("table", 1, 6, 4)
    hidden, offset, output = variable("hidden", 2, 4, 5), variable("offset", 3, 5), variable("output", 4, 5, 1)
    scale = variable("scale", 5)
    step = tf.train.get_or_create_global_step()

rows = tf.gather(table, [0, 2, 2, 5, 3, 0])
layer = tf.tanh(tf.nn.bias_add(tf.matmul(rows, hidden), offset))
guess = tf.matmul(layer, output) * scale
loss = tf.reduce_mean(tf.squared_difference(guess, tf.constant(values(6, 6, 1))))

rate = 0.05
optimizer = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(rate),
    "schedule": lambda: tf.train.GradientDescentOptimizer(0.5 / tf.cast(step + 2, tf.float32)),
    "momentum": lambda: tf.train.MomentumOptimizer(rate, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(rate),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(rate, momentum=0.5),
    "centered": lambda: tf.train.RMSPropOptimizer(rate, centered=True, epsilon=1e-3),
    "adam": lambda: tf.train.AdamOptimizer(rate),
    "adamw": lambda: AdamW(rate),
    "ftrl": lambda: tf.train.FtrlOptimizer(rate, l1_regularization_strength=0.01, l2_regularization_strength=0.02),
    "ftrl2": lambda: tf.train.FtrlOptimizer(rate, l2_shrinkage_regularization_strength=0.02),
    "clipped": lambda: tf.train.AdamOptimizer(rate),
}[which]()
pairs = optimizer.compute_gradients(loss)
assert isinstance(dict((v.op.name, g) for g, v in pairs)["table"], tf.IndexedSlices)
if which == "clipped":
    gradients, _ = tf.clip_by_global_norm([g for g, _ in pairs], 0.1)
    pairs = [(g, v) for g, (_, v) in zip(gradients, pairs)]
train = optimizer.apply_gradients(pairs, global_step=step)
averages = tf.train.ExponentialMovingAverage(0.7)
with tf.control_dependencies([train]):
    update = averages.apply([hidden])

with tf.Session(target) as sess:
    sess.run(tf.global_variables_initializer())
    losses = []
    for _ in range(steps):
        losses.append(float(sess.run(loss)))
        sess.run(update)
    assert sess.run(step) == steps
    print(json.dumps({"losses": losses, "average": sess.run(averages.average(hidden)).ravel().tolist()}))

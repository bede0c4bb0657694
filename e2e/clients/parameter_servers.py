"""Trains a linear model with TensorFlow 2's ParameterServerStrategy and ClusterCoordinator.

usage: parameter_servers.py WORKER WORKER PS     the addresses of the tasks
"""
import socket
import sys

import numpy as np
import tensorflow as tf

WORKERS, PS = sys.argv[1:3], sys.argv[3:4]
with socket.socket() as s:  # the program is a task, too
    s.bind(("127.0.0.1", 0))
    CHIEF = ["127.0.0.1:%d" % s.getsockname()[1]]
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.SimpleClusterResolver(
    tf.train.ClusterSpec({"worker": WORKERS, "ps": PS, "chief": CHIEF}), task_type="chief", task_id=0, rpc_layer="grpc"))
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

with strategy.scope():
    weights = tf.Variable([[0.0], [0.0]])
    bias = tf.Variable([0.0])
    steps = tf.Variable(0, dtype=tf.int64)
for v in weights, bias, steps:
    assert v.device == "/job:ps/replica:0/task:0/device:CPU:0", v.device


def examples():
    x = tf.random.stateless_uniform([256, 2], seed=(1, 2))
    y = tf.matmul(x, [[2.0], [-3.0]]) + 0.5
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(32)


@tf.function
def train(iterator):
    x, y = next(iterator)

    def replica():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(x, weights) + bias - y) ** 2)
        for v, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias))):
            v.assign_sub(0.3 * gradient)
        steps.assign_add(1)
        return loss

    return strategy.run(replica)


iterator = iter(coordinator.create_per_worker_dataset(examples))
losses = [coordinator.schedule(train, args=(iterator,)) for _ in range(200)]
coordinator.join()
assert int(steps) == 200, int(steps)
assert float(losses[-1].fetch()) < 0.01 * max(float(loss.fetch()) for loss in losses)  # the first one may be of a worker that began late
np.testing.assert_allclose(weights.numpy(), [[2.0], [-3.0]], atol=0.3)
print("training works")


@tf.function
def doubled():  # a loop of the worker that reads a variable of the parameter server
    v = weights[0, 0] * 0.0 + 1.0
    while v < 100.0:
        v += v + 0.0 * bias[0]
    return v


assert float(coordinator.schedule(doubled).fetch()) == 128.0
print("loops work")


# Datasets of the program become the workers' own, with their shuffles, caches and tables. Their functions use what is elsewhere: a table of the
# program, which the second one makes with each dataset, and variables of the parameter server.
def table():
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([0, 1, 2], [5, 6, 7], key_dtype=tf.int64, value_dtype=tf.int64), -1)


with strategy.scope():
    scale = tf.Variable(3, dtype=tf.int64)
    seen = tf.Variable(0, dtype=tf.int64)


def spread():
    return tf.data.Dataset.range(4).map(lambda x: x * scale)


@tf.function
def total(iterator):
    return tf.reduce_sum([next(iterator) for _ in range(4)])


@tf.function
def reduced():
    def add(state, x):
        seen.assign_add(1)
        return state + x

    return spread().reduce(tf.constant(0, tf.int64), add)


for make, want in (
    (tf.data.Dataset.range(4).map(table().lookup).shuffle(4).cache(), 17),
    (lambda: strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(4).map(table().lookup)), 17),
    (spread, 18),
):
    iterator = iter(coordinator.create_per_worker_dataset(make))
    assert int(coordinator.schedule(total, args=(iterator,)).fetch()) == want, want
assert int(coordinator.schedule(reduced).fetch()) == 18
assert int(seen) == 4, int(seen)
print("datasets work")


@tf.function
def wrong():
    return tf.linalg.inv(tf.concat([weights, weights], axis=1) * 0.0)


try:
    coordinator.schedule(wrong)
    coordinator.join()
    raise AssertionError("no error")
except tf.errors.InvalidArgumentError as e:
    assert "not invertible" in e.message, e.message
print("errors work")

"""Trains with ParameterServerStrategy while workers are killed, restarted and frozen.

usage: lost_workers.py KILLS FREEZES
"""
import os
import signal
import sys
import threading

import numpy as np
import tensorflow as tf

import troupe

KILLS, FREEZES = map(int, sys.argv[1:])
WORKERS, CLOSURES = 3, 30

cluster = troupe.LocalCluster(ps=1, worker=WORKERS)
strategy = cluster.strategy()
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weights = tf.Variable([[0.0], [0.0]])
    steps = tf.Variable(0, dtype=tf.int64)


def examples():
    x = tf.random.stateless_uniform([256, 2], seed=(1, 2))
    return tf.data.Dataset.from_tensor_slices((x, tf.matmul(x, [[2.0], [-3.0]]))).repeat().batch(32)


@tf.function
def train(iterator):
    x, y = next(iterator)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.matmul(x, weights) - y) ** 2)
    weights.assign_sub(0.3 * tape.gradient(loss, weights))
    steps.assign_add(1)
    return loss


def memory(task):
    with open("/proc/%d/statm" % task.pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


iterator = iter(coordinator.create_per_worker_dataset(examples))


def run(during):
    """Schedules closures, and does something to a worker meanwhile. What the worker was running is run again elsewhere."""
    results = [coordinator.schedule(train, args=(iterator,)) for _ in range(CLOSURES)]
    during()
    coordinator.join()
    return [float(r.fetch()) for r in results]


first = run(lambda: None)
before = memory(cluster.task("ps"))
for i in range(KILLS):
    task = cluster.task("worker", i % WORKERS)

    def lose():
        task.kill()
        task.restart()

    run(lose)
for i in range(FREEZES):
    task = cluster.task("worker", i % WORKERS)
    os.kill(task.pid, signal.SIGSTOP)
    threading.Timer(1.0, os.kill, (task.pid, signal.SIGCONT)).start()
    run(lambda: None)
last = run(lambda: None)
assert int(steps) >= CLOSURES * (KILLS + FREEZES + 2), int(steps)
assert last[-1] < 0.01 * first[0], (first[0], last[-1])
np.testing.assert_allclose(weights.numpy(), [[2.0], [-3.0]], atol=0.2)
grown = memory(cluster.task("ps")) - before
assert grown < 32 << 20, "the parameter server has grown by %d bytes" % grown
print("%d kills and %d freezes cost nothing but repeated closures" % (KILLS, FREEZES))

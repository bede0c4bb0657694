"""Fills a durable queue up to the limit of its files, takes from it what is there, and fills it again, three times."""
import os
import tempfile
import time

import numpy as np
import tensorflow.compat.v1 as tf

import troupe

LIMIT = 64 << 20
ELEMENT = 1_000_000

data = tempfile.mkdtemp()
cluster = troupe.LocalCluster(ps=1, data=data, durable="jobs", data_limit=LIMIT)

graph = tf.Graph()
with graph.as_default(), tf.container("jobs"), tf.device("/job:ps/task:0/cpu:0"):
    queue = tf.FIFOQueue(1000, [tf.uint8], [[ELEMENT]], shared_name="queue")
    element = tf.placeholder(tf.uint8, [ELEMENT])
    put = queue.enqueue(element)
    count = tf.get_variable("count", shape=[], dtype=tf.int64, initializer=tf.zeros_initializer(), use_resource=True)
    with tf.control_dependencies([queue.dequeue()]):
        take = count.assign_add(1)
    size = queue.size()


def room(s):
    """Puts an element into the queue as soon as there is room."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            return s.run(put, {element: np.random.randint(0, 256, ELEMENT, np.uint8)})
        except tf.errors.ResourceExhaustedError as error:
            assert "--data-limit" in error.message, error.message
    raise AssertionError("there is no room again")


def size_of(folder):
    """Returns the bytes of the files of a store that goes on rewriting them: one may be gone when it is looked at."""
    total = 0
    for name in os.listdir(folder):
        try:
            total += os.path.getsize(os.path.join(folder, name))
        except FileNotFoundError:
            pass
    return total


taken = 0
with cluster.session("ps", graph=graph) as s:
    s.run(count.initializer)
    for _ in range(3):
        while s.run(size) < LIMIT // ELEMENT // 2:
            room(s)
        try:
            while True:
                s.run(put, {element: np.random.randint(0, 256, ELEMENT, np.uint8)})
        except tf.errors.ResourceExhaustedError:
            pass
        there = s.run(size)
        files = size_of(os.path.join(data, "ps-0"))
        assert files < LIMIT * 2, files  # they may just be rewritten
        for _ in range(there):
            taken += 1
            assert s.run(take) == taken
cluster.task("ps").kill()
cluster.task("ps").restart()
with cluster.session("ps", graph=graph) as s:
    assert s.run([count, size]) == [taken, 0]
cluster.stop()
print("full, and empty, and full")

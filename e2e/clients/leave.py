"""Worker 0 leaves in order, with a queue, tables and variables that worker 1 uses: an open session of worker 1 goes on with all that they have.

usage: leave.py
"""
import threading

import numpy as np
import tensorflow.compat.v1 as tf

import troupe

ELEMENTS = 1000
LARGE = 100 << 18  # floats: 100 MiB

graph = tf.Graph()
with graph.as_default():
    queue = tf.FIFOQueue(2 * ELEMENTS, [tf.int64, tf.string], shapes=[(), ()], shared_name="work")
    numbers = np.arange(ELEMENTS)
    put = queue.enqueue_many([tf.constant(numbers), tf.as_string(tf.constant(numbers))])
    take, size = queue.dequeue_many(ELEMENTS), queue.size()
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1, name="squares")
    fill, entries = table.insert(tf.constant(numbers), tf.constant(numbers**2)), table.export()
    names = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64)), -1, name="names")
    found = names.lookup(tf.constant(["b", "c"]))
    large = tf.get_variable("large", [LARGE], tf.float32, tf.initializers.zeros, use_resource=True)
    write, check = large.assign(tf.range(LARGE, dtype=tf.float32)), tf.reduce_max(tf.abs(large - tf.range(LARGE, dtype=tf.float32)))
    count = tf.get_variable("count", initializer=tf.constant(0, tf.int64), use_resource=False)
    add = tf.assign_add(count, 1)
    waiting = tf.get_variable("waiting", initializer=tf.constant(0, tf.int64), use_resource=False)
    with tf.control_dependencies([tf.assign_add(waiting, 1)]):
        never = tf.FIFOQueue(1, [tf.int64], shapes=[()], shared_name="never").dequeue()
    start = tf.global_variables_initializer()

with troupe.LocalCluster(worker=2, flags=["--gpus=0", "--drain=1s"]) as cluster:
    with cluster.session("worker:0", graph=graph) as first:
        first.run(start)
        first.run([put, fill, names.initializer, write.op])
    second = cluster.session("worker:1", graph=graph)
    assert second.run(size) == ELEMENTS
    second.run(add)

    counted, stop, failures, begun = [1], threading.Event(), [], threading.Event()

    def counts():
        """Counts until the end. No step may fail, and none may be lost."""
        try:
            while not stop.is_set():
                second.run(add)
                counted[0] += 1
                if counted[0] == 20:
                    begun.set()
        except tf.errors.OpError as error:
            failures.append(error)
            begun.set()

    waits = []

    def wait():
        try:
            second.run(never)
        except tf.errors.OpError as error:
            waits.append(error)

    threads = [threading.Thread(target=counts), threading.Thread(target=wait)]
    for thread in threads:
        thread.start()
    begun.wait()
    while second.run(waiting) == 0 and not waits:
        pass
    cluster.task("worker:0").stop()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert len(waits) == 1 and isinstance(waits[0], tf.errors.UnavailableError) and "move to another task" in waits[0].message, waits

    def read(session):
        keys, squares = session.run(entries)
        assert len(keys) == ELEMENTS and (squares == keys**2).all(), (keys, squares)
        assert session.run(check) == 0
        assert session.run(found).tolist() == [2, -1]

    read(second)
    got, texts = second.run(take)
    assert (got == numbers).all() and [int(text) for text in texts] == numbers.tolist()
    assert second.run(count) == counted[0], (second.run(count), counted)
    with cluster.session("worker:1", graph=graph) as third:
        read(third)
        assert third.run(size) == 0 and third.run(count) == counted[0]
    second.close()
    log = cluster.task("worker:0").log
    assert "were handed over" in log and "is lost with this task" not in log, log
print("an open session goes on with all that has moved")

"""Produces and consumes while the task that has the state is killed with SIGKILL and restarted.

A producer's step counts an element and enqueues it; a consumer's step dequeues one, adds it to a sum, counts it and enters its square into a
table. Each element must be processed exactly once, although the client repeats steps whose outcome it does not know.

usage: durable.py KILLS
"""
import random
import sys
import tempfile
import threading
import time

import tensorflow.compat.v1 as tf

import troupe

KILLS = int(sys.argv[1])
random.seed(KILLS)

cluster = troupe.LocalCluster(ps=1, worker=1, data=tempfile.mkdtemp(), durable="jobs")
ps = cluster.task("ps")
lost = (tf.errors.AbortedError, tf.errors.UnavailableError, tf.errors.InternalError, tf.errors.FailedPreconditionError)

graph = tf.Graph()
with graph.as_default(), tf.container("jobs"), tf.device("/job:ps/task:0/cpu:0"):
    queue = tf.FIFOQueue(1 << 20, [tf.int64], shapes=[()], shared_name="work")

    def counter(name, use_resource):
        return tf.get_variable(name, initializer=tf.constant(0, tf.int64), use_resource=use_resource)

    made, used, total = counter("made", True), counter("used", False), counter("total", True)
    with tf.control_dependencies([made.assign_add(1)]):
        number = made.read_value()
    with tf.control_dependencies([queue.enqueue([number - 1])]):
        produce = tf.identity(number)
    element = queue.dequeue()
    squares = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1, name="squares")
    with tf.control_dependencies([total.assign_add(element), tf.assign_add(used, 1), squares.insert(element, element * element)]):
        consume = tf.identity(element)
    entered, squared = squares.export()
    state = [made.read_value(), used.read_value(), total.read_value(), queue.size(), squares.size(),
             tf.reduce_sum(entered), tf.reduce_sum(tf.abs(squared - entered * entered))]
    initialize = tf.global_variables_initializer()
    missing = tf.report_uninitialized_variables()

stop = threading.Event()
acknowledged = {"produced": 0, "consumed": 0}


def session():
    return cluster.session("worker", graph=graph)


def work(name, op, pace):
    """Runs the op until the end, in new sessions after losses."""
    while not stop.is_set():
        try:
            with session() as s:
                while not stop.is_set():
                    s.run(op, options=tf.RunOptions(timeout_in_ms=2000))
                    acknowledged[name] += 1
                    time.sleep(pace)
        except tf.errors.DeadlineExceededError:
            pass
        except lost:
            time.sleep(0.05)


def check():
    with session() as s:
        left = s.run(missing)
        assert len(left) == 0, left
        while True:
            # No step runs while the task is checked, but one that was running when its client gave it up may still end.
            first = s.run(state)
            if first == s.run(state):
                break
    n, m, sum_, size, entries, keys, wrong = map(int, first)
    assert entries == m and keys == sum_ and wrong == 0, first
    assert n == m + size, "%d elements were made, %d used, and %d are left" % (n, m, size)
    assert n >= acknowledged["produced"] and m >= acknowledged["consumed"], (first, acknowledged)
    return n, size, sum_


with session() as s:
    s.run(initialize)
for kill in range(KILLS):
    stop.clear()
    threads = [
        threading.Thread(target=work, args=("produced", produce, 0)),
        threading.Thread(target=work, args=("consumed", consume, 0)),
        threading.Thread(target=work, args=("consumed", consume, 0.001)),
    ]
    for thread in threads:
        thread.start()
    time.sleep(random.uniform(0.2, 0.6))
    ps.kill()
    stop.set()
    ps.restart()
    for thread in threads:
        thread.join()
    n, size, _ = check()
with session() as s:
    for _ in range(size):
        s.run(consume)
_, size, sum_ = check()
assert size == 0 and sum_ == n * (n - 1) // 2, "the sum of %d elements is %d" % (n, sum_)
print("%d kills lost nothing and repeated nothing" % KILLS)
cluster.stop()

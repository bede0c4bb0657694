"""Changes two variables in each step while the task that has them is killed: after each restart they are as they were between two steps.

usage: pictures.py KILLS
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

cluster = troupe.LocalCluster(ps=1, worker=1, data=tempfile.mkdtemp(), durable="model:snapshot=1s")
ps = cluster.task("ps")

graph = tf.Graph()
with graph.as_default(), tf.container("model"), tf.device("/job:ps/task:0/cpu:0"):
    large = tf.get_variable("large", initializer=tf.zeros([1000, 1000]), use_resource=True)
    small = tf.get_variable("small", initializer=tf.zeros([10]), use_resource=False)
    with tf.control_dependencies([large.assign_add(tf.ones([1000, 1000]))]):
        step = tf.assign_add(small, tf.ones([10])).op
    values = [tf.reduce_min(large.read_value()), tf.reduce_max(large.read_value()), tf.reduce_min(small), tf.reduce_max(small)]
    initialize = tf.global_variables_initializer()
    missing = tf.report_uninitialized_variables()

with cluster.session("worker", graph=graph) as s:
    s.run(initialize)
last = 0
for _ in range(KILLS):
    done = [0, 0]
    stop = threading.Event()

    def work(i):
        try:
            with cluster.session("worker", graph=graph) as s:
                while not stop.is_set():
                    s.run(step, options=tf.RunOptions(timeout_in_ms=5000))
                    done[i] += 1
        except tf.errors.OpError:
            pass  # the task is gone

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    time.sleep(random.uniform(1.5, 3))  # a picture is taken each second
    ps.kill()
    stop.set()
    ps.restart()
    for t in threads:
        t.join()
    with cluster.session("worker", graph=graph) as s:
        assert len(s.run(missing)) == 0
        now = s.run(values)
    assert min(now) == max(now), "a picture has half of a step: %r" % now
    assert last < now[0] <= last + sum(done) + 2, (last, now, done)
    last = now[0]
cluster.stop()
print("%d kills left whole pictures" % KILLS)

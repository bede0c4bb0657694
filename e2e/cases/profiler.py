"""TensorFlow's profiler asks a server for a profile of its cluster."""
import glob
import os
import re
import tempfile
import threading

import tensorflow as tensorflow2
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from support import Background, begins, tf

client = tensorflow2.profiler.experimental.client

TASKS = [("ps", 0), ("worker", 0), ("worker", 1)]


class Load:
    """Steps with an op of its own on each task, one after the other until the end of the with statement."""

    def __init__(self, cluster):
        value = tf.random.uniform([64, 64])
        for job, task in TASKS:
            with tf.device("/job:%s/task:%d" % (job, task)):
                value = tf.matmul(value, value, name="on_%s_%d" % (job, task))
        self._fetch, self._stop, self._begun = tf.reduce_sum(value), threading.Event(), threading.Event()
        self._session = tf.Session(cluster.master)

    def _run(self):
        while not self._stop.is_set():
            self._session.run(self._fetch)
            self._begun.set()

    def __enter__(self):
        self._loop = Background(self._run)
        if not self._begun.wait(20):
            self._loop.result(0)  # raises what went wrong
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._loop.result()
        self._session.close()


def spaces_of(logdir):
    """The profile's files as messages, by the task whose they are."""
    spaces = {}
    for path in glob.glob(os.path.join(logdir, "plugins", "profile", "*", "*.xplane.pb")):
        space = xplane_pb2.XSpace()
        with open(path, "rb") as f:
            space.ParseFromString(f.read())
        (task,) = space.hostnames
        assert task not in spaces, path
        spaces[task] = space
    return spaces


def test_a_trace_has_the_ops_of_all_tasks(cluster):
    for job, task in [("worker", 0), ("ps", 0)]:  # any task knows the cluster
        with tf.Graph().as_default(), Load(cluster), tempfile.TemporaryDirectory() as logdir:
            client.trace(cluster.target(job, task), logdir, 500)
            spaces = spaces_of(logdir)
        assert set(spaces) == {"/job:%s/replica:0/task:%d" % t for t in TASKS}, set(spaces)
        for own_job, own in TASKS:
            space = spaces["/job:%s/replica:0/task:%d" % (own_job, own)]
            (plane,) = space.planes
            assert plane.name == "/host:CPU", plane.name
            for line in plane.lines:
                ends = 0
                for event in line.events:
                    assert event.offset_ps >= 0 and event.duration_ps >= 0, (line.name, event)
                    ends = max(ends, event.offset_ps + event.duration_ps)
                assert ends <= line.duration_ps, (line.name, ends, line.duration_ps)
            names = [plane.event_metadata[e.metadata_id].name for line in plane.lines for e in line.events]
            kernel = "on_%s_%d:MatMul" % (own_job, own)
            assert names.count(kernel) > 1, (kernel, sorted(set(names)))
            for other in TASKS:
                if other != (own_job, own):
                    assert "on_%s_%d:MatMul" % other not in names, (own_job, own, other)
            assert not space.errors, space.errors
        for transfer in [":_Send", ":_Recv"]:
            assert any(m.name.endswith(transfer) for s in spaces.values() for m in s.planes[0].event_metadata.values()), transfer


def test_a_trace_has_what_waits(cluster):
    with tf.Graph().as_default(), cluster.session() as sess, tempfile.TemporaryDirectory() as logdir:
        with tf.device("/job:worker/task:1"):
            empty = tf.FIFOQueue(1, tf.float32, shared_name=cluster.name + "_empty")
            begin, take = begins(cluster, lambda: empty.dequeue(name="take"))
        with tf.device("/job:ps/task:0"):
            taken = tf.identity(take, name="taken")
        put = empty.enqueue(2.0)
        step = Background(sess.run, taken)
        sess.run(begin)
        client.trace(cluster.target("ps", 0), logdir, 500)  # nothing ends meanwhile
        spaces = spaces_of(logdir)
        assert set(spaces) == {"/job:%s/replica:0/task:%d" % t for t in TASKS}, set(spaces)
        for task, event in [("worker/replica:0/task:1", "take:QueueDequeueV2"), ("ps/replica:0/task:0", ":_Recv"), ("worker/replica:0/task:0", "step ")]:
            (plane,) = spaces["/job:" + task].planes
            names = [plane.event_metadata[e.metadata_id].name for line in plane.lines for e in line.events]
            assert any(event in name for name in names), (task, event, names)
        text = client.monitor(cluster.address("ps", 0), 100)
        assert re.search(r"/job:worker/replica:0/task:0: busy .*; steps that have not ended: \d", text), text
        sess.run(put)
        assert step.result() == 2.0


def test_monitor_tells_of_all_tasks(cluster):
    with Load(cluster):
        text = client.monitor(cluster.address("worker", 1), 500)
    for job, task in TASKS:
        assert "/job:%s/replica:0/task:%d: busy " % (job, task) in text, text
    assert " ms on average" in text, text


def profile(cluster):
    """Takes a profile for another program to open; gives its folder, which is the caller's."""
    logdir = tempfile.mkdtemp()
    with Load(cluster):
        client.trace(cluster.target("worker", 0), logdir, 500)
    return logdir

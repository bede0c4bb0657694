"""What a client sees when a task of its cluster dies, freezes, never comes, or comes back."""
import time

from support import Background, eventually, raises, tf

PS = "/job:ps/replica:0/task:0"
UNAVAILABLE, ABORTED = tf.errors.UnavailableError, tf.errors.AbortedError
KILLED, FROZEN = 0.3, 5.0  # seconds within which a step fails


def report(what, seconds, seen):
    """Tells what the client saw, for the test's log."""
    lines = [l for l in seen.message.splitlines() if "worker /job" in l]
    print("%s: %.3f s: %s" % (what, seconds, lines[0] if lines else seen.message))


class Waiting:
    """A step of the cluster's master which waits for an element of a queue on the ps."""

    def __init__(self, cluster):
        with tf.device("/job:ps"):
            self.queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]], shared_name=cluster.name)
            begun = tf.Variable(0, use_resource=True, name="begun")
            with tf.control_dependencies([begun.assign_add(1, read_value=False)]):
                take = self.queue.dequeue(name="take")
        with tf.device("/job:worker/task:0"):
            self.fetch = take + 1
        self.read, self.initializer = begun.read_value(), begun.initializer

    def start(self, cluster, sess):
        """Starts the step, and returns it when it is known to run."""
        cluster.run(self.initializer, target=cluster.target("ps"))
        step = Background(sess.run, self.fetch)
        with cluster.session(cluster.target("ps")) as observer:
            eventually(lambda: observer.run(self.read) == 1)
        return step


def simple(cluster):
    """A step that needs the ps, one that does not."""
    p = tf.placeholder_with_default(20.0, [])
    with tf.device("/job:ps"):
        there = p + 1
    with tf.device("/job:worker/task:0"):
        here = p + 2
    return there * 2, here


def test_killed_while_a_step_waits(cluster):
    waiting = Waiting(cluster)
    with cluster.session() as sess:
        step = waiting.start(cluster, sess)
        start = time.monotonic()
        cluster.kill("ps")
        with raises(UNAVAILABLE, PS, cluster.address("ps"), "since") as seen:
            step.result()
        took = time.monotonic() - start
        report("killed while a step waits", took, seen)
        assert took < KILLED * cluster.slack, "UNAVAILABLE after %.2f s" % took
        for _ in range(3):
            with raises(UNAVAILABLE, PS, cluster.address("ps"), "since", within=KILLED * cluster.slack):
                sess.run(waiting.fetch)
    cluster.start("ps")
    with cluster.session() as sess:
        assert sess.run(waiting.queue.size()) == 0


def test_killed_before_a_step(cluster):
    there, here = simple(cluster)
    with cluster.session() as sess:
        assert sess.run([there, here]) == [42, 22]
        cluster.kill("ps")
        with raises(UNAVAILABLE, PS, cluster.address("ps"), within=KILLED * cluster.slack) as seen:
            sess.run([there, here])
        report("killed before a step", seen.seconds, seen)
        assert sess.run(here) == 22, "a step that needs only what is there"
        with cluster.session() as other:
            with raises(UNAVAILABLE, PS, cluster.address("ps"), "since", within=KILLED * cluster.slack):
                other.run(there)
            assert other.run(here) == 22
    cluster.start("ps")


def test_frozen_while_a_step_waits(cluster):
    waiting = Waiting(cluster)
    with cluster.session() as sess:
        step = waiting.start(cluster, sess)
        start = time.monotonic()
        cluster.freeze("ps")
        try:
            with raises(UNAVAILABLE, PS, cluster.address("ps"), "since") as seen:
                step.result()
            took = time.monotonic() - start
            report("frozen while a step waits", took, seen)
            assert took < FROZEN * cluster.slack, "UNAVAILABLE after %.2f s" % took
            with raises(UNAVAILABLE, PS, cluster.address("ps"), "since", within=FROZEN * cluster.slack):
                sess.run(waiting.fetch)
        finally:
            cluster.thaw("ps")
    with cluster.session() as sess:
        eventually(lambda: recovered(sess, waiting.queue.size(), 0))


def recovered(sess, fetch, want):
    try:
        return sess.run(fetch) == want
    except (UNAVAILABLE, ABORTED):
        return False


def test_frozen_before_a_step(cluster):
    there, here = simple(cluster)
    with cluster.session() as sess:
        assert sess.run(there) == 42
        cluster.freeze("ps")
        try:
            with raises(UNAVAILABLE, PS, cluster.address("ps"), within=FROZEN * cluster.slack) as seen:
                sess.run(there)
            report("frozen before a step", seen.seconds, seen)
            assert sess.run(here) == 22
        finally:
            cluster.thaw("ps")
        eventually(lambda: recovered(sess, there, 42))


def test_restarted(cluster):
    with tf.device("/job:ps"):
        v = tf.Variable(1.0, use_resource=False, name="v")
        up = tf.assign_add(v, 1.0)
    _, here = simple(cluster)
    with cluster.session() as old:
        old.run(v.initializer)
        assert old.run(up) == 2
        cluster.kill("ps")
        cluster.start("ps")
        with raises(ABORTED, PS, within=1 * cluster.slack) as seen:
            old.run(up)
        report("restarted", seen.seconds, seen)
        assert old.run(here) == 22
        with cluster.session() as sess:
            with raises(tf.errors.FailedPreconditionError, "uninitialized value v", within=1 * cluster.slack):
                sess.run(up)
            sess.run(v.initializer)
            assert sess.run(up) == 2
        assert old.run(up) == 3, "ABORTED came once, nothing about a failure is kept"


def test_the_master_is_restarted(cluster):
    with tf.device("/job:ps"):
        v = tf.Variable(5.0, use_resource=True, name="v")
        read = v.read_value()
    sess = cluster.session()
    sess.run(v.initializer)
    cluster.kill("worker")
    cluster.start("worker")
    with raises(ABORTED, "not found", within=2 * cluster.slack):
        sess.run(read)
    with cluster.session() as new:
        assert new.run(read) == 5.0, "what lives on the ps is still there"
    with raises(ABORTED, "not found"):
        sess.close()


def test_the_master_dies_while_its_step_waits(cluster):
    waiting = Waiting(cluster)
    sess = cluster.session()
    step = waiting.start(cluster, sess)
    cluster.kill("worker")
    with cluster.session(cluster.target("ps")) as other:
        other.run(waiting.queue.enqueue(3.0))
        cluster.start("worker")
        with raises(ABORTED, "not found"):
            step.result()
        assert other.run(waiting.queue.size()) == 1, "the dead master's step took the element"
        assert other.run(waiting.queue.dequeue()) == 3.0
    with raises(ABORTED, "not found"):
        sess.close()


def test_stopped_while_a_step_waits(cluster):
    waiting = Waiting(cluster)
    with cluster.session() as sess:
        step = waiting.start(cluster, sess)
        cluster.terminate("ps")
        with raises((UNAVAILABLE, ABORTED), PS):
            step.result()
        with raises(UNAVAILABLE, PS, cluster.address("ps"), within=KILLED * cluster.slack):
            sess.run(waiting.queue.size())
    cluster.start("ps")


def test_training_goes_on_after_a_restart(cluster):
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:0", ps_tasks=1)):
        weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(weight - 3.0), global_step=step)
    killed = False
    with tf.train.MonitoredTrainingSession(cluster.master, hooks=[tf.train.StopAtStepHook(last_step=60)],
                                           config=tf.ConfigProto(operation_timeout_in_ms=15000)) as sess:
        while not sess.should_stop():
            _, at, value = sess.run([train, step, weight])
            if at == 30 and not killed:
                killed = True
                cluster.kill("ps")
                cluster.start("ps")
    assert killed and abs(value - 3.0) < 0.01, value


def test_a_declared_cluster_loses_a_task(cluster):
    config = tf.ConfigProto(operation_timeout_in_ms=20000)
    for job, task in (("master", ("worker", 0)), ("slave", ("worker", 1))):
        config.cluster_def.job.add(name=job).tasks[0] = cluster.address(*task)
    with tf.device("/job:slave"):
        there = tf.placeholder_with_default(1.0, []) + 1
    before = tf.Session(cluster.target("worker", 0), config=config)
    assert before.run(there) == 2
    cluster.kill("worker", 1)
    with raises(tf.errors.UnavailableError, "/job:slave/replica:0/task:0", within=5 * cluster.slack):
        before.run(there)
    cluster.start("worker", 1)
    with tf.Session(cluster.target("worker", 0), config=config) as sess:
        assert sess.run(there) == 2, "a new session meets the restarted server"
    with raises(tf.errors.AbortedError, "is not found", within=5 * cluster.slack):
        before.run(there)
    with raises(tf.errors.AbortedError, "is not found"):
        before.close()

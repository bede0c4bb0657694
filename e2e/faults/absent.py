"""A cluster of which one task was never started, when its time to start (--startup-timeout) is over."""
from support import raises, tf

ABSENT = "/job:worker/replica:0/task:1"


def test_a_task_that_never_came(cluster):
    with tf.device("/job:worker/task:1"):
        there = tf.placeholder_with_default(1.0, []) + 1
    with tf.device("/job:ps"):
        here = tf.placeholder_with_default(2.0, []) + 1
    with cluster.session() as sess:
        assert sess.run(here) == 3, "a step that does not need it"
        with raises(tf.errors.UnavailableError, ABSENT, cluster.address("worker", 1), within=5 * cluster.slack) as seen:
            sess.run(there)
        print("never came: %.3f s: %s" % (seen.seconds, [l for l in seen.message.splitlines() if ABSENT in l][0]))
        with raises(tf.errors.UnavailableError, ABSENT, cluster.address("worker", 1), within=5 * cluster.slack):
            sess.run(here + there)
        assert sess.run(here) == 3


def test_a_deadline_comes_before_the_wait_for_a_task(cluster):
    with tf.device("/job:worker/task:1"):
        there = tf.placeholder_with_default(1.0, []) + 1
    with cluster.session() as sess:
        sess.run(tf.constant(1))
        sess.graph.finalize()
        with raises((tf.errors.DeadlineExceededError, tf.errors.UnavailableError), ABSENT, within=1.5 * cluster.slack):
            sess.run(there, options=tf.RunOptions(timeout_in_ms=500))


def test_it_comes_at_last(cluster):
    with tf.device("/job:worker/task:1"):
        there = tf.placeholder_with_default(1.0, []) + 1
    with cluster.session() as sess:
        with raises(tf.errors.UnavailableError, ABSENT, within=5 * cluster.slack):
            sess.run(there)
        cluster.start("worker", 1)
        assert sess.run(there) == 2

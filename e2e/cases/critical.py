"""Critical sections: one at a time, and free again however the step ends that was in one."""
from support import Background, eventually, raises, tf

RAW = tf.raw_ops


def section(cluster):
    """A section on the ps, and a variable that is changed in it."""
    with tf.device("/job:ps"):
        return tf.CriticalSection(shared_name=cluster.name), tf.get_variable("x", initializer=0.0, use_resource=True)


def test_one_at_a_time(cluster):
    cs, x = section(cluster)

    def doubled():
        before = x.read_value()
        with tf.control_dependencies([before]):
            with tf.control_dependencies([x.assign(before + 1)]):
                return tf.identity(before)

    many = [cs.execute(doubled) for _ in range(20)]
    with cluster.session() as sess:
        sess.run(x.initializer)
        assert sorted(sess.run(many)) == list(range(20))
        rounds = [Background(sess.run, many) for _ in range(4)]
        assert sorted(sum([b.result() for b in rounds], [])) == list(range(20, 100))


def test_a_failed_step_leaves(cluster):
    cs, x = section(cluster)
    bad = cs.execute(lambda: tf.debugging.check_numerics(x / 0.0, "not in here"))
    good = cs.execute(x.read_value)
    with cluster.session() as sess:
        sess.run(x.initializer)
        for _ in range(5):
            with raises(tf.errors.InvalidArgumentError, "not in here"):
                sess.run(bad)
            assert sess.run(good) == 0


def test_a_cancelled_step_leaves(cluster):
    """A step that waits in the section for an element that does not come, and others that wait for the section."""
    cs, x = section(cluster)
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, tf.float32, [[]], shared_name=cluster.name + "_queue")
        inside = tf.get_variable("inside", initializer=False, use_resource=True)

    def wait():
        with tf.control_dependencies([inside.assign(True)]):
            return queue.dequeue()

    stuck, good = cs.execute(wait), cs.execute(x.read_value)
    with cluster.session() as sess, cluster.session() as other:
        other.run([x.initializer, inside.initializer])
        first = Background(sess.run, stuck)
        eventually(lambda: other.run(inside))
        with raises(tf.errors.DeadlineExceededError):
            other.run(good, options=tf.RunOptions(timeout_in_ms=200))
        second = Background(other.run, good)
        sess.close()
        with raises((tf.errors.CancelledError, tf.errors.AbortedError)):
            first.result()
        assert second.result() == 0


def test_the_lock_is_consumed_once(cluster):
    with tf.device("/job:ps"):
        mutex = RAW.MutexV2(shared_name=cluster.name)
        lock = RAW.MutexLock(mutex=mutex)
        consume = RAW.ConsumeMutexLock(mutex_lock=lock)
        kept = tf.stack([lock, lock])
        with tf.control_dependencies([kept]):
            early = RAW.ConsumeMutexLock(mutex_lock=lock)
        with tf.control_dependencies([early]):
            late = RAW.ConsumeMutexLock(mutex_lock=kept[0])
    with cluster.session() as sess:
        sess.run(consume)
        with raises(tf.errors.InvalidArgumentError, "Expected use count of lock to be 1, but saw: 3"):
            sess.run(late)
        sess.run(consume)

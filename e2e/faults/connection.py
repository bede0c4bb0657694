"""The connection between the client and its master breaks. The target "proxy:0" leads to worker 0
over a connection that the test can break; the client sends its requests again by itself."""
from support import Background, eventually, raises, tf


def counter(name="count"):
    with tf.device("/job:ps"):
        v = tf.Variable(0, use_resource=True, name=name)
        return v.initializer, v.assign_add(1, read_value=False), v.read_value()


def test_a_step_whose_answer_is_lost_runs_once(cluster):
    initializer, up, read = counter()
    with cluster.session(cluster.target("proxy")) as sess, cluster.session() as observer:
        observer.run(initializer)
        sess.run(up)
        for want in range(2, 6):
            cluster.hold("proxy")
            step = Background(sess.run, up)
            eventually(lambda: observer.run(read) == want)
            cluster.cut("proxy")
            step.result()
            assert observer.run(read) == want, "the step ran again"


def test_fetches_of_a_lost_answer_come_again(cluster):
    initializer, up, read = counter()
    x = tf.placeholder(tf.float32, [3])
    with tf.control_dependencies([up]):
        fetch = tf.identity(x) * 2
    with cluster.session(cluster.target("proxy")) as sess, cluster.session() as observer:
        observer.run(initializer)
        sess.run(tf.constant(1))
        cluster.hold("proxy")
        step = Background(sess.run, fetch, {x: [1, 2, 3]})
        eventually(lambda: observer.run(read) == 1)
        cluster.cut("proxy")
        assert step.result().tolist() == [2, 4, 6]
        assert observer.run(read) == 1


def test_a_graph_grows_though_the_answer_is_lost(cluster):
    with cluster.session(cluster.target("proxy")) as sess:
        total = tf.constant(1)
        sess.run(total)
        for i in range(5):
            total = total + 1
            cluster.hold("proxy")
            step = Background(sess.run, total)
            cluster.cut("proxy")
            assert step.result() == i + 2


def test_a_waiting_step_loses_its_connection(cluster):
    """It ends, or goes on and gets the element; what comes after its end is not lost to it."""
    initializer, up, read = counter()
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(10, [tf.int32], shapes=[[]], shared_name=cluster.name)
        with tf.control_dependencies([up]):
            take = queue.dequeue()
    put, size = queue.enqueue(7), queue.size()
    with cluster.session(cluster.target("proxy")) as sess, cluster.session() as observer:
        observer.run(initializer)
        step = Background(sess.run, take)
        eventually(lambda: observer.run(read) == 1)
        cluster.cut("proxy")
        step.join(3)
        goes_on = step.is_alive()
        observer.run(put)
        if goes_on:
            assert step.result() == 7
        else:
            with raises((tf.errors.CancelledError, tf.errors.AbortedError, tf.errors.UnavailableError)):
                step.result()
        assert observer.run(size) == (0 if goes_on else 1)
        assert observer.run(read) == 1


def test_the_session_outlives_a_broken_connection(cluster):
    with cluster.session(cluster.target("proxy")) as sess:
        q = tf.FIFOQueue(5, [tf.int32], shapes=[[]])  # private to the session
        sess.run(q.enqueue(1))
        for _ in range(3):
            cluster.cut("proxy")
            assert sess.run(q.size()) == 1


def test_a_server_that_is_not_there(cluster):
    with cluster.session("grpc://127.0.0.1:1", operation_timeout_in_ms=300) as sess:
        with raises((tf.errors.DeadlineExceededError, tf.errors.UnavailableError), within=2):
            sess.run(tf.constant(1))

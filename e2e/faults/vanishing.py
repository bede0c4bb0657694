"""A client that is gone in the middle of a step."""
from support import Background, eventually, np, tf

SIZE = 1 << 20


def test_vanish(cluster):
    """Fills a queue of the session's own, waits in a step on a shared one, and dies."""
    sess = cluster.session()
    with tf.device("/job:ps"):
        own = tf.FIFOQueue(1000, [tf.float32])
        begun = tf.Variable(0, use_resource=True, name="begun")
        shared = tf.FIFOQueue(10, [tf.int32], shapes=[[]], shared_name="shared")
        with tf.control_dependencies([begun.assign_add(1, read_value=False)]):
            take = shared.dequeue()
    value = tf.placeholder(tf.float32, [SIZE])
    put = own.enqueue(value)
    sess.run(begun.initializer)
    for i in range(40):
        sess.run(put, {value: np.full(SIZE, i, np.float32)})
    Background(sess.run, take)
    with cluster.session() as observer:
        eventually(lambda: observer.run(begun.read_value()) == 1)
        observer.run(shared.size())
    cluster.vanish("client")


def test_what_is_left(cluster):
    """Another client: the shared queue is there, and nobody takes from it any more."""
    with tf.device("/job:ps"):
        shared = tf.FIFOQueue(10, [tf.int32], shapes=[[]], shared_name="shared")
    put, size = shared.enqueue(1), shared.size()
    with cluster.session() as sess:
        sess.run(put)
        assert sess.run(size) == 1, "the step of the client that is gone took the element"

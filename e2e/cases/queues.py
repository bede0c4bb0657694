"""FIFO queues: every op, both kinds of handle, capacity, closing, cancellation."""
from support import Background, eventually, np, raises, same, tf

RAW = tf.raw_ops


class Queue:
    """A queue by the raw ops of one kind of handle, so that every case runs for both."""

    def __init__(self, name, dtypes, shapes, capacity=-1, v2=True, device="/job:ps"):
        self.dtypes, self.v2, self.device = dtypes, v2, device
        with tf.device(device):
            self.handle = self.op("FIFOQueue")(component_types=dtypes, shapes=shapes, capacity=capacity, shared_name=name)

    def op(self, name):
        return getattr(RAW, name + ("V2" if self.v2 else ""))

    def _on(self, name, **kwargs):
        with tf.device(self.device):
            return self.op(name)(handle=self.handle, **kwargs)

    def enqueue(self, *parts):
        return self._on("QueueEnqueue", components=self._typed(parts))

    def enqueue_many(self, *parts):
        return self._on("QueueEnqueueMany", components=self._typed(parts))

    def _typed(self, parts):
        return [tf.convert_to_tensor(p, d) for p, d in zip(parts, self.dtypes)]

    def dequeue(self):
        return self._on("QueueDequeue", component_types=self.dtypes)

    def dequeue_many(self, n):
        return self._on("QueueDequeueMany", n=n, component_types=self.dtypes)

    def dequeue_up_to(self, n):
        return self._on("QueueDequeueUpTo", n=n, component_types=self.dtypes)

    def close(self, cancel=False):
        return self._on("QueueClose", cancel_pending_enqueues=cancel)

    def size(self):
        return self._on("QueueSize")


def both(case):
    """Runs a case with reference handles and with resource handles."""

    def wrapped(cluster):
        for v2 in (False, True):
            with tf.Graph().as_default():
                case(cluster, lambda dtypes=(tf.int32,), shapes=((),), capacity=-1, v2=v2: Queue(
                    "%s_%s" % (cluster.name, v2), list(dtypes), list(shapes), capacity, v2))

    return wrapped


def short():
    return tf.RunOptions(timeout_in_ms=200)


@both
def test_first_in_first_out(cluster, queue):
    q = queue()
    x = tf.placeholder(tf.int32, [])
    put, take, size = q.enqueue(x), q.dequeue(), q.size()
    with cluster.session() as sess:
        for i in range(5):
            sess.run(put, {x: i})
        assert sess.run(size) == 5
        assert [sess.run(take)[0] for _ in range(5)] == list(range(5))
        assert sess.run(size) == 0


@both
def test_many_components_and_dtypes(cluster, queue):
    q = queue([tf.float32, tf.string, tf.bool, tf.complex64], [[2], [], [1, 2], []])
    rows = [(np.float32([i, -i]), b"s%d" % i, np.array([[i % 2 == 0, True]]), np.complex64(1j * i)) for i in range(4)]
    with cluster.session() as sess:
        sess.run(q.enqueue(*rows[0]))
        sess.run(q.enqueue_many(*[np.stack([r[c] for r in rows[1:]]) for c in range(4)]))
        got = sess.run(q.dequeue_many(4))
    for c, column in enumerate(got):
        assert column.tolist() == np.stack([r[c] for r in rows]).tolist(), column


@both
def test_elements_without_a_declared_shape(cluster, queue):
    q = queue(shapes=[])
    with cluster.session() as sess:
        sess.run(q.enqueue([1, 2, 3]))
        sess.run(q.enqueue([[4]]))
        same(sess.run(q.dequeue())[0], np.int32([1, 2, 3]))
        same(sess.run(q.dequeue())[0], np.int32([[4]]))
        with raises(tf.errors.InvalidArgumentError, "specified shapes", within=1):
            sess.run(q.dequeue_many(1))


@both
def test_a_full_queue_makes_producers_wait(cluster, queue):
    q = queue(capacity=2)
    put, take, size = q.enqueue(7), q.dequeue(), q.size()
    with cluster.session() as sess:
        sess.run(put), sess.run(put)
        with raises(tf.errors.DeadlineExceededError):
            sess.run(put, options=short())
        waiting = Background(sess.run, put)
        many = Background(sess.run, q.enqueue_many([1, 2, 3]))
        for _ in range(6):
            sess.run(take)
        waiting.result(), many.result()
        assert sess.run(size) == 0


@both
def test_dequeue_many_waits_for_all_and_up_to_for_the_end(cluster, queue):
    q = queue()
    with cluster.session() as sess:
        many = Background(sess.run, q.dequeue_many(4))
        sess.run(q.enqueue_many([1, 2, 3]))
        sess.run(q.enqueue(4))
        same(many.result()[0], np.int32([1, 2, 3, 4]))
        sess.run(q.enqueue_many([5, 6]))
        rest = Background(sess.run, q.dequeue_up_to(4))
        sess.run(q.close())
        same(rest.result()[0], np.int32([5, 6]))
        for take in (q.dequeue(), q.dequeue_many(1), q.dequeue_up_to(3)):
            with raises(tf.errors.OutOfRangeError, "is closed and has insufficient elements", within=1):
                sess.run(take)
        same(sess.run(q.dequeue_many(0))[0], np.zeros([0], np.int32))


@both
def test_closing_keeps_what_is_there_and_takes_nothing_more(cluster, queue):
    q = queue(capacity=3)
    put, take = q.enqueue(1), q.dequeue()
    with cluster.session() as sess:
        sess.run(put), sess.run(put)
        sess.run(q.close())
        with raises(tf.errors.CancelledError, "is closed", within=1):
            sess.run(put)
        sess.run(take), sess.run(take)
        with raises(tf.errors.OutOfRangeError, "is closed and has insufficient elements", within=1):
            sess.run(take)
        sess.run(q.close(cancel=True))


@both
def test_cancelling_ends_waiting_producers(cluster, queue):
    q = queue(capacity=1)
    put = q.enqueue(1)
    with cluster.session() as sess:
        sess.run(put)
        with raises(tf.errors.DeadlineExceededError):
            sess.run(put, options=short())
        waiting = [Background(sess.run, put) for _ in range(3)]
        sess.run(q.close(cancel=True))
        for w in waiting:
            with raises(tf.errors.CancelledError):
                w.result(5)


@both
def test_a_step_that_gives_up_takes_nothing(cluster, queue):
    q = queue(capacity=5)
    take, size = q.dequeue_many(3), q.size()
    with cluster.session() as sess:
        sess.run(q.enqueue_many([1, 2]))
        with raises(tf.errors.DeadlineExceededError):
            sess.run(take, options=short())
        assert eventually(lambda: sess.run(size) == 2)
        sess.run(q.enqueue(3))
        same(sess.run(take)[0], np.int32([1, 2, 3]))


@both
def test_two_masters_meet_in_a_queue(cluster, queue):
    q = queue(capacity=3)
    x = tf.placeholder(tf.int32, [])
    put, take = q.enqueue(x), q.dequeue()
    with cluster.session(cluster.target("worker", 0)) as one, cluster.session(cluster.target("worker", 1)) as two:
        consumer = Background(lambda: [two.run(take)[0] for _ in range(30)])
        for i in range(30):
            one.run(put, {x: i})
        assert consumer.result() == list(range(30))


@both
def test_wrong_elements_are_refused(cluster, queue):
    q = queue(shapes=[[2]])
    p = tf.placeholder(tf.int32)
    with cluster.session() as sess:
        for put in (q.enqueue(p), q.enqueue_many(p)):
            with raises(tf.errors.InvalidArgumentError, "Shape mismatch in tuple component 0", within=1):
                sess.run(put, {p: [[[1, 2, 3]]]})
        n = tf.placeholder(tf.int32, [])
        with raises(tf.errors.InvalidArgumentError, within=1):
            sess.run(q.dequeue_many(n), {n: -1})
        assert sess.run(q.size()) == 0


def test_one_name_with_two_declarations_is_refused(cluster):
    first = Queue(cluster.name, [tf.int32], [[]], capacity=5)
    cluster.run(first.size())
    for other in (dict(dtypes=[tf.float32], shapes=[[]], capacity=5), dict(dtypes=[tf.int32], shapes=[[1]], capacity=5),
                  dict(dtypes=[tf.int32], shapes=[[]], capacity=6)):
        q = Queue(cluster.name, **other)
        with raises(tf.errors.InvalidArgumentError, "Shared queue '%s'" % cluster.name, within=1):
            cluster.run(q.size())


def test_a_private_queue_ends_with_its_session(cluster):
    q = tf.FIFOQueue(10, [tf.int32], shapes=[[]])
    put, size = q.enqueue(1), q.size()
    with cluster.session() as sess:
        sess.run(put), sess.run(put)
        assert sess.run(size) == 2
    with cluster.session() as sess:
        assert sess.run(size) == 0


def test_the_queue_runner_of_the_client(cluster):
    source = tf.FIFOQueue(20, [tf.float32], shapes=[[]], shared_name=cluster.name)
    put = source.enqueue(1.0)
    runner = tf.train.QueueRunner(source, [put] * 2)
    take = source.dequeue_many(50)
    with cluster.session() as sess:
        coord = tf.train.Coordinator()
        threads = runner.create_threads(sess, coord, start=True)
        same(sess.run(take), np.ones(50, np.float32))
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=10)

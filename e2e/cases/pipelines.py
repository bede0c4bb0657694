"""Input pipelines of queues: producers, queue runners, batches and their coordinator."""
from support import np, raises, same, tf


# What TensorFlow's own server gives for the seeds below.
GOLDEN_NAMES = b"4 1 5 6 0 3 7 2 6 0 2 1 3 5 7 4"
GOLDEN_NUMBERS = [6, 1, 4, 5, 3, 7, 0, 2, 6, 4, 1, 7, 2, 0, 5, 3]


def drained(cluster, build, device=None, limit=1000):
    """What a pipeline gives until its input ends."""
    with cluster.graph():
        with tf.device(device):
            out = build()
        with cluster.session() as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coord)
            got = []
            try:
                while len(got) < limit:
                    got.append(sess.run(out))
            except tf.errors.OutOfRangeError:
                pass
            coord.request_stop()
            coord.join(threads, stop_grace_period_secs=20)
            return got


def test_producers_count_their_epochs(cluster):
    def names():
        return tf.train.string_input_producer([b"a", b"b", b"c"], num_epochs=2, shuffle=False).dequeue()

    def numbers():
        return tf.train.range_input_producer(3, num_epochs=3, shuffle=False).dequeue()

    def slices():
        return tf.train.slice_input_producer([tf.constant([[1, 2], [3, 4]]), tf.constant([b"x", b"y"])], num_epochs=2, shuffle=False)

    for device in (None, "/job:ps"):
        assert drained(cluster, names, device) == [b"a", b"b", b"c"] * 2
        assert drained(cluster, numbers, device) == [0, 1, 2] * 3
        got = drained(cluster, slices, device)
        assert [(row.tolist(), name) for row, name in got] == [([1, 2], b"x"), ([3, 4], b"y")] * 2, got


def test_producers_shuffle_as_their_seed_says(cluster):
    def names():
        tf.set_random_seed(42)
        return tf.train.string_input_producer([b"%d" % i for i in range(8)], num_epochs=2, seed=7).dequeue()

    assert b" ".join(drained(cluster, names)) == GOLDEN_NAMES, drained(cluster, names)

    def numbers():
        tf.set_random_seed(1)
        return tf.train.range_input_producer(8, num_epochs=2, seed=5).dequeue()

    assert drained(cluster, numbers) == GOLDEN_NUMBERS, drained(cluster, numbers)


def counted(n, epochs=1):
    return tf.train.range_input_producer(n, num_epochs=epochs, shuffle=False).dequeue()


def test_batches(cluster):
    def whole():
        return tf.train.batch([counted(7)], batch_size=3)

    def rest():
        return tf.train.batch([counted(7)], batch_size=3, allow_smaller_final_batch=True)

    def many():
        return tf.train.batch([tf.range(counted(4) + 1)], batch_size=4, enqueue_many=True, allow_smaller_final_batch=True)

    assert [b.tolist() for b in drained(cluster, whole)] == [[0, 1, 2], [3, 4, 5]]
    assert [b.tolist() for b in drained(cluster, rest, "/job:ps")] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [b.tolist() for b in drained(cluster, many)] == [[0, 0, 1, 0], [1, 2, 0, 1], [2, 3]]


def test_batches_are_padded(cluster):
    def padded():
        n = counted(5)
        return tf.train.batch([tf.range(n), tf.fill([n, 2], tf.as_string(n))], batch_size=3, dynamic_pad=True, allow_smaller_final_batch=True)

    (numbers, texts), (more, others) = drained(cluster, padded)
    same(numbers, np.int32([[0, 0], [0, 0], [0, 1]]))
    assert texts.tolist() == [[[b"", b""]] * 2, [[b"1", b"1"], [b"", b""]], [[b"2", b"2"]] * 2]
    same(more, np.int32([[0, 1, 2, 0], [0, 1, 2, 3]]))
    assert others.shape == (2, 4, 2)


def test_batches_are_shuffled(cluster):
    def shuffled():
        return tf.train.shuffle_batch([counted(40, epochs=2)], batch_size=6, capacity=20, min_after_dequeue=10, num_threads=2,
                                      seed=3, allow_smaller_final_batch=True)

    got = [b.tolist() for b in drained(cluster, shuffled)]
    assert sorted(sum(got, [])) == sorted(list(range(40)) * 2), got
    assert [len(b) for b in got] == [6] * 13 + [2], got
    assert got[0] != sorted(got[0]) or got[1] != sorted(got[1]), got


def test_joined_batches(cluster):
    def joined():
        return tf.train.batch_join([[counted(10), b"a"], [counted(6), b"b"]], batch_size=4)

    def shuffled():
        return tf.train.shuffle_batch_join([[counted(10), b"a"], [counted(6), b"b"]], batch_size=4, capacity=16, min_after_dequeue=4)

    want = sorted([(i, b"a") for i in range(10)] + [(i, b"b") for i in range(6)])
    for build in (joined, shuffled):
        pairs = [p for numbers, names in drained(cluster, build) for p in zip(numbers.tolist(), names.tolist())]
        assert sorted(pairs) == want, pairs


def test_only_what_is_kept_enters_a_batch(cluster):
    def keep(batch, **kwargs):
        def build():
            n = counted(12)
            return batch([n], keep_input=tf.equal(n % 3, 0), batch_size=2, **kwargs)

        return build

    def keep_rows():
        rows = counted(3) * 10 + tf.range(4)
        return tf.train.maybe_batch([rows], keep_input=tf.less(rows % 10, 2), batch_size=3, enqueue_many=True)

    def keep_joined():
        n, m = counted(6), counted(6)
        return tf.train.maybe_batch_join([[n], [m]], keep_input=tf.constant(True), batch_size=4)

    def keep_shuffled_joined():
        n, m = counted(6), counted(6)
        return tf.train.maybe_shuffle_batch_join([[n], [m]], keep_input=tf.constant(True), batch_size=4, capacity=12, min_after_dequeue=2)

    assert [b.tolist() for b in drained(cluster, keep(tf.train.maybe_batch))] == [[0, 3], [6, 9]]
    got = [b.tolist() for b in drained(cluster, keep(tf.train.maybe_shuffle_batch, capacity=10, min_after_dequeue=2))]
    assert sorted(sum(got, [])) == [0, 3, 6, 9], got
    assert [b.tolist() for b in drained(cluster, keep_rows)] == [[0, 1, 10], [11, 20, 21]]
    for build in (keep_joined, keep_shuffled_joined):
        got = [b.tolist() for b in drained(cluster, build)]
        assert sorted(sum(got, [])) == sorted(list(range(6)) * 2), got


def test_a_runner_that_fails_stops_the_others(cluster):
    with cluster.graph():
        n = counted(10)
        with tf.control_dependencies([tf.assert_less(n, 4, message="too large")]):
            bad = tf.identity(n)
        out = tf.train.batch([bad], batch_size=2)
        with cluster.session() as sess:
            sess.run(tf.local_variables_initializer())
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coord)
            assert [sess.run(out).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
            with raises(tf.errors.OutOfRangeError, "is closed and has insufficient elements (requested 2, current size 0)"):
                sess.run(out)
            with raises(tf.errors.InvalidArgumentError, "too large"):
                coord.join(threads, stop_grace_period_secs=20)


def test_runners_stop_while_they_wait(cluster):
    # The queues are full: the runners wait in enqueues, which closing cancels.
    got = drained(cluster, lambda: tf.train.batch([counted(1000)], batch_size=2, capacity=4), limit=3)
    assert [b.tolist() for b in got] == [[0, 1], [2, 3], [4, 5]]

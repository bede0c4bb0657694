"""What no server can run: each is refused within a second, with TensorFlow's class and a message
that names the node or the value, and the session goes on."""
import contextlib

from support import np, raises, same, tf

INVALID = tf.errors.InvalidArgumentError


@contextlib.contextmanager
def survives(cluster):
    """After the block, all three tasks still work."""
    yield
    for job, task in (("ps", 0), ("worker", 0), ("worker", 1)):
        with tf.Graph().as_default(), tf.device("/job:%s/task:%d" % (job, task)):
            p = tf.placeholder(tf.float32, [])
            assert cluster.run(p + 1, {p: 1}) == 2


def refused(cluster, error, build, *texts, op=None, feeds=None):
    """build() makes the fetches, on each of two tasks in turn."""
    for device in ("/job:worker/task:0", "/job:ps"):
        with survives(cluster), tf.Graph().as_default(), tf.device(device):
            fetch = build()
            with cluster.session() as sess:
                with raises(error, *texts, op=op, within=1):
                    sess.run(fetch, feeds)


def test_unknown_jobs_and_tasks(cluster):
    for device in ("/job:trainer", "/job:worker/task:2", "/job:worker/replica:1/task:0", "/job:ps/device:TPU:0", "/device:CPU:5"):
        with survives(cluster), tf.Graph().as_default():
            with tf.device(device):
                n = tf.add(tf.placeholder_with_default(1.0, []), 1.0, name="n")
            with raises(INVALID, "n", device, within=1):
                cluster.run(n)


def test_an_op_without_a_kernel(cluster):
    for device in ("", "/job:ps"):
        with survives(cluster), tf.Graph().as_default(), tf.device(device):
            topology = tf.raw_ops.ConfigureDistributedTPU(name="topology")
            with raises(INVALID, "No OpKernel was registered", "ConfigureDistributedTPU", op="topology", within=1):
                cluster.run(topology)


def test_a_dtype_without_a_kernel(cluster):
    for device in ("", "/job:ps"):
        with survives(cluster), tf.Graph().as_default(), tf.device(device):
            positive = tf.raw_ops.Relu(features=tf.placeholder(tf.qint8, [4]), name="positive")
            with raises(INVALID, "No OpKernel was registered", "Relu", "DT_QINT8", op="positive", within=1):
                cluster.run(positive)


def test_feeds_of_the_wrong_dtype_or_shape(cluster):
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    y = tf.identity(x, name="y")
    with survives(cluster), cluster.session() as sess:
        with raises(ValueError, "shape"):  # the client's own check
            sess.run(y, {x: [1.0]})
        loose = tf.placeholder(tf.float32, name="loose")
        product = tf.matmul(loose, x, name="product")
        with raises(INVALID, op="product", within=1):
            sess.run(product, {x: np.ones([2, 2]), loose: np.ones([2, 3])})
        same(sess.run(y, {x: np.ones([2, 2])}), np.ones([2, 2], np.float32))


def test_shapes_that_do_not_fit(cluster):
    def p(*shape):
        return tf.placeholder_with_default(np.ones(shape, np.float32), None)

    refused(cluster, INVALID, lambda: tf.add(p(2), p(3), name="sum"), "Incompatible shapes: [2] vs. [3]", op="sum")
    refused(cluster, INVALID, lambda: tf.matmul(p(2, 3), p(2, 3), name="product"), op="product")
    refused(cluster, INVALID, lambda: tf.reshape(p(3), tf.placeholder_with_default([2, -1], None), name="shaped"),
            "3 values", op="shaped")
    refused(cluster, INVALID, lambda: tf.reshape(p(3), tf.placeholder_with_default([-1, -1], None), name="shaped"), op="shaped")
    refused(cluster, INVALID, lambda: tf.reduce_sum(p(3), tf.placeholder_with_default(7, None), name="sum"), "7", op="sum")
    refused(cluster, INVALID, lambda: tf.nn.bias_add(p(2, 3), p(4), name="bias"), op="bias")
    refused(cluster, INVALID, lambda: tf.gather(p(3), tf.placeholder_with_default([1, 5], None), name="rows"), "5", op="rows")
    refused(cluster, INVALID, lambda: tf.tile(p(3), tf.placeholder_with_default([1, 2], None), name="tiled"), op="tiled")
    refused(cluster, INVALID, lambda: tf.expand_dims(p(3), tf.placeholder_with_default(9, None), name="more"), op="more")


def test_integer_division_by_zero(cluster):
    for dtype in (tf.int8, tf.int32, tf.int64, tf.uint8):
        for divide in (tf.floordiv, tf.mod, tf.truncatediv):
            with survives(cluster), tf.Graph().as_default():
                n = divide(tf.placeholder_with_default(tf.constant([7], dtype), None),
                           tf.placeholder_with_default(tf.constant([0], dtype), None), name="divided")
                with raises(INVALID, "ivision by zero", within=1):
                    cluster.run(n)


def test_division_of_the_least_integer_by_minus_one(cluster):
    with survives(cluster):
        for dtype in (tf.int32, tf.int64):
            least = tf.placeholder_with_default(tf.constant([dtype.min], dtype), None)
            minus = tf.placeholder_with_default(tf.constant([-1], dtype), None)
            with tf.device("/job:ps"):
                cluster.run([tf.truncatediv(least, minus), tf.floordiv(least, minus), tf.truncatemod(least, minus), tf.mod(least, minus)])


def test_a_pooling_window_larger_than_its_input(cluster):
    def pool(padding):
        x = tf.placeholder_with_default(np.ones([1, 2, 2, 1], np.float32), None)
        return tf.nn.max_pool(x, [1, 5, 5, 1], [1, 1, 1, 1], padding, name="pooled")

    refused(cluster, INVALID, lambda: pool("VALID"), op="pooled")
    with survives(cluster):
        assert cluster.run(pool("SAME")).shape == (1, 2, 2, 1)


def test_convolutions_that_do_not_fit(cluster):
    def conv(image, kernel, **kwargs):
        return tf.nn.conv2d(tf.placeholder_with_default(np.ones(image, np.float32), None),
                            tf.placeholder_with_default(np.ones(kernel, np.float32), None), padding="VALID", name="conv", **kwargs)

    refused(cluster, INVALID, lambda: conv([1, 4, 4, 3], [2, 2, 5, 1], strides=1), op="conv")
    refused(cluster, INVALID, lambda: conv([4, 4], [2, 2, 5, 1], strides=1), op="conv")


def test_sizes_beyond_all_memory(cluster):
    big = 1 << 40

    def sizes(*dims):
        return tf.placeholder_with_default(np.array(dims, np.int64), None)

    def too_large(build):
        for device in ("/job:worker/task:0", "/job:ps"):
            with survives(cluster), tf.Graph().as_default(), tf.device(device):
                total = tf.reduce_sum(build())
                with raises((tf.errors.ResourceExhaustedError, INVALID), op="large", within=1):
                    cluster.run(total)

    too_large(lambda: tf.fill(sizes(big), 1.0, name="large"))
    too_large(lambda: tf.fill(sizes(big, big), 1.0, name="large"))
    too_large(lambda: tf.fill(sizes(1 << 31, 1 << 31, 1 << 31), 1.0, name="large"))
    too_large(lambda: tf.tile(tf.placeholder_with_default([1.0], None), sizes(big), name="large"))
    too_large(lambda: tf.tile(tf.placeholder_with_default([[1.0]], None), sizes(big, big), name="large"))
    too_large(lambda: tf.zeros(sizes(big, 1 << 23), name="large"))
    refused(cluster, INVALID, lambda: tf.fill(sizes(-1), 1.0, name="large"), op="large")


def test_a_broadcast_beyond_all_memory(cluster):
    n = 1 << 20
    for device in ("/job:worker/task:0", "/job:ps"):
        with survives(cluster), tf.Graph().as_default(), tf.device(device):
            a = tf.fill(tf.placeholder_with_default([n, 1, 1], None), 1.0)
            b = tf.fill(tf.placeholder_with_default([1, n, 1], None), 1.0)
            with raises(tf.errors.ResourceExhaustedError, op="large", within=1):
                cluster.run(tf.reduce_sum(tf.add(a, b, name="large")))


def test_fetches_and_feeds_that_do_not_exist(cluster):
    with survives(cluster), cluster.session() as sess:
        tf.constant(1, name="there")
        sess.run("there:0")
        for bad in ("gone:0", "there:5"):
            try:
                sess.run(bad)
                raise AssertionError("%s was fetched" % bad)
            except (ValueError, KeyError, tf.errors.OpError):
                pass  # the client's own check
        assert sess.run("there:0") == 1

"""What makes tensors smaller on their way between tasks: bfloat16, and compression."""
from support import np, raises, same, tf


def narrowed(x):
    return x.astype(tf.bfloat16.as_numpy_dtype).astype(np.float32)


def flushed(x):
    """What kernels make of x: they take subnormal numbers as zeros."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def mark(t, dtype=tf.bfloat16):
    t.op._set_attr("_wire_dtype", tf.AttrValue(type=dtype.as_datatype_enum))
    return t


SPECIAL = np.float32([0.0, -0.0, 1.0, 1.00390625, 1.01171875, -1.005, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, 1e-45, 1e-39])


def test_marked_values_cross_as_bfloat16(cluster):
    x = tf.placeholder(tf.float32, [None])
    with tf.device("/job:ps"):
        there = mark(x * 1)
        at_home = there * 2
    with tf.device("/job:worker/task:1"):
        away = there * 2
    noise = np.random.default_rng(1).normal(size=3 << 20).astype(np.float32)
    for value in (SPECIAL, noise[:1000], noise):
        home, far = cluster.run([at_home, away], {x: value})
        same(home, flushed(value) * 2)
        same(far, flushed(narrowed(value)) * 2)


def test_marked_variables_are_read_as_bfloat16(cluster):
    for resource in (False, True):
        with cluster.graph():
            with tf.device("/job:ps"):
                v = tf.get_variable("v", initializer=tf.constant(SPECIAL), use_resource=resource)
                read = mark(v.value() if resource else v._ref())
            with tf.device("/job:worker/task:1"):
                away = tf.identity(read)
            with cluster.session() as sess:
                sess.run(v.initializer)
                same(sess.run(away), narrowed(SPECIAL))


def test_a_marked_value_that_is_fed_and_one_that_is_fetched(cluster):
    x = mark(tf.placeholder(tf.float32, [None]))
    with tf.device("/job:ps"):
        same(cluster.run(x * 1, {x: SPECIAL}), flushed(narrowed(SPECIAL)))
        same(cluster.run(mark(tf.constant(SPECIAL))), narrowed(SPECIAL))


def test_all_values_cross_as_bfloat16_where_the_session_says_so(cluster):
    x = tf.placeholder(tf.float32, [None])
    with tf.device("/job:ps"):
        there = x * 1
    with tf.device("/job:worker/task:1"):
        n = tf.size(there)
    options = tf.GraphOptions(enable_bfloat16_sendrecv=True)
    value, count = cluster.run([there, n], {x: SPECIAL}, graph_options=options)
    same(value, flushed(narrowed(SPECIAL)))
    assert count == len(SPECIAL)


def test_marks_that_make_no_sense_are_refused(cluster):
    for name, value, dtype in (("half", 1.0, tf.half), ("whole", 1, tf.bfloat16)):
        with cluster.graph():
            marked = mark(tf.constant(value, name=name), dtype)
            with raises(tf.errors.InvalidArgumentError, "_wire_dtype", "{{node %s}}" % name, within=1):
                cluster.run(marked)


def rpc(name, level=0):
    # tf.compat.v1 does not export RPCOptions.
    config = tf.ConfigProto()
    config.rpc_options.compression_algorithm = name
    config.rpc_options.compression_level = level
    return config.rpc_options


def test_tensors_travel_compressed(cluster):
    x = tf.placeholder(tf.float32, [None])
    with tf.device("/job:ps"):
        there = x + 1
    with tf.device("/job:worker/task:1"):
        back = there * 2
    value = np.arange(1 << 20, dtype=np.float32)
    for name in ("none", "deflate", "zstd", "s2"):
        same(cluster.run(back, {x: value}, rpc_options=rpc(name, 1)), (value + 1) * 2)


def test_unknown_compression_is_refused(cluster):
    with raises(tf.errors.InvalidArgumentError, '"lz4"', "deflate, gzip, none, s2, snappy, zstd", within=1):
        cluster.run(tf.constant(1), rpc_options=rpc("lz4"))
    with raises(tf.errors.InvalidArgumentError, "compression_level is 7", within=1):
        cluster.run(tf.constant(1), rpc_options=rpc("zstd", 7))

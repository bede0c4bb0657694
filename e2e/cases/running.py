"""What a run takes and gives: feeds, fetches, partial runs, callables, options."""
import json
import threading
import time

from support import Background, np, raises, same, tf
from tensorflow.python.client import timeline

DTYPES = [tf.float16, tf.float32, tf.float64, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64,
          tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.string]


def sample(dtype, shape):
    count = int(np.prod(shape))
    if dtype == tf.string:
        values = np.array([b"%d \x00\xff" % i for i in range(count)], dtype=object)
        return values.reshape(shape)
    values = np.arange(count) % 3
    if dtype.is_complex:
        values = values + 2j
    return values.astype(dtype.as_numpy_dtype).reshape(shape)


def test_every_dtype_and_shape_passes_through_two_tasks(cluster):
    for dtype in DTYPES:
        fed = tf.placeholder(dtype)
        with tf.device("/job:ps"):
            there = tf.identity(fed)
        with tf.device("/job:worker/task:1"):
            back = tf.identity(there)
        with cluster.session() as sess:
            for shape in ([], [1], [7], [0], [2, 3], [2, 0, 3], [1, 1, 2, 2]):
                value = sample(dtype, shape)
                same(sess.run(back, {fed: value}), value)


def test_constants_of_every_dtype(cluster):
    wanted = [sample(dtype, [2, 2]) for dtype in DTYPES]
    same(cluster.run([tf.constant(v, dtype) for v, dtype in zip(wanted, DTYPES)]), wanted)


def test_constants_that_repeat_their_last_value(cluster):
    same(cluster.run([tf.constant(2.5, shape=[3, 2]), tf.constant([1, 7], shape=[5], dtype=tf.int64)]),
         [np.full([3, 2], 2.5, np.float32), np.array([1, 7, 7, 7, 7])])


def test_the_same_fetch_many_times(cluster):
    a, b = tf.constant(1), tf.constant([2.0, 3.0])
    with cluster.session() as sess:
        got = sess.run({"a": [a, a, "%s" % a.name], "b": (b, a.op, b)})
    assert got["a"] == [1, 1, 1] and got["b"][1] is None
    same([got["b"][0], got["b"][2]], [np.float32([2, 3])] * 2)


def test_a_feed_replaces_any_output(cluster):
    a = tf.constant([1.0, 2.0], name="a")
    doubled = a[:1] * 2
    total = doubled + a[1:]
    with cluster.session() as sess:
        same(sess.run(total), np.float32([4]))
        same(sess.run(total, {doubled: [10.0]}), np.float32([12]))
        same(sess.run(total, {a: [5.0, 6.0]}), np.float32([16]))
        same(sess.run([doubled, total], {doubled: [1.0]}), [np.float32([1]), np.float32([3])])


def test_a_fed_variable_is_not_read(cluster):
    v = tf.Variable(3.0, use_resource=False)
    assert cluster.run(v * 2, {v: 5.0}) == 10.0  # it was never initialized


def test_only_what_is_needed_runs(cluster):
    bad = tf.placeholder(tf.float32) + 1
    good = tf.constant(1.0) + 1
    with cluster.session() as sess:
        assert sess.run(good) == 2
        with raises(tf.errors.InvalidArgumentError, "You must feed"):
            sess.run([good, bad])


def test_targets_run_before_the_answer_comes(cluster):
    with tf.device("/job:ps"):
        v = tf.Variable(0, use_resource=True)
        up = v.assign_add(1, read_value=False)
        with tf.control_dependencies([up]):
            after = v.read_value()
    with cluster.session() as sess:
        sess.run(v.initializer)
        for i in range(1, 20):
            assert sess.run(after) == i
        sess.run(up)
        assert sess.run(v.read_value()) == 20


def test_partial_runs_share_one_step(cluster):
    with cluster.session() as sess:
        a, b, c = (tf.placeholder(tf.float32, [], name=n) for n in "abc")
        with tf.device("/job:ps"):
            first = a + b
        second = first * c
        handle = sess.partial_run_setup([first, second], [a, b, c])
        assert sess.partial_run(handle, first, {a: 1, b: 2}) == 3
        assert sess.partial_run(handle, second, {c: first.eval(feed_dict={a: 2, b: 2}, session=sess)}) == 12
        other = sess.partial_run_setup([first, second], [a, b, c])
        again = sess.partial_run_setup([first, second], [a, b, c])
        assert sess.partial_run(again, first, {a: 5, b: 5}) == 10
        assert sess.partial_run(other, first, {a: 1, b: 1}) == 2
        assert sess.partial_run(again, second, {c: 2}) == 20
        assert sess.partial_run(other, second, {c: 5}) == 10


def test_partial_runs_run_stateful_nodes_once(cluster):
    with cluster.session() as sess:
        v = tf.Variable(0.0, use_resource=False)
        up = tf.assign_add(v, 1.0)
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        first, second = up + a, up + b
        sess.run(v.initializer)
        handle = sess.partial_run_setup([first, second], [a, b])
        sess.partial_run(handle, first, {a: 10})
        sess.partial_run(handle, second, {b: 20})
        assert sess.run(v) == 1


def test_partial_runs_refuse_what_was_not_set_up(cluster):
    with cluster.session() as sess:
        a, b, c = (tf.placeholder(tf.float32, [], name=n) for n in "abc")
        x, y = a + b, (a + b) * c
        handle = sess.partial_run_setup([x, y], [a, b, c])
        with raises(tf.errors.InvalidArgumentError, "Must run PartialRunSetup before performing partial runs"):
            sess.partial_run("no_such_handle", x, {a: 1, b: 1})
        handle = sess.partial_run_setup([x, y], [a, b, c])
        with raises(tf.errors.InvalidArgumentError, "can't be computed from the feeds that have been fed so far", within=2):
            sess.partial_run(handle, y, {a: 1, b: 1})
        handle = sess.partial_run_setup([x, y], [a, b, c])
        sess.partial_run(handle, x, {a: 1, b: 1})
        with raises(tf.errors.InvalidArgumentError, "already been fed"):
            sess.partial_run(handle, y, {a: 1, c: 1})
        handle = sess.partial_run_setup([x], [a, b])
        with raises(tf.errors.InvalidArgumentError, "was not specified in partial_run_setup"):
            sess.partial_run(handle, y, {a: 1, b: 1})
        assert sess.run(y, {a: 1, b: 2, c: 3}) == 9


def test_callables(cluster):
    with cluster.session() as sess:
        x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [2])
        with tf.device("/job:ps"):
            z = x * y
        run = sess.make_callable([z, z + 1], [x, y])
        for i in range(3):
            same(run(i, [1, 2]), [np.float32([i, 2 * i]), np.float32([i + 1, 2 * i + 1])])
        assert sess.make_callable(z.op, [x, y])(1, [1, 2]) is None


def callable_options(feeds, fetches, targets=(), **run_options):
    from tensorflow.core.protobuf import config_pb2
    options = config_pb2.CallableOptions()
    options.feed.extend(t.name for t in feeds)
    options.fetch.extend(t.name for t in fetches)
    options.target.extend(o.name for o in targets)
    for k, v in run_options.items():
        setattr(options.run_options, k, v)
    return options


def test_callables_of_the_protocol(cluster):
    with cluster.session() as sess:
        x, y = tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.float32, [], name="y")
        with tf.device("/job:ps"):
            quotient = x / y
        run = sess._make_callable_from_options(callable_options([x, y], [quotient, quotient]))
        for i in range(1, 4):
            same(run(np.float32(6), np.float32(i)), [np.float32(6 / i)] * 2)
        del run
        wrong = sess._make_callable_from_options(callable_options([x], [quotient]))
        with raises(tf.errors.InvalidArgumentError, "You must feed a value for placeholder tensor 'y'"):
            wrong(np.float32(1))
        typed = sess._make_callable_from_options(callable_options([x], [x + 1]))
        with raises(tf.errors.InvalidArgumentError, "x", within=1):
            typed(np.float64(1))
        assert typed(np.float32(1))[0] == 2


def test_a_timeout_names_what_the_step_waits_for(cluster):
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name=cluster.name)
        take = queue.dequeue(name="take")
    waiting = take + 1
    with cluster.session() as sess:
        sess.run(queue.size())
        start = time.monotonic()
        with raises(tf.errors.DeadlineExceededError, "take", within=1.5):
            sess.run(waiting, options=tf.RunOptions(timeout_in_ms=500))
        assert time.monotonic() - start > 0.4
        sess.run(queue.enqueue(1.0))
        assert sess.run(waiting, options=tf.RunOptions(timeout_in_ms=5000)) == 2


def test_the_sessions_own_timeout(cluster):
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name=cluster.name)
    take = queue.dequeue()
    with cluster.session(operation_timeout_in_ms=400) as sess:
        with raises(tf.errors.DeadlineExceededError, within=1.5):
            sess.run(take)


def test_tracing_tells_what_ran_where(cluster):
    a = tf.placeholder(tf.float32, [2, 2], name="a")
    with tf.device("/job:ps"):
        b = tf.matmul(a, a, name="there")
    with tf.device("/job:worker/task:0"):
        c = tf.add(b, 1.0, name="here")
    metadata = tf.RunMetadata()
    with cluster.session() as sess:
        sess.run(c, {a: np.eye(2)}, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
        ran = {}
        for device in metadata.step_stats.dev_stats:
            for node in device.node_stats:
                ran.setdefault(node.node_name.split(":")[0], set()).add(device.device)
                assert node.all_start_micros > 1e15 and node.all_end_rel_micros >= 0, node
        assert "/job:ps/replica:0/task:0/device:CPU:0" in ran["there"], ran
        assert "/job:worker/replica:0/task:0/device:CPU:0" in ran["here"], ran
        plain = tf.RunMetadata()
        sess.run(c, {a: np.eye(2)}, run_metadata=plain)
        assert not plain.step_stats.dev_stats
        trace = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True))["traceEvents"]
        ops = {e["args"]["name"]: e["args"] for e in trace if e["ph"] == "X"}
        assert ops["there"]["op"] == "MatMul" and ops["here"]["input1"] == "here/y", ops
        assert "there" in ops["here"]["input0"], "the transfer bears no name of what it brings: %s" % ops["here"]
        kinds = {e["cat"] for e in trace if "cat" in e}
        assert {"Op", "Tensor", "Memory"} <= kinds and "unknown" not in {o["op"] for o in ops.values()}, (kinds, ops)
        there = [n for d in metadata.step_stats.dev_stats for n in d.node_stats if n.node_name == "there"][0]
        assert [d.size for d in there.output[0].tensor_description.shape.dim] == [2, 2] and there.memory[0].total_bytes == 16, there


def test_partition_graphs_of_every_device(cluster):
    with tf.device("/job:ps"):
        a = tf.placeholder(tf.float32, [], name="two") * 0.5
    with tf.device("/job:worker/task:1"):
        b = tf.add(a, 1.0, name="b")
    metadata = tf.RunMetadata()
    with cluster.session() as sess:
        assert sess.run(b, {a.op.inputs[0]: 4.0}, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata) == 3
    devices = [{n.device for n in g.node} for g in metadata.partition_graphs]
    assert all(len(d) == 1 for d in devices), devices
    names = {d.pop(): {n.name for n in g.node} for d, g in zip(devices, metadata.partition_graphs)}
    assert "b" in names["/job:worker/replica:0/task:1/device:CPU:0"], names
    assert "mul" in names["/job:ps/replica:0/task:0/device:CPU:0"], names


def test_many_steps_at_once(cluster):
    with tf.device("/job:ps"):
        total = tf.Variable(0, use_resource=True)
        up = total.assign_add(1, use_locking=True, read_value=False)
    with cluster.session() as sess:
        sess.run(total.initializer)
        gate = threading.Barrier(8)

        def work():
            gate.wait()
            for _ in range(25):
                sess.run(up)

        for thread in [Background(work) for _ in range(8)]:
            thread.result()
        assert sess.run(total.read_value()) == 200

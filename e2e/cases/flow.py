"""Control flow, with frames (version 1) and functions (version 2), inside a task and over several."""
from support import control_flow_v2, np, raises, same, tf
from tensorflow.python.framework import function

PS, ANOTHER = "/job:ps", "/job:worker/task:1"


def collatz(n):
    """Steps of the Collatz sequence from n to 1, and its highest number."""
    steps = top = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps, top = steps + 1, max(top, n)
    return steps, top


def test_a_loop_on_one_task(cluster):
    n = tf.placeholder(tf.int32, [])
    total, _ = tf.while_loop(lambda s, i: i <= n, lambda s, i: (s + i, i + 1), [0, 1])
    with cluster.session() as sess:
        for k in (0, 1, 10, 100):
            assert sess.run(total, {n: k}) == k * (k + 1) // 2


def test_a_loop_whose_body_is_on_another_task(cluster):
    n = tf.placeholder(tf.int32, [])

    def body(s, i):
        with tf.device(PS):
            s = s * 2 + i
        return s, i + 1

    total, _ = tf.while_loop(lambda s, i: i < n, body, [tf.constant(1), tf.constant(0)])
    with cluster.session() as sess:
        for k in (0, 1, 7, 20):
            want = 1
            for i in range(k):
                want = want * 2 + i
            assert sess.run(total, {n: k}) == want


def test_a_loop_over_three_tasks(cluster):
    start = tf.placeholder(tf.int32, [])

    def goes_on(n, steps, top):
        with tf.device(PS):
            return tf.not_equal(n, 1)

    def body(n, steps, top):
        with tf.device(ANOTHER):
            n = tf.cond(tf.equal(n % 2, 1), lambda: 3 * n + 1, lambda: n // 2)
        with tf.device(PS):
            return n, steps + 1, tf.maximum(top, n)

    _, steps, top = tf.while_loop(goes_on, body, [start, 0, 0])
    with cluster.session() as sess:
        for n in (1, 2, 7, 27):
            assert tuple(sess.run([steps, top], {start: n})) == collatz(n)


def test_a_loop_in_a_loop_over_tasks(cluster):
    n = tf.placeholder(tf.int32, [])

    def outer(i, total):
        with tf.device(PS):
            _, inner = tf.while_loop(lambda j, s: j < i, lambda j, s: (j + 1, s + j), [0, 0])
        with tf.device(ANOTHER):
            return i + 1, total + inner

    _, total = tf.while_loop(lambda i, total: i < n, outer, [0, 0])
    with cluster.session() as sess:
        for k in (0, 1, 5, 9):
            assert sess.run(total, {n: k}) == sum(sum(range(i)) for i in range(k))


def test_a_loop_one_iteration_at_a_time(cluster):
    with tf.device(PS):
        v = tf.Variable(0, use_resource=False)

    def body(i):
        with tf.device(PS), tf.control_dependencies([tf.assign_add(v, i)]):
            return i + 1

    end = tf.while_loop(lambda i: i < 30, body, [0], parallel_iterations=1)
    with cluster.session() as sess:
        sess.run(v.initializer)
        assert sess.run(end) == 30
        assert sess.run(v) == sum(range(30))


def test_conditionals_over_tasks(cluster):
    p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [2])

    def on(device, function):
        with tf.device(device):
            return function(x)

    y = tf.cond(p, lambda: on(PS, lambda x: x + 1), lambda: on(ANOTHER, lambda x: x * 10))
    with cluster.session() as sess:
        for _ in range(3):
            same(sess.run(y, {p: True, x: [1, 2]}), np.float32([2, 3]))
            same(sess.run(y, {p: False, x: [1, 2]}), np.float32([10, 20]))


def test_only_the_taken_branch_has_effects(cluster):
    with tf.device(PS):
        yes, no = (tf.Variable(0, use_resource=True) for _ in range(2))
    p = tf.placeholder(tf.bool, [])
    taken = tf.cond(p, lambda: yes.assign_add(1), lambda: no.assign_add(1))
    with cluster.session() as sess:
        sess.run([yes.initializer, no.initializer])
        for value in (True, False, True):
            sess.run(taken, {p: value})
        assert sess.run([yes.read_value(), no.read_value()]) == [2, 1]


def test_a_value_of_the_branch_not_taken_has_no_value(cluster):
    p = tf.placeholder(tf.bool, [], name="p")
    _, yes = tf.raw_ops.Switch(data=tf.constant(1.0), pred=p)
    on = tf.identity(yes, name="on")
    with cluster.session() as sess:
        assert sess.run(on, {p: True}) == 1.0
        with raises(tf.errors.InternalError, "on", within=1):
            sess.run(on, {p: False})


def test_deadness_crosses_tasks(cluster):
    p = tf.placeholder(tf.bool, [])
    no, yes = tf.raw_ops.Switch(data=tf.constant(5.0), pred=p)
    with tf.device(PS):
        a = yes * 2
    with tf.device(ANOTHER):
        b = no * 3
    merged = tf.raw_ops.Merge(inputs=[a, b])
    with cluster.session() as sess:
        assert tuple(sess.run(list(merged), {p: True})) == (10.0, 0)
        assert tuple(sess.run(list(merged), {p: False})) == (15.0, 1)


def test_an_error_in_a_loop_ends_the_step(cluster):
    def body(i):
        with tf.device(PS), tf.control_dependencies([tf.reshape(tf.zeros([i]), [3], name="broken")]):
            return i + 1

    end = tf.while_loop(lambda i: i < 10, body, [3])
    with raises(tf.errors.InvalidArgumentError, op="while/broken", within=2):
        cluster.run(end)


@control_flow_v2
def test_a_functional_loop(cluster):
    n = tf.placeholder(tf.int32, [])
    total, _ = tf.while_loop(lambda s, i: i <= n, lambda s, i: (s + i, i + 1), [0, 1])
    assert "While" in {o.type.replace("Stateless", "") for o in tf.get_default_graph().get_operations()}
    with cluster.session() as sess:
        for k in (0, 1, 10, 100):
            assert sess.run(total, {n: k}) == k * (k + 1) // 2


@control_flow_v2
def test_a_functional_loop_over_tasks(cluster):
    with tf.device(PS):
        v = tf.Variable(1.0)

    def body(i, x):
        with tf.device(ANOTHER):
            return i + 1, x + v.read_value()

    _, total = tf.while_loop(lambda i, x: i < 5, body, [0, 0.5])
    with cluster.session() as sess:
        sess.run(v.initializer)
        assert sess.run(total) == 5.5


@control_flow_v2
def test_a_functional_conditional(cluster):
    p = tf.placeholder(tf.bool, [])
    with tf.device(PS):
        v = tf.Variable(10)
        y = tf.cond(p, lambda: v.assign_add(1), lambda: v.assign_sub(1))
    with cluster.session() as sess:
        sess.run(v.initializer)
        sess.run(y, {p: True}), sess.run(y, {p: True}), sess.run(y, {p: False})
        assert sess.run(v.read_value()) == 11


@control_flow_v2
def test_an_error_names_the_node_of_the_function(cluster):
    """However a function is run, inlined or called, its nodes go by the names of its body, as with TensorFlow's server."""
    x = tf.placeholder_with_default(1.0, [])

    def checked():
        return tf.debugging.check_numerics(x / 0.0, "infinite", name="checked") + 1.0

    def unchanged():
        return tf.identity(x)

    for device in ("", PS, ANOTHER):
        with tf.device(device):
            ways = [
                tf.cond(x > 0, checked, unchanged),
                tf.cond(x > 0, lambda: tf.cond(x > 0.5, checked, unchanged), unchanged),
                tf.switch_case(tf.cast(x, tf.int32), [unchanged, checked]),
                tf.while_loop(lambda y: y < 2, lambda y: y + checked(), [x]),
            ]
        for y in ways:
            with raises(tf.errors.InvalidArgumentError, "infinite", "[[{{node checked}}]]", within=1):
                cluster.run(y)


@control_flow_v2
def test_gradients_of_a_functional_conditional(cluster):
    x, p = tf.placeholder(tf.float32, []), tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: x * x, lambda: 3 * x)
    slope = tf.gradients(y, x)[0]
    with cluster.session() as sess:
        assert sess.run(slope, {x: 5.0, p: True}) == 10.0
        assert sess.run(slope, {x: 5.0, p: False}) == 3.0


@control_flow_v2
def test_a_loop_that_hands_on_what_it_captured(cluster):
    x, n = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int32, [])

    def body(i, v):
        with tf.device(ANOTHER):
            i = i + 1
        return i, x

    _, v = tf.while_loop(lambda i, v: i < n, body, [tf.constant(0), tf.constant([5.0, 6.0])])
    with cluster.session() as sess:
        for k, want in ((0, [5, 6]), (1, [1, 2]), (3, [1, 2])):
            same(sess.run(v, {x: [1, 2], n: k}), np.float32(want))


@control_flow_v2
def test_what_a_functional_loop_passes_through_comes_when_it_has_ended(cluster):
    with tf.device(PS):
        v = tf.Variable(1)

    def body(i, same):
        with tf.control_dependencies([v.assign_add(1)]):
            return i + 1, same

    _, same = tf.while_loop(lambda i, _: i < 3, body, [0, 7])
    with cluster.session() as sess:
        sess.run(v.initializer)
        assert sess.run(same) == 7
        assert sess.run(v.read_value()) == 4


@control_flow_v2
def test_a_gradient_through_a_loop_by_a_pinned_variable(cluster):
    with tf.device(ANOTHER):
        v = tf.Variable([1.0, 2.0, 3.0])
    _, total = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + tf.gather(v, [i, i])), [tf.constant(0), tf.constant([0.0, 0.0])])
    slope, = tf.gradients(total, [v])
    with cluster.session() as sess:
        sess.run(v.initializer)
        same(sess.run(tf.convert_to_tensor(slope)), np.float32([2, 2, 2]))


def traced(sess, fetch):
    """A value, and which nodes ran for it."""
    metadata = tf.RunMetadata()
    value = sess.run(fetch, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    return value, {n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats}


@control_flow_v2
def test_a_functional_conditional_does_what_is_fetched(cluster):
    v = [tf.get_variable("%s_pruned_%d" % (cluster.name, i), initializer=7, use_resource=True) for i in range(3)]
    chosen = tf.cond(tf.placeholder_with_default(True, []), lambda: [tf.assign(v[0], 1).op, tf.assign(v[1], 2).op],
                     lambda: [tf.assign(v[2], 3).op, tf.constant(10).op])
    with cluster.session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(chosen[1])
        assert list(sess.run(v)) == [7, 2, 7]


@control_flow_v2
def test_an_executor_without_switch_runs_no_switch(cluster):
    chosen = tf.cond(tf.placeholder_with_default(True, []), lambda: True, lambda: False)
    for executor, lowered in (("", True), ("SINGLE_THREADED_EXECUTOR", False)):
        config = tf.ConfigProto()
        config.experimental.executor_type = executor
        with tf.Session(cluster.target("worker"), config=config) as sess:
            value, ran = traced(sess, chosen)
        assert value and any("switch" in n for n in ran) == lowered, ran


def test_a_gradient_with_too_many_results(cluster):
    @function.Defun(tf.float32, tf.float32, tf.float32)
    def back(x, dy, dz):
        return x, dy + dz

    @function.Defun(tf.float32, grad_func=back)
    def twice(x):
        return x, x

    x = tf.placeholder_with_default([1.0, 2.0], [2])
    dx = tf.gradients(tf.add_n(twice(x)), [x])
    with cluster.session() as sess, raises(tf.errors.InvalidArgumentError, "SymGrad expects to return 1 tensor(s), but get 2 tensor(s) instead."):
        sess.run(dx)

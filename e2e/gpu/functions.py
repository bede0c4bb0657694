"""Functions of the graph on GPUs: their nodes with kernels for GPUs run there, the others on the host."""
import re

from support import control_flow_v2, np, placed, same, tf
from tensorflow.python.framework import function

GPU = "/job:worker/replica:0/task:%d/device:GPU:%d"
HOST = "/job:worker/replica:0/task:0/device:CPU:0"


def device_of(where, op):
    """The device of the node that a function calls op; copies have numbers."""
    found = {d for name, d in where.items() if re.fullmatch(f"(.*/)?{op}(_[0-9]+)?", name)}
    assert len(found) == 1, (op, found, sorted(where))
    return found.pop()


@control_flow_v2
def test_a_loop(cluster):
    x = tf.placeholder(tf.float32, [3, 3])
    i, y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, tf.matmul(y, y, name="product") * 0.5), [0, x])
    with cluster.session() as sess:
        where = placed(sess, [i, y], {x: np.eye(3)})
        same(sess.run(y, {x: np.eye(3, dtype=np.float32)}), np.eye(3, dtype=np.float32) * 2.0**-15)
    assert device_of(where, "product") == GPU % (0, 0)


@control_flow_v2
def test_a_loop_whose_condition_is_computed_on_the_card(cluster):
    x = tf.placeholder(tf.float32, [1000])
    y = tf.while_loop(lambda y: tf.reduce_sum(y, name="sum") > 1.0, lambda y: (y / 2,), [x])
    with cluster.session() as sess:
        where = placed(sess, y, {x: np.ones([1000])})
        assert np.all(sess.run(y, {x: np.ones([1000])}) == 2.0**-10)
    assert device_of(where, "sum") == GPU % (0, 0)


@control_flow_v2
def test_a_loop_of_integers_stays_where_it_was(cluster):
    n = tf.placeholder(tf.int32, [])
    total, _ = tf.while_loop(lambda s, i: i <= n, lambda s, i: (s + i, i + 1), [0, 1])
    with cluster.session() as sess:
        where = placed(sess, total, {n: 10})
        assert sess.run(total, {n: 100}) == 5050
    assert {d for name, d in where.items() if "while" in name} == {HOST}, where


@control_flow_v2
def test_a_conditional_by_a_value_of_the_card(cluster):
    x = tf.placeholder(tf.float32, [])
    y = tf.cond(tf.tanh(x) > 0.5, lambda: tf.exp(x, name="grows"), lambda: tf.square(x, name="stays"))
    slope, = tf.gradients(y, x)
    with cluster.session() as sess:
        where = placed(sess, y, {x: 2.0})
        assert np.allclose(sess.run([y, slope], {x: 2.0}), [np.exp(2), np.exp(2)], rtol=1e-5)
        assert np.allclose(sess.run([y, slope], {x: 0.25}), [0.0625, 0.5])
    assert device_of(where, "grows") == GPU % (0, 0)


@control_flow_v2
def test_a_branch_of_several(cluster):
    index = tf.placeholder(tf.int32, [])
    x = tf.placeholder(tf.float32, [2])
    y = tf.switch_case(index, [lambda: tf.exp(x), lambda: -x, lambda: x * x])
    assert "Case" in {o.type.replace("Stateless", "") for o in tf.get_default_graph().get_operations()}
    with cluster.session() as sess:
        for k, want in enumerate([np.exp(np.float32([2, 3])), [-2, -3], [4, 9]]):
            assert np.allclose(sess.run(y, {index: k, x: [2, 3]}), want, rtol=1e-5)


@control_flow_v2
def test_a_variable_that_a_loop_changes_lives_on_the_card(cluster):
    with tf.device("/gpu:0"):  # one without a device may live on the parameter server
        v = tf.get_variable("v", initializer=np.ones([4], np.float32))

    def body(i):
        with tf.control_dependencies([v.assign(tf.tanh(v.read_value()) * 2)]):
            return i + 1

    end = tf.while_loop(lambda i: i < 3, body, [0])
    want = np.ones([4])
    for _ in range(3):
        want = np.tanh(want) * 2
    with cluster.session() as sess:
        sess.run(v.initializer)
        where = placed(sess, end)
        assert np.allclose(sess.run(v.read_value()), want, rtol=1e-5)
    assert {d for name, d in where.items() if "AssignVariableOp" in name} == {GPU % (0, 0)}, where


@control_flow_v2
def test_a_gradient_through_a_loop(cluster):
    x = tf.placeholder(tf.float32, [2])
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * y), [0, x], maximum_iterations=3)
    slope, = tf.gradients(y, x)
    with cluster.session() as sess:
        assert np.allclose(sess.run(slope, {x: [1.0, 1.5]}), 8 * np.float32([1.0, 1.5])**7, rtol=1e-4)


def test_a_function_with_strings_on_a_card(cluster):
    @function.Defun(tf.float32, tf.string)
    def both(x, s):
        return tf.tanh(x, name="card"), tf.strings.join([s, "!"], name="host")

    with tf.device(GPU % (1, 1)):
        x, s = both(tf.placeholder_with_default(np.float32([0.5]), [1]), tf.constant("a"))
    with cluster.session() as sess:
        where = placed(sess, [x, s])
        got = sess.run([x, s])
    assert np.allclose(got[0], np.tanh(0.5)) and got[1] == b"a!", got
    assert device_of(where, "card") == GPU % (1, 1)
    assert device_of(where, "host") == "/job:worker/replica:0/task:1/device:CPU:0"

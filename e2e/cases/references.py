"""Reference variables in control flow: they are read where they are used, not where a loop or branch captured them.

What is wanted is what TensorFlow's own server gives, where the variable is on the master's task, as its loops are. A loop that captures what was
read on another task has that value in all of its iterations, with TensorFlow's server too.
"""
from support import np, same, tf


def variable(value, name=None):
    with tf.device("/cpu:0"):  # the master's own
        return tf.Variable(value, use_resource=False, name=name)


def results(cluster, *fetches):
    """What a first step of fetches gives, from the variables' initial values."""
    with cluster.session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetches[0] if len(fetches) == 1 else list(fetches))


def after(cluster, step, *variables):
    """The variables' values after one step."""
    with cluster.session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(step.op if isinstance(step, tf.Tensor) else step)
        return sess.run(variables[0] if len(variables) == 1 else list(variables))


def counting(n, body):
    """A loop of n iterations; what body gives runs before the next one begins."""

    def step(i):
        with tf.control_dependencies(body(i)):
            return i + 1

    return tf.while_loop(lambda i: i < n, step, [tf.constant(0)])


def test_a_loop_assigns_what_it_computes_from_the_variable(cluster):
    v = variable(2.0)
    loop = counting(4, lambda i: [tf.assign(v, tf.square(v))])
    same(after(cluster, loop, v), np.float32(65536))


def test_a_condition_reads_the_variable_that_the_body_changes(cluster):
    v = variable(0.0)

    def body(i):
        with tf.control_dependencies([tf.assign_add(v, 1.0)]):
            return i + 1

    loop = tf.while_loop(lambda i: v < 10.0, body, [tf.constant(0)])
    same(results(cluster, loop), np.int32(10))


def test_an_optimizer_in_a_loop(cluster):
    v = variable([1.0, 2.0])
    descent = tf.train.GradientDescentOptimizer(0.1)
    loop = counting(3, lambda i: [descent.minimize(tf.reduce_sum(tf.square(v)))])
    got = after(cluster, loop, v)
    assert np.allclose(got, [0.512, 1.024]), got


def test_rows_that_are_scattered_from_the_variable(cluster):
    v = variable([1.0, 1.0, 1.0, 1.0])
    loop = counting(4, lambda i: [tf.scatter_update(v, [i], [tf.reduce_sum(v)])])
    same(after(cluster, loop, v), np.float32([4, 7, 13, 25]))


def test_a_tensor_array_of_values_between_updates(cluster):
    v = variable(2.0)

    def body(i, array):
        array = array.write(i, v + 0.0)
        with tf.control_dependencies([array.flow]):
            with tf.control_dependencies([tf.assign_add(v, 1.0)]):
                return i + 1, array

    array = tf.TensorArray(tf.float32, 4)
    _, array = tf.while_loop(lambda i, _: i < 4, body, [tf.constant(0), array])
    same(results(cluster, array.stack()), np.float32([2, 3, 4, 5]))


def test_an_assignment_before_a_loop_that_reads(cluster):
    v = variable(2.0)
    with tf.control_dependencies([tf.assign(v, 5.0)]):
        _, total = tf.while_loop(lambda i, s: i < 1, lambda i, s: (i + 1, s + v), [tf.constant(0), tf.constant(0.0)])
    same(results(cluster, total), np.float32(5))


def test_a_branch_reads_after_its_own_update(cluster):
    v0, v1 = variable(2.0), variable(2.0)

    def branch():
        with tf.control_dependencies([tf.assign_add(v1, 3.0)]):
            return tf.assign_sub(v0, tf.identity(v1)) + 0.0

    taken = tf.placeholder_with_default(True, [])
    got = tf.cond(taken, branch, lambda: tf.constant(0.0))
    same(results(cluster, got), np.float32(-3))


def test_loops_in_each_other_and_branches_in_them(cluster):
    v = variable(1.0)

    def inner(i):
        doubled = tf.cond(tf.less(v, 20.0), lambda: tf.assign(v, v * 2.0), lambda: tf.assign_add(v, 1.0))
        return [doubled]

    loop = counting(3, lambda i: [counting(2, inner)])
    same(after(cluster, loop, v), np.float32(33))


def test_a_value_on_another_task_is_the_one_that_was_sent(cluster):
    with tf.device("/job:ps"):
        v = variable(2.0)
        step = tf.assign(v, 7.0)
        with tf.control_dependencies([step]):
            read = v.read_value()
    with tf.device("/job:worker/task:1"):
        far = read * 2.0
    same(results(cluster, far), np.float32(14))


def test_an_explicit_read_is_of_its_time(cluster):
    """TensorFlow's server gives 4 for the first one, since its buffers are shared."""
    v = variable(2.0)
    before = v.read_value()
    with tf.control_dependencies([before]):
        step = tf.assign_add(v, 2.0)
    with tf.control_dependencies([step]):
        got = before + 0.0
    same(results(cluster, got), np.float32(2))


def test_captures_of_an_explicit_read_are_references(cluster):
    """What other nodes wait for is read at its time; a loop that captures it still sees what it assigns."""
    v = variable(0.0)
    with tf.control_dependencies([v.value()]):
        start = tf.constant(0)

    def body(i):
        with tf.control_dependencies([tf.assign_add(v, 1.0)]):
            return i + 1

    same(results(cluster, tf.while_loop(lambda i: v < 10.0, body, [start])), np.int32(10))


def test_readers_on_several_tasks_in_turn(cluster):
    x = tf.placeholder(tf.float32, [])
    fetches = []
    for resource in (False, True):
        with tf.device("/job:ps"):
            r = tf.square(x)
            v = tf.Variable(3.0, use_resource=resource)
        with tf.device("/job:worker/task:1"):
            fetches += [tf.identity(r), v * 2.0]
        with tf.device("/job:worker/task:0"):
            fetches += [r + 2.0, v - 1.0]
            with tf.control_dependencies([r]):
                fetches.append(v + 1.0)
    want = [4, 6, 6, 2, 4] * 2
    for order in (range(10), reversed(range(10)), (0, 2, 0, 2, 1, 3, 1)):
        for target in sorted(cluster.targets.values()):
            with cluster.session(target) as sess:
                sess.run(tf.global_variables_initializer())
                for k in order:
                    same(sess.run(fetches[k], {x: 2.0}), np.float32(want[k]))


def test_a_reader_of_a_far_and_a_near_variable(cluster):
    """The far one is read when the reader's other inputs are there; that makes no earlier read of the near one."""
    identity = [[1.0, 0.0], [0.0, 1.0]]
    with tf.device("/job:ps"):
        first = variable(identity)
    with tf.device("/job:worker/task:0"):
        far = variable(identity)
    with tf.device("/job:ps"):
        near = variable(identity)
        with tf.control_dependencies([tf.assign(first, [[1.0, 2.0], [3.0, 4.0]])]):
            step = tf.assign_add(near, tf.ones((2, 2)))
        with tf.control_dependencies([step]):
            got = tf.abs(tf.matmul(far.op.outputs[0], near))
    same(results(cluster, got), np.float32([[2, 1], [1, 2]]))

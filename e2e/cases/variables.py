"""Variables by reference and by handle, their names and containers."""
import threading

from support import Background, np, raises, same, tf

KINDS = (False, True)  # use_resource


def both(case):
    """Runs a case with reference variables and with resource variables."""

    def wrapped(cluster):
        for resource in KINDS:
            with cluster.graph():
                case(cluster, resource)

    return wrapped


@both
def test_initializing_reading_assigning(cluster, resource):
    with tf.device("/job:ps"):
        v = tf.Variable([[1.0, 2.0]], use_resource=resource)
        steps = [v.assign([[3.0, 4.0]]), v.assign_add([[1.0, 1.0]]), v.assign_sub([[2.0, 0.0]])]
    ready = tf.is_variable_initialized(v)
    with cluster.session() as sess:
        assert not sess.run(ready)
        sess.run(v.initializer)
        assert sess.run(ready)
        for step, want in zip(steps, ([[3, 4]], [[4, 5]], [[2, 5]])):
            sess.run(step.op)
            same(sess.run(v), np.float32(want))


def test_an_uninitialized_variable_is_named(cluster):
    with tf.device("/job:ps"):
        by_reference = tf.Variable(1.0, use_resource=False, name="by_reference")
        by_handle = tf.Variable(1.0, use_resource=True, name="by_handle")
        doubled = by_reference * 2
    with raises(tf.errors.FailedPreconditionError, "Attempting to use uninitialized value by_reference", within=1):
        cluster.run(doubled)
    with raises(tf.errors.FailedPreconditionError, "Attempting to use uninitialized value by_reference",
                op="by_reference", within=1):
        cluster.run(by_reference)
    with raises(tf.errors.FailedPreconditionError, "by_handle", within=1):
        cluster.run(by_handle.read_value())
    assert set(cluster.run(tf.report_uninitialized_variables())) == {b"by_reference", b"by_handle"}


@both
def test_locked_additions_lose_nothing(cluster, resource):
    with tf.device("/job:ps"):
        v = tf.Variable(np.zeros([64, 64], np.float32), use_resource=resource)
        one = np.ones([64, 64], np.float32)
        up = v.assign_add(one, use_locking=True).op
    masters = [cluster.target("worker", 0), cluster.target("worker", 1), cluster.target("ps")]
    cluster.run(v.initializer)
    gate, graph = threading.Barrier(len(masters)), tf.get_default_graph()

    def work(target):
        with cluster.session(target, graph) as sess:
            gate.wait(20)
            for _ in range(20):
                sess.run(up)

    for thread in [Background(work, target) for target in masters]:
        thread.result()
    same(cluster.run(v), one * 60)


@both
def test_scattered_updates(cluster, resource):
    with tf.device("/job:ps"):
        v = tf.Variable(np.zeros([4, 2], np.float32), use_resource=resource)
        at = tf.placeholder(tf.int32, [None])
        delta = tf.IndexedSlices(tf.ones([2, 2]), at)
        up = v.scatter_add(delta)
    with cluster.session() as sess:
        sess.run(v.initializer)
        sess.run(up, {at: [3, 3]})
        same(sess.run(v), np.float32([[0, 0], [0, 0], [0, 0], [2, 2]]))
        with raises(tf.errors.InvalidArgumentError, "9", within=1):
            sess.run(up, {at: [0, 9]})


def test_values_of_another_shape_or_dtype(cluster):
    with tf.device("/job:ps"):
        v = tf.Variable([1.0, 2.0], use_resource=False, validate_shape=True)
        p = tf.placeholder(tf.float32)
        change = tf.raw_ops.Assign(ref=v._variable, value=p, validate_shape=True)
    with cluster.session() as sess:
        sess.run(v.initializer)
        with raises(tf.errors.InvalidArgumentError, "shape", within=1):
            sess.run(change, {p: [1, 2, 3]})
        same(sess.run(v), np.float32([1, 2]))
        loose = tf.raw_ops.Assign(ref=v._variable, value=p, validate_shape=False)
        sess.run(loose, {p: [1, 2, 3]})
        same(sess.run(v._variable), np.float32([1, 2, 3]))


def test_one_name_on_every_task_is_the_same_variable(cluster):
    def unplaced():
        return tf.raw_ops.VariableV2(shape=[], dtype=tf.int32, container="", shared_name=cluster.name)

    masters = list(cluster.targets.values())
    with tf.Graph().as_default():
        cluster.run(tf.assign(unplaced(), 100), target=masters[1])
    for i, target in enumerate(masters):
        with tf.Graph().as_default():
            assert cluster.run(tf.assign_add(unplaced(), 1), target=target) == 101 + i


def test_containers_keep_names_apart(cluster):
    def handle(container):
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], container=container, shared_name=cluster.name)

    names = ["", "my_problem_1", "My-Problem/2.a", "_x"[1:]]
    with tf.device("/job:ps"):
        handles = [handle(n) for n in names]
        cluster.run([tf.raw_ops.AssignVariableOp(resource=h, value=float(i)) for i, h in enumerate(handles)])
        reads = [tf.raw_ops.ReadVariableOp(resource=h, dtype=tf.float32) for h in handles]
    same(cluster.run(reads), [np.float32(i) for i in range(len(names))])
    tf.Session.reset(cluster.master, names[1:])
    with cluster.session() as sess:
        assert sess.run(reads[0]) == 0
        for read in reads[1:]:
            with raises(tf.errors.FailedPreconditionError, within=1):
                sess.run(read)


def test_bad_container_names_are_refused(cluster):
    with tf.device("/job:ps"):
        v = tf.raw_ops.VariableV2(shape=[], dtype=tf.float32, container="a b", shared_name="x")
    with raises(tf.errors.InvalidArgumentError, "container contains invalid characters", within=1):
        cluster.run(tf.assign(v, 1.0))


def test_destroyed_variables_are_gone(cluster):
    with tf.device("/job:ps"):
        h = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], container="", shared_name=cluster.name)
        make = tf.raw_ops.AssignVariableOp(resource=h, value=1.0)
        read = tf.raw_ops.ReadVariableOp(resource=h, dtype=tf.float32)
        drop = tf.raw_ops.DestroyResourceOp(resource=h, ignore_lookup_error=False)
    with cluster.session() as sess:
        sess.run(make), sess.run(read), sess.run(drop)
        with raises(tf.errors.FailedPreconditionError, cluster.name, within=1):
            sess.run(read)
        with raises(tf.errors.NotFoundError, within=1):
            sess.run(drop)
        sess.run(make)
        assert sess.run(read) == 1


def test_optimizers_train_on_the_ps(cluster):
    for resource in KINDS:
        for optimizer in (tf.train.GradientDescentOptimizer(0.1), tf.train.AdamOptimizer(0.1), tf.train.MomentumOptimizer(0.05, 0.5),
                          tf.train.AdagradOptimizer(0.5), tf.train.RMSPropOptimizer(0.05), tf.train.FtrlOptimizer(0.5)):
            with cluster.graph(), cluster.session() as sess:
                with tf.device("/job:ps"):
                    v = tf.Variable([4.0, -3.0], use_resource=resource)
                loss = tf.reduce_sum(tf.square(v))
                train = optimizer.minimize(loss)
                sess.run(tf.global_variables_initializer())
                before = sess.run(loss)
                for _ in range(30):
                    sess.run(train)
                assert sess.run(loss) < before / 2, optimizer.get_name()


def test_embeddings_train_on_the_ps(cluster):
    with tf.device("/job:ps"):
        table = tf.Variable(np.ones([10, 3], np.float32), use_resource=True)
    rows = tf.nn.embedding_lookup(table, [1, 5, 1])
    loss = tf.reduce_sum(tf.square(rows))
    train = tf.train.GradientDescentOptimizer(0.25).minimize(loss)
    with cluster.session() as sess:
        sess.run(table.initializer)
        sess.run(train)
        got = sess.run(table)
    want = np.ones([10, 3], np.float32)
    want[1], want[5] = 0.0, 0.5
    same(got, want)

"""The life of a session: graphs that grow, devices, closing, resetting, isolation."""
from support import Background, begins, np, raises, same, tf


def test_lists_the_devices_of_every_task(cluster):
    for target in cluster.targets.values():
        with cluster.session(target) as sess:
            devices = sess.list_devices()
        assert [d.name for d in devices if d.device_type == "CPU"], devices
        names = {d.name for d in devices}
        for task in ("ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1"):
            assert "/job:%s/device:CPU:0" % task in names, names
        assert all(d.memory_limit_bytes > 0 for d in devices), devices
        assert len({d.incarnation for d in devices}) == len(devices), devices


def test_a_graph_grows_between_runs(cluster):
    with cluster.session() as sess:
        total = tf.constant(1)
        for i in range(5):
            total = total + i
            assert sess.run(total) == 1 + sum(range(i + 1))


def test_a_node_that_cannot_be_placed_is_named(cluster):
    with tf.Graph().as_default(), cluster.session() as sess:
        with tf.device("/job:nowhere"):
            lost = tf.constant(1, name="lost")
        with raises(tf.errors.InvalidArgumentError, "/job:nowhere", "{{node lost}}"):
            sess.run(lost)


def test_threads_share_a_session(cluster):
    with cluster.session() as sess:
        x = tf.placeholder(tf.int64, [])
        with tf.device("/job:ps"):
            squared = x * x
        runs = [Background(lambda i=i: [sess.run(squared, {x: i * 10 + j}) for j in range(20)]) for i in range(6)]
        for i, run in enumerate(runs):
            assert run.result() == [(i * 10 + j) ** 2 for j in range(20)]


def test_sessions_of_one_client_are_apart(cluster):
    sessions = []
    for i in range(5):
        with tf.Graph().as_default() as graph:
            value = tf.constant(i, name="value")
            sessions.append((cluster.session(graph=graph), value))
    for i, (sess, value) in reversed(list(enumerate(sessions))):
        assert sess.run(value) == i
    for sess, _ in sessions:
        sess.close()


def test_an_unfed_placeholder_is_named(cluster):
    p = tf.placeholder(tf.float32, [None, 2], name="batch")
    with raises(tf.errors.InvalidArgumentError, "You must feed a value for placeholder tensor 'batch' with dtype float",
                op="batch", within=1):
        cluster.run(p * 2)
    with tf.device("/job:ps"):
        far = tf.placeholder(tf.int32, name="far")
    with raises(tf.errors.InvalidArgumentError, "You must feed a value for placeholder tensor 'far'", op="far", within=1):
        cluster.run(far + 1)


def test_closing_ends_running_steps(cluster):
    queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name=cluster.name)
    begun, take = begins(cluster, queue.dequeue)
    sess = cluster.session()
    with tf.device("/job:ps"):
        waiting = take + 1
    step = Background(sess.run, waiting)
    cluster.run(begun)
    with raises(tf.errors.DeadlineExceededError):
        sess.run(queue.dequeue(), options=tf.RunOptions(timeout_in_ms=300))
    sess.close()
    with raises(tf.errors.CancelledError, within=5):
        step.result()


def test_a_closed_session_is_refused(cluster):
    sess = cluster.session()
    one = tf.constant(1)
    sess.run(one)
    sess.close()
    with raises(RuntimeError, "closed Session"):
        sess.run(one)


def test_reset_closes_the_masters_sessions(cluster):
    target = cluster.target("worker", 1)
    one = tf.constant(1)
    old, other = cluster.session(target), cluster.session(cluster.target("worker", 0))
    old.run(one), other.run(one)
    tf.Session.reset(target, ["a_container_that_nobody_has"])
    with raises(tf.errors.AbortedError, "not found", within=1):
        old.run(one)
    assert other.run(one) == 1
    assert cluster.run(one, target=target) == 1
    other.close()


def test_reset_frees_containers_everywhere(cluster):
    def variable(task, container):
        with tf.device(task), tf.container(container):
            return tf.Variable(1.0, use_resource=False)

    kept, freed = cluster.name + "_kept", cluster.name + "_freed"
    everywhere = [variable(task, freed) for task in ("/job:ps", "/job:worker/task:0", "/job:worker/task:1")]
    other = variable("/job:ps", kept)
    cluster.run([v.initializer for v in everywhere + [other]])
    tf.Session.reset(cluster.master, [freed])
    for v in everywhere:
        with raises(tf.errors.FailedPreconditionError, "uninitialized value", within=1):
            cluster.run(v)
    assert cluster.run(other) == 1.0
    tf.Session.reset(cluster.master, [kept])


def test_isolated_sessions_share_nothing(cluster):
    with tf.device("/job:ps"):
        v = tf.Variable(1.0, use_resource=True)
        read = v.read_value()
    cluster.run(v.initializer)
    first, second = (cluster.session(isolate_session_state=True) for _ in range(2))
    first.run(v.initializer)
    assert first.run(read) == 1.0
    with raises(tf.errors.FailedPreconditionError):
        second.run(read)
    first.run(v.assign(5.0).op)
    assert cluster.run(read) == 1.0
    first.close(), second.close()


def test_variables_outlive_their_session(cluster):
    with tf.device("/job:worker/task:1"):
        v = tf.Variable(41.0, use_resource=True, name=cluster.name)
        up = v.assign_add(1.0, read_value=False)
    cluster.run(v.initializer)
    cluster.run(up, target=cluster.target("ps"))
    assert cluster.run(v.read_value(), target=cluster.target("worker", 1)) == 42.0


def test_device_filters_hide_tasks(cluster):
    with cluster.session(device_filters=["/job:ps"]) as sess:
        names = {d.name for d in sess.list_devices()}
        assert "/job:ps/replica:0/task:0/device:CPU:0" in names, names
        assert "/job:worker/replica:0/task:0/device:CPU:0" in names, "the master's own task is always there: %s" % names
        assert "/job:worker/replica:0/task:1/device:CPU:0" not in names, names
        with tf.device("/job:worker/task:1"):
            hidden = tf.constant(1, name="hidden")
        with raises(tf.errors.InvalidArgumentError, "/job:worker/task:1", "{{node hidden}}", within=1):
            sess.run(hidden)


def test_what_a_session_does_not_support_says_so(cluster):
    with raises(tf.errors.InvalidArgumentError, "use_per_session_threads", within=1):
        cluster.run(tf.constant(1), use_per_session_threads=True)


def test_large_tensors_travel(cluster):
    x = tf.placeholder(tf.float32, [None])
    with tf.device("/job:ps"):
        there = x + 1
    with tf.device("/job:worker/task:1"):
        back = there * 2
    value = np.arange(3 << 20, dtype=np.float32)
    same(cluster.run(back, {x: value}), (value + 1) * 2)


def test_errors_of_other_tasks_name_task_and_node(cluster):
    with tf.device("/job:ps"):
        wrong = tf.reshape(tf.placeholder(tf.float32, name="values"), [2, 2], name="squared")
    with raises(tf.errors.InvalidArgumentError, "/job:ps/replica:0/task:0", op="squared", within=1):
        cluster.run(wrong + 1, {"values:0": [1.0, 2.0, 3.0]})


def test_an_error_leaves_the_session_usable(cluster):
    p = tf.placeholder(tf.float32, name="p")
    r = tf.reshape(p, [2])
    with cluster.session() as sess:
        for _ in range(3):
            with raises(tf.errors.InvalidArgumentError, "3 values, but the requested shape has 2"):
                sess.run(r, {p: [1, 2, 3]})
            same(sess.run(r, {p: [1, 2]}), np.float32([1, 2]))


def test_collected_steps_of_a_dead_session_wait_for_nobody(cluster):
    queue = tf.FIFOQueue(10, [tf.int32], shapes=[[]], shared_name=cluster.name)
    put, size = queue.enqueue(5), queue.size()
    begun, take = begins(cluster, queue.dequeue)
    first = cluster.session()
    step = Background(first.run, take)
    cluster.run(begun)
    first.close()
    with raises(tf.errors.CancelledError, within=5):
        step.result()
    with cluster.session() as sess:
        sess.run(put)
        assert sess.run(size) == 1, "the dead session's step took the element"


def test_tensors_stay_in_the_session(cluster):
    """Handles of tensors that one run leaves where they are for later ones."""
    with cluster.graph():
        with tf.device("/job:ps/task:0"):
            handle = tf.get_session_handle(tf.constant([[1.0, 2.0]]) * 3)
        with cluster.session() as sess, cluster.session() as other:
            h = sess.run(handle)
            assert "/job:ps/replica:0/task:0" in h.handle, h.handle
            holder, value = tf.get_session_tensor(h.handle, tf.float32)
            for _ in range(2):
                assert sess.run(value + 1, {holder: h.handle}).tolist() == [[4.0, 7.0]]
            with raises(tf.errors.InvalidArgumentError, "is not in the session store"):
                other.run(value, {holder: h.handle})
            raw = h.get_raw_handle()
            holder, delete = tf.delete_session_tensor(raw)
            sess.run(delete, {holder: raw})
            with raises(tf.errors.InvalidArgumentError, "Failed to delete a tensor with handle"):
                sess.run(delete, {holder: raw})

"""Clusters that a client declares with its session (ConfigProto.cluster_def), over servers that were started as others."""
from support import np, raises, same, tf
from tensorflow.core.protobuf import cluster_pb2, config_pb2


def at(task):
    """"ps/0" as the job and the index."""
    job, index = task.split("/")
    return job, int(index)


def declare(cluster, **jobs):
    """A config that makes tasks of servers: job="names of the shared cluster's tasks". Sessions share their resources."""
    config = config_pb2.ConfigProto()
    config.experimental.share_session_state_in_clusterspec_propagation = True
    for name, tasks in sorted(jobs.items()):
        job = config.cluster_def.job.add(name=name)
        for i, task in enumerate(tasks.split()):
            job.tasks[i] = cluster.address(*at(task))
    return config


def open_session(cluster, target, config):
    return tf.Session(cluster.target(*at(target)), config=config)


def test_names_are_those_of_the_client(cluster):
    config = declare(cluster, chief="worker/0", helper="worker/1 ps/0")
    with tf.Graph().as_default(), open_session(cluster, "worker/0", config) as sess:
        names = {d.name for d in sess.list_devices()}
        assert names == {"/job:%s/replica:0/task:%d/device:CPU:0" % t for t in (("chief", 0), ("helper", 0), ("helper", 1))}, names
        with tf.device("/job:helper/task:1"):
            far = tf.constant([1.0, 2.0])
        with tf.device("/job:helper/task:0"):
            doubled = far * 2
        with tf.device("/job:chief"):
            total = tf.reduce_sum(doubled)
        assert sess.run(total) == 6.0
        metadata = tf.RunMetadata()
        sess.run(total, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
        assert {d.device.split("/device")[0] for d in metadata.step_stats.dev_stats} == {n.split("/device")[0] for n in names}
        with tf.device("/job:worker"):
            lost = tf.constant(1, name="of_the_servers_own_cluster")
        with raises(tf.errors.InvalidArgumentError, "/job:worker"):
            sess.run(lost)


def test_variables_are_the_servers(cluster):
    name = cluster.name + "_shared"
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    with tf.Graph().as_default():
        with tf.device("/job:there"):
            v = tf.get_variable(name, initializer=value)
        config = declare(cluster, here="worker/0", there="ps/0")
        with open_session(cluster, "worker/0", config) as sess:
            sess.run(v.initializer)
        # Another client calls the same servers by other names, and finds the same variable.
    with tf.Graph().as_default():
        with tf.device("/job:second/task:1"):
            v = tf.get_variable(name, initializer=value)
        with open_session(cluster, "worker/1", declare(cluster, second="worker/1 ps/0")) as sess:
            same(sess.run(v), value)
            sess.run(v.assign_add(value))
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable(name, initializer=value)
        with cluster.session() as sess:
            same(sess.run(v), 2 * value)


def test_sessions_have_resources_of_their_own(cluster):
    config = declare(cluster, here="worker/0", there="ps/0")
    config.experimental.share_session_state_in_clusterspec_propagation = False
    with tf.Graph().as_default():
        with tf.device("/job:there"):
            v = tf.get_variable(cluster.name + "_own", initializer=37)
        with open_session(cluster, "worker/0", config) as first, open_session(cluster, "worker/0", config) as second:
            first.run(v.initializer)
            assert first.run(v) == 37
            with raises(tf.errors.FailedPreconditionError):
                second.run(v)
            second.run(tf.assign(v, 86))
            assert first.run(v) == 37


def test_sessions_share_a_declared_cluster(cluster):
    config = declare(cluster, a="worker/0", b="worker/1")
    with tf.Graph().as_default():
        with tf.device("/job:b"):
            x = tf.placeholder(tf.int32, [])
            y = x + 1
        sessions = [open_session(cluster, "worker/0", config) for _ in range(3)]
        for i, sess in enumerate(sessions):
            assert sess.run(y, {x: i}) == i + 1
        sessions[0].close()
        with raises(RuntimeError, "closed"):
            sessions[0].run(y, {x: 0})
        assert sessions[1].run(y, {x: 4}) == 5
        for sess in sessions[1:]:
            sess.close()


def test_a_new_master_ends_its_namesakes_sessions(cluster):
    old, new = "worker/0", "worker/1"
    for isolated in (False, True):
        with tf.Graph().as_default():
            with tf.device("/job:replaced/task:0"):
                a = tf.constant(5)
            with tf.device("/job:helper/task:0"):
                b = a + 1
            configs = [declare(cluster, replaced=master, helper="ps/0") for master in (old, new)]
            for config in configs:
                config.isolate_session_state = isolated
            other = open_session(cluster, old, declare(cluster, other=old, helper="ps/0"))
            assert len(other.list_devices()) == 2
            sess_old = open_session(cluster, old, configs[0])
            assert len(sess_old.list_devices()) == 2
            assert sess_old.run(b) == 6
            sess_new = open_session(cluster, new, configs[1])
            assert len(sess_new.list_devices()) == 2
            assert sess_new.run(b) == 6
            with raises(tf.errors.AbortedError, "Session handle is not found", cluster.address(*at(new))):
                sess_old.run(b)
            assert len(other.list_devices()) == 2
            assert sess_new.run(b) == 6
            for sess in (sess_old, sess_new, other):
                sess.close()


def test_the_cluster_that_is_there_may_be_declared(cluster):
    config = declare(cluster, ps="ps/0", worker="worker/0 worker/1")
    with tf.Graph().as_default(), open_session(cluster, "worker/1", config) as sess:
        with tf.device("/job:ps"):
            c = tf.constant(3)
        assert sess.run(c) == 3


def test_what_cannot_be_declared_is_refused(cluster):
    with tf.Graph().as_default():
        c = tf.constant(1)
        for config, error, words in (
            (declare(cluster, other="worker/1"), tf.errors.InvalidArgumentError, "not included in the provided cluster_def"),
            (declare(cluster, one="worker/0", two="worker/0"), tf.errors.InvalidArgumentError, "worker"),
        ):
            with raises(error, *([words] if "included" in words else [])):
                open_session(cluster, "worker/0", config).run(c)
        nobody = declare(cluster, here="worker/0")
        nobody.cluster_def.job.add(name="gone").tasks[0] = "localhost:1"
        with raises(tf.errors.UnavailableError, "/job:gone/replica:0/task:0", "localhost:1"):
            open_session(cluster, "worker/0", nobody).run(c)

"""A worker that starts before its parameter server, which comes at last. The functions whose names end in _long are for long runs."""
import tempfile

from support import Background, tf

PS = "/job:ps/replica:0/task:0"
LATE, LONG = 6.0, 30.0  # seconds; both exceed the wait for a task that was lost


def model():
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
    return step.assign_add(1)


def comes(cluster, train, late):
    """Runs train, and starts the parameter server when it has waited for a while. It returns train's result."""
    work = Background(train)
    work.join(late)
    assert work.is_alive(), work.result()
    cluster.start("ps")
    return work.result(20 * cluster.slack)


def by_session(cluster, late):
    train, start, graph = model(), tf.global_variables_initializer(), tf.get_default_graph()

    def run():
        with cluster.session(graph=graph, operation_timeout_in_ms=90000) as sess:
            sess.run(start)
            return sess.run(train)
    assert comes(cluster, run, late) == 1


def by_supervisor(cluster, late):
    train = model()
    supervisor = tf.train.Supervisor(logdir=tempfile.mkdtemp(), is_chief=True, save_model_secs=0, save_summaries_secs=0)

    def run():
        with supervisor.managed_session(cluster.master) as sess:
            return sess.run(train)
    assert comes(cluster, run, late) == 1


def by_monitored_session(cluster, late):
    train, graph = model(), tf.get_default_graph()

    def run():
        with graph.as_default(), tf.train.MonitoredTrainingSession(cluster.master) as sess:
            return sess.run(train)
    assert comes(cluster, run, late) == 1


def by_sync_replicas(cluster, late):
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
        weight = tf.get_variable("weight", initializer=2.)
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.25), replicas_to_aggregate=1, total_num_replicas=1)
        train = optimizer.minimize(tf.square(weight), global_step=tf.train.get_or_create_global_step())
    graph = tf.get_default_graph()

    def run():
        # The chief's thread waits for gradients when the training ends, so there is nothing to wait for in closing.
        with graph.as_default(), tf.train.MonitoredTrainingSession(cluster.master, stop_grace_period_secs=0, hooks=[optimizer.make_session_run_hook(True, num_tokens=1)]) as sess:
            sess.run(train)
            sess.run(train)
            return sess.run(weight)
    assert comes(cluster, run, late) in (0.5, 1.)  # the second step's gradients may not be applied yet


def test_session(cluster):
    by_session(cluster, LATE)


def test_supervisor(cluster):
    by_supervisor(cluster, LATE)


def test_monitored_session(cluster):
    by_monitored_session(cluster, LATE)


def test_sync_replicas(cluster):
    by_sync_replicas(cluster, LATE)


def test_session_long(cluster):
    by_session(cluster, LONG)


def test_supervisor_long(cluster):
    by_supervisor(cluster, LONG)


def test_monitored_session_long(cluster):
    by_monitored_session(cluster, LONG)


def test_sync_replicas_long(cluster):
    by_sync_replicas(cluster, LONG)

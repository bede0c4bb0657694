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


def test_session(cluster):
    by_session(cluster, LATE)


def test_supervisor(cluster):
    by_supervisor(cluster, LATE)


def test_monitored_session(cluster):
    by_monitored_session(cluster, LATE)


def test_session_long(cluster):
    by_session(cluster, LONG)


def test_supervisor_long(cluster):
    by_supervisor(cluster, LONG)


def test_monitored_session_long(cluster):
    by_monitored_session(cluster, LONG)

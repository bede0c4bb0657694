"""Synchronous training with SyncReplicasOptimizer: one parameter server and two workers, in lockstep. What it
gives is compared with what TensorFlow's own servers give for the same data."""
import socket

from support import Background, np, tf

ROUNDS = 10
ROWS = 7  # of the embedding, whose gradients are sparse


class Worker:
    """One worker's part: its graph, and its session with the master at target."""

    def __init__(self, target, index, resources):
        self.index = index
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:%d" % index)):
                self._model(resources)
                optimizer = tf.train.SyncReplicasOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), replicas_to_aggregate=2, total_num_replicas=2)
                self.train = optimizer.minimize(self.loss, global_step=self.global_step)
            # Without a spare token nobody gets ahead: every gradient is of the newest variables. The chief's
            # thread waits for gradients when the training ends, so there is nothing to wait for in closing.
            self.session = tf.train.MonitoredTrainingSession(
                target, is_chief=index == 0, stop_grace_period_secs=0,
                hooks=[optimizer.make_session_run_hook(index == 0, num_tokens=0)])

    def _model(self, resources):
        start = np.random.RandomState(3)
        with tf.variable_scope("", use_resource=resources):
            weights = tf.get_variable("weights", initializer=start.randn(4, 1).astype(np.float32))
            rows = tf.get_variable("rows", initializer=start.randn(ROWS, 4).astype(np.float32))
            self.global_step = tf.train.get_or_create_global_step()
        self.ids = tf.placeholder(tf.int32, [None])
        self.wanted = tf.placeholder(tf.float32, [None, 1])
        self.loss = tf.reduce_mean(tf.squared_difference(tf.matmul(tf.gather(rows, self.ids), weights), self.wanted))

    def step(self, number):
        random = np.random.RandomState(100 * number + self.index)
        ids = random.randint(0, ROWS, 5)
        return self.session.run([self.loss, self.train], {self.ids: ids, self.wanted: np.sin(ids[:, None])})[0]


def together(workers, number):
    """A round: both workers' steps, which end when both have brought their gradients."""
    return [b.result() for b in [Background(w.step, number) for w in workers]]


def start(targets, resources):
    return [Worker(t, i, resources) for i, t in enumerate(targets)]  # the chief initializes the variables first


def finish(workers):
    step = workers[0].session.run(workers[0].global_step)
    for w in reversed(workers):
        w.session.close()
    return step


def on_tensorflow(resources):
    """The losses of the training on servers of TensorFlow in this process."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(3)]
    addresses = ["localhost:%d" % s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    spec = tf.train.ClusterSpec({"ps": addresses[:1], "worker": addresses[1:]})
    servers = [tf.distribute.Server(spec, job, i) for job, i in (("ps", 0), ("worker", 0), ("worker", 1))]
    workers = start([s.target for s in servers[1:]], resources)
    losses = [together(workers, i) for i in range(ROUNDS)]
    assert finish(workers) == ROUNDS
    return losses


def targets(cluster):
    return [cluster.target("worker", 0), cluster.target("worker", 1)]


def same_losses(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert np.mean(got[-1]) < 0.5 * np.mean(got[0]), "nothing was learned: %s" % got


def losses_are_those_of_tensorflow(cluster, resources):
    workers = start(targets(cluster), resources)
    got = [together(workers, i) for i in range(ROUNDS)]
    assert finish(workers) == ROUNDS
    same_losses(got, on_tensorflow(resources))


def test_losses_are_those_of_tensorflow(cluster):
    losses_are_those_of_tensorflow(cluster, False)


def test_losses_are_those_of_tensorflow_with_resource_variables(cluster):
    losses_are_those_of_tensorflow(cluster, True)


def test_a_restarted_worker_rejoins(cluster):
    """A worker is lost in the middle of a step of the other one, and comes back: no gradient is lost for it."""
    middle = ROUNDS // 2
    workers = start(targets(cluster), False)
    got = [together(workers, i) for i in range(middle)]
    waiting = Background(workers[0].step, middle)
    cluster.kill("worker", 1)
    cluster.start("worker", 1)
    second = workers[1].step(middle)  # by way of a new session
    got.append([waiting.result(), second])
    got += [together(workers, i) for i in range(middle + 1, ROUNDS)]
    assert finish(workers) == ROUNDS
    same_losses(got, on_tensorflow(False))

"""A training during which each task is replaced in turn by a process of another version. Each case has a cluster of its own."""
import tempfile
import threading

from support import LIMIT_MS, eventually, tf

SAVE_STEPS = 10  # between checkpoints
MORE_STEPS = 25  # of each client between two replacements


class Creator(tf.train.SessionCreator):
    """MonitoredTrainingSession's, but that it asks every 0.1 s, not every 30 s, whether the chief has restored the variables."""

    def __init__(self, master, scaffold, folder, config):
        self._master, self._scaffold, self._folder, self._config = master, scaffold, folder, config  # folder: None but for the chief

    def create_session(self):
        scaffold = self._scaffold.finalize()
        manager = tf.train.SessionManager(local_init_op=scaffold.local_init_op, ready_op=scaffold.ready_op,
                                          ready_for_local_init_op=scaffold.ready_for_local_init_op,
                                          graph=tf.get_default_graph(), recovery_wait_secs=0.1)
        if self._folder is None:
            return manager.wait_for_session(self._master, config=self._config, max_wait_secs=60)
        return manager.prepare_session(self._master, saver=scaffold.saver, checkpoint_dir=self._folder, config=self._config,
                                       init_op=scaffold.init_op)


class Count(tf.train.SessionRunHook):
    """Counts the sessions of a client, and checks that none starts before the last checkpoint."""

    def __init__(self, folder):
        self.sessions, self.first, self._folder = 0, [], folder

    def after_create_session(self, session, coord):
        self.sessions += 1
        saved = tf.train.latest_checkpoint(self._folder)
        at = session.run(tf.train.get_global_step())
        self.first.append(int(at))
        if saved is not None:
            number = int(saved.rpartition("-")[2])
            assert at >= number, "the session begins at step %d, before checkpoint %d" % (at, number)


class Trainer(threading.Thread):
    """A worker's client. MonitoredSession survives ABORTED and UNAVAILABLE by a new session; any other error ends it."""

    def __init__(self, cluster, task, folder):
        super().__init__(name="trainer %d" % task, daemon=True)
        self._cluster, self._task, self._folder = cluster, task, folder
        self._over = threading.Event()
        self.steps, self.loss, self.error, self.count = 0, None, None, Count(folder)

    def run(self):
        try:
            with tf.Graph().as_default(), tf.container(self._cluster.name):
                self._train()
        except BaseException as e:  # pylint: disable=broad-except
            self.error = e

    def _train(self):
        with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % self._task, ps_tasks=1)):
            weight = tf.get_variable("weight", [8], initializer=tf.ones_initializer())
            step = tf.train.get_or_create_global_step()
            loss = tf.reduce_mean(tf.square(weight - 3.0))
            train = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
        # A worker's session needs no other worker.
        config = tf.ConfigProto(operation_timeout_in_ms=LIMIT_MS, device_filters=["/job:ps", "/job:worker/task:%d" % self._task])
        scaffold, hooks, chief = tf.train.Scaffold(), [self.count], self._task == 0
        if chief:
            hooks.append(tf.train.CheckpointSaverHook(self._folder, save_steps=SAVE_STEPS, scaffold=scaffold))
        creator = Creator(self._cluster.target("worker", self._task), scaffold, self._folder if chief else None, config)
        with tf.train.MonitoredSession(session_creator=creator, hooks=hooks) as sess:
            while not self._over.is_set():
                self.loss = sess.run([loss, train])[0]
                self.steps += 1

    def goes_on(self):
        """Waits for further steps."""
        until = self.steps + MORE_STEPS

        def reached():
            if self.error is not None:
                raise self.error
            return self.steps >= until
        eventually(reached, limit=60 * self._cluster.slack)

    def end(self):
        self._over.set()
        self.join(60)
        assert not self.is_alive(), "%s hangs" % self.name
        if self.error is not None:
            raise self.error


def test_training_goes_on_while_tasks_are_replaced(cluster):
    with tempfile.TemporaryDirectory() as folder:
        trainers = [Trainer(cluster, task, folder) for task in range(2)]
        for t in trainers:
            t.start()
        for t in trainers:
            t.goes_on()
        for job, task in ("worker", 1), ("worker", 0), ("ps", 0):
            before = [t.count.sessions for t in trainers]
            cluster.replace(job, task)
            for t in trainers:
                t.goes_on()
            more = [t.count.sessions - n for t, n in zip(trainers, before)]
            print("%s:%d replaced: new sessions of the clients: %s" % (job, task, more))
            assert max(more) <= 1, "a client failed more than once: %s" % more
            if job == "worker":
                assert more[1 - task] == 0, "the other worker's client failed, too"
            else:
                assert more == [1, 1], "the variables were lost, and nobody noticed: %s" % more
        for t in trainers:
            t.end()
        assert max(t.loss for t in trainers) < 4.0, [t.loss for t in trainers]
        print("steps: %s, first steps of the sessions: %s" % ([t.steps for t in trainers], [t.count.first for t in trainers]))

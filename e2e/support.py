"""What the cases of cases/ share: TensorFlow in graph mode, a view of the cluster, checks."""
import contextlib
import functools
import threading
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

# No operation of a test waits longer than this: what hangs becomes a DeadlineExceededError.
LIMIT_MS = 20000


class Cluster:
    """The tasks of a running cluster, by name."""

    def __init__(self, name, targets, ask, slack):
        self._ask = ask
        self.slack = slack  # widens bounds of time where the servers are slow on purpose
        self.name = name  # unique to the case: for shared names and containers
        self.targets = targets  # "ps:0" -> "grpc://127.0.0.1:…"
        self._graphs = 0
        self.master = targets.get("worker:0") or next(iter(targets.values()))

    def target(self, job, task=0):
        return self.targets["%s:%d" % (job, task)]

    def address(self, job, task=0):
        return self.target(job, task)[len("grpc://"):]

    def kill(self, job, task=0):
        """Ends the task's process without warning."""
        self._ask("kill", "%s:%d" % (job, task))

    def freeze(self, job, task=0):
        """Stops the task's process from running at all."""
        self._ask("freeze", "%s:%d" % (job, task))

    def thaw(self, job, task=0):
        self._ask("thaw", "%s:%d" % (job, task))

    def terminate(self, job, task=0):
        """Asks the task to stop as a service manager does, and waits until it has, with exit code 0."""
        self._ask("terminate", "%s:%d" % (job, task))

    def start(self, job, task=0):
        """Starts the task's process, and waits until it answers."""
        self._ask("start", "%s:%d" % (job, task))

    def replace(self, job, task=0):
        """Has the task stop, starts a process of another version in its place, and waits until that answers."""
        self._ask("replace", "%s:%d" % (job, task))

    def hold(self, proxy):
        """Loses what the server behind the proxy answers, until cut()."""
        self._ask("hold", proxy + ":0")

    def cut(self, proxy):
        """Breaks the proxy's connections; new ones are whole."""
        self._ask("cut", proxy + ":0")

    def vanish(self, what):
        """Ends this very process without warning."""
        self._ask("vanish", what + ":0")

    def session(self, target=None, graph=None, **config):
        """A session with a bound on all its operations; `config` are ConfigProto's fields."""
        config.setdefault("operation_timeout_in_ms", LIMIT_MS)
        return tf.Session(target or self.master, graph=graph, config=tf.ConfigProto(**config))

    @contextlib.contextmanager
    def graph(self):
        """A graph of its own, with a container of its own."""
        self._graphs += 1
        with tf.Graph().as_default() as graph, tf.container("%s.%d" % (self.name, self._graphs)):
            yield graph

    def run(self, fetches, feeds=None, target=None, **config):
        with self.session(target, **config) as sess:
            return sess.run(fetches, feeds)


class Raised:
    """What a block of raises() raised: seconds until then, the message."""

    seconds = message = None


@contextlib.contextmanager
def raises(error, *texts, op=None, within=None):
    """Checks that the block raises exactly that class (or one of them), with these texts in the message.

    `op` is the name of the node that the exception must point at, `within` a bound in seconds.
    """
    start = time.monotonic()
    seen = Raised()
    try:
        yield seen
    except Exception as e:  # pylint: disable=broad-except
        took = seen.seconds = time.monotonic() - start
        if type(e) not in (error if isinstance(error, tuple) else (error,)):
            raise
        message = getattr(e, "message", None) or str(e)
        for text in texts:
            assert text in message, "%r is not in the message of this %s: %s" % (text, type(e).__name__, message)
        if op is not None:
            assert e.op is not None and e.op.name == op, "the error names %s, not %s: %s" % (e.op and e.op.name, op, message)
        seen.message = message
        assert within is None or took < within, "refused after %.2f s, not within %.2f s: %s" % (took, within, message)
    else:
        raise AssertionError("nothing was raised, not %s" % (error,))


def eventually(condition, limit=10.0):
    """Asks until the condition holds and returns what it gave; each question goes to the server."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "still not so after %g s: %s" % (limit, condition)


class Background(threading.Thread):
    """Calls a function on a thread of its own; result() waits, bounded, and raises what it raised."""

    def __init__(self, function, *args, **kwargs):
        super().__init__(daemon=True)
        self._call = functools.partial(function, *args, **kwargs)
        self._value = self._error = None
        self.start()

    def run(self):
        try:
            self._value = self._call()
        except BaseException as e:  # pylint: disable=broad-except
            self._error = e

    def result(self, limit=20.0):
        self.join(limit)
        assert not self.is_alive(), "still running after %g s" % limit
        if self._error is not None:
            raise self._error
        return self._value


def begins(cluster, make):
    """The op that `make` returns, and one that waits until a step with that op has begun on the server."""
    begun = tf.FIFOQueue(1, tf.bool, shapes=[[]], shared_name=cluster.name + "_begun")
    with tf.control_dependencies([begun.enqueue(True)]):
        op = make()
    return begun.dequeue(), op


def control_flow_v2(case):
    """Runs a case with functional control flow and resource variables, as TensorFlow 2 has them."""

    @functools.wraps(case)
    def wrapped(cluster):
        tf.enable_control_flow_v2()
        tf.enable_resource_variables()
        try:
            return case(cluster)
        finally:
            tf.disable_control_flow_v2()
            tf.disable_resource_variables()

    return wrapped


def placed(sess, fetch, feeds=None):
    """Runs a step and tells on which device each node ran."""
    metadata = tf.RunMetadata()
    sess.run(fetch, feeds, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return {n.name: n.device for g in metadata.partition_graphs for n in g.node}


def same(got, want):
    """Checks values, dtypes and shapes of two arrays (or lists of them)."""
    if isinstance(want, (list, tuple)) and isinstance(got, (list, tuple)):
        assert len(got) == len(want), (got, want)
        for g, w in zip(got, want):
            same(g, w)
        return
    got, want = np.asarray(got), np.asarray(want)
    if want.dtype.kind in "OS":  # strings: the client gives objects, or bytes for a scalar
        assert got.tolist() == want.tolist(), "%s, not %s" % (got, want)
        return
    assert got.shape == want.shape, "shape %s, not %s" % (got.shape, want.shape)
    assert got.dtype == want.dtype, "dtype %s, not %s" % (got.dtype, want.dtype)
    assert np.array_equal(got, want, equal_nan=want.dtype.kind in "fc"), "%s, not %s" % (got, want)

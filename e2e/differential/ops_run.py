"""Runs calls on TensorFlow's server and on Troupe, many to a session, and finds those that differ."""
import concurrent.futures
import threading
import time

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import versions_pb2
from tensorflow.core.protobuf import rewriter_config_pb2

import reference
from ops_call import declaration
from ops_compare import Outcome, difference

TIMEOUT_MS = 10000
THEIR_TIMEOUT_MS = 4000  # less, since a client waits for as long for a server that has ended
HANG_S = 30  # TensorFlow's server, which does not end a kernel whose time is over, is ended itself


def config(timeout_ms):
    c = tf.ConfigProto(operation_timeout_in_ms=timeout_ms)
    c.graph_options.rewrite_options.disable_meta_optimizer = True
    c.graph_options.rewrite_options.constant_folding = rewriter_config_pb2.RewriterConfig.OFF
    c.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    c.graph_options.optimizer_options.do_constant_folding = False
    return c


class Refused(Exception):
    """The client takes the call in no form."""


def removed(call):
    """The version of graphs from which on they may not have the op, or 0."""
    return declaration(call.op).deprecation.version


def build(calls):
    """A graph of calls: what to fetch and feed for each, None where the client refuses."""
    graph, parts = tf.Graph(), []
    with graph.as_default(), tf.device("/cpu:0"):
        if removed(calls[0]):
            tf.import_graph_def(tf.GraphDef(versions=versions_pb2.VersionDef(producer=removed(calls[0]) - 1)))
        for i, call in enumerate(calls):
            built = None
            for form in (call, call.changed(constant=False)) if call.constant else (call,):
                try:
                    built = form.build("c%d" % i)
                    break
                except (ValueError, TypeError, IndexError, tf.errors.OpError) as e:
                    refusal = e
            call.refusal = None if built else refusal
            parts.append(built)
    return graph, parts


def run_graph(target, graph, parts, alive):
    """The outcomes of a graph's calls on a server, each fetched on its own."""
    outcomes = []
    session = tf.Session(target, graph=graph, config=config(TIMEOUT_MS if alive is always else THEIR_TIMEOUT_MS))
    try:
        for part in parts:
            if part is None:
                outcomes.append(None)
                continue
            start = time.monotonic()
            try:
                outcomes.append(Outcome([x for x in session.run(part[0], part[1]) if x is not None]))
            except tf.errors.OpError as e:
                outcomes.append(Outcome(error=type(e).__name__, message=e.message))
                if isinstance(e, tf.errors.UnavailableError) and alive is always:
                    raise  # the server to compare is gone
                if not alive():
                    outcomes[-1] = Outcome(error="Crash", message="the server ended")
                    break
            except (ValueError, TypeError) as e:  # the client cannot read what came
                outcomes.append(Outcome(error="Client", message=str(e)))
            outcomes[-1].seconds = time.monotonic() - start
    finally:
        if alive():
            close(session, outcomes)
        else:
            session._session = None  # closing it would wait for the server
    return outcomes


def close(session, outcomes):
    """Closes the session. One with a call that hangs need not close in time."""
    try:
        session.close()
    except tf.errors.OpError:
        if not any(o and o.error == "DeadlineExceededError" for o in outcomes):
            raise


def always():
    return True


class Pair:
    """TensorFlow's server and the one to compare with it."""

    def __init__(self, ours):
        self.ours, self.crashed, self.crashes = ours, [], {}
        self.servers = reference.Servers(worker=1)

    def close(self):
        self.servers.stop()

    def alone(self, target, call):
        graph, parts = build([call])
        return run_graph(target, graph, parts, always)[0]

    def run_theirs(self, graph, parts):
        hung = threading.Timer(HANG_S, self.servers.stop)
        hung.start()
        try:
            return run_graph(self.servers.targets["worker:0"], graph, parts, self.servers.running)
        finally:
            hung.cancel()

    def lost(self, theirs, count):
        """Which call ended TensorFlow's server, or is still running there, which holds up the next ones; None if none does."""
        hung = [i for i, t in enumerate(theirs) if t and t.error == "DeadlineExceededError"]
        if hung:
            return hung[0]
        return len(theirs) - 1 if len(theirs) < count or not self.servers.running() else None

    def run(self, calls):
        """For each call TensorFlow's outcome and ours; None for one that the client refuses, or that ends TensorFlow's server."""
        old = [c for c in calls if removed(c)]
        if old and len(calls) > 1:  # each in a graph of its time
            new = iter(self.run([c for c in calls if not removed(c)]))
            return [self.run([c])[0] if removed(c) else next(new) for c in calls]
        if not calls:
            return []
        graph, parts = build(calls)
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            ours = other.submit(run_graph, self.ours, graph, parts, always)
            theirs = self.run_theirs(graph, parts)
            ours = ours.result()
        while (at := self.lost(theirs, len(calls))) is not None:
            self.crashed.append(calls[at])
            print("ends TensorFlow's server: %r" % calls[at], flush=True)
            self.crashes[calls[at].op] = self.crashes.get(calls[at].op, 0) + 1
            self.servers.restart()
            theirs = theirs[:at] + [None] + self.run_theirs(graph, parts[at + 1:])
        pairs = [(t, o) if t is not None and o is not None else None for t, o in zip(theirs, ours)]
        if len(calls) > 1 and all(p is None or p[1].error or p[0].error for p in pairs):
            # One node that a server does not take spoils a graph for all.
            return [p and self.run([c])[0] for p, c in zip(pairs, calls)]
        # What differs has to differ in a graph of its own, too.
        return [p and (self.run([c])[0] if len(calls) > 1 and difference(c, *p) else p) for p, c in zip(pairs, calls)]

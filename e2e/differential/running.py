"""Runs programs on two clusters, action by action in lockstep, and finds where they differ."""
import threading

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import config_pb2

from build import Builder
from calls import Calls
from outcomes import HANGS, Difference, Outcome, attempt, same


class Side:
    """A program's graph and its sessions on one cluster."""

    def __init__(self, program, builder, targets, timeout):
        self._program = program
        self._builder = builder
        self._targets = targets
        self._timeout = timeout
        self._sessions = {}
        self._signatures = {}

    def close(self):
        for session in self._sessions.values():
            attempt(lambda s=session: [s.close()])
        self._sessions = {}

    def _session(self, number):
        number = number if number in self._sessions else 0
        if number not in self._sessions:
            self.open(0, self._program.master)
        return self._sessions[number]

    def open(self, number, task):
        config = tf.ConfigProto(operation_timeout_in_ms=int(self._timeout * 1000))
        if not self._program.grappler:
            config.graph_options.rewrite_options.disable_meta_optimizer = True
        if not self._program.folds:
            config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
        self._sessions[number] = tf.Session(self._targets[task], graph=self._builder.graph, config=config)

    def initialize(self):
        """Gives the newest variables their values."""
        ops = self._builder.initializers
        return [attempt(lambda: [self._session(0).run(ops)])] if ops else []

    def _calls(self, steps, **how):
        """The calls of steps. TensorFlow's master takes one step for another where the names of feeds, fetches and targets in a
        row are the same, so that what is fed to one may be what the other fetches: such a second step is left out."""
        calls = Calls(self._builder, **how)
        made = [call for call in map(calls.call, steps) if call]
        return [call for call in made if self._signatures.setdefault(call.names(), call.lengths()) == call.lengths()]

    def perform(self, action):
        """The outcomes of an action's calls."""
        return getattr(self, "_" + action.kind)(action)

    def _run(self, action):
        return [attempt(lambda c=call: c.run(self._session(action.session))) for call in self._calls(action.steps[:1])]

    def _parallel(self, action):
        calls = self._calls(action.steps, variables=False)
        outcomes = [None] * len(calls)
        session = self._session(action.session)

        def run(k):
            outcomes[k] = attempt(lambda: calls[k].run(session))

        threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(len(calls))]
        for t in threads:
            t.start()
        for t in threads:
            t.join(2 * self._timeout)
        return [o or Outcome(error="Hang") for o in outcomes]

    def _callable(self, action):
        calls = self._calls(action.steps[:1])
        if not calls:
            return []
        session, call = self._session(action.session), calls[0]
        call.fetches = list(dict.fromkeys(call.fetches))  # TensorFlow's client cannot parse the answer if one comes twice
        feeds = list(call.feeds)
        made = []

        def make():
            if action.attrs.get("options"):
                names = [[t.name for t in feeds], [t.name for t in call.fetches], [t.name for t in call.targets]]
                options = config_pb2.CallableOptions(feed=names[0], fetch=names[1], target=names[2])
                made.append(session._make_callable_from_options(options))  # pylint: disable=protected-access
            else:
                made.append(session.make_callable(call.fetches + call.targets, feeds))
            return []

        outcomes = [attempt(make)]
        for step in action.steps if made else ():
            given = {**call.feeds, **Calls(self._builder).feeds(step)}
            outcomes.append(attempt(lambda g=given: list(made[0](*[np.asarray(g[t]) for t in feeds]))))
        return outcomes

    def _partial(self, action):
        parts = [call for call in self._calls(action.steps, together=True, certain=True) if call.fetches]
        if not parts:
            return []
        session, fetched, fed = self._session(action.session), {}, {}
        given = {t: v for c in parts for t, v in c.feeds.items()}
        for c in parts:
            c.fetches = [t for t in dict.fromkeys(c.fetches) if t not in fetched and t not in given]
            c.feeds = {t: given[t] for t in given if t not in fed and (t in c.feeds or t in c.needs)}
            fetched.update(dict.fromkeys(c.fetches))
            fed.update(c.feeds)
        handles = []

        def setup():
            handles.append(session.partial_run_setup(list(fetched), list(fed)))
            return []

        outcomes = [attempt(setup)]
        for c in parts if handles else ():
            if c.fetches or c.feeds:
                outcomes.append(attempt(lambda c=c: session.partial_run(handles[0], c.fetches, c.feeds)))
        return outcomes

    def _open(self, action):
        return [attempt(lambda: [self.open(action.session, action.attrs["task"])])]

    def _close(self, action):
        session = self._sessions.pop(action.session, None)
        return [attempt(lambda: [session.close()])] if session else []

    def _state(self, action):
        """The values of all variables."""
        fetches = Calls(self._builder).state()
        return [attempt(lambda: self._session(action.session).run(fetches))] if fetches else []


class Pair:
    """The two clusters, and what a program gives on both."""

    def __init__(self, theirs, ours, container):
        self._theirs = theirs  # targets of TensorFlow's servers
        self._ours = ours
        self._container = container
        self.calls = 0  # that TensorFlow's servers were asked
        self.failed = 0  # of these, those that failed there
        self.refused = []

    def move(self, theirs, ours):
        """The clusters are at other addresses now."""
        self._theirs = theirs
        self._ours = ours

    def run(self, program, timeout=10.0, alone=False):
        """Runs a program on both, in lockstep, until they differ. Alone: on TensorFlow's servers only.

        Gives the difference, None if there is none, and all outcomes of TensorFlow's servers.
        """
        container = self._container()
        shared = Builder(program, container)
        builders = [Builder(program, container, one_task=True), shared] if program.one_task else [shared]
        theirs = Side(program, builders[0], self._theirs, timeout)
        ours = None if alone else Side(program, shared, self._ours, timeout)
        seen = []
        try:
            for index, action in enumerate([None, *program.script]):
                if action is None or action.kind == "extend":
                    for b in builders:
                        b.stage(0 if action is None else action.attrs["stage"])
                    expected = theirs.initialize()
                    got = [] if alone else ours.initialize()
                else:
                    expected = theirs.perform(action)
                    got = [] if alone else ours.perform(action)
                self.calls += len(expected)
                self.failed += sum(o.error is not None for o in expected)
                seen.append(expected)
                for number, (e, g) in enumerate(zip(expected, got)):
                    if e.error in HANGS or e.mistaken() or not same(e, g):
                        return Difference(index - 1, number, e, g, seen), seen
                if not alone and len(expected) != len(got):  # a callable that only one of them made
                    return Difference(index - 1, 0, Outcome(expected), Outcome(got), seen), seen
            return None, seen
        finally:
            self.refused += shared.refused
            theirs.close()
            if ours is not None:
                ours.close()

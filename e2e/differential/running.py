"""Runs a program on one cluster, action by action, and compares what two clusters give."""
import threading

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import config_pb2

from build import Builder
from program import DATA, value

BROKEN = "InternalError"  # of TensorFlow's servers: a mistake of their own
HANGS = ("DeadlineExceededError", "Hang")


class Outcome:
    """What one call gave: values, or an error."""

    __slots__ = ("values", "error", "message")

    def __init__(self, values=None, error=None, message=""):
        self.values = values
        self.error = error
        self.message = message

    def kind(self):
        """What a smaller program has to have in common with it."""
        return "a value" if self.error is None else "a hang" if self.error in HANGS else self.error

    def __str__(self):
        if self.error is not None:
            return "%s: %s" % (self.error, _without_traceback(self.message))
        return "[%s]" % ", ".join(_short(v) for v in self.values)


def _without_traceback(message):
    """An error's text, without where the client made the node."""
    lines = [line for line in message.split("\n") if line.strip() and not line.lstrip().startswith(("File ", "Detected at"))]
    return " ".join(" ".join(lines).split())[:300]


def _short(v):
    v = np.asarray(v)
    return str((np.round(v.astype(float), 4) if v.dtype.kind == "f" else v).tolist())


def attempt(call):
    try:
        return Outcome([v for v in call() if v is not None])
    except Exception as e:  # pylint: disable=broad-except; whatever it is, it is compared
        return Outcome(error=type(e).__name__, message=str(e))


def same(a, b):
    if (a.error is None) != (b.error is None):
        return False
    if a.error is not None:
        return a.error == b.error
    return len(a.values) == len(b.values) and all(_equal(x, y) for x, y in zip(a.values, b.values))


def _equal(x, y):
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    return np.allclose(x, y, rtol=1e-3, atol=1e-4, equal_nan=True) if x.dtype.kind == "f" else np.array_equal(x, y)


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


class Call:
    """A call of run."""

    __slots__ = ("fetches", "targets", "feeds", "needs")

    def __init__(self, fetches, targets, feeds, needs):
        self.fetches = fetches
        self.targets = targets
        self.feeds = feeds
        self.needs = needs  # the values that it is computed from

    def names(self):
        return tuple(name for group in self._signature() for name in group)

    def lengths(self):
        return tuple(map(len, self._signature()))

    def _signature(self):
        """The names that the client sends: what is fed it does not fetch."""
        feeds = {t.name for t in self.feeds}
        return [sorted(feeds), sorted({t.name for t in self.fetches} - feeds), sorted({op.name for op in self.targets})]

    def run(self, session):
        return session.run(self.fetches + self.targets, self.feeds)


class Calls:
    """Makes calls of the same time: no two of them may touch the same state in no order."""

    def __init__(self, builder, together=False, variables=True, certain=False):
        self._builder = builder
        self._analysis = builder.analysis
        self._taken = set()  # parts that these calls run
        self._together = together  # they are one step
        self._variables = variables  # variables themselves can be fetched
        self._certain = certain  # nothing may fail: of a partial run it is open which call says so

    def call(self, step):
        parts, before = set(), set() if self._together else set(self._taken)
        fetches, targets, needed = [], [], set()
        for ref in step.fetches:
            found = self._value(ref)
            if found is not None and found.kind in DATA and self._take(ref[0], parts, before):
                fetches.append(found.tensor)
                needed |= self._analysis.needed(ref[0])
        for id in step.targets:
            found = self._value((id, 0))
            if found is not None and found.kind not in "VNQ" and self._take(id, parts, before):
                targets.append(found.tensor if isinstance(found.tensor, tf.Operation) else found.tensor.op)
                needed |= self._analysis.needed(id)
        for ref in step.fetches:
            found = self._value(ref)
            # A variable's fetch is a read in no order: while a step changes it, there is no right answer.
            if found is not None and found.kind in "VN" and self._variables and not self._changed(found.root):
                fetches.append(found.tensor)
        if not fetches and not targets:
            return None
        feeds = self.feeds(step)
        leave = step.unfed and not any(self._analysis.stateful(p) for p in parts)
        for id in () if leave else sorted(needed):
            s = self._analysis.statements[id]
            found = self._value((id, 0))
            if s.op.startswith("placeholder_") and found is not None and not s.attrs.get("default"):
                feeds.setdefault(found.tensor, value(s.op[-1], s.attrs["n"]))
        needs = {v.tensor for values in map(self._builder.top.values.get, needed) if values for v in values if v.kind in DATA}
        return Call(fetches, targets, feeds, needs)

    def feeds(self, step):
        """What a step feeds, of what can be fed."""
        feeds = {}
        for ref, n in step.feeds:
            found = self._value(ref)
            if found is not None and found.kind in DATA and self._builder.graph.is_feedable(found.tensor):
                feeds[found.tensor] = value(found.kind, n)
        return feeds

    def state(self):
        built = [values[0] for values in self._builder.top.values.values() if values]
        return [v.tensor for v in built if v.kind in "VN" and self._analysis.statements[v.root].attrs.get("initialized", True)]

    def _value(self, ref):
        values = self._builder.top.values.get(ref[0])
        return values[ref[1]] if values and ref[1] < len(values) else None

    def _changed(self, root):
        return any(root in self._analysis.parts[p][1] for p in self._taken)

    def _take(self, id, parts, before):
        """Whether a statement may run beside those that were taken: then it is taken, too."""
        wanted = {self._analysis.statements[n].part for n in self._analysis.needs[id]}
        for p in wanted:
            if self._certain and self._analysis.may_fail(p):
                return False
            again = p in before and self._analysis.parts[p][1] and not self._analysis.commutes(p)
            if again or self._analysis.conflict(p, (self._taken | wanted) - {p}):
                return False
        parts |= wanted
        self._taken |= wanted
        return True


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
                    if e.error in HANGS or e.error == BROKEN or not same(e, g):
                        return Difference(index - 1, number, e, g), seen
                if not alone and len(expected) != len(got):
                    return Difference(index - 1, 0, Outcome(expected), Outcome(got)), seen
            return None, seen
        finally:
            self.refused += shared.refused
            theirs.close()
            if ours is not None:
                ours.close()


class Difference:
    """Where the clusters differ: at which call of which action (-1: the initialization), and what they give."""

    def __init__(self, action, call, theirs, ours):
        self.action = action
        self.call = call
        self.theirs = theirs
        self.ours = ours

    def kind(self):
        return "%s, not %s" % (self.ours.kind(), self.theirs.kind())

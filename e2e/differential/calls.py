"""From a program's steps to calls of session.run: what can be fetched and fed together so that there is one right answer."""
import tensorflow.compat.v1 as tf

from program import DATA, value


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

"""Makes a program that fails small: delta debugging of its script, its statements and what these say."""
import time

from analysis import Analysis


class Shrinker:
    """Tries smaller programs with `fails`, for a bounded time."""

    def __init__(self, fails, seconds):
        self._fails = fails
        self._end = time.monotonic() + seconds
        self.tried = 0

    def shrink(self, program):
        """The smallest program found that fails; none of the reductions that were tried makes it smaller."""
        best, smaller = program, True
        while smaller and time.monotonic() < self._end:
            smaller = False
            for reduction in (_actions, _steps, _unneeded, _statements, _bodies, _details):
                found = self._reduce(best, reduction)
                smaller = smaller or found is not best
                best = found
        return best

    def _reduce(self, program, reduction):
        """Deletes chunks of what the reduction names: halves first, then smaller ones down to single items."""
        count = len(reduction(program))
        chunk = max(1, count // 2)
        while count and time.monotonic() < self._end:
            start = 0
            while start < count and time.monotonic() < self._end:
                candidate = program.copy()
                for apply in reduction(candidate)[start:start + chunk]:
                    apply()
                self.tried += 1
                if self._fails(candidate):
                    program = candidate
                    count = len(reduction(program))
                else:
                    start += chunk
            if chunk == 1:
                break
            chunk //= 2
        return program


# A reduction gives for each item of a program a function that removes it. Items are looked up by identity, so that the
# functions of one call can be applied one after the other.


def _remover(items, item):
    def remove():
        items[:] = [other for other in items if other is not item]

    return remove


def _setter(owner, key, new):
    return lambda: setattr(owner, key, new)


def _actions(program):
    return [_remover(program.script, a) for a in program.script]


def _unneeded(program):
    """All statements that no step needs, at once."""
    analysis = Analysis(program)
    needed = set()
    for a in program.script:
        for step in a.steps:
            for id in [ref[0] for ref in step.fetches] + step.targets + [ref[0] for ref, _ in step.feeds]:
                needed |= analysis.needs.get(id, set())
    # What is not needed may be there for its effect: those that touch state are for the next reduction.
    rest = [s for s in program.statements if s.id not in needed and not analysis.touches(s.id)]

    def remove():
        program.statements[:] = [s for s in program.statements if not any(s is other for other in rest)]

    return [remove] if rest else []


def _statements(program):
    """Users before what they use, so that single deletions leave as few missing operands as possible."""
    return [_remover(statements, s) for statements in program.scopes() for s in reversed(statements)]


def _steps(program):
    found = []
    for a in program.script:
        if len(a.steps) > 1:
            found += [_remover(a.steps, step) for step in a.steps]
        for step in a.steps:
            for items in (step.fetches, step.targets, step.feeds):
                found += [_remover(items, item) for item in items]
    return found


def _bodies(program):
    """Statements with bodies become what one of their bodies says, and lose results and parameters."""
    found = []
    for statements in program.scopes():
        for s in statements:
            for body in s.bodies:
                found.append(_inliner(statements, s, body))
            if s.op == "loop":
                found += [_narrower(s, k) for k in range(len(s.bodies[0].kinds) - 1, 0, -1)]
    return found


def _inliner(statements, s, body):
    def inline():
        if not any(other is s for other in statements):
            return
        at = next(k for k, other in enumerate(statements) if other is s)
        given = dict(zip(((id, 0) for id, _ in body.params), s.args))
        for inner in body.statements:
            inner.part, inner.stage = s.part, s.stage
        results = {(s.id, k): ref for k, ref in enumerate(body.results)}
        statements[at:at + 1] = body.statements
        _replace(body.statements, given)
        _replace(statements[at + len(body.statements):], {k: given.get(v, v) for k, v in results.items()})

    return inline


def _replace(statements, with_):
    for s in statements:
        s.args = [with_.get(ref, ref) for ref in s.args]
        for body in s.bodies:
            _replace(body.statements, with_)
            body.results = [with_.get(ref, ref) for ref in body.results]


def _narrower(s, k):
    """Takes one of a loop's values away."""

    def narrow():
        if k >= len(s.bodies[0].kinds):
            return
        del s.args[k]
        for body in s.bodies:
            del body.params[k]
        main = s.bodies[0]
        main.results = main.results[:k] + main.results[k + 1:]
        main.kinds = main.kinds[:k] + main.kinds[k + 1:]

    return narrow


_PLAIN = {"functional": False, "collects": False, "colocates": False, "parallel": 10, "options": False, "shapeless": False}


def _details(program):
    """Devices, control dependencies, operands, numbers, and how the session is configured."""
    found = []
    if program.grappler:
        found.append(_setter(program, "grappler", False))
    if program.master != "worker:0":
        found.append(_setter(program, "master", "worker:0"))
    all = [s for statements in program.scopes() for s in statements]
    for s in all:
        if s.device and not s.op.startswith(("variable", "queue")):
            found.append(_setter(s, "device", None))
    for s in all:
        if s.device and s.device != "ps:0" and s.op.startswith(("variable", "queue")):
            found.append(_setter(s, "device", "ps:0"))
    for s in all:
        found += [_remover(s.after, id) for id in s.after]
        found += [_operand(s.args, k) for k, ref in enumerate(s.args) if ref is not None]
        for body in s.bodies:
            found += [_operand(body.results, k) for k, ref in enumerate(body.results) if ref is not None]
        for key, plain in _PLAIN.items():
            if s.attrs.get(key, plain) != plain:
                found.append(_attribute(s.attrs, key, plain))
        if s.attrs.get("times", 0) > 1:
            found.append(_attribute(s.attrs, "times", s.attrs["times"] - 1))
    for a in program.script:
        if a.session:
            found.append(_setter(a, "session", 0))
        if len(a.steps) == 1 and a.kind in ("callable", "parallel", "partial"):
            found.append(_setter(a, "kind", "run"))
    return found


def _operand(refs, k):
    def clear():
        refs[k] = None

    return clear


def _attribute(attrs, key, new):
    def change():
        attrs[key] = new

    return change

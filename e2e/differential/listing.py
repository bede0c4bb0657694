"""Programs as text that is short to read."""
import numpy as np

from catalog import OPS
from program import value


_USUAL = {"parallel": 10, "initialized": True}  # attributes that go without saying


def listing(program):
    """The program, a line for each statement and action."""
    lines = []
    stages = sorted({s.stage for s in program.statements} | {0})
    for stage in stages:
        if stage:
            lines.append("# added by extend(%d)" % stage)
        lines += _statements([s for s in program.statements if s.stage == stage], "")
    options = ["master %s" % program.master] + ["Grappler"] * program.grappler
    lines.append("session 0: " + ", ".join(options))
    lines += ["%2d. %s" % (k, action(program, a)) for k, a in enumerate(program.script)]
    return "\n".join(lines)


def _statements(statements, indent):
    lines = []
    for s in statements:
        spec = OPS[s.op]
        kinds = spec.result_kinds(s)
        attrs = {k: v for k, v in s.attrs.items() if v is not False and _USUAL.get(k) != v}
        if s.op.startswith(("constant_", "placeholder_")):
            attrs["n"] = number(s.op[-1], attrs["n"])
        args = [name(ref) for ref in s.args] + ["%s=%s" % (k, v) for k, v in attrs.items()]
        line = "%sx%d = %s(%s)" % (indent, s.id, s.op, ", ".join(args)) + (" -> %d values" % len(kinds) if len(kinds) > 1 else "")
        if s.device:
            line += "  @" + s.device
        if s.after:
            line += "  after " + ", ".join("x%d" % id for id in s.after)
        if s.part > 1:
            line += "  part %d" % s.part
        lines.append(line)
        for k, body in enumerate(s.bodies):
            params = ", ".join("x%d" % id for id, _ in body.params)
            lines.append("%s    %s(%s):" % (indent, _role(s, k), params))
            lines += _statements(body.statements, indent + "        ")
            lines.append("%s        return %s" % (indent, ", ".join(name(ref) for ref in body.results)))
    return lines


def _role(s, k):
    if s.op == "cond":
        return ("then", "else")[k]
    return "while" if s.op == "loop" and k else "case %d" % k if s.op == "case" else "body"


def name(ref):
    """A reference; _ is a constant."""
    if ref is None:
        return "_"
    return "x%d" % ref[0] if ref[1] == 0 else "x%d[%d]" % ref


def number(kind, n):
    return str(np.round(value(kind, n), 3).tolist()) if kind != "b" else str(bool(value(kind, n)))


def _step(step, kinds):
    parts = []
    if step.fetches:
        parts.append("fetch " + ", ".join(map(name, step.fetches)))
    if step.targets:
        parts.append("target " + ", ".join("x%d" % id for id in step.targets))
    if step.feeds:
        parts.append("feed " + ", ".join("%s = %s" % (name(ref), number(kinds[ref], n)) for ref, n in step.feeds if ref in kinds))
    if step.unfed:
        parts.append("nothing else fed")
    return "; ".join(parts) or "nothing"


def action(program, a):
    """An action in one line."""
    kinds = {(s.id, k): kind for s in program.statements for k, kind in enumerate(OPS[s.op].result_kinds(s))}
    attrs = "".join(" %s=%s" % (k, v) for k, v in a.attrs.items() if v is not False)
    session = " session %d" % a.session if a.session else ""
    return a.kind + session + attrs + "".join(" (%s)" % _step(step, kinds) for step in a.steps)

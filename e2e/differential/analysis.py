"""What follows from a program's text: what each statement touches, and what it needs."""
from catalog import OPS

CHECK = "check"  # what all statements that may fail write, so that the first failure is always the same one


class Analysis:
    """Facts about a program's statements, those of bodies included."""

    def __init__(self, program):
        self.statements = {}
        self.roots = {}  # reference to a variable, a queue or an alias of one -> the statement that made it
        self.reads = {}  # statement -> the variables and queues that it only reads
        self.writes = {}  # statement -> those that it changes
        self.needs = {}  # statement -> all statements that it is computed from, itself included
        self.parts = {}  # part -> (reads, writes)
        self.positions = {}  # statement of the outermost scope -> its place
        resources = [s.id for s in program.statements if OPS[s.op].result_kinds(s) in ("V", "N", "Q")]
        self._all = frozenset(resources) | {CHECK}
        for place, s in enumerate(program.statements):
            self.positions[s.id] = place
            self._visit(s)
            reads, writes = self.parts.setdefault(s.part, (set(), set()))
            reads |= self.reads[s.id]
            writes |= self.writes[s.id]
        self.references_change = any(
            self.statements[v].attrs.get("ref") for _, writes in self.parts.values() for v in writes if v != CHECK)

    def _visit(self, s):
        spec = OPS[s.op]
        self.statements[s.id] = s
        reads, writes, needs = set(), set(), {s.id}
        kinds = spec.result_kinds(s)
        if kinds in ("V", "N", "Q"):
            self.roots[(s.id, 0)] = s.id
        for kind, ref in zip(spec.arg_kinds(s), s.args):
            if ref is None:
                continue
            needs |= self.needs.get(ref[0], set())
            root = self.roots.get(ref)
            if root is not None:
                changes = spec.writes and kind in "VNQ"
                if kinds == "A" and self.statements[root].attrs.get("ref") and (changes or s.op == "alias"):
                    self.roots[(s.id, 0)] = root
                    if s.op == "alias":
                        continue  # it is read where it is used
                (writes if changes else reads).add(root)
        for other in s.after:
            needs |= self.needs.get(other, set())
        for body in s.bodies:
            for inner in body.statements:
                self._visit(inner)
                reads |= self.reads[inner.id]
                writes |= self.writes[inner.id]
                needs |= self.needs[inner.id]
            for ref in body.results:
                if ref is not None:
                    needs |= self.needs.get(ref[0], set())
                    if ref in self.roots:
                        reads.add(self.roots[ref])
        if spec.fails:
            writes |= self._all
        if spec.differentiates:
            for id in needs - {s.id}:
                reads |= self.reads.get(id, set()) | (self.writes.get(id, set()) - {CHECK})
        self.reads[s.id] = frozenset(reads - writes)
        self.writes[s.id] = frozenset(writes)
        self.needs[s.id] = needs

    def touches(self, id):
        return bool(self.reads[id] or self.writes[id])

    def stateful(self, part):
        reads, writes = self.parts.get(part, ((), ()))
        return bool(reads or writes)

    def may_fail(self, part):
        reads, writes = self.parts.get(part, ((), ()))
        return CHECK in writes or any(not self.statements[v].attrs.get("initialized", True) for v in reads)

    def commutes(self, part):
        """Whether several steps may run this part at a time, because all that it does is to add."""
        return all(s.op == "bump" for s in self.statements.values() if s.part == part and self.touches(s.id))

    def needed(self, id):
        """All statements that run when this one does: also those of its part that it may have to wait for."""
        all = set(self.needs.get(id, ()))
        for other in list(all):
            s = self.statements[other]
            if other in self.positions and self.stateful(s.part):
                for before, place in self.positions.items():
                    if place < self.positions[other] and self.statements[before].part == s.part:
                        all |= self.needs[before]
        return all

    def conflict(self, part, others):
        """Whether this part cannot be run in one step with these: they touch the same state in no order."""
        reads, writes = self.parts.get(part, (frozenset(), frozenset()))
        for other in others:
            if other == part:
                continue
            r, w = self.parts[other]
            if writes & (r | w) or w & reads:
                return True
            # Where one fails it is open how far the other came.
            if self.may_fail(part) and (w or self.may_fail(other)) or self.may_fail(other) and writes:
                return True
        return False

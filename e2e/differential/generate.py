"""What the areas have in common to draw statements at random."""
from catalog import OPS
from program import DATA, TASKS, Body, Statement
from state import OPTIMIZERS

FLOW = ("cond", "case", "loop", "scan", "map", "function")


class Frame:
    """A scope that is being drawn."""

    def __init__(self, statements, params=(), functional=False, quiet=False):
        self.statements = statements
        self.values = {}  # kind -> references, the newest last
        self.functional = functional
        self.quiet = quiet  # no touches of state here
        for id, kind in params:
            self.values.setdefault(kind, []).append((id, 0))


class Maker:
    """Draws statements. `weights` says how often which op is drawn, `inside` the same for bodies."""

    def __init__(self, rng, weights, inside, depth=2, devices=TASKS, away=0.6, functional=0.0):
        self.rng = rng
        self.weights = weights
        self.inside = inside
        self.depth = depth
        self.devices = devices
        self.away = away  # how often a statement names a device
        self.functional = functional  # how often control flow is functional
        self.statements = []
        self.frames = [Frame(self.statements)]
        self.kinds = {}  # reference -> kind, at the top
        self.part = 0
        self.stage = 0
        self.parts = {}  # id -> part, at the top
        self._ids = 0

    def id(self):
        self._ids += 1
        return self._ids

    def add(self, op, args=(), **attrs):
        """Adds a statement, with these operands."""
        bodies, device = attrs.pop("bodies", ()), attrs.pop("device", None)
        if device is None and self.rng.random() < self.away:
            device = self.rng.choice(self.devices)
        frame = self.frames[-1]
        after = []
        if frame.statements and self.rng.random() < 0.12:
            other = self.rng.choice(frame.statements[-6:])
            if len(self.frames) > 1 or other.part in (0, self.part):
                after.append(other.id)
        s = Statement(self.id(), op, args, device, after, attrs, bodies, self.part, self.stage)
        frame.statements.append(s)
        if not s.attrs.get("initialized", True):  # whoever reads it fails, which is for few to do
            return (s.id, 0)
        for k, kind in enumerate(OPS[op].result_kinds(s)):
            frame.values.setdefault(kind, []).append((s.id, k))
            if len(self.frames) == 1:
                self.kinds[(s.id, k)] = kind
        if len(self.frames) == 1:
            self.parts[s.id] = self.part
        return (s.id, 0)

    def visible(self, kind):
        """References of a kind that a new statement may have as operands, the newest last."""
        found = []
        for depth, frame in enumerate(self.frames):
            for ref in frame.values.get(kind, ()):
                if depth or self.parts[ref[0]] in (0, self.part) or kind in "VNQ":
                    found.append(ref)
        return found

    def pick(self, kind):
        """An operand of a kind: mostly a new one, sometimes a constant. Variables stand for values, too."""
        found = self.visible(kind)
        if kind in DATA and not self.frames[-1].quiet and self.part:
            if kind == "f":
                found = found + self.visible("A")[-3:] + (self.visible("V")[-2:] if self.rng.random() < 0.4 else [])
        if kind in "VNQ":
            return self.rng.choice(found) if found else None
        if not found or self.rng.random() < 0.04:
            return self.add("constant_" + kind, n=self.rng.randint(-6, 9))
        return found[-1 - min(int(self.rng.expovariate(0.4)), len(found) - 1)]

    def draw(self, count):
        """Adds about so many statements."""
        weights = self.weights if len(self.frames) == 1 else self.inside
        for _ in range(count):
            ops = [op for op in weights if self._allowed(op)]
            self.one(self.rng.choices(ops, [weights[op] for op in ops])[0])

    def _allowed(self, op):
        spec, frame = OPS[op], self.frames[-1]
        if len(self.frames) > 1 and spec.outermost or len(self.frames) > self.depth and op in FLOW:
            return False
        if isinstance(spec.args, str):
            kinds = [k for k in spec.args if k in "VNQ"]
            if (kinds or spec.fails or op == "alias") and (frame.quiet or not self.part):
                return False
            return all(self.visible(k) for k in kinds)
        return op not in ("train", "gradients") or self.part and bool(self.visible("V" if op == "train" else "f"))

    def one(self, op):
        """Adds a statement of this op."""
        if op in FLOW:
            return getattr(self, "_" + op)()
        rng = self.rng
        if op == "train":
            n = rng.randint(1, min(2, len(self.visible("V"))))
            return self.add(op, [self.pick("s")] + rng.sample(self.visible("V"), n), variables=n,
                            optimizer=rng.choice(sorted(OPTIMIZERS)), colocates=rng.random() < 0.5)
        if op == "gradients":
            n = rng.randint(1, 2)
            return self.add(op, [self.pick("f") for _ in range(n + 1)], sources=n, colocates=rng.random() < 0.5)
        if op == "alias":
            found = self.visible("V") + self.visible("A")
            return self.add(op, [rng.choice(found) if found else self.pick("f")], how=rng.choice(["once", "twice", "reference"]))
        args = [self.pick(kind) for kind in OPS[op].arg_kinds(None)]
        attrs = {}
        if op.startswith(("constant_", "placeholder_")) or op in ("dequeue", "queue"):
            attrs["n"] = rng.randint(-6, 9)
        if op in ("check", "finite"):
            attrs["limit"] = rng.choice([0.3, 1.0, 3.0])
        if op == "count_up_to":
            attrs["limit"] = rng.randint(2, 12)
        if op == "apply":
            attrs["optimizer"] = rng.choice(sorted(OPTIMIZERS))
        return self.add(op, args, **attrs)

    def variable(self, kind="V", ref=None, **attrs):
        ref = self.rng.random() < 0.5 if ref is None else ref
        return self.add("variable_" + kind, device=self.rng.choice(self.devices), ref=ref, n=self.rng.randint(-3, 6), **attrs)

    def body(self, params, kinds, count, functional=False, quiet=False):
        """Draws a body whose results are of these kinds."""
        outer = self.frames[-1]
        frame = Frame([], params, functional or outer.functional, quiet or outer.quiet)
        self.frames.append(frame)
        self.draw(count)
        results = [self.pick(kind) for kind in kinds]
        self.frames.pop()
        return Body(list(params), frame.statements, results, kinds)

    def _size(self):
        return self.rng.choice([1, 1, 2, 2, 3, 4]) if len(self.frames) == 1 else self.rng.choice([0, 1, 1, 2])

    def _is_functional(self):
        return self.rng.random() < self.functional

    def _result_kinds(self):
        return "".join(self.rng.choice("ffffsib") for _ in range(self.rng.choice([1, 1, 2, 3])))

    def _cond(self):
        functional, kinds, p = self._is_functional(), self._result_kinds(), self.pick("b")
        bodies = [self.body((), kinds, self._size(), functional) for _ in range(2)]
        return self.add("cond", [p], bodies=bodies, functional=functional)

    def _case(self):
        functional, kinds, i = self._is_functional(), self._result_kinds(), self.pick("i")
        bodies = [self.body((), kinds, self._size() - 1, functional) for _ in range(self.rng.choice([2, 3]))]
        return self.add("case", [i], bodies=bodies, functional=functional)

    def _loop(self):
        functional, kinds = self._is_functional(), "f" + self._result_kinds()[:2]
        args = [self.pick(kind) for kind in kinds]
        params = [(self.id(), kind) for kind in kinds]
        bodies = [self.body(params, kinds, self._size(), functional)]
        if self.rng.random() < 0.25:
            params = [(self.id(), kind) for kind in kinds]
            bodies.append(self.body(params, "b", 2, functional))
        return self.add("loop", args, bodies=bodies, functional=functional, times=self.rng.choice([0, 1, 2, 3, 3, 4]),
                        collects=self.rng.random() < 0.15, parallel=self.rng.choice([1, 2, 10, 10]))

    def _scan(self):
        params = [(self.id(), "f"), (self.id(), "f")]
        return self.add("scan", [self.pick("f") for _ in range(4)], bodies=[self.body(params, "f", self._size() - 1)],
                        parallel=self.rng.choice([1, 10]))

    def _map(self):
        return self.add("map", [self.pick("f") for _ in range(3)], parallel=self.rng.choice([1, 10]),
                        bodies=[self.body([(self.id(), "f")], "f", self._size() - 1, quiet=True)])

    def _function(self):
        kinds, functional = self._result_kinds(), True
        args = [self.pick(kind) for kind in kinds]
        body = self.body([(self.id(), kind) for kind in kinds], self._result_kinds(), self._size(), functional)
        return self.add("function", args, bodies=[body], how=self.rng.choice(["defun", "function"]))

"""What the areas have in common to draw steps at random."""
from program import DATA, Step


def one_task(maker):
    """Whether TensorFlow's servers would refuse the program on several tasks, for a function's sake."""
    todo = list(maker.statements)
    while todo:
        s = todo.pop()
        if s.op == "function" and s.attrs["how"] == "function":
            return True
        todo += [inner for b in s.bodies for inner in b.statements]
    return False


class Fetches:
    """What steps can fetch, feed and target."""

    def __init__(self, values, feedable, ops, raw):
        self.values = values
        self.feedable = feedable
        self.ops = ops
        self.raw = raw  # variables

    def step(self, rng):
        """Draws a step."""
        step = Step(_sample(rng, self.values, rng.choice([1, 1, 2, 3, 5])), _sample(rng, self.ops, rng.choice([0, 0, 0, 1, 2])))
        step.feeds = [(ref, rng.randint(-4, 8)) for ref in _sample(rng, self.feedable, rng.choice([0, 1, 1, 2]))]
        if rng.random() < 0.05:
            step.fetches += _sample(rng, self.raw, 1)
        if not step.fetches and not step.targets:
            step.fetches = _sample(rng, self.values, 1)
        return step

    def like(self, rng, other):
        """Draws a step that has much in common with another one: a subset of it, a superset, or other feeds."""
        step = Step(other.fetches, other.targets, other.feeds)
        how = rng.random()
        if how < 0.3 and len(step.fetches) > 1:
            step.fetches = rng.sample(step.fetches, len(step.fetches) - 1)
        elif how < 0.6:
            step.fetches += _sample(rng, self.values, 1)
        elif how < 0.75:
            step.feeds = [(ref, rng.randint(-4, 8)) for ref, _ in step.feeds]
        elif how < 0.88:
            step.feeds = [(ref, rng.randint(-4, 8)) for ref in _sample(rng, self.feedable, max(1, len(step.feeds)))]
        elif how < 0.93:
            step.feeds = step.feeds[1:]
        else:
            step.fetches, step.targets = step.fetches[::-1] * 2, []
        return step


def _sample(rng, items, count):
    return rng.sample(items, min(len(items), count))


def fetches(maker, stage=None):
    """What can be fetched, fed and targeted of the statements up to a stage."""
    statements = [s for s in maker.statements if stage is None or s.stage <= stage]
    known = {s.id: s for s in statements}
    refs = [ref for ref in maker.kinds if ref[0] in known]
    values = [ref for ref in refs if maker.kinds[ref] in DATA and not known[ref[0]].op.startswith("constant_")]
    return Fetches(values, [ref for ref in values if maker.kinds[ref] in "fis"], [s.id for s in statements if s.part],
                   [ref for ref in refs if maker.kinds[ref] in "VN"])

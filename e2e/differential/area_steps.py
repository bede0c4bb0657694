"""Area steps: many steps of a session, which differ in what they fetch, feed and target, and come in any order."""
import random

from generate import Maker
from program import TASKS, Action, Program
from scripts import fetches, one_task

PURE = {"add": 3, "subtract": 1, "multiply": 2, "matmul": 1, "tanh": 2, "negative": 1, "half": 1, "concat_split": 1, "swap": 1,
        "identity": 1.5, "sum": 1, "spread": 1, "choose": 1, "greater": 1, "less": 0.5, "odd": 0.5, "plus": 1, "times": 0.5,
        "to_float": 0.5, "to_int": 0.5, "text": 0.3, "stack_mean": 0.5, "reshaped": 0.5, "scalar_add": 0.5}
STATE = {"read_plus": 2, "read_times": 1.5, "read_int": 1, "assign": 1, "assign_add": 2, "scatter_add": 0.5, "int_add": 1,
         "enqueue": 0.5, "dequeue": 0.5, "through": 0.5, "queued": 0.3}
FAILING = {"check": 1.0, "lookup": 1.0, "divide": 1.0, "finite": 0.5, "count_up_to": 0.7}
LAST = 3  # part that several stages may add to
WEIGHTS = {**PURE, **STATE, "cond": 0.7, "loop": 0.5, "function": 0.2}


def make(seed):
    rng = random.Random(seed)
    maker = Maker(rng, WEIGHTS, WEIGHTS, depth=1, away=rng.choice([0.0, 0.5, 0.9]), functional=0.2)
    for _ in range(rng.randint(1, 3)):
        maker.add("placeholder_f", n=rng.randint(-6, 9), shapeless=rng.random() < 0.2, default=rng.random() < 0.2)
    maker.add("placeholder_" + rng.choice("sib"), n=rng.randint(-6, 9))
    for _ in range(rng.choice([0, 1, 2, 3])):
        maker.variable(rng.choice("VVVN"))
    if rng.random() < 0.2:
        maker.add("queue", n=rng.randint(0, 9), device=rng.choice(maker.devices))
    maker.draw(rng.randint(3, 9))
    script, last = [], []
    for stage in range(rng.choice([1, 1, 2, 3])):
        if stage:
            maker.stage = stage
            script.append(Action("extend", stage=stage))
            maker.part = 0
            maker.draw(rng.randint(0, 2))
        _parts(rng, maker)
        script += _actions(rng, fetches(maker, stage), last, rng.randint(2, 7))
    return Program("steps", seed, maker.statements, script + [Action("state")], grappler=rng.random() < 0.25,
                   master=rng.choice(["worker:0", "worker:0", "worker:1", "ps:0"]), one_task=one_task(maker))


def _parts(rng, maker):
    """Adds parts: some change variables, some fail, one adds to a counter, one uses a variable that has no value yet."""
    for part in range(1, rng.randint(2, LAST + 1)):
        maker.part = part
        maker.weights = {**WEIGHTS, **FAILING} if rng.random() < 0.4 else WEIGHTS
        maker.draw(rng.randint(1, 3))
    maker.weights = WEIGHTS
    fresh = max(LAST, *maker.parts.values()) + 1  # later stages add to none of these
    if rng.random() < 0.25:
        maker.part = fresh
        counter = maker.variable("N")
        maker.add("bump", [counter])
    if rng.random() < 0.2:
        maker.part = fresh + 1
        late = maker.variable("V", initialized=False)
        maker.add("read_plus", [late])
        maker.part = fresh + 2
        maker.add("initialize", [late])


def _actions(rng, drawn, last, count):
    """Draws a stretch of the script. `last` are the steps before, which later ones resemble."""
    script = []
    for _ in range(count):
        def step():
            new = drawn.like(rng, rng.choice(last)) if last and rng.random() < 0.6 else drawn.step(rng)
            last.append(new)
            return new

        kind = rng.choices(["run", "partial", "callable", "parallel", "open", "close", "state"], [10, 1, 1.5, 1, 0.8, 0.3, 0.3])[0]
        session = rng.choice([0, 0, 0, 1])
        if kind == "open":
            script.append(Action("open", 1, task=rng.choice(TASKS)))
        elif kind in ("close", "state"):
            script.append(Action(kind, session))
        elif kind == "callable":
            script.append(Action(kind, session, [step(), *(drawn.step(rng) for _ in range(rng.randint(0, 2)))], options=rng.random() < 0.5))
        else:
            steps = [step() for _ in range({"run": 1, "partial": rng.randint(1, 3), "parallel": rng.randint(2, 3)}[kind])]
            steps[0].unfed = kind == "run" and rng.random() < 0.05
            script.append(Action(kind, session, steps))
    return script

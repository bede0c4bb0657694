"""Area references: reference variables wherever resource variables are."""
import random

from generate import Maker
from program import Action, Program
from scripts import fetches, one_task

PURE = {"add": 2, "multiply": 2, "matmul": 2, "tanh": 1, "half": 1, "rows": 0.5, "spread": 0.5, "sum": 1, "greater": 1, "less": 0.5,
        "odd": 0.5, "plus": 0.5, "element": 0.5, "choose": 0.5, "stack_mean": 0.5, "identity": 0.5}
READS = {"read_plus": 3, "read_times": 3, "read_matmul": 1.5, "read_sum": 1, "read_rows": 1, "read_reshaped": 0.7, "read_column": 0.7,
         "read_int": 1.2, "alias": 2, "initialized": 0.2}
CHANGES = {"assign": 2, "assign_as_is": 1, "assign_add": 3, "assign_sub": 1, "scatter_update": 0.7, "scatter_add": 0.7,
           "scatter_sub": 0.4, "scatter_max": 0.3, "scatter_nd_update": 0.4, "scatter_nd_add": 0.4, "slice_assign": 0.5,
           "start_over": 0.4, "int_add": 1, "int_assign": 0.5, "count_up_to": 0.4, "apply": 1.2}
QUEUES = {"enqueue": 0.3, "dequeue": 0.3, "through": 0.4}
WEIGHTS = {**PURE, **READS, **CHANGES, **QUEUES, "cond": 2, "loop": 4, "case": 0.3, "scan": 0.5, "train": 1, "gradients": 1,
           "function": 0.2}
INSIDE = {**{op: w / 2 for op, w in PURE.items()}, **READS, **CHANGES, **QUEUES, "cond": 2, "loop": 1.5, "scan": 0.3}


def make(seed):
    rng = random.Random(seed)
    maker = Maker(rng, WEIGHTS, INSIDE, depth=rng.choice([1, 2, 2, 3]), away=rng.choice([0.0, 0.3, 0.6]), functional=0.15)
    if rng.random() < 0.5:
        maker.devices = [rng.choice(maker.devices)]
    for _ in range(rng.randint(1, 3)):
        maker.variable("V", ref=rng.random() < 0.75)
    for _ in range(rng.randint(0, 1)):
        maker.variable("N", ref=rng.random() < 0.75)
    if rng.random() < 0.2:
        maker.add("queue", n=rng.randint(0, 9), device=rng.choice(maker.devices))
    maker.one("placeholder_f")
    maker.part = 1
    maker.draw(rng.randint(2, 8))
    if rng.random() < 0.4:
        maker.part = 2
        maker.draw(rng.randint(1, 4))
    return Program("references", seed, maker.statements, script(rng, maker), grappler=rng.random() < 0.25,
                   master=rng.choice(["worker:0", "worker:0", "worker:1", "ps:0"]), one_task=one_task(maker))



def script(rng, maker):
    """A few steps, each with its own fetches."""
    drawn = fetches(maker)
    return [Action("run", steps=[drawn.step(rng)]) for _ in range(rng.randint(1, 4))] + [Action("state")]

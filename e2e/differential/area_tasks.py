"""Area tasks: what tensors, control flow, functions and queues do between tasks."""
import random

from generate import Maker
from program import Action, Program
from scripts import fetches, one_task

PURE = {"add": 2, "subtract": 1, "multiply": 1.5, "matmul": 1.5, "tanh": 1, "relu": 0.5, "negative": 0.5, "half": 0.5, "transpose": 0.5,
        "reversed": 0.3, "rows": 0.5, "add_n": 0.7, "concat_split": 0.7, "stack_mean": 0.5, "swap": 0.7, "identity": 1,
        "stop_gradient": 0.3, "reshaped": 0.4, "sum": 1, "largest": 0.5, "positive_sum": 0.5, "element": 0.5, "spread": 0.7,
        "scalar_add": 0.4, "fill": 0.4, "choose": 0.8, "greater": 1.2, "both": 0.5, "inverse": 0.5, "less": 0.7, "odd": 0.7,
        "plus": 0.7, "times": 0.4, "count": 0.5, "to_int": 0.5, "to_float": 0.5, "text": 0.4, "size_where": 0.4}
STATE = {"read_plus": 0.7, "read_times": 0.5, "read_int": 0.4, "assign_add": 0.7, "assign": 0.4, "int_add": 0.4, "enqueue": 0.8,
         "dequeue": 0.8, "through": 0.8, "queued": 0.4}
WEIGHTS = {**PURE, **STATE, "cond": 4, "case": 0.7, "loop": 4, "scan": 0.7, "map": 0.7, "function": 1.5, "gradients": 1, "train": 0.5}
INSIDE = {**PURE, **STATE, "cond": 3, "case": 0.4, "loop": 2.5, "function": 0.7}


def make(seed):
    rng = random.Random(seed)
    maker = Maker(rng, WEIGHTS, INSIDE, depth=rng.choice([1, 2, 2, 3]), away=rng.choice([0.5, 0.8, 1.0]), functional=rng.choice([0, 0.3, 0.6]))
    for _ in range(rng.randint(1, 2)):
        maker.one("placeholder_f")
    if rng.random() < 0.4:
        maker.one("placeholder_i")
    if rng.random() < 0.4:
        maker.one("placeholder_b")
    for _ in range(rng.choice([0, 0, 1, 2])):
        maker.variable(rng.choice("VVN"))
    if rng.random() < 0.4:
        maker.add("queue", n=rng.randint(0, 9), device=rng.choice(maker.devices))
    maker.draw(rng.randint(1, 5))
    maker.part = 1
    maker.draw(rng.randint(1, 6))
    drawn, actions = fetches(maker), []
    for _ in range(rng.randint(2, 5)):
        if actions and rng.random() < 0.5:
            actions.append(Action("run", steps=[drawn.like(rng, rng.choice(actions).steps[0])]))
        else:
            actions.append(Action("run", steps=[drawn.step(rng)]))
    return Program("tasks", seed, maker.statements, actions + [Action("state")], grappler=rng.random() < 0.25,
                   master=rng.choice(["worker:0", "worker:0", "worker:1", "ps:0"]), one_task=one_task(maker))

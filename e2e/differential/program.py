"""Random programs as data: statements that make a graph, and actions that run it.

Kinds of values: f is a float matrix (2 by 2), s a float, i an int, b a bool; V is a variable that holds an f, N one that
holds an i, Q a queue of f, and A what may stand for a V's memory, such as the identity of a reference variable. Where an f is
wanted V and A are taken as well, and N where an i is. A reference to a value is a pair (statement, number of the result).
"""
import copy

import numpy as np

TASKS = ("ps:0", "worker:0", "worker:1")
DATA = "fsib"


class Statement:
    """One call of TensorFlow's API. Its operands are references, None where a constant takes their place."""

    __slots__ = ("id", "op", "args", "device", "after", "attrs", "bodies", "part", "stage")

    def __init__(self, id, op, args=(), device=None, after=(), attrs=None, bodies=(), part=0, stage=0):
        self.id = id
        self.op = op
        self.args = list(args)
        self.device = device
        self.after = list(after)  # statements of the same scope that it has control dependencies on
        self.attrs = attrs or {}
        self.bodies = list(bodies)
        # What one step may run together: touches of state are ordered within a part. Part 0 touches no state.
        self.part = part
        self.stage = stage  # which extension of the graph it belongs to


class Body:
    """The inside of a conditional, a loop or a function."""

    __slots__ = ("params", "statements", "results", "kinds")

    def __init__(self, params, statements, results, kinds):
        self.params = params  # pairs of id and kind
        self.statements = statements
        self.results = results
        self.kinds = kinds


class Step:
    """One call of run, a part of a partial run, or a call of a callable."""

    __slots__ = ("fetches", "targets", "feeds", "unfed")

    def __init__(self, fetches=(), targets=(), feeds=(), unfed=False):
        self.fetches = list(fetches)
        self.targets = list(targets)
        self.feeds = list(feeds)  # pairs of reference and number; value() says what is fed
        self.unfed = unfed  # placeholders without a feed stay so


class Action:
    """What the client does next; kind is run, partial, callable, options, parallel, extend, open, close or state."""

    __slots__ = ("kind", "session", "steps", "attrs")

    def __init__(self, kind, session=0, steps=(), **attrs):
        self.kind = kind
        self.session = session
        self.steps = list(steps)
        self.attrs = attrs


class Program:
    """Statements, script, and how its sessions are configured."""

    __slots__ = ("area", "seed", "statements", "script", "master", "grappler", "folds", "one_task")

    def __init__(self, area, seed, statements, script, master="worker:0", grappler=False, one_task=False):
        self.area = area
        self.seed = seed
        self.statements = statements
        self.script = script
        self.master = master
        self.grappler = grappler
        self.folds = True  # TensorFlow's constants are folded
        self.one_task = one_task  # TensorFlow's servers get it on one task: they refuse functions over several

    def copy(self):
        return copy.deepcopy(self)

    def scopes(self):
        """All lists of statements, the outermost first."""
        found, todo = [], [self.statements]
        while todo:
            statements = todo.pop()
            found.append(statements)
            todo.extend(b.statements for s in statements for b in s.bodies)
        return found

    def size(self):
        return sum(len(statements) for statements in self.scopes())


def value(kind, n):
    """The value of a kind that the number n stands for."""
    if kind in "fV":
        return np.array([[n, -0.5 * n], [0.5, n - 3]], np.float32) / 4
    if kind == "s":
        return np.float32(n / 4 - 1)
    if kind in "iN":
        return np.int32(n)
    return np.bool_(n % 2)

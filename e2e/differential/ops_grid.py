"""Calls of an op that cover a grid, where ops_make.py makes calls by chance: each element type for which TensorFlow has
a kernel, inputs of rank 0 and of size 0, each value of each attribute, and inputs that are wrong in one way each.

A cell of the grid is a call with a name that says what is special about it. The first call of an op and its types is
one that TensorFlow's server takes; the others change it.
"""
import itertools
import zlib

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import kernels

import ops_lists
import ops_values as v
from ops_call import declaration, inferred
from ops_make import known_types, make

SEEDS = 16  # how many calls are tried until one is taken
MOST_TYPES = 60  # of an op
UNTOUCHED = {"container", "shared_name", "seed", "seed2", "_class", "message", "cluster_def"}  # names; and with seeds of 0 the numbers are never the same
OTHER_TYPES = 6  # of an op whose first types no call is taken with
MOST_ELEMENTS = 4096  # of inputs whose dimensions are made larger


def assignments(op):
    """The types that an op's type attributes are given, such that each type of each kernel's row occurs."""
    allowed, found = known_types(op), []
    for k in kernels.get_registered_kernels_for_op(op).kernel:
        if k.device_type not in ("CPU", "DEFAULT"):
            continue
        row = {c.name: [tf.as_dtype(t).name for t in c.allowed_values.list.type] for c in k.constraint}
        options = {a: [t for t in row.get(a, types) if t in types] for a, types in allowed.items()}
        if not all(options.values()):
            continue
        for a, types in options.items():
            for t in types:
                found.append({**{b: o[0] for b, o in options.items()}, a: t})
        if not options:
            found.append({})
    unique = {tuple(sorted(x.items())): x for x in found}
    # In turns by kernel, so that what is beyond the bound is more of the same.
    return list(unique.values())[:MOST_TYPES]


def good(pair, wanted):
    """For each (op, types) a call that TensorFlow's server takes, and its outcomes: {key: (call, theirs, ours)}."""
    found, left = {}, list(wanted)
    for seed in range(SEEDS):
        calls = []
        for op, types in left:
            call = make(op, seed, dict(types))
            call.constant = seed % 4 == 3  # the client does not take some ops whose inputs' shapes it does not know
            if not ops_lists.crashes(call):
                calls.append(((op, types), call))
        left = [k for k in left if k not in found]
        for at in range(0, len(calls), 40):
            some = calls[at:at + 40]
            for (key, call), p in zip(some, pair.run([c for _, c in some])):
                if p and not p[0].error and (seed >= SEEDS // 2 or all(x.size for x in call.arrays())):
                    found[key] = call, *p
        left = [k for k in left if k not in found and pair.crashes.get(k[0], 0) < 2]
    return found, left


def sizes(call):
    """Inputs without dimensions or elements."""
    arrays = call.arrays()
    yield "constants", call.changed(constant=True)
    for i, x in enumerate(arrays):
        one = lambda y: call.changed(arrays[:i] + [np.asarray(y, x.dtype)] + arrays[i + 1:])
        if x.ndim and x.size:
            yield "rank 0", one(x.reshape(-1)[0])
        for axis, d in enumerate(x.shape):
            if d:
                yield "size 0", one(x[(slice(None),) * axis + (slice(0),)])
    for size in sorted({d for x in arrays for d in x.shape if d}):
        yield "size 0 of all", call.changed([x[tuple(slice(0) if d == size else slice(None) for d in x.shape)] if x.ndim else x for x in arrays])
    if all(x.size for x in arrays) and any(x.ndim for x in arrays):
        yield "rank 0 of all", call.changed([np.asarray(x.reshape(-1)[0], x.dtype) for x in arrays])


def values_of_attributes(call):
    told = inferred(call.op)
    for attr in declaration(call.op).attr:
        if attr.name in told or attr.name in UNTOUCHED:
            continue
        for value in attribute(attr, call.attrs.get(attr.name)):
            if call.attrs.get(attr.name) != value:
                yield "attribute", call.changed(attrs={**call.attrs, attr.name: value})


def attribute(attr, now):
    """Values of an attribute: all that are allowed if they are few, else those at edges."""
    if attr.allowed_values.list.s:
        return [s.decode() for s in attr.allowed_values.list.s]
    if attr.type == "type":
        return [tf.as_dtype(t).name for t in attr.allowed_values.list.type] if attr.allowed_values.list.type else []
    if attr.type == "bool":
        return [False, True]
    if attr.type == "int":
        return [-2, -1, 0, 1, 2, 3]
    if attr.type == "float":
        return [-1., 0., .5, 1., float("nan"), float("inf")]
    if attr.type == "string":
        return ["", "?"]
    if attr.type == "shape":
        return [None, [], [2], [None, 3]]
    if attr.type in ("list(int)", "list(float)", "list(shape)", "list(string)") and isinstance(now, (list, tuple)):
        now = list(now)
        lists = [[], now[:-1], now + now[-1:]]
        if attr.type in ("list(int)", "list(float)"):
            lists += [now[:i] + [x] + now[i + 1:] for i in range(len(now)) for x in (-1, 0, 1, 2)]
        return lists
    return []


def wrong(call):
    arrays = call.arrays()
    for i, x in enumerate(arrays):
        one = lambda y: call.changed(arrays[:i] + [y] + arrays[i + 1:])
        yield "rank too high", one(x[None])
        if x.ndim and x.shape[0]:
            yield "rank too low", one(np.asarray(x[0], x.dtype))
        for axis, d in enumerate(x.shape):
            if 0 < d and x.size <= MOST_ELEMENTS:
                yield "size too large", one(np.concatenate([x, x[(slice(None),) * axis + (slice(d - 1, None),)]], axis))
            if d > 1:
                yield "size too small", one(x[(slice(None),) * axis + (slice(d - 1),)])
        for value in edges(x.dtype):
            if x.size:
                yield "value", one(np.full_like(x, value))
                if x.size > 1:
                    y = x.copy()
                    y.reshape(-1)[-1] = value
                    yield "value", one(y)
    for name, value in call.inputs.items():
        if isinstance(value, list) and value:
            for fewer in (value[:-1], value + value[-1:]):
                if fewer:
                    other = call.changed()
                    other.inputs = {**other.inputs, name: fewer}
                    yield "length of a list", other


def edges(dtype):
    """Values at which ops go wrong."""
    if dtype == object:
        return [b"", b"\xff"]
    if dtype == bool:
        return [False, True]
    if v.is_float(dtype):
        return [np.nan, np.inf, -np.inf, 0, -1]
    if dtype.kind == "c":
        return [0, np.nan]
    if dtype.fields or dtype.kind not in "iu":
        return []
    info = np.iinfo(dtype)
    # The greatest int32 is left out: as a size it is one that there is memory for, just.
    return sorted({max(info.min, -1), 0, 1, 7, info.min} | ({info.max} if info.bits != 32 else set()))


def grid(pair, ops, part=0, parts=1):
    """The calls of a part of the grid of some ops, as (op, name, call).

    All parts together are the grid. Each of them has cells of every op: the types in turn, and of the first ones each
    parts-th cell. Ops begin at different places, so that a part has some of every kind of cell.
    """
    keys, chosen = [], set()
    for op in ops:
        for i, types in enumerate(assignments(op)):
            key = op, tuple(sorted(types.items()))
            if (i + turn(op)) % parts == part:
                chosen.add(key)
            if not i or key in chosen:
                keys.append(key)
    found, never = good(pair, keys)
    # Where the first types are none that go together, some other ones are tried.
    done = {op for op, _ in found}
    others = [(op, tuple(sorted(types.items()))) for op in ops if op not in done for types in assignments(op)[1:OTHER_TYPES]]
    found.update(good(pair, [key for key in others if key not in keys])[0])
    first = {}
    for key, (call, _, _) in found.items():
        op = key[0]
        first.setdefault(op, call)
        yield op, "types", call
        # Of each type what has no dimensions or elements; everything else of one.
        for name, other in sizes(call) if key in chosen else ():
            if not ops_lists.crashes(other):
                yield op, name, other
        more = (values_of_attributes(call), wrong(call)) if first[op] is call else ()
        for i, (name, other) in enumerate(itertools.chain(*more)):
            if (i + turn(op)) % parts == part and not ops_lists.crashes(other):
                yield op, name, other
    for op, types in never:
        yield op, "never", make(op, 0, dict(types))


def turn(op):
    """Where an op begins to be divided among parts; that does not change from run to run."""
    return zlib.crc32(op.encode())

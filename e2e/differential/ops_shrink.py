"""Makes a call that differs as small and plain as it can be."""
import numpy as np
import tensorflow.compat.v1 as tf

import ops_lists
import ops_values as v
from ops_call import declaration, parts_of
from ops_compare import difference


def simpler(call):
    """Calls that are smaller or plainer by one change each, the greatest changes first."""
    if call.constant:
        yield call.changed(constant=False)
    defaults = {a.name for a in declaration(call.op).attr if a.HasField("default_value")}
    for name in call.attrs:
        if name in defaults:
            yield call.changed(attrs={k: x for k, x in call.attrs.items() if k != name})
    for name, value in call.inputs.items():
        if isinstance(value, list) and len(value) > 1:
            for i in range(len(value)):
                smaller = call.changed()
                smaller.inputs = dict(smaller.inputs, **{name: smaller.inputs[name][:i] + smaller.inputs[name][i + 1:]})
                yield smaller
    arrays = call.arrays()
    sizes = sorted({d for x in arrays for d in x.shape if d > 1}, reverse=True)
    for size in sizes:  # the same dimension of all inputs
        for less in {1, size // 2, size - 1}:
            yield call.changed([x[tuple(slice(less) if d == size else slice(None) for d in x.shape)] if x.ndim else x for x in arrays])
    most = max((x.ndim for x in arrays), default=0)
    for rank in range(most, 0, -1):  # a dimension of all inputs of a rank
        yield call.changed([np.asarray(x[0], x.dtype) if x.ndim == rank and x.shape[0] else x for x in arrays])
    for i, x in enumerate(arrays):
        swap = lambda y: call.changed(arrays[:i] + [np.asarray(y, x.dtype)] + arrays[i + 1:])
        for axis, d in enumerate(x.shape):
            for less in {1, d // 2, d - 1} if d > 1 else ():
                yield swap(x[(slice(None),) * axis + (slice(less),)])
            if d > 1:
                yield swap(x[(slice(None),) * axis + (slice(d - 1, None),)])
        if x.ndim and x.shape[0]:
            yield swap(x[0])
    for i, x in enumerate(arrays):
        if x.dtype.kind in "fiuc" and x.size or v.is_float(x.dtype):
            swap = lambda y: call.changed(arrays[:i] + [np.asarray(y).astype(x.dtype)] + arrays[i + 1:])
            with np.errstate(all="ignore"):
                for plain in (np.zeros_like(x), np.ones_like(x)):
                    if (x != plain).any():
                        yield swap(plain)
                if x.size <= 24:
                    for j in np.ndindex(*x.shape):
                        for plain in (0, 1):
                            if x[j] != plain:
                                y = x.copy()
                                y[j] = plain
                                yield swap(y)
                if x.dtype.kind == "f" and (x != np.round(x)).any():
                    yield swap(np.round(x))


def weight(call):
    """Sorts calls: the lighter is the plainer."""
    arrays = call.arrays()
    with np.errstate(all="ignore"):
        odd = sum(int(((x != 0) & (x != 1)).sum()) * 2 + int((x != 0).sum()) for x in arrays if x.dtype.kind in "fiuc")
        long = sum(len(repr(y)) for x in arrays if x.dtype.kind == "f" for y in x.reshape(-1)[:64])
    return (sum(x.size for x in arrays) + len(arrays), sum(x.ndim for x in arrays), len(call.attrs) + call.constant, odd, long)


def shrink(pair, call, kind, rounds=30, batch=12):
    """The plainest call found that differs in the same way."""
    for _ in range(rounds):
        best, found = call, [c for c in simpler(call) if weight(c) < weight(call) and not ops_lists.crashes(c)][:120]
        for at in range(0, len(found), batch):
            some = found[at:at + batch]
            for c, p in zip(some, pair.run(some)):
                if p and difference(c, *p) == kind and weight(c) < weight(best):
                    best = c
            if best is not call:
                break
        if best is call:
            return call
        call = best
    return call

"""Rows for ops that move, cut and index."""
import numpy as np

import ops_values as v
from ops_call import Ref, Var
from ops_make import INDEX, broadcasting, row


@row("ShapeN IdentityN")
def any_shapes(m):
    return {"input": [m.any("T") if m.op == "ShapeN" else m.array(m.pick("float32", "int64", "string", "bool"), m.shape()) for _ in range(m.int(1, 3))]}


@row("AccumulateNV2")
def accumulate(m):
    shape = m.shape()
    m.set(shape=list(shape))
    return {"inputs": [m.array("T", shape) for _ in range(m.int(1, 4))]}


@row("Concat ConcatV2")
def concat(m):
    shape, axis = list(m.shape(0 if m.chance(.03) else 1)), None
    axis = m.axis(len(shape))
    values = []
    for _ in range(m.int(1 if m.op == "ConcatV2" and m.chance(.1) else 2, 5)):
        s = list(shape)
        if shape and -len(s) <= axis < len(s):
            s[axis] = m.int(0, 4)
        values.append(m.array("T", m.bent(s, .02)))
    return {"values": values, "axis": m.ints(axis, "Tidx")} if m.op == "ConcatV2" else {"concat_dim": m.ints(axis), "values": values}


@row("ConcatOffset")
def concat_offset(m):
    n, axis = m.int(1, 4), m.int(0, 3)
    shape = [m.int(0, 4) for _ in range(n)]
    shapes = []
    for _ in range(m.int(2, 4)):
        s = list(shape)
        if axis < n:
            s[axis] = m.int(0, 5)
        shapes.append(m.ints(s, "shape_type"))
    return {"concat_dim": m.ints(axis - (n if m.chance(.3) else 0)), "shape": shapes}


@row("Pack")
def pack(m):
    shape = m.shape(high=4)
    m.set(axis=m.axis(len(shape) + 1))
    return {"values": [m.array("T", m.bent(shape, .02)) for _ in range(m.int(1, 4))]}


@row("Unpack")
def unpack(m):
    shape = m.shape(1, 5)
    axis = m.axis(len(shape))
    m.set(axis=axis, num=shape[axis] + (m.chance(.03)) if -len(shape) <= axis < len(shape) else 1)
    return {"value": m.array("T", shape)}


@row("Split")
def split(m):
    n, shape = m.int(1, 4), list(m.shape(1, 5))
    axis = m.axis(len(shape))
    if -len(shape) <= axis < len(shape) and not m.chance(.05):
        shape[axis] = n * m.int(0, 3)
    m.set(num_split=n)
    return {"split_dim": m.ints(axis), "value": m.array("T", shape)}


@row("SplitV")
def split_v(m):
    sizes, shape = [m.int(0, 3) for _ in range(m.int(1, 4))], list(m.shape(1, 5))
    axis = m.axis(len(shape))
    if -len(shape) <= axis < len(shape):
        shape[axis] = sum(sizes)
    m.set(num_split=len(sizes))
    if m.chance(.3):
        sizes[m.int(0, len(sizes) - 1)] = -1
    if m.chance(.06):
        sizes[m.int(0, len(sizes) - 1)] += m.pick(1, -2, 100)
    return {"value": m.array("T", shape), "size_splits": m.ints(sizes, "Tlen"), "split_dim": m.ints(axis)}


@row("Slice")
def slice_(m):
    shape = m.shape(high=5)
    begin = [m.int(0, d) for d in shape]
    size = [-1 if m.chance(.2) else m.int(0, d - b) for d, b in zip(shape, begin)]
    if shape and m.chance(.08):
        begin[m.int(0, len(shape) - 1)] += m.pick(1, -1, 7)
    if shape and m.chance(.05):
        size[m.int(0, len(shape) - 1)] += m.pick(1, -2, 7)
    return {"input": m.array("T", shape), "begin": m.ints(begin, "Index"), "size": m.ints(size, "Index")}


def strided(m, shape):
    """begin, end and strides, and the masks as attributes; also what the slice's shape is, None if it is an error."""
    n = m.int(0, len(shape)) if m.chance(.4) else len(shape)
    masks = dict.fromkeys(["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"], 0)
    for name in masks:
        if m.chance({"ellipsis_mask": .15}.get(name, .3)) and n:
            masks[name] = 1 << m.int(0, n - 1) if name == "ellipsis_mask" and not m.chance(.05) else m.int(0, (1 << n) - 1)
    low = -max(shape, default=1) - 2
    begin, end = [m.int(low, -low) for _ in range(n)], [m.int(low, -low) for _ in range(n)]
    strides = [int(m.rng.choice([1, 1, 2, 3, -1, -2, 100, -100, 0], p=[.3, .2, .15, .05, .15, .07, .03, .03, .02])) for _ in range(n)]
    if n and m.chance(.05):
        end[0] = m.pick(2**31 - 1, -2**31)
    if masks["shrink_axis_mask"] and not m.chance(.15):
        for i in range(n):
            if masks["shrink_axis_mask"] >> i & 1:
                d = shape[min(i, len(shape) - 1)] if shape else 1
                begin[i], strides[i] = m.int(-d, max(d - 1, 0)), 1
    m.attrs.update({k: x for k, x in masks.items() if x})
    try:
        index, spec = [], np.zeros(shape, np.int8)
        seen = False
        for i in range(n):
            if masks["ellipsis_mask"] >> i & 1 and not seen:
                index.append(Ellipsis)
                seen = True
            elif masks["new_axis_mask"] >> i & 1:
                index.append(np.newaxis)
            elif masks["shrink_axis_mask"] >> i & 1:
                index.append(begin[i])
            else:
                index.append(slice(None if masks["begin_mask"] >> i & 1 else begin[i], None if masks["end_mask"] >> i & 1 else end[i], strides[i]))
        result = spec[tuple(index)].shape
    except (IndexError, ValueError):
        result = None
    return {"begin": m.ints(begin, "Index"), "end": m.ints(end, "Index"), "strides": m.ints(strides, "Index")}, result


@row("StridedSlice")
def strided_slice(m):
    shape = m.shape(high=5)
    return dict({"input": m.array("T", shape)}, **strided(m, shape)[0])


@row("StridedSliceGrad StridedSliceAssign ResourceStridedSliceAssign TensorStridedSliceUpdate")
def strided_update(m):
    shape = m.shape(high=4)
    where, result = strided(m, shape)
    result = m.bent(result if result is not None else shape)
    if m.op == "StridedSliceGrad":
        return dict({"shape": m.ints(shape, "Index"), "dy": m.array("T", result)}, **where)
    if "Assign" not in m.op and m.chance(.3):
        result = v.broadcast(m.rng, result)
    target = {"StridedSliceAssign": Ref, "ResourceStridedSliceAssign": Var}.get(m.op, lambda x: x)(m.array("T", shape))
    return dict({"input" if "Update" in m.op else "ref": target, "value": m.array("T", result)}, **where)


@row("Pad PadV2 MirrorPad MirrorPadGrad")
def pad(m):
    shape = m.shape(0, 5)
    pads = [[m.int(0, 3), m.int(0, 3)] for _ in shape]
    if "Mirror" in m.op:
        m.set(mode=m.pick("REFLECT", "SYMMETRIC"))
        most = 1 if m.attrs["mode"] == "REFLECT" else 0
        if not m.chance(.1):
            pads = [[m.int(0, max(d - most, 0)), m.int(0, max(d - most, 0))] for d in shape]
        if m.op == "MirrorPadGrad":
            shape = [d + sum(p) for d, p in zip(shape, pads)]
    if shape and m.chance(.04):
        pads[0][m.int(0, 1)] = -1
    out = {"input": m.array("T", shape), "paddings": m.ints(pads, "Tpaddings").reshape(len(pads), 2)}
    if m.op == "PadV2":
        out["constant_values"] = m.array("T", ())
    return out


@row("Tile")
def tile(m):
    shape = m.shape(high=5)
    many = [m.int(0, 3) if not m.chance(.02) else -1 for _ in m.bent(shape)]
    return {"input": m.array("T", shape), "multiples": m.ints(many, "Tmultiples")}


@row("BroadcastTo")
def broadcast_to(m):
    full = m.shape(high=5)
    target = list(full)
    if target and m.chance(.05):
        target[m.int(0, len(target) - 1)] = m.pick(-1, 7)
    return {"input": m.array("T", v.broadcast(m.rng, full)), "shape": m.ints(target, "Tidx")}


@row("BroadcastArgs BroadcastGradientArgs")
def broadcast_args(m):
    full = m.shape(high=5)
    return {"s0": m.ints(v.broadcast(m.rng, full), "T"), "s1": m.ints(v.broadcast(m.rng, full), "T")}


@row("Reshape")
def reshape(m):
    shape = m.shape(high=5)
    target = list(shape)
    m.rng.shuffle(target)
    if len(target) > 1 and m.chance(.5):
        target = [target[0] * target[1]] + target[2:]
    if target and m.chance(.4):
        target[m.int(0, len(target) - 1)] = -1
    if m.chance(.2):
        target.insert(m.int(0, len(target)), m.pick(1, 1, 1, 0, -1, 2))
    if not target and m.chance(.5):
        target = [1] * m.int(0, 3)
    return {"tensor": m.array("T", shape), "shape": m.ints(target, "Tshape")}


@row("ExpandDims")
def expand(m):
    shape = m.shape()
    return {"input": m.array("T", shape), "dim": m.ints(m.axis(len(shape) + 1), "Tdim").reshape(m.pick((), (), (), (1,)))}


@row("Squeeze")
def squeeze(m):
    shape = m.shape(dims=(1, 1, 2, 3))
    ones = [i - (len(shape) if m.chance(.3) else 0) for i, d in enumerate(shape) if d == 1 or m.chance(.03)]
    if m.chance(.6):
        m.set(squeeze_dims=[i for i in ones if m.chance(.6)])
    return {"input": m.array("T", shape)}


@row("EnsureShape PlaceholderWithDefault")
def ensure(m):
    shape = m.shape()
    m.set(shape=None if m.chance(.1) else [None if m.chance(.3) else d for d in m.bent(shape)])
    return {"input": m.array("T" if m.op == "EnsureShape" else "dtype", shape)}


@row("Transpose ConjugateTranspose")
def transpose(m):
    shape = m.shape(high=5)
    perm = m.rng.permutation(len(m.bent(shape, .02)))
    if len(perm) and m.chance(.05):
        perm[0] = m.pick(-1, perm[-1], 9)
    return {"x": m.array("T", shape), "perm": m.ints(perm, "Tperm")}


@row("InvertPermutation")
def invert(m):
    x = m.rng.permutation(m.int(0, 6))
    if len(x) and m.chance(.1):
        x[0] = m.pick(-1, 100, x[-1])
    return {"x": m.ints(x, "T")}


@row("Reverse ReverseV2")
def reverse(m):
    shape = m.shape(high=5)
    if m.op == "Reverse":
        return {"tensor": m.array("T", shape), "dims": m.array("bool", (len(m.bent(shape)),))}
    axes = [i - (len(shape) if m.chance(.3) else 0) for i in range(len(shape)) if m.chance(.5)]
    m.rng.shuffle(axes)
    if m.chance(.06):
        axes.append(m.pick(0, len(shape), -len(shape) - 1))
    return {"tensor": m.array("T", shape), "axis": m.ints(axes, "Tidx")}


@row("ReverseSequence")
def reverse_sequence(m):
    shape = m.shape(2, 4)
    batch, seq = (int(x) for x in m.rng.permutation(len(shape))[:2])
    if m.chance(.04):
        seq = m.pick(batch, -1, 9)
    lengths = m.index("Tlen", m.bent((shape[batch],)), (shape[seq] if 0 <= seq < len(shape) else 2) + 1)
    m.set(seq_dim=seq, batch_dim=batch)
    return {"input": m.array("T", shape), "seq_lengths": lengths}


@row("Roll")
def roll(m):
    shape = m.shape(0 if m.chance(.05) else 1, 4)
    n = m.int(0, 3)
    shift = m.ints([m.int(-9, 9) for _ in range(n)], "Tshift")
    axis = m.ints([m.axis(len(shape), .02) for _ in range(n)], "Taxis")
    if n == 1 and m.chance(.5):
        shift, axis = shift.reshape(()), axis.reshape(())
    return {"input": m.array("T", shape), "shift": shift, "axis": axis}


@row("Gather GatherV2 ResourceGather")
def gather(m):
    values = "dtype" if m.op == "ResourceGather" else "Tparams"
    shape = m.shape(1, 4, zero=.12)
    axis = m.axis(len(shape), .03) if m.op == "GatherV2" else 0
    inside = -len(shape) <= axis < len(shape)
    batch = 0
    if m.op != "Gather" and m.chance(.25):
        batch = m.int(0, (axis % len(shape)) if inside else 1)
        if m.op == "ResourceGather" and len(shape) > 1:
            batch = m.int(0, 1)
        if m.chance(.1):
            batch = m.pick(-1, 2, 5)
    at = batch if m.op == "ResourceGather" and 0 <= batch < len(shape) else axis % len(shape) if inside else 0
    rest = m.shape(0, 2)
    indices = m.index("Tindices", tuple(shape[:batch] if batch > 0 else ()) + rest, shape[at], .08)
    params = m.array(values, shape)
    if m.op != "Gather":
        m.set(batch_dims=batch)
    if m.op == "GatherV2":
        return {"params": params, "indices": indices, "axis": m.ints(axis, "Taxis")}
    return {"params": params, "indices": indices} if m.op == "Gather" else {"resource": Var(params), "indices": indices}


def nd_indices(m, shape, attr="Tindices", bad=.06):
    """Indices of a number of slices, each of some of the shape's dimensions: their array and the slices' shape."""
    depth = m.int(0 if m.chance(.1) else min(1, len(shape)), len(shape))
    outer = m.shape(1 if m.chance(.8) else 0, 2)
    dtype = m.dtype(attr)
    parts = [m.index(attr, outer, d, bad / max(depth, 1)) for d in shape[:depth]]
    indices = np.stack(parts, -1) if parts else np.zeros(outer + (0,), dtype)
    return indices.astype(dtype), outer + tuple(shape[depth:])


@row("GatherNd ResourceGatherNd")
def gather_nd(m):
    shape = m.shape(1, 4, zero=.1)
    indices = nd_indices(m, shape)[0]
    if m.op == "GatherNd":
        if m.chance(.2):
            m.set(bad_indices_policy=m.pick("ERROR", "IGNORE", "DEFAULT"))
        return {"params": m.array("Tparams", shape), "indices": indices}
    return {"resource": Var(m.array("dtype", shape)), "indices": indices}


@row("ScatterNd TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin TensorScatterUpdate ScatterNdNonAliasingAdd "
     "ScatterNdAdd ScatterNdSub ScatterNdMax ScatterNdMin ScatterNdUpdate "
     "ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdUpdate")
def scatter_nd(m):
    shape = m.shape(1, 4, zero=.08)
    indices, slices = nd_indices(m, shape)
    updates = m.array("T", m.bent(slices))
    if m.chance(.12):
        m.set(bad_indices_policy=m.pick("ERROR", "IGNORE", "DEFAULT"))
    if m.op == "ScatterNd":
        return {"indices": indices, "updates": updates, "shape": m.ints(shape, "Tindices")}
    target = m.array("T", shape)
    if m.op.startswith("Tensor"):
        return {"tensor": target, "indices": indices, "updates": updates}
    if m.op == "ScatterNdNonAliasingAdd":
        return {"input": target, "indices": indices, "updates": updates}
    return {"ref": (Var if m.op.startswith("Resource") else Ref)(target), "indices": indices, "updates": updates}


@row("ScatterAdd ScatterSub ScatterMul ScatterDiv ScatterMax ScatterMin ScatterUpdate ResourceScatterAdd ResourceScatterSub "
     "ResourceScatterMul ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterUpdate")
def scatter(m):
    resource = m.op.startswith("Resource")
    dtype, shape = "dtype" if resource else "T", m.shape(1, 3, zero=.08)
    outer = m.shape(0, 2)
    updates = () if m.chance(.2) else m.bent(outer + shape[1:])
    return {"resource" if resource else "ref": (Var if resource else Ref)(m.array(dtype, shape)),
            "indices": m.index("Tindices", outer, shape[0], .08), "updates": m.array(dtype, updates)}


@row("OneHot")
def one_hot(m):
    depth, shape = m.int(0, 5) if not m.chance(.03) else -1, m.shape(0, 3)
    m.set(axis=m.int(-1, len(shape)))
    return {"indices": m.index("TI", shape, max(depth, 0) + 1, .2), "depth": m.ints(depth), "on_value": m.array("T", ()), "off_value": m.array("T", ())}


@row("Fill")
def fill(m):
    dims = list(m.shape(high=5))
    if dims and m.chance(.04):
        dims[0] = -1
    return {"dims": m.ints(dims, "index_type"), "value": m.array("T", m.pick((), (), (), (), (1,)))}


@row("Empty")
def empty(m):
    m.set(init=True)
    return {"shape": m.ints(m.shape(high=5))}


@row("Range RaggedRange")
def range_(m):
    dtype = "Tidx" if m.op == "Range" else "T"
    if m.dtype(dtype).kind in "iu":
        start, limit, step = m.int(-20, 20), m.int(-20, 20), m.pick(1, 2, 3, -1, -2, 7, 0 if m.chance(.1) else 1)
        if m.chance(.1):
            info = np.iinfo(m.dtype(dtype))
            start, limit, step = m.pick((info.min, info.min + 5, 2), (info.max - 4, info.max, 1), (info.max, info.max - 7, -3), (0, info.max, info.max // 3),
                                        (info.min, info.max, info.max), (info.max, info.min, info.min))
    else:
        start, limit, step = m.pick(0, -3, .5, 2.25, -.1), m.pick(0, 3, 7.5, -2, 1), m.pick(1, .5, .1, -.25, -1, 1 / 3)
        if m.chance(.06):
            start, limit, step = m.pick((0, np.nan, 1), (np.nan, 1, 1), (0, 1, np.nan), (0, 1, 0), (0, np.inf, 1), (0, 0, np.inf), (0, 5, np.inf), (1, 0, 1))
    if m.op == "Range":
        return {"start": m.ints(start, dtype), "limit": m.ints(limit, dtype), "delta": m.ints(step, dtype)}
    n = m.int(0, 3)
    many = lambda x: m.ints(x, dtype) if m.chance(.4) else m.ints([x] * n, dtype)
    return {"starts": many(start), "limits": many(limit), "deltas": many(step)}


@row("LinSpace")
def lin_space(m):
    return {"start": m.array("T", ()), "stop": m.array("T", ()), "num": m.ints(m.pick(0, 1, 1, 2, 3, 5, 17, -1), "Tidx")}


@row("Where")
def where(m):
    return {"input": m.any("T", high=5, palette=m.pick("any", "ties"))}


@row("Unique UniqueWithCounts UniqueV2 UniqueWithCountsV2")
def unique(m):
    if not m.op.endswith("V2"):
        return {"x": m.array("T", m.shape(1, 1, dims=(1, 4, 9)) if m.chance(.95) else m.shape(), m.pick("ties", "any"))}
    shape = m.shape(1, 3)
    axis = m.ints([], "Taxis") if m.chance(.2) else m.ints([m.axis(len(shape))], "Taxis")
    return {"x": m.array("T", shape, m.pick("ties", "any")), "axis": axis}


@row("ListDiff")
def list_diff(m):
    one = lambda: m.array("T", m.bent((m.int(0, 8),), .03), m.pick("ties", "any"))
    return {"x": one(), "y": one()}


@row("Diag")
def diag(m):
    return {"diagonal": m.any("T", 0 if m.chance(.05) else 1, 3)}


@row("DiagPart")
def diag_part(m):
    half = m.shape(0 if m.chance(.05) else 1, 2)
    return {"input": m.array("T", m.bent(half + half))}


@row("MatrixDiag MatrixDiagPart MatrixBandPart MatrixSetDiag")
def matrix_diag(m):
    shape = m.shape(1, 4)
    if m.op == "MatrixDiag":
        return {"diagonal": m.array("T", shape)}
    shape = m.shape(2 if m.chance(.96) else 1, 4)
    if m.op == "MatrixDiagPart":
        return {"input": m.array("T", shape)}
    if m.op == "MatrixSetDiag":
        return {"input": m.array("T", shape), "diagonal": m.array("T", m.bent(shape[:-2] + (min(shape[-2:]),)))}
    most = max(shape[-2:])
    return {"input": m.array("T", shape), "num_lower": m.ints(m.int(-2, most), "Tindex"), "num_upper": m.ints(m.int(-2, most), "Tindex")}


@row("MatrixDiagV2 MatrixDiagV3 MatrixDiagPartV2 MatrixDiagPartV3 MatrixSetDiagV2 MatrixSetDiagV3")
def matrix_diags(m):
    batch, rows, cols = m.shape(0, 2), m.int(0 if m.chance(.1) else 1, 5), m.int(0 if m.chance(.1) else 1, 5)
    low = m.int(1 - max(rows, 1), max(cols - 1, 0))
    high = m.int(low, max(cols - 1, low))
    if m.chance(.5):
        high = low
    if m.chance(.05):
        low, high = m.pick((high + 1, low), (low, 9), (-9, high))
    k = m.ints(low if low == high and m.chance(.6) else [low] if low == high and m.chance(.5) else [low, high])
    length = min(rows + min(high, 0), cols - max(low, 0))
    several = () if low == high else (max(high - low + 1, 0),)
    if m.op.endswith("V3") and m.chance(.7):
        m.set(align=m.pick("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"))
    diagonal = batch + several + (max(length, 0),)
    if m.op.startswith("MatrixDiagV"):
        sizes = m.pick((rows, cols), (-1, -1), (rows, -1), (-1, cols), (rows + 1, cols))
        return {"diagonal": m.array("T", m.bent(diagonal)), "k": k, "num_rows": m.ints(sizes[0]), "num_cols": m.ints(sizes[1]),
                "padding_value": m.array("T", ())}
    matrix = m.array("T", batch + (rows, cols))
    if m.op.startswith("MatrixDiagPart"):
        return {"input": matrix, "k": k, "padding_value": m.array("T", ())}
    return {"input": matrix, "diagonal": m.array("T", m.bent(diagonal)), "k": k}


@row("DynamicPartition")
def partition(m):
    shape, n = m.shape(), m.int(1, 4)
    m.set(num_partitions=n)
    return {"data": m.array("T", shape), "partitions": m.index("int32", m.bent(shape[:m.int(0, len(shape))], .03), n)}


@row("DynamicStitch ParallelDynamicStitch")
def stitch(m):
    rest, parts = m.shape(0, 2), [m.shape(0, 2) for _ in range(m.int(1, 3))]
    if m.chance(.5):  # all indices, each once
        order = m.rng.permutation(sum(int(np.prod(p)) for p in parts))
        ends = np.cumsum([int(np.prod(p)) for p in parts])[:-1]
        indices = [m.ints(x).reshape(p) for x, p in zip(np.split(order, ends), parts)]
    else:
        indices = [m.rng.integers(0, 6, p).astype(np.int32) if m.chance(.97) else m.ints(np.full(p, -1)) for p in parts]
    return {"indices": indices, "data": [m.array("T", m.bent(p + rest, .02)) for p in parts]}


@row("SpaceToBatch BatchToSpace SpaceToBatchND BatchToSpaceND")
def space_batch(m):
    nd = m.op.endswith("ND")
    m.constant = m.constant or nd  # the client refuses a block of which it knows nothing
    n = m.int(1, 3) if nd else 2
    block = [m.int(1, 3) for _ in range(n)] if nd else [m.int(2, 3)] * 2
    pads = [[m.int(0, 2), m.int(0, 2)] for _ in range(n)]
    base = [m.int(0 if m.chance(.1) else 1, 3) for _ in range(n)]
    rest = list(m.shape(0 if nd else 1, 2 if nd else 1))
    bad = m.chance(.06)
    if m.op.startswith("SpaceTo"):
        shape = [m.int(0 if m.chance(.1) else 1, 2)] + [d * b if bad else max(d * b - sum(p), 0) for d, b, p in zip(base, block, pads)] + rest
        if not bad:
            pads = [[p[0], d * b - s - p[0]] if d * b - s - p[0] >= 0 else [0, d * b - s] for d, b, s, p in zip(base, block, shape[1:], pads)]
    else:
        if not bad:
            pads = [[min(p[0], d * b), min(p[1], max(d * b - p[0], 0))] for p, d, b in zip(pads, base, block)]
        shape = [int(np.prod(block)) * m.int(0 if m.chance(.1) else 1, 2) + (m.chance(.03))] + base + rest
    x = m.array("T", shape)
    name = "paddings" if m.op.startswith("SpaceTo") else "crops"
    pads = m.ints(pads, ("T" if nd or name == "paddings" else "Tidx") + (name if nd or name == "paddings" else ""))
    if nd:
        return {"input": x, "block_shape": m.ints(block, "Tblock_shape"), name: pads}
    m.set(block_size=block[0])
    return {"input": x, name: pads}


@row("SpaceToDepth DepthToSpace")
def space_depth(m):
    b, n, h, w, c = m.int(2, 3), m.int(0 if m.chance(.1) else 1, 2), m.int(0 if m.chance(.1) else 1, 2), m.int(1, 3), m.int(1, 3)
    shape = [n, h * b, w * b, c] if m.op == "SpaceToDepth" else [n, h, w, c * b * b]
    m.set(block_size=b)
    if m.chance(.06):
        m.set(data_format=m.pick("NCHW", "NCHW_VECT_C"))
    return {"input": m.array("T", m.bent(shape))}


@row("Bitcast")
def bitcast(m):
    m.types["type"] = str(m.rng.choice(["float32", "float64", "int32", "int64", "uint8", "int8", "int16", "complex64", "complex128", "float16", "uint64", "uint32", "uint16", "bfloat16"]))
    if m.dtype("T") == object or m.dtype("T") == bool:
        m.types["T"] = "float32"
    shape, a, b = list(m.shape()), m.dtype("T").itemsize, m.dtype("type").itemsize
    if a < b and not m.chance(.1):
        shape.append(b // a)
    return {"input": m.array("T", shape)}


@row("Cast")
def cast(m):
    m.types.update(SrcT=str(m.rng.choice(CASTS)), DstT=str(m.rng.choice(CASTS)))
    m.flags("Truncate", chance=.15)
    x = m.any("SrcT")
    if m.dtype("DstT").kind in "iu" and (v.is_float(x.dtype) or x.dtype.kind == "c"):
        # What an integer is made of a number that it cannot hold depends on the compiler and the machine.
        info, part = np.iinfo(m.dtype("DstT")), x.real if x.dtype.kind == "c" else x.astype(np.float64)
        with np.errstate(all="ignore"):
            x = np.where((part > info.min) & (part < info.max / 2), x, np.asarray(3.7, x.dtype)).astype(x.dtype).reshape(x.shape)
    return {"x": x}


CASTS = ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "complex64",
         "complex128", "float8_e5m2", "float8_e4m3fn", "int4", "uint4"]


@row("Select")
def select(m):
    shape = m.shape()
    condition = m.pick(shape, shape, (), shape[:1])
    return {"condition": m.array("bool", m.bent(condition)), "t": m.array("T", m.bent(shape, .02)), "e": m.array("T", shape)}


@row("SelectV2")
def select_v2(m):
    full = m.shape(high=5)
    return {k: m.array(t, v.broadcast(m.rng, full)) for k, t in (("condition", "bool"), ("t", "T"), ("e", "T"))}


@row("DataFormatDimMap DataFormatVecPermute")
def data_format(m):
    source, target = m.pick(("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NDHWC", "NCDHW"), ("NHWC", "NHWC"), ("HWIO", "OIHW"))
    m.set(src_format=source, dst_format=target)
    n = len(source)
    if m.op == "DataFormatDimMap":
        x = m.rng.integers(-n, n, m.shape())
        if x.size and m.chance(.06):
            x.reshape(-1)[0] = m.pick(n, -n - 1)
        return {"x": x.astype(m.dtype("T"))}
    return {"x": m.array("T", m.bent(m.pick((n,), (n, 2), (n - 2,), (n - 2, 2))))}


@row("Switch _SwitchN")
def switch(m):
    if m.op == "Switch":
        return {"data": m.any("T"), "pred": m.array("bool", ())}
    m.set(num_outs=3)
    return {"data": m.any("T"), "output_index": m.ints(m.int(-1, 4))}

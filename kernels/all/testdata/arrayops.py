"""Writes arrayops.jsonl.gz: what TensorFlow makes of the array ops, for TestLikeTensorFlow.

Run with a Python that has TensorFlow 2.21. Each line is a case: a NodeDef, the input
TensorProtos, and the output TensorProtos or the error's code and first line. Inputs are fed to
placeholders of unknown shape, so that kernels and not shape inference see what is wrong.
"""
import base64
import gzip
import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()
rng = np.random.default_rng(1)
lines = []
# Without rewrites of the graph, so that the ops themselves answer.
config = tf.compat.v1.ConfigProto()
config.graph_options.rewrite_options.disable_meta_optimizer = True


def encode(message):
    return base64.b64encode(message.SerializeToString()).decode()


def run(op, **args):
    """Runs an op. Arrays (and lists of arrays) are inputs, everything else attributes."""
    with tf.Graph().as_default():
        feeds, call = {}, {}

        def hold(v):
            v = np.asarray(v)
            dtype = tf.string if v.dtype.kind in "OSU" else tf.as_dtype(v.dtype)
            p = tf.compat.v1.placeholder(dtype, None)
            feeds[p] = v
            return p

        for name, v in args.items():
            if isinstance(v, np.ndarray) or isinstance(v, np.generic):
                call[name] = hold(v)
            elif isinstance(v, list) and v and isinstance(v[0], np.ndarray):
                call[name] = [hold(e) for e in v]
            else:
                call[name] = v
        try:
            out = getattr(tf.raw_ops, op)(**call)
        except ValueError:  # refused by shape inference
            return False
        flat = [t for t in tf.nest.flatten(out)]
        node = flat[0].op
        case = {"node": encode(node.node_def)}
        protos = [tf.make_tensor_proto(v, dtype=p.dtype, shape=v.shape) for p, v in ((p, feeds[p]) for p in node.inputs)]
        case["inputs"] = [encode(p) for p in protos]
        try:
            with tf.compat.v1.Session(config=config) as s:
                values = s.run(flat, feeds)
            case["outputs"] = [encode(tf.make_tensor_proto(v, dtype=t.dtype, shape=np.shape(v))) for v, t in zip(values, flat)]
        except tf.errors.OpError as e:
            case["code"] = e.error_code
            case["error"] = e.message.split("\n\t [[")[0].split("\n")[-1]
        lines.append(json.dumps(case))
        return True


def i32(*v):
    return np.array(v, np.int32)


def i64(*v):
    return np.array(v, np.int64)


def s32(v):
    return np.int32(v)


def rand(*shape, dtype=np.float32):
    n = int(np.prod(shape))
    return rng.permutation(n).reshape(shape).astype(dtype)


def words(*shape):
    return np.array([f"w{i}" for i in range(int(np.prod(shape)))], object).reshape(shape)


every = [np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.bool_, np.complex64, np.complex128, np.float16]

# Shapes.
x = rand(2, 3, 4)
for dtype in (tf.int32, tf.int64):
    run("Shape", input=x, out_type=dtype)
    run("Size", input=x, out_type=dtype)
    run("ShapeN", input=[x, rand(5), np.float32(1) * rand(1)[0] * np.ones((), np.float32)], out_type=dtype)
run("Rank", input=x)
for shape in ([6, 4], [-1, 4], [24], [2, -1, 2], [5, 5], [-1, 5], [-1, -1], [-2, 12], [0], [1, 24, 1], [0, -1]):
    run("Reshape", tensor=x, shape=i32(*shape))
    run("Reshape", tensor=x, shape=i64(*shape))
for shape in ([0, -1], [-1, 0], [3, -1], [-1], [0], [2, 0], [-1, 0, 3], [2]):
    run("Reshape", tensor=np.zeros((0, 6), np.float32), shape=i32(*shape))
run("Reshape", tensor=x, shape=np.int32(24))
run("Reshape", tensor=x, shape=i64(2**40, 2**40))
for d in (0, 1, 3, -1, -4, 4, -5):
    run("ExpandDims", input=x, axis=s32(d))
run("ExpandDims", input=x, axis=i32(1, 2))
one = rand(1, 3, 1, 2, 1)
for dims in ([], [0], [0, 2], [-1], [1], [5], [-6]):
    run("Squeeze", input=one, axis=dims)
run("InvertPermutation", x=i32(2, 0, 1))
run("InvertPermutation", x=i64(2, 0, 3))
run("InvertPermutation", x=i32(2, 0, 2))
run("InvertPermutation", x=np.zeros((1, 1), np.int32))
for a, b in (([2, 3], [3]), ([2, 1], [1, 3]), ([], [4]), ([2, 3], [2, 3]), ([2, 3], [4]), ([1, 1], [1]), ([1, 2, 1], [3, 1, 1]), ([1, 1], [1, 1]), ([0, 3], [1, 3])):
    run("BroadcastArgs", s0=i32(*a), s1=i32(*b))
    run("BroadcastGradientArgs", s0=i64(*a), s1=i64(*b))
run("Bitcast", input=rand(2, 3), type=tf.int32)
run("Bitcast", input=rand(2, 3), type=tf.uint8)
run("Bitcast", input=rand(2, 3, 4, dtype=np.uint8), type=tf.float32)
run("Bitcast", input=rand(2, 3, 3, dtype=np.uint8), type=tf.float32)

# Making.
for v in (np.float32(3), np.int64(-2), np.array("s", object), np.True_, np.complex128(1 + 2j)):
    run("Fill", dims=i32(2, 3), value=np.asarray(v))
run("Fill", dims=i32(2, -3), value=np.asarray(np.float32(1)))
run("Fill", dims=i32(), value=np.asarray(np.float32(1)))
run("Fill", dims=i32(2), value=i32(1, 2))
run("Fill", dims=np.zeros((1, 1), np.int32), value=np.asarray(np.float32(1)))
for t in every:
    run("ZerosLike", x=np.ones((2, 3), t))
    run("OnesLike", x=np.zeros((2, 3), t))
run("ZerosLike", x=words(2, 3))
for t in (np.int32, np.int64, np.float32, np.float64):
    for a, b, c in ((0, 10, 3), (10, 0, -3), (3, 3, 1), (0, 10, 0), (0, 10, -1), (10, 0, 1), (-5, 5, 4)):
        run("Range", start=np.asarray(t(a)), limit=np.asarray(t(b)), delta=np.asarray(t(c)))
run("Range", start=np.asarray(np.float32(0)), limit=np.asarray(np.float32(1)), delta=np.asarray(np.float32(0.1)))
run("Range", start=np.asarray(np.float16(0)), limit=np.asarray(np.float16(3)), delta=np.asarray(np.float16(0.3)))
run("Range", start=i32(1, 2), limit=np.asarray(np.int32(1)), delta=np.asarray(np.int32(1)))
for n in (1, 5, 0, -1):
    run("LinSpace", start=np.asarray(np.float32(1)), stop=np.asarray(np.float32(2)), num=np.asarray(np.int32(n)))
for axis in (-1, 0, 1, 2, 3, -2):
    run("OneHot", indices=np.array([[0, 2, -1], [1, 3, 7]], np.int64), depth=np.asarray(np.int32(3)), on_value=np.asarray(np.float32(5)), off_value=np.asarray(np.float32(-1)), axis=axis)
run("OneHot", indices=np.array([0, 2, 1], np.uint8), depth=np.asarray(np.int32(3)), on_value=np.asarray("on", object), off_value=np.asarray("off", object))
run("OneHot", indices=i32(0, 1), depth=np.asarray(np.int32(-3)), on_value=np.asarray(np.float32(5)), off_value=np.asarray(np.float32(-1)))
run("OneHot", indices=i32(0, 1), depth=i32(3), on_value=np.asarray(np.float32(5)), off_value=np.asarray(np.float32(-1)))

# Joining and cutting.
for t in every + [object]:
    make = (lambda *s: words(*s)) if t is object else (lambda *s: rand(*s, dtype=t))
    for axis in (0, 1, -1):
        run("ConcatV2", values=[make(2, 3), make(2, 3), make(2, 3)], axis=np.asarray(np.int32(axis)))
    run("Pack", values=[make(2, 3), make(2, 3)], axis=1)
    run("Unpack", value=make(3, 4), num=4, axis=1)
    run("Split", axis=np.asarray(np.int32(1)), value=make(2, 6), num_split=3)
    run("Transpose", x=make(2, 3, 4), perm=i32(2, 0, 1))
    run("Tile", input=make(2, 3), multiples=i32(2, 2))
    run("StridedSlice", input=make(4, 5), begin=i32(1, 4), end=i32(4, 0), strides=i32(2, -1))
    run("GatherV2", params=make(4, 3), indices=i32(3, 0, 3), axis=np.asarray(np.int32(0)))
    run("Pad", input=make(2, 3), paddings=np.array([[1, 0], [2, 1]], np.int32)) if t is not object else None
    run("ReverseV2", tensor=make(2, 3), axis=i32(1)) if t is not object else None
run("ConcatV2", values=[rand(2, 3), rand(2, 5), rand(2, 0)], axis=np.asarray(np.int64(1)))
run("ConcatV2", values=[rand(2, 3), rand(3, 3)], axis=np.asarray(np.int32(1)))
run("ConcatV2", values=[rand(2, 3), rand(3)], axis=np.asarray(np.int32(1)))
run("ConcatV2", values=[rand(2, 3), rand(2, 3)], axis=np.asarray(np.int32(2)))
run("ConcatV2", values=[rand(2, 3), rand(2, 3)], axis=i32(1, 0))
run("ConcatV2", values=[np.asarray(np.float32(1)), np.asarray(np.float32(2))], axis=np.asarray(np.int32(0)))
run("Concat", concat_dim=np.asarray(np.int32(0)), values=[rand(2, 3), rand(1, 3)])
run("Concat", concat_dim=np.asarray(np.int32(2)), values=[rand(2, 3), rand(1, 3)])
run("ConcatOffset", concat_dim=np.asarray(np.int32(1)), shape=[i32(2, 3), i32(2, 4), i32(2, 1)])
run("ConcatOffset", concat_dim=np.asarray(np.int32(1)), shape=[i32(2, 3), i32(3, 4)])
run("ConcatOffset", concat_dim=np.asarray(np.int32(2)), shape=[i32(2, 3), i32(3, 4)])
run("Pack", values=[rand(2), rand(3)], axis=0)
run("Pack", values=[rand(2), rand(2)], axis=2)
run("Pack", values=[np.asarray(np.int32(4)), np.asarray(np.int32(5))], axis=0)
run("Pack", values=[rand(2, 2)], axis=-1)
run("Unpack", value=rand(3, 4), num=3, axis=0)
run("Unpack", value=rand(3, 4), num=2, axis=0)
run("Unpack", value=rand(3, 4), num=3, axis=2)
for axis in (0, -1, 2, -3):
    run("Split", axis=np.asarray(np.int32(axis)), value=rand(4, 6), num_split=2)
run("Split", axis=np.asarray(np.int32(1)), value=rand(4, 6), num_split=4)
run("Split", axis=np.asarray(np.int32(1)), value=rand(4, 6), num_split=1)
for sizes in ([1, 5], [-1, 2], [2, 2], [7, -1], [-1, -1], [-2, 8], [0, 6], [3, 4]):
    run("SplitV", value=rand(2, 6), size_splits=i32(*sizes), axis=np.asarray(np.int32(1)), num_split=2)
    run("SplitV", value=rand(6, 2), size_splits=i64(*sizes), axis=np.asarray(np.int32(0)), num_split=2)
run("SplitV", value=rand(6, 2), size_splits=i32(1, 2, 3), axis=np.asarray(np.int32(0)), num_split=2)
run("SplitV", value=rand(6, 2), size_splits=i32(5), axis=np.asarray(np.int32(0)), num_split=1)
run("SplitV", value=rand(6, 2), size_splits=i32(3, 3), axis=np.asarray(np.int32(4)), num_split=2)

# Slices.
for begin, size in (([0, 0], [2, 3]), ([1, 1], [-1, 2]), ([0, 0], [4, 5]), ([4, 0], [0, 5]), ([1, 0], [2, -1]), ([5, 0], [1, 1]), ([-1, 0], [1, 1]), ([0, 0], [5, 5]), ([0, 0], [-2, 1]), ([0], [1])):
    run("Slice", input=rand(4, 5), begin=i32(*begin), size=i32(*size))
run("Slice", input=np.zeros((0, 2), np.float32), begin=i64(1, 0), size=i64(0, 1))
for i in range(150):
    rank = int(rng.integers(0, 5))
    value = rand(*[int(d) for d in rng.integers(0 if i % 5 == 0 else 1, 6, rank)])
    n = int(rng.integers(0, rank + 2))
    lim = 8
    kind = np.int64 if i % 2 else np.int32
    begin = rng.integers(-lim, lim, n).astype(kind)
    end = rng.integers(-lim, lim, n).astype(kind)
    strides = rng.choice([1, 1, 1, 2, -1, -2, 3, 0] if i % 7 == 0 else [1, 1, 1, 2, -1, -2, 3], n).astype(kind)
    m = [int(v) for v in rng.integers(0, 2**max(n, 1), 5)]
    if i % 3:
        m[2] = 0
    else:
        m[2] = 1 << int(rng.integers(0, n + 1))
    if i % 4:
        m[3] = 0
    if i % 4 != 1:
        m[4] = 0
    masks = dict(begin_mask=m[0], end_mask=m[1], ellipsis_mask=m[2], new_axis_mask=m[3], shrink_axis_mask=m[4])
    if not run("StridedSlice", input=value, begin=begin, end=end, strides=strides, **masks):
        continue
    last = json.loads(lines[-1])
    if "outputs" in last:
        proto = tf.make_tensor_proto(0)
        proto.ParseFromString(base64.b64decode(last["outputs"][0]))
        out = tf.make_ndarray(proto)
        run("StridedSliceGrad", shape=np.array(value.shape, kind), begin=begin, end=end, strides=strides, dy=rand(*out.shape), **masks)
        run("TensorStridedSliceUpdate", input=value, begin=begin, end=end, strides=strides, value=rand(*out.shape) + np.float32(100), **masks)
        if out.ndim:
            run("TensorStridedSliceUpdate", input=value, begin=begin, end=end, strides=strides, value=rand(*([1] + list(out.shape[1:]))) + np.float32(100), **masks)
run("StridedSlice", input=rand(2, 3), begin=i32(0), end=i32(0, 1), strides=i32(1))
run("StridedSliceGrad", shape=i32(4), begin=i32(1), end=i32(3), strides=i32(1), dy=rand(3))
run("TensorStridedSliceUpdate", input=rand(4), begin=i32(1), end=i32(3), strides=i32(1), value=rand(3))

# Turning, repeating, padding.
for perm in ([0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1], [-1, 0, 1], [0, 0, 1], [0, 1], [0, 1, 3]):
    run("Transpose", x=rand(3, 4, 5), perm=i32(*perm))
run("Transpose", x=rand(70, 40, dtype=np.uint16), perm=i64(1, 0))
run("Transpose", x=rand(3, 20, 2, 33, dtype=np.uint16), perm=i64(0, 3, 2, 1))
run("Transpose", x=rand(1, 4, 1), perm=i64(2, 1, 0))
run("ConjugateTranspose", x=(rand(2, 3) + 1j * rand(2, 3)).astype(np.complex64), perm=i32(1, 0))
run("ConjugateTranspose", x=rand(2, 3), perm=i32(1, 0))
for axes in ([0], [0, 2], [], [-1], [3], [1, -2]):
    run("ReverseV2", tensor=rand(2, 3, 4), axis=i32(*axes))
for lengths in ([1, 3], [0, 4], [5, 1], [-1, 1], [1]):
    run("ReverseSequence", input=rand(2, 3, 4), seq_lengths=i64(*lengths), seq_dim=2, batch_dim=0)
run("ReverseSequence", input=rand(2, 3, 4), seq_lengths=i64(1, 2, 0), seq_dim=0, batch_dim=1)
for m in ([1, 1], [2, 1], [1, 3], [0, 2], [2], [-1, 2]):
    run("Tile", input=rand(2, 3), multiples=i32(*m))
for shape in ([2, 3], [4, 2, 3], [3], [2, 4], [0], [2, 1]):
    run("BroadcastTo", input=rand(1, 3), shape=i32(*shape))
run("BroadcastTo", input=rand(4, 1, 3, 1), shape=i64(2, 4, 2, 3, 5))
run("BroadcastTo", input=np.asarray("s", object), shape=i32(2, 2))
p = np.array([[1, 2], [0, 1]], np.int32)
run("Pad", input=rand(2, 3), paddings=p)
run("PadV2", input=rand(2, 3), paddings=p.astype(np.int64), constant_values=np.asarray(np.float32(7)))
run("PadV2", input=words(2, 3), paddings=p, constant_values=np.asarray("z", object))
run("Pad", input=rand(2, 3), paddings=-p)
run("Pad", input=rand(2, 3), paddings=p[:1])
run("Pad", input=rand(2, 3), paddings=np.zeros((2, 3), np.int32))
for mode in ("REFLECT", "SYMMETRIC"):
    for pads in ([[1, 2], [0, 1]], [[0, 0], [2, 2]], [[2, 2], [3, 3]], [[3, 1], [0, 0]], [[0, 0], [0, 0]]):
        run("MirrorPad", input=rand(3, 4), paddings=np.array(pads, np.int32), mode=mode)
    run("MirrorPad", input=rand(2, 3, 4), paddings=np.array([[1, 1], [2, 0], [0, 3]], np.int64), mode=mode)
    run("MirrorPadGrad", input=rand(6, 5), paddings=np.array([[1, 2], [0, 1]], np.int32), mode=mode)

# Gathering and scattering.
for axis, batch in ((0, 0), (1, 0), (-1, 0), (1, 1), (2, 1), (2, 2), (3, 0), (0, 1), (1, -1), (1, 3)):
    run("GatherV2", params=rand(2, 3, 4), indices=np.array([[0, 2, 1], [1, 0, 0]], np.int32), axis=np.asarray(np.int32(axis)), batch_dims=batch)
run("GatherV2", params=rand(5), indices=i32(7), axis=np.asarray(np.int32(0)))
run("GatherV2", params=rand(5), indices=np.asarray(np.int64(-1)), axis=np.asarray(np.int64(0)))
run("GatherV2", params=rand(2, 5), indices=np.array([[1, 5]], np.int64), axis=np.asarray(np.int64(1)))
run("GatherV2", params=np.asarray(np.float32(1)), indices=i32(0), axis=np.asarray(np.int32(0)))
run("Gather", params=rand(5, 2), indices=i64(4, 1))
run("Gather", params=np.zeros((0, 2), np.float32), indices=i64())
for indices in ([[0, 1], [1, 2]], [[0], [1]], [[0, 1, 3]], [[0, 3]], [[-1, 0]], [[0, 0, 0, 0]]):
    run("GatherNd", params=rand(2, 3, 4), indices=np.array(indices, np.int32))
run("GatherNd", params=rand(2, 3), indices=np.zeros((2, 0), np.int64))
run("GatherNd", params=np.zeros((0, 3), np.float32), indices=np.zeros((1, 1), np.int64))
run("GatherNd", params=words(2, 3), indices=np.array([[1, 1]], np.int64))
run("ScatterNd", indices=np.array([[1], [3], [1]], np.int32), updates=rand(3, 2), shape=i32(4, 2))
run("ScatterNd", indices=np.array([[1, 1], [0, 0]], np.int64), updates=i64(5, 6), shape=i64(2, 2))
run("ScatterNd", indices=np.array([[4]], np.int32), updates=rand(1, 2), shape=i32(4, 2))
run("ScatterNd", indices=np.array([[1]], np.int32), updates=rand(2, 2), shape=i32(4, 2))
run("ScatterNd", indices=np.array([[1]], np.int32), updates=rand(1, 3), shape=i32(4, 2))
run("ScatterNd", indices=np.array([[1]], np.int32), updates=rand(1, 3), shape=i32(0, 3))
for op in ("Update", "Add", "Sub", "Min", "Max"):
    run("TensorScatter" + op, tensor=rand(4, 2), indices=np.array([[1], [3], [1]], np.int32), updates=rand(3, 2) + 1)
    run("TensorScatter" + op, tensor=rand(4, 2), indices=np.array([[1, 0], [3, 1]], np.int64), updates=rand(2))
    run("TensorScatter" + op, tensor=rand(4, 2), indices=np.array([[1], [4]], np.int32), updates=rand(2, 2))
    run("TensorScatter" + op, tensor=rand(4, 2), indices=np.array([[1], [2]], np.int32), updates=rand(3, 2))
run("TensorScatterAdd", tensor=rand(4, 2, dtype=np.float16), indices=np.array([[1], [3]], np.int32), updates=rand(2, 2, dtype=np.float16))
run("DynamicPartition", data=rand(5, 2), partitions=i32(0, 2, 0, 2, 2), num_partitions=3)
run("DynamicPartition", data=words(2, 2), partitions=np.array([[0, 1], [1, 0]], np.int32), num_partitions=2)
run("DynamicPartition", data=rand(2), partitions=i32(0, 2), num_partitions=2)
run("DynamicPartition", data=rand(2), partitions=i32(0, 1, 1), num_partitions=2)
run("DynamicStitch", indices=[i32(0, 2), i32(1, 2)], data=[rand(2, 3), rand(2, 3)])
run("DynamicStitch", indices=[np.asarray(np.int32(1)), np.array([[0, 2]], np.int32)], data=[rand(3), rand(1, 2, 3)])
run("DynamicStitch", indices=[i32(0), i32(1)], data=[rand(1, 3), rand(1, 2)])
run("DynamicStitch", indices=[i32(0)], data=[rand(2, 3)])
run("DynamicStitch", indices=[i32(-1)], data=[rand(1, 3)])

# Diagonals.
z = np.asarray(np.float32(-1))
run("Diag", diagonal=rand(3))
run("Diag", diagonal=rand(2, 2))
run("DiagPart", input=rand(3, 3))
run("DiagPart", input=rand(2, 3, 2, 3))
run("DiagPart", input=rand(2, 3, 2, 4))
for lo, up in ((0, 0), (1, -1), (-1, 1), (-1, -1), (2, 1), (9, 0), (0, 9)):
    run("MatrixBandPart", input=rand(2, 4, 5) + 1, num_lower=np.asarray(np.int32(lo)), num_upper=np.asarray(np.int32(up)))
run("MatrixDiag", diagonal=rand(2, 3))
run("MatrixDiagPart", input=rand(2, 3, 4))
run("MatrixSetDiag", input=rand(2, 3, 4), diagonal=rand(2, 3) + 100)
run("MatrixSetDiag", input=rand(2, 3, 4), diagonal=rand(2, 4) + 100)
for align in ("LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT"):
    for k in ([0], [1], [-2], [-1, 1], [-2, 3], [1, 2], [1, 0], [-3, 0], [0, 4]):
        run("MatrixDiagPartV3", input=rand(2, 3, 4), k=i32(*k), padding_value=z, align=align)
    for k, shape, r, c in (([0], (2, 3), -1, -1), ([1], (3,), -1, -1), ([-1, 1], (3, 3), -1, -1), ([-1, 1], (2, 3, 3), 3, 4), ([-1, 1], (3, 2), 2, 3), ([0, 1], (3, 2), -1, -1), ([0], (3,), 5, -1), ([0], (3,), 2, -1), ([0], (3,), 5, 5), ([1, 0], (2, 3), -1, -1)):
        run("MatrixDiagV3", diagonal=rand(*shape) + 1, k=i32(*k), num_rows=np.asarray(np.int32(r)), num_cols=np.asarray(np.int32(c)), padding_value=z, align=align)
    for k, shape in (([0], (2, 3)), ([-1, 1], (2, 3, 3)), ([-1, 1], (3, 3)), ([2], (2, 2)), ([-2, -1], (2, 2, 2))):
        run("MatrixSetDiagV3", input=rand(2, 3, 4), diagonal=rand(*shape) + 100, k=i32(*k), align=align)
run("MatrixDiagPartV2", input=rand(2, 3, 4), k=i32(-1, 1), padding_value=z)

# Sets.
run("Where", condition=np.array([[True, False], [True, True]]))
run("Where", condition=np.array([0.0, -0.0, 2.0, np.nan], np.float32))
run("Where", condition=np.array([0, 1, 0, 3], np.int64))
run("Where", condition=np.zeros((2, 0), np.bool_))
for v in (i32(3, 1, 3, 2, 1), i64(), np.array([1.5, -0.0, 0.0, 1.5], np.float32), np.array(["b", "a", "b"], object), np.array([1, 2, 1], np.uint8)):
    run("Unique", x=v, out_idx=tf.int64)
    run("UniqueWithCounts", x=v)
    run("UniqueV2", x=v, axis=i64())
run("Unique", x=rand(2, 2))
m = np.array([[1, 2, 1], [3, 4, 3], [1, 2, 1]], np.int32)
for axis in (0, 1, 2):
    run("UniqueV2", x=m, axis=i64(axis))
run("UniqueWithCountsV2", x=m, axis=i64(0))
run("ListDiff", x=i32(1, 2, 3, 4, 2), y=i32(2, 9))
run("ListDiff", x=np.array(["a", "b"], object), y=np.array(["b"], object), out_idx=tf.int64)
run("ListDiff", x=rand(1, 2), y=rand(2))


def write(path):
    with gzip.GzipFile(path, "wb", mtime=0) as f:
        f.write(("\n".join(lines) + "\n").encode())
    print(len(lines), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "arrayops.jsonl.gz"))

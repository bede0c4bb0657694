"""Writes sparseops.jsonl.gz: what TensorFlow makes of the ops on sparse and ragged tensors, for TestSparseOpsLikeTensorFlow.

Run with a Python that has TensorFlow 2.21, in this folder. The cases have the form of arrayops.py's.
"""
import os
import random

import arrayops
from arrayops import i32, i64, np, run, tf

arrayops.lines.clear()
at, values, shape = i64([0, 0], [0, 2], [1, 1], [3, 0]), np.array([1, 2, 3, 4], np.float32), i64(4, 3)
odd = [
    (at, values, shape), (at[::-1].copy(), values, shape), (at[[0, 0, 1, 2]], values, shape), (at + [[0, 9]], values, shape), (at - [[1, 0]], values, shape),
    (at, values[:3], shape), (at, values, i64(4, 3, 2)), (at[:, :1], values, i64(4)), (at[0], values, shape), (at, values[None], shape),
    (at, values, shape[None]), (at, values, i64(4, -3)), (at[:0], values[:0], shape), (at, np.array(["a", "b", "c", "d"], object), shape),
    (at, values > 2, shape), (at, values.astype(np.int8), shape), (at, values.astype(np.complex128), shape),
]
for i, v, s in odd:
    run("SerializeSparse", sparse_indices=i, sparse_values=v, sparse_shape=s)
    run("SerializeManySparse", sparse_indices=i, sparse_values=v, sparse_shape=s)
    run("SparseReorder", input_indices=i, input_values=v, input_shape=s)
    run("SparseSlice", indices=i, values=v, shape=s, start=i64(1, 0), size=i64(2, 2))
    for axis in (0, -1, 2):
        run("SparseSplit", split_dim=np.int64(axis), indices=i, values=v, shape=s, num_split=3)
        if s.min() >= 0:  # TensorFlow ends at sizes below 0
            run("SparseConcat", indices=[at, i], values=[v if v.ndim > 1 else v[:4], v], shapes=[shape, s], concat_dim=axis)
    for to in (i64(-1), i64(2, -1), i64(12), i64(5, 2), i64(-1, -1), i64(3, 2, 2), i64(0, -1), i64(-2)):
        run("SparseReshape", input_indices=i, input_shape=s, new_shape=to)
for axis in (0, 1, -2, -3):
    for n in (1, 2, 3, 4, 5):
        run("SparseSplit", split_dim=np.int64(axis), indices=at, values=values, shape=shape, num_split=n)
for start, size in (([0, 0], [4, 3]), ([1, 1], [9, 9]), ([5, 0], [1, 1]), ([0], [1]), ([0, 0], [-1, 1]), ([-1, 0], [2, 2])):
    run("SparseSlice", indices=at, values=values, shape=shape, start=i64(*start), size=i64(*size))
run("SparseSliceGrad", backprop_val_grad=values[:1], input_indices=at, input_start=i64(1, 0), output_indices=i64([0, 1]))
run("SparseSliceGrad", backprop_val_grad=values[:2], input_indices=at, input_start=i64(1, 0), output_indices=i64([0, 1], [9, 9]))
protos = np.array([tf.make_tensor_proto(v).SerializeToString() for v in (at, values, shape)], object)
for s in (protos, protos[None], np.array([[protos] * 2] * 3, object), protos[:2], np.array(["a", "b", "c"], object), np.zeros((0, 3), object), np.array("a", object), protos[[1, 1, 2]], protos[[0, 0, 2]], protos[[0, 1, 1]]):
    run("DeserializeSparse", serialized_sparse=s, dtype=tf.float32)
    run("DeserializeManySparse", serialized_sparse=s, dtype=tf.float32)
run("DeserializeSparse", serialized_sparse=protos, dtype=tf.int32)
for t in (np.int32, np.int64):
    for i, s, v, d in (([[0, 0], [0, 2]], [4, 3], [1, 2], 0), ([[0, 0], [0, 2]], [4, 3], 7, -1), ([0, 2], [4], [1, 2], 0), (1, [4], 5, 0), ([[0, 0], [0, 0]], [4, 3], [1, 2], 0), ([[0, 5]], [4, 3], [1], 0), ([[1, 0], [0, 0]], [4, 3], [1, 2], 0), ([[0, 0]], [4], [1], 0), ([0, 1], [4], [1], 0), ([0], [4], [1], [0]), ([[[0]]], [4], [1], 0)):
        for check in (True, False):
            run("SparseToDense", sparse_indices=np.array(i, t), output_shape=np.array(s, t), sparse_values=np.array(v, np.float32), default_value=np.array(d, np.float32), validate_indices=check)
for t in (np.int32, np.int64, np.float32, np.float64):
    for splits in (tf.int32, tf.int64):
        for a in (([0, 5, 8], [3, 9, 8], [1, 2, 1]), (0, [3, 0, 5], 1), ([5, 6], 0, -2), ([0, 1], [2, 3], [0, 1]), ([0, 1], [2, 3, 4], [1, 1]), ([[0]], [1], [1]), ([-5, 5], [7, -7], [3, -4])):
            run("RaggedRange", starts=np.array(a[0], t), limits=np.array(a[1], t), deltas=np.array(a[2], t), Tsplits=splits)
run("RaggedRange", starts=np.float32([0.1, 2.5]), limits=np.float32([1.7, -3]), deltas=np.float32([0.3, -0.7]))
run("RaggedRange", starts=np.float32([0.1]), limits=np.float32([1.7]), deltas=np.float32([np.nan]))
run("RaggedRange", starts=i32(-2**31), limits=i32(2**31 - 1), deltas=i32(1), Tsplits=tf.int32)
run("RaggedRange", starts=i32(0, 0), limits=i32(2**31 - 1, 2**31 - 1), deltas=i32(1, 1), Tsplits=tf.int32)
S, V, F = "ROW_SPLITS", "VALUE_ROWIDS", "FIRST_DIM_SIZE"
four, pairs = [1, 2, 3, 4], [[1, 2], [3, 4], [5, 6]]
for to, v, d, parts, types in (
    ([-1, -1], four, 0, [[0, 2, 2, 4]], [S]), (-1, four, 0, [[0, 2, 2, 4]], [S]), ([2, 3], four, 9, [[0, 2, 2, 4]], [S]), ([5, 1], four, 9, [[0, 2, 2, 4]], [S]),
    ([-1, -1], four, 0, [4, [0, 0, 2, 2]], [F, V]), ([2, 5], four, 0, [4, [0, 0, 2, 2]], [F, V]), (-1, four, 0, [2, [0, 0, 2, 2]], [F, V]),
    ([-1, -1, -1], four, 0, [[0, 2, 3], [0, 1, 1, 4]], [S, S]), ([-1, 2, 2], four, 0, [[0, 2, 3], [0, 1, 1, 4]], [S, S]), ([1, 1, 1], four, 0, [[0, 2, 3], [0, 1, 1, 4]], [S, S]),
    ([-1, -1, -1], four, 7, [3, [0, 0, 2], [0, 1, 1, 2]], [F, V, V]), ([-1, -1, -1], four, 7, [3, [0, 0, 2], [0, 1, 1, 4]], [F, V, S]),
    ([-1, -1, 2], pairs, [8, 9], [[0, 1, 1, 3]], [S]), (-1, pairs, [8], [[0, 1, 1, 3]], [S]), (-1, pairs, [8, 9, 10], [[0, 1, 1, 3]], [S]), (-1, pairs, [[8]], [[0, 1, 1, 3]], [S]),
    ([-1, -1, 3], pairs, 0, [[0, 1, 1, 3]], [S]), ([-1], [1, 2], 0, [[0, 1, 2]], [S]), (-1, [[[1, 2]], [[3, 4]]], [[8, 9]], [[0, 1, 1, 2]], [S]),
    (-1, four, 0, [[0, 2, 1, 4]], [S]), (-1, four, 0, [[]], [S]), ([0, 0], four, 0, [[0, 2, 2, 4]], [S]), ([3, 2], [], 5, [[0, 0, 0]], [S]), (0, [1], 0, [[0, 1]], [S])):
    for t in (np.int32, np.int64):
        run("RaggedTensorToTensor", shape=np.array(to, np.int64), values=np.array(v, np.int32), default_value=np.array(d, np.int32), row_partition_tensors=[np.array(p, t) for p in parts], row_partition_types=types)
dice = random.Random(1)
for k in range(12):
    rows, nested = dice.randint(1, 4), []
    for _ in range(dice.randint(1, 3)):
        splits = [0]
        for _ in range(rows if not nested else nested[-1][-1]):
            splits.append(splits[-1] + dice.randint(0, 3))
        nested.append(splits)
    n = nested[-1][-1]
    v = np.arange(2 * n, dtype=np.float32).reshape(n, 2) if k % 2 else np.arange(n)
    nested = [np.array(s, np.int32 if k % 3 else np.int64) for s in nested]
    run("RaggedTensorToSparse", rt_nested_splits=nested, rt_dense_values=v)
    for dims in ((), (3,), (2, 2)):
        where = np.array([dice.randrange(rows) for _ in range(int(np.prod(dims)))], np.int32).reshape(dims)
        run("RaggedGather", params_nested_splits=nested, params_dense_values=v, indices=where, OUTPUT_RAGGED_RANK=len(nested) + len(dims) - 1)
for splits, v, where in (([0, 2, 2], [1, 2], [2]), ([0, 2, 2], [1, 2], [-1]), ([0, 3, 2], [1, 2], [0]), ([0, 2, 3], [1, 2], [0]), ([], [1], [0]), ([-1, 1], [1], [0]), (0, [1], [0]), ([0, 1], 1, [0])):
    run("RaggedGather", params_nested_splits=[np.array(splits, np.int64)], params_dense_values=np.array(v), indices=np.array(where, np.int32), OUTPUT_RAGGED_RANK=1)
    if np.ndim(v):
        run("RaggedTensorToSparse", rt_nested_splits=[np.array(splits, np.int64)], rt_dense_values=np.array(v))
arrayops.write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "sparseops.jsonl.gz"))

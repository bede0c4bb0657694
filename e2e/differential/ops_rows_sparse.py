"""Rows for sparse and ragged tensors: arithmetic, reductions, rows filled, sets, counts and crosses."""
import numpy as np

from ops_make import row
from ops_rows_data import sparse, splits


def given(prefix, parts, names=("indices", "values", "shape")):
    """The parts of a sparse tensor by the names of an op's inputs."""
    return {prefix + name: x for name, x in zip(names, parts)}


def pair(m, attr, low=1, high=3):
    """Two sparse tensors of one shape, mostly."""
    shape = m.shape(low, high)
    return sparse(m, attr, shape=shape), sparse(m, attr, shape=m.bent(shape))


@row("SparseAdd SparseSparseMaximum SparseSparseMinimum")
def two_sparse(m):
    a, b = pair(m, "T")
    out = dict(given("a_", a), **given("b_", b))
    if m.op == "SparseAdd":
        m.types["Treal"] = {"complex64": "float32", "complex128": "float64"}.get(m.types["T"], m.types["T"])
        out["thresh"] = m.ints(m.pick(0, 0, 1, 2), "Treal")
    return out


@row("SparseAddGrad")
def sparse_add_grad(m):
    (a, _, _), (b, _, _) = pair(m, "T")
    both = np.unique(np.concatenate([a, b]), axis=0) if a.shape[1:] == b.shape[1:] else a
    return {"backprop_val_grad": m.array("T", m.bent((len(both),))), "a_indices": a, "b_indices": b, "sum_indices": both}


@row("SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul")
def sparse_dense(m):
    i, x, s = sparse(m, "T")
    full = tuple(int(d) for d in s)
    cut = m.pick(0, 0, 1)
    return dict(given("sp_", (i, x, s)), dense=m.array("T", m.bent(tuple(m.pick(d, d, 1) for d in full[cut:]))))


@row("SparseTensorDenseAdd")
def sparse_plus_dense(m):
    i, x, s = sparse(m, "T")
    index = m.dtype("Tindices")
    return dict(given("a_", (i.astype(index), x, s.astype(index))), b=m.array("T", m.bent(s)))


@row("SparseTensorDenseMatMul")
def sparse_dense_product(m):
    m.types["T"] = m.pick("float32", "float64", "int32", "complex64", "complex128", "bfloat16")
    m.flags("adjoint_a", "adjoint_b")
    rows, inner, columns = m.int(0, 5), m.int(0, 5), m.int(0, 6)
    i, _, s = sparse(m, "T", shape=(inner, rows) if m.attrs.get("adjoint_a") else (rows, inner))
    b = (columns, inner) if m.attrs.get("adjoint_b") else (inner, columns)
    return dict(given("a_", (i.astype(m.dtype("Tindices")), m.array("T", (len(i),), "plain"), s)), b=m.array("T", m.bent(b), "plain"))


@row("SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse")
def sparse_reduce(m):
    parts = sparse(m, "T")
    rank = len(parts[2])
    m.flags("keep_dims")
    axes = [m.axis(rank) for _ in range(m.int(0, rank))]
    return dict(given("input_", parts), reduction_axes=m.ints(axes if len(axes) != 1 or m.chance(.6) else axes[0]))


@row("SparseSoftmax")
def sparse_softmax(m):
    i, _, s = sparse(m, "T", 1 if m.chance(.05) else 2, 3)
    return given("sp_", (i, m.array("T", (len(i),), m.pick("plain", "ties", "any")), s))


@row("SparseFillEmptyRows")
def fill_rows(m):
    m.types["T"] = m.pick("float32", "int64", "string", "bool", "uint8", "complex64", "bfloat16")
    i, x, s = sparse(m, "T", sort=m.chance(.8))
    return {"indices": i, "values": x, "dense_shape": s, "default_value": m.array("T", m.bent(()))}


@row("RaggedFillEmptyRows")
def fill_ragged_rows(m):
    m.types["T"] = m.pick("float32", "int64", "string", "bool", "uint8")
    rows = m.int(0, 6)
    ids = np.sort(m.index("int64", (m.int(0, 7) if rows else 0,), rows, .06))
    if m.chance(.3):
        m.rng.shuffle(ids)
    return {"value_rowids": ids, "values": m.array("T", m.bent(ids.shape)), "nrows": m.ints(rows, "int64"), "default_value": m.array("T", m.bent(()))}


@row("SparseFillEmptyRowsGrad RaggedFillEmptyRowsGrad")
def fill_rows_grad(m):
    m.types["T"] = m.pick("float32", "float64", "int32", "bfloat16", "complex64")
    n = m.int(0, 6)
    places = np.sort(m.rng.permutation(n)[:m.int(0, n)]).astype(np.int64)
    if places.size and m.chance(.06):
        places[m.int(0, places.size - 1)] = m.pick(-1, n, 99)
    return {"reverse_index_map": places.reshape(m.bent(places.shape, 0)), "grad_values": m.array("T", m.bent((n,), .03), "plain")}


@row("SparseMatMul")
def sparse_mat_mul(m):
    m.types.update(Ta=m.pick("float32", "bfloat16"), Tb=m.pick("float32", "bfloat16"))
    m.flags("transpose_a", "transpose_b", "a_is_sparse", "b_is_sparse")
    rows, inner, columns = (m.int(0 if m.chance(.06) else 1, m.pick(5, 40)) for _ in range(3))
    a, b = m.array("Ta", m.bent((rows, inner)), "plain"), m.array("Tb", m.bent((inner, columns)), "plain")
    a[m.rng.random(a.shape) < .5] = 0
    return {"a": a.T.copy() if m.attrs.get("transpose_a") else a, "b": b.T.copy() if m.attrs.get("transpose_b") else b}


@row("SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2")
def sparse_segment_grad(m):
    shape, n, size = m.shape(1, 3, zero=.02), m.int(0, 6), m.int(1, 5)
    ids = np.sort(m.index("Tsegmentids", (n,), shape[0], .06))
    return {"grad": m.array("T", shape, m.pick("plain", "ties")), "indices": m.index("Tidx", m.bent((n,), .02), size, .06), "segment_ids": ids, "dense_output_dim0": m.ints(size)}


# Sets: the last dimension holds the members.


def members(m, shape):
    """A sparse tensor whose last dimension holds few different values, from its start on."""
    full = shape + (m.int(1, 5),)
    keep = np.arange(full[-1]) < m.rng.integers(0, full[-1] + 1, shape + (1,))
    at = np.argwhere(keep).astype(np.int64)
    if len(at) > 1 and m.chance(.06):
        at[0] = m.pick(at[1], at[0] + 99)
    return at, m.array("T", (len(at),), "ties") if m.types["T"] != "string" else letters(m, (len(at),)), np.array(full, np.int64)


def letters(m, shape):
    out = np.empty(int(np.prod(shape)), object)
    out[:] = [m.pick(b"a", b"b", b"", b"abc") for _ in out]
    return out.reshape(shape)


@row("SetSize SparseToSparseSetOperation DenseToSparseSetOperation DenseToDenseSetOperation")
def sets(m):
    m.flags("validate_indices")
    groups = m.shape(0 if m.chance(.03) else 1, 2, zero=.04)
    if m.op == "SetSize":
        return given("set_", members(m, groups))
    m.set(set_operation=m.pick("a-b", "b-a", "intersection", "union", "A-B") if m.chance(.97) else "xor")
    fill = lambda: letters(m, groups + (m.int(0, 4),)) if m.types["T"] == "string" else m.array("T", m.bent(groups, .03) + (m.int(0, 4),), "ties")
    first = {"set1": fill()} if m.op.startswith("Dense") else given("set1_", members(m, groups))
    second = {"set2": fill()} if "ToDense" in m.op else given("set2_", members(m, m.bent(groups, .03)))
    return dict(first, **second)


@row("EditDistance")
def edit_distance(m):
    m.types["T"] = m.pick("int64", "int32", "string", "float32", "uint8")
    m.flags("normalize")
    groups = m.shape(1, 2, zero=.02)
    return dict(given("hypothesis_", members(m, groups)), **given("truth_", members(m, m.bent(groups, .03))))


# Counts


@row("DenseCountSparseOutput SparseCountSparseOutput RaggedCountSparseOutput")
def count(m):
    m.set(binary_output=m.chance(.3))
    if m.chance(.4):
        m.set(minlength=m.int(0, 6))
    if m.chance(.4):
        m.set(maxlength=m.int(0, 6))
    numbers = lambda shape: np.asarray(m.rng.integers(-1 if m.chance(.04) else 0, 8, shape), m.dtype("T"))
    if m.op[0] == "D":
        values, out = numbers(m.shape(1 if m.chance(.97) else 0, 2)), {}
    elif m.op[0] == "S":
        out = given("", sparse(m, "T", 1, 2), ("indices", "values", "dense_shape"))
        values = numbers(out.pop("values").shape)
    else:
        s, n = splits(m, "int64")
        values, out = numbers((n,)), {"splits": s}
    weights = () if m.attrs["binary_output"] or m.chance(.5) else m.bent(values.shape)
    return dict(out, values=values, weights=m.array("output_type", weights or (0,), "plain"))


# Crosses


def feature(m, shape, kind):
    return letters(m, shape) if kind == "string" else m.array("int64", shape, "plain")


@row("SparseCross SparseCrossV2 SparseCrossHashed")
def cross(m):
    rows, kinds = m.int(0 if m.chance(.05) else 1, 4), ("int64", "string")
    many, dense = [m.pick(*kinds) for _ in range(m.int(0, 2))], [m.pick(*kinds) for _ in range(m.int(0, 2))]
    if m.op == "SparseCross":
        hashed = m.chance(.5)
        internal = m.pick(*kinds) if hashed else "string"
        m.set(hashed_output=hashed, num_buckets=m.pick(0, 7, 1000), hash_key=m.pick(956888297470, 1, 0))
        m.types.update(out_type="int64" if hashed else "string", internal_type=internal)
        if internal == "string":
            many, dense = ["string" for _ in many], ["string" for _ in dense]
    elif m.op == "SparseCrossV2":
        many, dense = ["string" for _ in many], ["string" for _ in dense]
    parts = [members_of(m, rows, kind) for kind in many]
    out = {"indices": [p[0] for p in parts], "values": [p[1] for p in parts], "shapes": [p[2] for p in parts],
           "dense_inputs": [feature(m, (rows if m.chance(.97) else rows + 1, m.int(0, 2)), kind) for kind in dense]}
    if m.op == "SparseCrossV2":
        out["sep"] = np.array(m.pick(b"_X_", b"", b"-"), object)
    if m.op == "SparseCrossHashed":
        out.update(num_buckets=m.ints(m.pick(0, 7, 1000), "int64"), strong_hash=np.array(m.chance(.5)), salt=m.ints([m.int(-9, 9), m.int(0, 9)], "int64"))
    return out


def members_of(m, rows, kind):
    """A sparse matrix with rows filled from their start."""
    width = m.int(1, 3)
    at = np.argwhere(np.arange(width) < m.rng.integers(0, width + 1, (rows, 1))).astype(np.int64)
    return at, feature(m, (len(at),), kind), np.array([rows, width], np.int64)


@row("RaggedCross")
def ragged_cross(m):
    rows, kinds = m.int(0 if m.chance(.05) else 1, 4), ("int64", "string")
    counts = {"R": m.int(0, 2), "S": m.int(0, 2), "D": m.int(0, 2)}
    order = "".join(m.rng.permutation(list("".join(k * n for k, n in counts.items())))) if sum(counts.values()) else ""
    types = {k: [m.pick(*kinds) for _ in range(n)] for k, n in counts.items()}
    hashed = m.chance(.5)
    m.types.update(out_values_type="int64" if hashed else "string", out_row_splits_type=m.pick("int32", "int64"))
    m.set(input_order=order, hashed_output=hashed, num_buckets=m.pick(0, 7, 1000), hash_key=m.pick(956888297470, 1))
    lines = [np.concatenate([[0], np.cumsum(m.rng.integers(0, 3, rows if m.chance(.98) else rows + 1))]) for _ in range(counts["R"])]
    widths = [m.pick("int32", "int64") for _ in lines]
    parts = [members_of(m, rows, kind) for kind in types["S"]]
    return {"ragged_values": [feature(m, (int(s[-1]),), kind) for s, kind in zip(lines, types["R"])], "ragged_row_splits": [m.ints(s, w) for s, w in zip(lines, widths)],
            "sparse_indices": [p[0] for p in parts], "sparse_values": [p[1] for p in parts], "sparse_shape": [p[2] for p in parts],
            "dense_inputs": [feature(m, (rows, m.int(0, 2)), kind) for kind in types["D"]]}

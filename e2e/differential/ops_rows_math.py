"""Rows for arithmetic, reductions, linear algebra and transforms."""
import numpy as np

import ops_values as v
from ops_make import broadcasting, generic, row

row("Add AddV2 ApproximateEqual Atan2 BitwiseAnd BitwiseOr BitwiseXor Complex Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual "
    "Igamma Igammac IgammaGradA LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan NextAfter NotEqual Polygamma "
    "Pow RealDiv RightShift SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta RandomGammaGrad")(broadcasting)


@row("CheckNumerics CheckNumericsV2")
def check_numerics(m):
    m.set(message="bad")
    return {"tensor": m.any("T", palette=m.pick("plain", "any"))}


@row("ClipByValue")
def clip(m):
    shape = m.shape()
    return {"t": m.array("T", shape), "clip_value_min": m.array("T", m.pick((), shape)), "clip_value_max": m.array("T", m.pick((), m.bent(shape)))}


@row("Betainc")
def betainc(m):
    shape = m.shape(high=3)
    palette = m.pick("positive", "any", "unit")
    one = lambda p: m.array("T", m.bent(shape if m.chance(.8) else (), .02), p)
    return {"a": one(palette), "b": one(palette), "x": one(m.pick("unit", "any"))}


@row("All Any Max Mean Min Prod Sum EuclideanNorm")
def reduce(m):
    shape = m.shape(high=5, zero=.08)
    axes = [i - (len(shape) if m.chance(.3) else 0) for i in range(len(shape)) if m.chance(.5)]
    m.rng.shuffle(axes)
    if m.chance(.05):
        axes.append(m.pick(len(shape), -len(shape) - 1, 0, 0))
    axes = m.ints(axes, "Tidx")
    if axes.size == 1 and m.chance(.5):
        axes = axes.reshape(())
    m.flags("keep_dims")
    return {"input": m.array("T" if "T" in m.types else "bool", shape), "reduction_indices": axes}


@row("ArgMax ArgMin")
def arg_max(m):
    shape = m.shape(0 if m.chance(.05) else 1, 5)
    if m.types["Tidx"] == "int16":  # TensorFlow reads it as an int32
        m.types["Tidx"] = "int32"
    return {"input": m.array("T", shape, m.pick("ties", "any", "special")), "dimension": m.ints(m.axis(len(shape)), "Tidx")}


@row("Cumsum Cumprod CumulativeLogsumexp")
def scan(m):
    shape = m.shape(0 if m.chance(.05) else 1, 5)
    m.flags("exclusive", "reverse")
    return {"x": m.array("T", shape, m.pick("plain", "ties", "any")), "axis": m.ints(m.axis(len(shape)), "Tidx")}


@row("Cross")
def cross(m):
    shape = m.bent(m.shape(0, 3) + (3,))
    return {"a": m.array("T", shape), "b": m.array("T", m.bent(shape, .02))}


@row("Bucketize")
def bucketize(m):
    m.set(boundaries=sorted(float(x) for x in m.rng.choice([-2., -1., 0., .5, 1., 3., 1e30, -1e30], m.int(0, 5), replace=False)))
    return {"input": m.any("T")}


@row("LowerBound UpperBound")
def search(m):
    n, k, w = m.int(0, 2), m.int(0 if m.chance(.1) else 1, 6), m.int(0 if m.chance(.1) else 1, 4)
    with np.errstate(invalid="ignore"):
        ordered = np.sort(m.array("T", (n, k), m.pick("ties", "any", "plain")), -1)
    return {"sorted_inputs": ordered, "values": m.array("T", m.bent((n, w)), m.pick("ties", "any"))}


@row("HistogramFixedWidth")
def histogram(m):
    if m.chance(.06):
        span = m.array("T", (2,), "any")
    else:
        span = m.ints(m.pick([0, 5], [-2, 3], [1, 9]) if not m.types["T"].startswith("u") else [0, 5], "T")
    return {"values": m.array("T", m.shape(), "plain" if m.chance(.8) else "any"), "value_range": span, "nbins": m.ints(m.pick(1, 2, 5, 5, 10, 0, -1))}


@row("Bincount")
def bincount(m):
    size, shape = m.int(0, 5), m.shape(0, 3)
    x = m.rng.integers(0, 7, shape).astype(np.int32)
    if x.size and m.chance(.04):
        x.reshape(-1)[0] = -1
    return {"arr": x, "size": m.ints(size if not m.chance(.03) else -1), "weights": m.array("T", m.pick((0,), shape, m.bent(shape, .1)), "plain")}


@row("DenseBincount RaggedBincount SparseBincount")
def dense_bincount(m):
    m.flags("binary_output")
    size = m.ints(m.int(0, 5) if not m.chance(.03) else -1, "Tidx")
    if m.op == "RaggedBincount":
        rows = np.concatenate([[0], np.cumsum(m.rng.integers(0, 4, m.int(0, 3)))]).astype(np.int64)
        if m.chance(.06) and rows.size:
            rows[m.int(0, rows.size - 1)] = m.pick(-1, 1, 99)
        x = m.index("Tidx", (max(int(rows[-1]), 0) if rows[-1] < 50 else 3,), 6)
        return {"splits": rows, "values": x, "size": size, "weights": m.array("T", m.pick((0,), x.shape), "plain")}
    shape = m.shape(1, 2 if m.chance(.96) else 3)
    x = m.index("Tidx", shape, 6)
    if m.op == "DenseBincount":
        return {"input": x, "size": size, "weights": m.array("T", m.pick((0,), m.bent(shape)), "plain")}
    places = np.argwhere(m.rng.random(shape) < .6).astype(np.int64)
    if places.size and m.chance(.05):
        places[0, 0] = m.pick(-1, 99)
    values = m.index("Tidx", (len(places),), 6)
    return {"indices": places, "values": values, "dense_shape": m.ints(shape, "int64"), "size": size, "weights": m.array("T", m.pick((0,), values.shape), "plain")}


def segment_ids(m, dtype, n, most=4):
    ids = np.sort(m.rng.integers(0, most, n)).astype(m.dtype(dtype))
    if n and m.chance(.06):
        ids[m.int(0, n - 1)] = m.pick(-1, 9, 0)
    return ids


@row("SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum")
def segment(m):
    shape = m.shape(1, 4)
    return {"data": m.array("T", shape), "segment_ids": segment_ids(m, "Tindices", shape[0] + m.chance(.02))}


@row("UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum")
def unsorted_segment(m):
    shape, n = m.shape(0, 4), m.int(0, 5) if not m.chance(.02) else -1
    ids = m.index("Tindices", m.bent(shape[:m.int(min(1, len(shape)), len(shape))], .02), max(n, 0), .08)
    if ids.size and m.chance(.15):
        ids.reshape(-1)[0] = -1
    return {"data": m.array("T", shape), "segment_ids": ids, "num_segments": m.ints(n, "Tnumsegments")}


@row("SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments "
     "SparseSegmentSumWithNumSegments SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGrad")
def sparse_segment(m):
    shape, n = m.shape(1, 3), m.int(0, 6)
    data, ids = m.array("T", shape), segment_ids(m, "Tsegmentids", n)
    if m.op.endswith("Grad"):
        size = m.int(1, 5)
        ids = np.sort(m.index("Tsegmentids", (n,), shape[0], .06))
        return {"grad": data, "indices": m.index("Tidx", (n,), size, .06), "segment_ids": ids, "output_dim0": m.ints(size)}
    out = {"data": data, "indices": m.index("Tidx", (n,), shape[0], .06), "segment_ids": ids}
    if "Num" in m.op:
        out["num_segments"] = m.ints(m.pick(4, 4, 6, 2, 0), "Tnumsegments")
    return out


@row("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3")
def mat_mul(m):
    rows, inner, cols = (m.int(0 if m.chance(.08) else 1, 6) for _ in range(3))
    if m.chance(.05):
        inner = m.pick(33, 70)
    names = ("transpose_a", "transpose_b", "a", "b") if m.op == "MatMul" else ("adj_x", "adj_y", "x", "y")
    m.flags(names[0], names[1])
    left, right = (rows, inner), (inner, cols)
    left = left[::-1] if m.attrs.get(names[0]) else left
    right = right[::-1] if m.attrs.get(names[1]) else right
    batch = () if m.op == "MatMul" else m.shape(0, 3)
    other = batch if m.op in ("MatMul", "BatchMatMul") else v.broadcast(m.rng, batch)
    types = ("Ta", "Tb") if m.op.endswith("V3") else ("T", "T")
    palette = m.pick("plain", "plain", "ties", "any")
    return {names[2]: m.array(types[0], m.bent(batch + left), palette), names[3]: m.array(types[1], m.bent(other + right), palette)}


EQUATIONS = ["ij,jk->ik", "ij->ji", "ii->i", "ii->", "ij->", "i,i->", "i,j->ij", "bij,bjk->bik", "...ij,jk->...ik", "...i,...i->...", "abc->cab", "iij->j",
             "ij,ij->ij", "ij,ij->i", "i->ii", "...->...", "ab,b...->a...", ",ij->ij", "abcd,cdef->abef"]


@row("Einsum")
def einsum(m):
    equation = m.pick(*EQUATIONS)
    m.set(equation=equation)
    sizes, wide = {}, m.shape(0, 2)
    shapes = []
    for term in equation.split("->")[0].split(","):
        shape = ()
        for label in term.replace("...", "."):
            shape += v.broadcast(m.rng, wide) if label == "." else (sizes.setdefault(label, m.int(0 if m.chance(.05) else 1, 4)),)
        shapes.append(m.bent(shape, .02))
    return {"inputs": [m.array("T", s, m.pick("plain", "ties")) for s in shapes]}


def matrices(m, rows, cols, batch=None, kind="well"):
    """Matrices whose condition is good: random ones with a strong diagonal."""
    batch = m.shape(0, 2, dims=(1, 2)) if batch is None else batch
    a = m.array("T", batch + (rows, cols), "plain")
    if kind == "spd":
        a = (a @ np.conj(np.swapaxes(a, -1, -2)) + 2 * rows * np.eye(rows)).astype(a.dtype)
    elif kind == "self":
        a = (a + np.conj(np.swapaxes(a, -1, -2))).astype(a.dtype)
    elif kind == "well":
        a = (a + 6 * rows * np.eye(rows, cols)).astype(a.dtype)
    return a


@row("BatchCholesky Cholesky")
def cholesky(m):
    n = m.int(0 if m.chance(.1) else 1, 5)
    a = matrices(m, n, n, kind="spd")
    if a.size and m.chance(.1):
        a = -a
    return {"input": a if m.chance(.96) else m.any("T", 0, 3, palette="plain")}


@row("BatchMatrixDeterminant MatrixDeterminant LogMatrixDeterminant BatchMatrixInverse MatrixInverse Lu Qr Svd SelfAdjointEigV2 Eig "
     "MatrixExponential MatrixLogarithm MatrixSquareRoot BatchSelfAdjointEig BatchSelfAdjointEigV2 SelfAdjointEig BatchSvd")
def decompose(m):
    n = m.int(0 if m.chance(.1) else 1, 5)
    square = m.op not in ("Qr", "Svd", "BatchSvd")
    a = matrices(m, n, n if square else m.int(0 if m.chance(.1) else 1, 5), kind="self" if "Self" in m.op else "well")
    if "Inverse" in m.op:
        m.flags("adjoint")
    if m.op == "Qr":
        m.flags("full_matrices")
    if m.op in ("SelfAdjointEigV2", "BatchSelfAdjointEigV2", "Eig"):
        m.flags("compute_v")
    if m.op.endswith("Svd"):
        m.flags("compute_uv", "full_matrices")
    if a.size and m.chance(.06) and ("Det" in m.op or "Inv" in m.op or m.op == "Lu"):
        a[..., 0] = 0
    if a.size and m.chance(.05) and a.dtype.kind == "f":
        a[..., 0, 0] = m.pick(np.nan, np.inf)
    if m.chance(.04):
        a = m.any("T", 0, 3, palette="plain")
    return {"input": a}


@row("CholeskyGrad BatchCholeskyGrad")
def cholesky_grad(m):
    n, batch = m.int(0 if m.chance(.1) else 1, 5), m.shape(0, 1)
    factor = np.tril(m.array("T", batch + (n, n), "plain"))
    factor = (factor + 6 * np.eye(n)).astype(factor.dtype)
    return {"l": factor, "grad": m.array("T", m.bent(batch + (n, n)), "plain")}


@row("BatchMatrixSolve MatrixSolve BatchMatrixTriangularSolve MatrixTriangularSolve BandedTriangularSolve MatrixSolveLs BatchMatrixSolveLs")
def solve(m):
    n, k, batch = m.int(0 if m.chance(.1) else 1, 5), m.int(0 if m.chance(.1) else 1, 3), m.shape(0, 2, dims=(1, 2))
    if m.op.endswith("SolveLs"):
        rows = m.int(1, 6)
        m.flags("fast")
        return {"matrix": matrices(m, rows, n, batch), "rhs": m.array("T", m.bent(batch + (rows, k)), "plain"), "l2_regularizer": m.array("float64", (), "unit")}
    m.flags("adjoint")
    if "Triangular" in m.op:
        m.flags("lower")
    if m.op == "BandedTriangularSolve":
        bands = m.int(1, max(n, 1))
        band = m.array("T", batch + (bands, n), "plain")
        band[..., 0 if not m.attrs.get("lower", True) else 0, :] += 9
        band[..., -1, :] += 9
        return {"matrix": band, "rhs": m.array("T", m.bent(batch + (n, k)), "plain")}
    a = matrices(m, n, n, batch)
    if a.size and m.chance(.06):
        a[..., 0] = 0
    return {"matrix": a, "rhs": m.array("T", m.bent(batch + (n, k)), "plain")}


@row("TridiagonalMatMul")
def tridiagonal(m):
    batch, n, k = m.shape(0, 2), m.int(1, 5), m.int(1, 3)
    line = lambda: m.array("T", m.bent(batch + (1, n), .02), "plain")
    return {"superdiag": line(), "maindiag": line(), "subdiag": line(), "rhs": m.array("T", m.bent(batch + (n, k)), "plain")}


@row("TridiagonalSolve")
def tridiagonal_solve(m):
    batch, n, k = m.shape(0, 2), m.int(0 if m.chance(.05) else 1, 5), m.int(1, 3)
    d = m.array("T", batch + (3, n), "plain")
    d[..., 1, :] += 9
    if d.size and m.chance(.06):
        d[..., 1, 0] = 0
    m.flags("partial_pivoting")
    return {"diagonals": d, "rhs": m.array("T", m.bent(batch + (n, k)), "plain")}


@row("FFT FFT2D FFT3D IFFT IFFT2D IFFT3D")
def fft(m):
    rank = {"2": 2, "3": 3}.get(m.op[-2] if m.op.endswith("D") else "", 1)
    return {"input": m.any("Tcomplex", rank if m.chance(.97) else 0, rank + 2, palette="plain", dims=(1, 2, 3, 4, 5, 7, 8))}


@row("RFFT RFFT2D RFFT3D IRFFT IRFFT2D IRFFT3D")
def rfft(m):
    rank = {"2": 2, "3": 3}.get(m.op[-2] if m.op.endswith("D") else "", 1)
    if m.chance(.97):
        m.types["Tcomplex"] = {"float32": "complex64", "float64": "complex128"}[m.types["Treal"]]
    x = m.any("Treal" if m.op.startswith("R") else "Tcomplex", rank, rank + 1, palette="plain", dims=(1, 2, 3, 4, 5, 8))
    length = [max(d + m.int(-1, 2), 0) for d in x.shape[-rank:]]
    if m.chance(.04):
        length = m.pick(length[1:], [-1] * rank, [0] * rank)
    return {"input": x, "fft_length": m.ints(length)}

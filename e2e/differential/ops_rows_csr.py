"""Calls of ops on sparse matrices in compressed rows."""
import numpy as np

from ops_call import Compressed
from ops_make import row

TYPES = "float32", "float64", "complex64", "complex128"


def places(m, shape, bad=0):
    """Indices of some elements, in order; with a chance of some that are not, or that lie outside."""
    keep = m.rng.random(shape) < m.pick(.2, .5, .9)
    at = np.argwhere(keep).astype(np.int64)
    if len(at) and m.chance(bad):
        at[m.int(0, len(at) - 1), m.int(len(shape) - 2, len(shape) - 1)] = m.pick(-1, 0, shape[-1], 100)
    return at


def size(m, zero=.08):
    return tuple(0 if m.chance(zero) else m.int(1, 5) for _ in range(2))


def batch(m):
    return m.pick((), (), (1,), (2,), (3,))


def compressed(m, attr, shape):
    at = places(m, shape)
    return Compressed(at, m.array(attr, (len(at),), "ties"), np.array(shape, np.int64))


def element_type(m, attr):
    m.types[attr] = m.pick(*TYPES)


@row("DenseToCSRSparseMatrix SparseTensorToCSRSparseMatrix")
def compress(m):
    element_type(m, "T")
    m.constant = True  # the client has to know the rank
    shape = batch(m) + size(m)
    at = places(m, shape, .1)
    if m.op == "DenseToCSRSparseMatrix":
        return {"dense_input": m.array("T", shape, "ties"), "indices": at}
    return {"indices": at, "values": m.array("T", m.bent((len(at),)), "ties"), "dense_shape": np.array(shape, np.int64)}


@row("CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor CSRSparseMatrixComponents SparseMatrixNNZ SparseMatrixTranspose")
def use(m):
    m.constant = True
    attr = "T"
    if m.op != "SparseMatrixNNZ":
        element_type(m, "type")
        attr = "type"
        m.set(type=m.types["type"])
    m.types.setdefault("T", "float32")
    names = {"CSRSparseMatrixToDense": "sparse_input", "CSRSparseMatrixComponents": "csr_sparse_matrix", "SparseMatrixTranspose": "input"}
    shape = batch(m) + size(m)
    out = {names.get(m.op, "sparse_matrix"): compressed(m, attr, shape)}
    if m.op == "CSRSparseMatrixComponents":
        out["index"] = np.int32(m.int(-1, 3) if m.chance(.2) else m.int(0, max(1, shape[0] if len(shape) == 3 else 1) - 1))
    if m.op == "SparseMatrixTranspose":
        m.flags("conjugate")
    return out


@row("SparseMatrixMatMul SparseMatrixSparseMatMul")
def product(m):
    attr = "T" if m.op == "SparseMatrixMatMul" else "type"
    element_type(m, attr)
    if attr == "type":
        m.set(type=m.types["type"])
    turns = {side: m.pick("", "transpose_", "adjoint_") for side in "ab"}
    for side, turn in turns.items():
        if turn:
            m.set(**{turn + side: True})
    b, rows, inner, columns = batch(m), m.int(1, 5), m.int(1, 5), m.int(1, 5)
    other = inner if m.chance(.93) else inner + 1
    left = b + ((inner, rows) if turns["a"] else (rows, inner))
    right = b + ((columns, other) if turns["b"] else (other, columns))
    if attr == "T":
        m.flags("transpose_output", "conjugate_output")
        return {"a": compressed(m, attr, left), "b": m.array(attr, right, "ties")}
    return {"a": compressed(m, attr, left), "b": compressed(m, attr, right)}


@row("SparseMatrixOrderingAMD SparseMatrixSparseCholesky")
def factor(m):
    m.constant = True
    b, n = batch(m), m.int(1, 12)
    shape = b + (n, n)
    dense = np.where(m.rng.random(shape) < m.pick(.1, .3), m.rng.integers(1, 4, shape), 0) + np.eye(n) * (4 * n if m.chance(.9) else 0)
    if m.op == "SparseMatrixOrderingAMD":
        attr = "float32"
    else:
        element_type(m, "type")
        m.set(type=m.types["type"])
        attr = "type"
    at = np.argwhere(dense).astype(np.int64)
    out = {"input": Compressed(at, dense[tuple(at.T)].astype(m.dtype(attr)), np.array(shape, np.int64))}
    if m.op == "SparseMatrixSparseCholesky":
        orders = [m.rng.permutation(n) for _ in range(b[0] if b else 1)]
        out["permutation"] = np.array(orders if b else orders[0], np.int32)
    return out

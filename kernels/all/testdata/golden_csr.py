"""Writes golden_csr.gz, as golden.py does: python golden_csr.py OUTPUT [OP_PREFIX...]

Sparse matrices are written as TensorFlow encodes variants."""
from golden import *
import golden
from tensorflow.core.framework import tensor_pb2, types_pb2

f32, i32, i64 = np.float32, np.int32, np.int64
NUMBERS = [f32, np.float64] + C
NAME = b'tensorflow::CSRSparseMatrix'

class Matrix:
    """A sparse matrix of the places where a dense one is not zero."""
    def __init__(self, dense): self.dense = np.asarray(dense)

    def make(self):
        return R.DenseToCSRSparseMatrix(dense_input=self.dense, indices=np.argwhere(self.dense).astype(i64))

def describe(m, dtype):
    """Graph outputs that tell all of a matrix: the shape, and its parts one by one."""
    return R.CSRSparseMatrixToSparseTensor(sparse_matrix=m, type=dtype)

def variant(shape, parts, dtype):
    batches, rows, columns, values = [0], [], [], []
    for r, c, v in parts:
        batches.append(batches[-1] + len(c)); rows.extend(r); columns.extend(c); values.extend(v)
    p = tensor_pb2.TensorProto(dtype=types_pb2.DT_VARIANT); p.tensor_shape.SetInParent()
    v = p.variant_val.add()
    v.type_name, v.metadata = NAME, struct.pack('<II', 1, dtype.as_datatype_enum)
    for a in (np.array(shape, i64), np.array(batches, i32), np.array(rows, i32), np.array(columns, i32), np.array(values, dtype.as_numpy_dtype)):
        v.tensors.add().CopyFrom(tf.make_tensor_proto(a))
    return p

def fetch(s, m, dtype, feed):
    shape = s.run(describe(m, dtype).dense_shape, feed)
    parts = [s.run(list(R.CSRSparseMatrixComponents(csr_sparse_matrix=m, index=b, type=dtype)), feed) for b in range(shape[0] if len(shape) == 3 else 1)]
    return variant(shape, parts, dtype)

def csr(op, *inputs, **attrs):
    """case for inputs that are of class Matrix, and outputs that may be variants."""
    if only and not any(op.startswith(p) for p in only): return
    with tf.Graph().as_default() as g, tf.device('/cpu:0'):
        opdef, feed, ins = op_def_registry.get(op), {}, []
        for a in inputs:
            if isinstance(a, Matrix): ins.append(a.make()); continue
            a = np.asarray(a)
            ins.append(tf.compat.v1.placeholder(a.dtype, a.shape)); feed[ins[-1]] = a
        dtype = tf.as_dtype([a.dense if isinstance(a, Matrix) else np.asarray(a) for a in inputs][0 if op != 'SparseTensorToCSRSparseMatrix' else 1].dtype)
        if any(a.name == 'type' for a in opdef.attr): attrs.setdefault('type', dtype)
        try: res = getattr(R, op)(**{arg.name: x for arg, x in zip(opdef.input_arg, ins)}, **attrs)
        except Exception as e: missing.add(op); print(op, e); return
        node = tf.nest.flatten(res)[0].op
        code, msg, outs, given = 0, '', [], []
        with tf.compat.v1.Session(graph=g) as s:
            for a, x in zip(inputs, ins):
                given.append(fetch(s, x, tf.as_dtype(a.dense.dtype), feed).SerializeToString() if isinstance(a, Matrix) else proto(np.asarray(a)))
            try:
                s.run([o for o in node.outputs if o.dtype != tf.variant] + [node], feed)
                for o in node.outputs:
                    outs.append(fetch(s, o, dtype, feed).SerializeToString() if o.dtype == tf.variant else proto(s.run(o, feed)))
            except tf.errors.OpError as e:
                code, msg, outs = e.error_code, e.message.split('\n')[0], []
                if msg.startswith('Graph execution error'): msg = e.message.split('Node: ')[1].split('\n')[1]
    nd = tf.compat.v1.NodeDef(); nd.CopyFrom(node.node_def); del nd.input[:]
    count[op] = count.get(op, 0) + 1
    blob(nd.SerializeToString())
    for list_ in (given, outs):
        num(len(list_))
        for b in list_: blob(b)
    num(code); blob(msg.encode())

def thin(t, shape, share=.4):
    """A dense tensor with zeros in most places."""
    return arr(t, shape, 1, 4) * (rng.random(shape) < share).astype(t)

SHAPES = [(4, 5), (1, 1), (7, 3), (2, 3, 4), (3, 1, 6), (0, 3), (3, 0), (2, 0, 3), (1, 4, 4)]

def section_convert():
    for t in NUMBERS:
        for shape in SHAPES if t == f32 else SHAPES[:4]:
            d = thin(t, shape); at = np.argwhere(d).astype(i64)
            csr('DenseToCSRSparseMatrix', d, at)
            csr('SparseTensorToCSRSparseMatrix', at, d[tuple(at.T)], np.array(shape, i64))
            csr('CSRSparseMatrixToDense', Matrix(d)); csr('CSRSparseMatrixToSparseTensor', Matrix(d)); csr('SparseMatrixNNZ', Matrix(d))
            for b in range(shape[0] if len(shape) == 3 else 1): csr('CSRSparseMatrixComponents', Matrix(d), i32(b))
            for conj in (False, True): csr('SparseMatrixTranspose', Matrix(d), conjugate=conj)
            csr('Conj', Matrix(d))
    d = thin(f32, (3, 4)); many = thin(f32, (3, 3, 4))
    for at in ([[2, 1], [0, 1], [0, 0], [2, 0]], [[1, 1], [1, 1]], [[2, 3], [3, 0]], [[0, -1]]): csr('DenseToCSRSparseMatrix', d, np.array(at, i64))
    for at in ([[2, 1, 3], [2, 0, 1]], [[1, 0, 0], [2, 0, 1]], [[0, 3, 0]]):
        csr('DenseToCSRSparseMatrix', many, np.array(at, i64)); csr('SparseTensorToCSRSparseMatrix', np.array(at, i64), arr(f32, len(at)), np.array([3, 3, 4], i64))
    csr('SparseTensorToCSRSparseMatrix', np.array([[2, 1], [0, 1], [0, 1]], i64), arr(f32, 3), np.array([3, 4], i64))
    csr('SparseTensorToCSRSparseMatrix', np.array([[1, 5]], i64), arr(f32, 1), np.array([3, 4], i64))
    csr('SparseTensorToCSRSparseMatrix', np.zeros((0, 2), i64), arr(f32, 0), np.array([1 << 31, 4], i64))
    csr('SparseTensorToCSRSparseMatrix', np.zeros((0, 3), i64), arr(f32, 0), np.array([1 << 31, 0, 4], i64))
    for b in (-1, 3): csr('CSRSparseMatrixComponents', Matrix(many), i32(b))
    for op in ('CSRSparseMatrixToDense', 'CSRSparseMatrixToSparseTensor', 'SparseMatrixTranspose'): csr(op, Matrix(d), type=tf.float64)
    csr('CSRSparseMatrixComponents', Matrix(d), i32(0), type=tf.float64)

def flags(a, b): return {k: True for k in (a + '_a' if a else '', b + '_b' if b else '') if k}

def section_product():
    turns = ['', 'transpose', 'adjoint']
    for t in NUMBERS:
        for ta in turns:
            for tb in turns:
                for batch in [(), (2,)]:
                    a = thin(t, batch + ((4, 3) if not ta else (3, 4))); b = arr(t, batch + ((3, 5) if not tb else (5, 3)))
                    for more in [{}, dict(transpose_output=True), dict(conjugate_output=True), dict(transpose_output=True, conjugate_output=True)][:4 if t != np.float64 else 1]:
                        csr('SparseMatrixMatMul', Matrix(a), b, **flags(ta, tb), **more)
                    csr('SparseMatrixSparseMatMul', Matrix(a), Matrix(b * thin(t, b.shape)), **flags(ta, tb))
        csr('SparseMatrixSparseMatMul', Matrix(thin(t, (1, 4, 3))), Matrix(thin(t, (3, 3, 2)))); csr('SparseMatrixSparseMatMul', Matrix(thin(t, (3, 4, 3))), Matrix(thin(t, (1, 3, 2))))
        csr('SparseMatrixSparseMatMul', Matrix(np.array([[1, -1], [2, 0]], t)), Matrix(np.array([[1, 2], [1, 3]], t)))
    for shapes in [((2, 0), (0, 4)), ((2, 3), (3, 0)), ((2, 3), (3, 1)), ((2, 3, 0), (2, 0, 2)), ((40, 60), (60, 20))]:
        csr('SparseMatrixMatMul', Matrix(thin(f32, shapes[0])), arr(f32, shapes[1])); csr('SparseMatrixSparseMatMul', Matrix(thin(f32, shapes[0])), Matrix(thin(f32, shapes[1])))

def section_factor():
    for n in (1, 2, 5, 12, 40, 90):
        for share in (.05, .3) if n < 40 else (.02,):
            for t in NUMBERS if n < 40 else [np.float64]:
                l = np.tril(thin(t, (n, n), share), -1); d = (l @ l.conj().T + np.diag(arr(np.float64, n, 2, 4))).astype(t)
                csr('SparseMatrixOrderingAMD', Matrix(d))
                for perm in (np.arange(n), rng.permutation(n)): csr('SparseMatrixSparseCholesky', Matrix(d), perm.astype(i32))
    for n in (3, 30, 200, 400): csr('SparseMatrixOrderingAMD', Matrix(thin(f32, (n, n), 2 / n) + np.eye(n, dtype=f32)))
    csr('SparseMatrixOrderingAMD', Matrix(thin(f32, (6, 6)))); csr('SparseMatrixOrderingAMD', Matrix(thin(f32, (2, 5, 5)) + np.eye(5, dtype=f32)))
    star = np.eye(40, dtype=f32); star[20, :] = star[:, 20] = 1; csr('SparseMatrixOrderingAMD', Matrix(star)); csr('SparseMatrixOrderingAMD', Matrix(np.ones((7, 7), f32)))
    two = np.stack([np.eye(3) * 4, np.array([[2, 1, 0], [1, 2, 1], [0, 1, 2]])]).astype(f32)
    csr('SparseMatrixSparseCholesky', Matrix(two), np.array([[0, 1, 2], [2, 0, 1]], i32))
    csr('SparseMatrixSparseCholesky', Matrix(np.array([[1, 2], [2, 1]], f32)), np.array([0, 1], i32)); csr('SparseMatrixSparseCholesky', Matrix(-np.eye(2, dtype=f32)), np.array([0, 1], i32))
    csr('SparseMatrixSparseCholesky', Matrix(two[0]), np.array([0, 1, 2], i32), type=tf.float64)

if __name__ == '__main__': golden.main(globals())

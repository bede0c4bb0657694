"""Writes golden_sets.gz, as golden.py does: python golden_sets.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, i64, i32 = np.float32, np.int64, np.int32
REAL = [np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, tf.bfloat16.as_numpy_dtype]
MEMBERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16]
OPERATIONS = ['a-b', 'B-A', 'intersection', 'union']

def at(*rows): return np.array(rows, i64)
def words(*w): return np.array(w, object)
def small(t, *shape): return rng.integers(0, 5, shape).astype(t)

# Two sparse tensors of shape [3, 2, 4], with sets that only one has, and repeated values.
A = at([0, 0, 0], [0, 0, 2], [0, 1, 1], [2, 0, 0], [2, 0, 1], [2, 0, 3])
B = at([0, 0, 1], [0, 0, 3], [1, 1, 0], [2, 0, 0], [2, 1, 2])
SHAPE = at(3, 2, 4)

def section_sets():
    for t in MEMBERS:
        for o in OPERATIONS:
            case('DenseToDenseSetOperation', small(t, 3, 2, 4), small(t, 3, 2, 3), set_operation=o)
            case('DenseToSparseSetOperation', small(t, 3, 2, 4), B, small(t, 5), SHAPE, set_operation=o)
            case('SparseToSparseSetOperation', A, small(t, 6), SHAPE, B, small(t, 5), SHAPE, set_operation=o)
        case('SetSize', A, small(t, 6), SHAPE)
    a, b = words(b'a', b'b', b'a', b'', b'x', b'y'), words(b'a', b'c', b'b', b'', b'y')
    for o in OPERATIONS:
        case('DenseToDenseSetOperation', a.reshape(2, 3), b[:4].reshape(2, 2), set_operation=o)
        case('SparseToSparseSetOperation', A, a, SHAPE, B, b, SHAPE, set_operation=o)
        case('DenseToSparseSetOperation', np.repeat(a, 4).reshape(3, 2, 4), B, b, SHAPE, set_operation=o)
        # Without values, or sets.
        case('DenseToDenseSetOperation', np.zeros((2, 0), i32), small(i32, 2, 3), set_operation=o)
        case('DenseToDenseSetOperation', np.zeros((0, 3), i32), np.zeros((0, 2), i32), set_operation=o)
        case('DenseToSparseSetOperation', np.zeros((3, 2, 0), i32), B, small(i32, 5), SHAPE, set_operation=o)
        case('SparseToSparseSetOperation', A[:0], small(i32, 0), SHAPE, B, small(i32, 5), SHAPE, set_operation=o)
        case('SparseToSparseSetOperation', A, small(i32, 6), SHAPE, B[:0], small(i32, 0), SHAPE, set_operation=o)
        # Sets that do not ascend.
        case('DenseToSparseSetOperation', small(i32, 3, 2, 4), B[[2, 0, 3]], small(i32, 3), SHAPE, set_operation=o, validate_indices=False)
        case('SparseToSparseSetOperation', A[[3, 0]], small(i32, 2), SHAPE, B[[4, 0]], small(i32, 2), SHAPE, set_operation=o, validate_indices=False)
    x, y = small(i32, 6), small(i32, 5)
    case('DenseToDenseSetOperation', small(i32, 3), small(i32, 3), set_operation='union')
    case('DenseToDenseSetOperation', small(i32, 2, 3), small(i32, 3, 3), set_operation='union')
    case('DenseToDenseSetOperation', small(i32, 2, 3), small(i32, 2, 3, 1), set_operation='union')
    for bad in [(A[::-1].copy(), x, SHAPE), (A, x, SHAPE - 2), (A, x[:5], SHAPE), (A, x, SHAPE[:2]), (A[:, :1], x, SHAPE[:1]), (A, x, at(-1, 2, 4)), (A, x, np.int64(3))]:
        case('SetSize', *bad)
        case('SparseToSparseSetOperation', *bad, B, y, SHAPE, set_operation='union')
        case('DenseToSparseSetOperation', small(i32, 3, 2, 4), *bad, set_operation='union')
    case('SetSize', A, x, at(2, 2, 4), validate_indices=False)
    case('DenseToSparseSetOperation', small(i32, 3, 3, 4), B, y, SHAPE, set_operation='union')

def section_product():
    indices = at([0, 0], [0, 2], [1, 1], [3, 0], [3, 2], [3, 2])
    for t in [np.float32, np.float64, np.int32, np.complex64, np.complex128, np.float16, tf.bfloat16.as_numpy_dtype]:
        for ti in (i32, i64):
            for adj_a in (False, True):
                for adj_b in (False, True):
                    b = arr(t, (4 if adj_a else 3, 5))
                    case('SparseTensorDenseMatMul', indices.astype(ti), arr(t, 6), at(4, 3), b.T.copy() if adj_b else b, adjoint_a=adj_a, adjoint_b=adj_b)
        b = arr(t, (3, 40))
        case('SparseTensorDenseMatMul', indices, arr(t, 6), at(4, 3), b)
    v, b = arr(f32, 6), arr(f32, (3, 5))
    case('SparseTensorDenseMatMul', indices[:0], v[:0], at(4, 3), b); case('SparseTensorDenseMatMul', indices[:0], v[:0], at(4, 0), b[:0]); case('SparseTensorDenseMatMul', indices[:0], v[:0], at(0, 3), b)
    for bad in [(indices, v, at(4, 3), v), (indices, v, at(4, 3, 1), b), (indices, v, np.int64(4), b), (indices, b, at(4, 3), b), (v.astype(i64), v, at(4, 3), b), (indices[:5], v, at(4, 3), b),
                (A, v, at(4, 3), b), (indices, v, at(4, 4), b), (indices - 1, v, at(4, 3), b), (indices + at([1, 0]), v, at(4, 3), b)]:
        case('SparseTensorDenseMatMul', *bad)

def section_dense_sum():
    for t in REAL + [np.complex64, np.complex128]:
        for ti in (i32, i64):
            case('SparseTensorDenseAdd', A.astype(ti), arr(t, 6), SHAPE.astype(ti), arr(t, (3, 2, 4)))
    x, v = arr(f32, (3, 2, 4)), arr(f32, 6)
    case('SparseTensorDenseAdd', A[[0, 0, 3]], v[:3], SHAPE, x); case('SparseTensorDenseAdd', A[:0], v[:0], SHAPE, x); case('SparseTensorDenseAdd', at([2], [0]), v[:2], at(3), v[:3])
    for bad in [(A, v, SHAPE, x[0]), (A, v, SHAPE + 1, x), (A, v[:5], SHAPE, x), (A, v, SHAPE[:2], x), (A - 1, v, SHAPE, x), (A + 1, v, SHAPE, x), (A[0], v, SHAPE, x), (A, x, SHAPE, x), (np.zeros((1, 0), i64), v[:1], np.zeros(0, i64), f32(1)),
                (np.zeros((1, 6), i64), v[:1], np.ones(6, i64), np.ones((1,) * 6, f32))]:
        case('SparseTensorDenseAdd', *bad)

def section_sparse_sum():
    for t, r in [(np.float32, f32), (np.float64, np.float64), (np.int64, i64), (np.int32, i32), (np.int16, np.int16), (np.int8, np.int8), (np.complex64, f32), (np.complex128, np.float64)]:
        x, y = arr(t, 6), arr(t, 5)
        for thresh in (0, 1, 3): case('SparseAdd', A, x, SHAPE, B, y, SHAPE, r(thresh))
        y[3] = -x[3]
        case('SparseAdd', A, x, SHAPE, B, y, SHAPE, r(0)); case('SparseAdd', A, x, SHAPE, B, y, SHAPE, r(1))
        case('SparseAdd', A[:0], x[:0], SHAPE, B, y, SHAPE, r(1)); case('SparseAdd', A, x, SHAPE, B[:0], y[:0], SHAPE, r(1))
        total = at([0, 0, 0], [0, 0, 1], [0, 0, 3], [1, 1, 0], [2, 0, 0], [2, 0, 3])
        case('SparseAddGrad', arr(t, 6), A, B, total); case('SparseAddGrad', arr(t, 0), A, B, total[:0])
    x, y = arr(f32, 6), arr(f32, 5)
    for bad in [(A[0], x, SHAPE, B, y, SHAPE, f32(0)), (A[:, :2], x, SHAPE, B, y, SHAPE, f32(0)), (A, x[:5], SHAPE, B, y, SHAPE, f32(0)), (A, A.astype(f32), SHAPE, B, y, SHAPE, f32(0)), (A, x, A, B, y, SHAPE, f32(0)),
                (A, x, SHAPE[:2], B, y, SHAPE, f32(0)), (A, x, SHAPE, B, y, SHAPE[:2], f32(0)), (A, x, SHAPE, B, y, SHAPE + 1, f32(0)), (A, x, SHAPE, B, y, SHAPE, x), (A[:, :0], x, SHAPE[:0], B[:, :0], y, SHAPE[:0], f32(0))]:
        case('SparseAdd', *bad)
    for bad in [(x, A, B, A[0]), (A.astype(f32), A, B, A), (x, A, B[:, :2], A), (y, A, B, A)]: case('SparseAddGrad', *bad)

def section_extremes():
    for t in REAL:
        for op in ('SparseSparseMaximum', 'SparseSparseMinimum'):
            x, y = arr(t, 6), arr(t, 5)
            case(op, A, x, SHAPE, B, y, SHAPE); case(op, A[:0], x[:0], SHAPE, B, y, SHAPE); case(op, A, x, SHAPE, B[:0], y[:0], SHAPE)
    x, y = arr(f32, 6), arr(f32, 5)
    for bad in [(A[0], x, SHAPE, B, y, SHAPE), (A[:, :2], x, SHAPE, B, y, SHAPE), (A, x[:5], SHAPE, B, y, SHAPE), (A, x, SHAPE, B, y, SHAPE[:2]), (A, x, SHAPE, B, y, SHAPE + 1), (A - 1, x, SHAPE, B, y, SHAPE), (A, x, SHAPE, B + 3, y, SHAPE),
                (A, x, SHAPE, B[:, :2], y, SHAPE[:2])]:
        case('SparseSparseMaximum', *bad)

def section_with_dense():
    for t in REAL:
        for op in ('SparseDenseCwiseAdd', 'SparseDenseCwiseMul', 'SparseDenseCwiseDiv'):
            for shape in [(3, 2, 4), (2, 4), (4,), (1,), (), (3, 1, 4), (1, 2, 1)]:
                dense = arr(t, shape) if t not in (np.float32, np.float64) else arr(t, shape)
                case(op, A, arr(t, 6), SHAPE, np.where(dense == 0, np.ones((), t), dense).astype(t))
    v, x = arr(f32, 6), np.ones((3, 2, 4), f32)
    for op in ('SparseDenseCwiseMul', 'SparseDenseCwiseDiv'):
        case(op, A[:0], v[:0], SHAPE, x); case(op, A, v, SHAPE, 0 * x)
        for bad in [(A[0], v, SHAPE, x), (A, x, SHAPE, x), (A, v[:5], SHAPE, x), (A, v, SHAPE[:2], x), (A[:, :0], v, SHAPE[:0], x), (A, v, SHAPE, np.ones((5, 3, 2, 4), f32)), (A, v, SHAPE, np.ones(3, f32)), (A, v, SHAPE, np.ones((3, 2, 5), f32)),
                    (A + 1, v, SHAPE, x), (A - 1, v, SHAPE, x), (A, v, at(-1, 2, 4), x), (np.zeros((1, 6), i64), v[:1], np.ones(6, i64), f32(1))]:
            case(op, *bad)

def section_reduce():
    for t in REAL + [np.complex64, np.complex128]:
        for op in ('SparseReduceSum', 'SparseReduceMax', 'SparseReduceSumSparse', 'SparseReduceMaxSparse'):
            if 'Max' in op and np.dtype(t).kind == 'c': continue
            for axes in ([], [0], [1], [2], [-1], [0, 2], [0, 1, 2]):
                case(op, A, arr(t, 6), SHAPE, np.array(axes, i32), keep_dims=len(axes) == 1)
    v = arr(f32, 6)
    for op in ('SparseReduceSum', 'SparseReduceSumSparse', 'SparseReduceMax', 'SparseReduceMaxSparse'):
        for keep in (False, True):
            case(op, A[[3, 0, 5, 1, 2, 4]], v, SHAPE, np.array([1, 1, -2], i32), keep_dims=keep)
            case(op, A[:0], v[:0], SHAPE, np.array([1], i32), keep_dims=keep); case(op, A[:0], v[:0], SHAPE, np.array([0, 1, 2], i32), keep_dims=keep); case(op, A, v, SHAPE, i32(1), keep_dims=keep)
        for bad in [(A, v, SHAPE, np.array([3], i32)), (A, v, SHAPE, np.array([-4], i32)), (A, v, SHAPE[:2], np.array([0], i32)), (A, v[:5], SHAPE, np.array([0], i32)), (A[0], v, SHAPE, np.array([0], i32)), (A, v, np.int64(3), np.array([0], i32)),
                    (A, v, SHAPE, np.array([[0]], i32)), (A, v, -SHAPE, np.array([0], i32))]:
            case(op, *bad)
    case('SparseReduceSum', A + 2, v, SHAPE, np.array([0], i32))

def section_softmax():
    for t in (np.float32, np.float64, np.float16):
        case('SparseSoftmax', A, arr(t, 6), SHAPE); case('SparseSoftmax', A[[3, 0, 5, 1, 2, 4]], arr(t, 6), SHAPE); case('SparseSoftmax', A[:0], arr(t, 0), SHAPE)
    v = arr(f32, 6)
    for bad in [(A[0], v, SHAPE), (A, A.astype(f32), SHAPE), (A, v, SHAPE[:1]), (A, v, SHAPE[:2]), (A, v[:5], SHAPE), (A, v, -SHAPE), (A, v, np.int64(2))]: case('SparseSoftmax', *bad)

if __name__ == '__main__': golden.main(globals())

"""Writes golden_sparse.gz, as golden.py does: python golden_sparse.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, i64 = np.float32, np.int64
NUMBERS = [np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.complex64, np.complex128, np.float16, tf.bfloat16.as_numpy_dtype]

def at(*rows): return np.array(rows, i64)

def section_fill():
    some = at([0, 1], [0, 3], [2, 0], [2, 0], [4, 1])
    full = at([0, 1], [1, 0], [2, 3])
    mixed = at([2, 3], [0, 1], [1, 0], [0, 0])
    for t in NUMBERS + [bool]:
        case('SparseFillEmptyRows', some, arr(t, 5), at(6, 5), arr(t, ()))
    words = np.array([b'a', b'b', b'', b'd'], object)
    case('SparseFillEmptyRows', some[:4], words, at(5, 5), np.array(b'none', object))
    for rows in (3, 4, 7):
        case('SparseFillEmptyRows', full, arr(f32, 3), at(rows, 5), f32(7))
        case('SparseFillEmptyRows', mixed, arr(f32, 4), at(rows, 5), f32(7))
    case('SparseFillEmptyRows', np.zeros((0, 2), i64), np.zeros(0, f32), at(3, 5), f32(7))
    case('SparseFillEmptyRows', np.zeros((0, 2), i64), np.zeros(0, f32), at(0, 5), f32(7))
    case('SparseFillEmptyRows', at([1], [3]), arr(f32, 2), at(5), f32(7))
    case('SparseFillEmptyRows', at([1, 2, 3], [3, 0, 0]), arr(f32, 2), at(5, 3, 4), f32(7))
    x = arr(f32, 5)
    for bad in [(some, x, at(4, 5), f32(1)), (some - 1, x, at(6, 5), f32(1)), (some, x, at(0, 5), f32(1)), (some, x, at(-1, 5), f32(1)), (some, x[:4], at(6, 5), f32(1)), (some, x, at(6), f32(1)),
                (some, x, at(6, 5), x), (some, x, i64(6), f32(1)), (some[0], x, at(6, 5), f32(1)), (some, some, at(6, 5), i64(1)), (np.zeros((0, 0), i64), x[:0], np.zeros(0, i64), f32(1)), (np.zeros((0, 2), i64), x[:0], at(-3, 5), f32(1))]:
        case('SparseFillEmptyRows', *bad)

def section_fill_grad():
    for t in NUMBERS:
        case('SparseFillEmptyRowsGrad', at(4, 1, 0), arr(t, 7))
        case('SparseFillEmptyRowsGrad', at(1, 1), arr(t, 3))
    for places in ([], [0, 1, 2], [3], [-1]): case('SparseFillEmptyRowsGrad', np.array(places, i64), arr(f32, 3))
    case('SparseFillEmptyRowsGrad', at([0]), arr(f32, 3)); case('SparseFillEmptyRowsGrad', at(0), arr(f32, (3, 1))); case('SparseFillEmptyRowsGrad', at(), arr(f32, 0))

if __name__ == '__main__': golden.main(globals())

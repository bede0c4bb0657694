"""Writes golden_crosses.gz, as golden.py does: python golden_crosses.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, i64, i32 = np.float32, np.int64, np.int32

def at(*rows): return np.array(rows, i64)
def words(*w): return np.array(w, object)
NONE = np.zeros((0, 2), i64)

# Features of three rows: the middle one has none of the first column.
A = at([0, 0], [0, 1], [2, 0]), words(b'a', b'', b'long enough to lie elsewhere'), at(3, 2)
B = at([0, 0], [1, 0], [1, 1], [2, 0], [2, 1]), np.array([5, -3, 7, 2 ** 40 + 1, 0], i64), at(3, 2)
WORDS = words(b'x', b'y', b'z', b'u', b'v', b'w').reshape(3, 2)
LONGS = np.array([[1, -2], [3, 4], [2 ** 33, 6]], i64)

def lists(columns): return [c[i] for i in range(3) for c in columns]

def cross(op, sparse, dense, *more, **attrs):
    """golden.case cannot tell lists of several types apart."""
    if only and not any(op.startswith(p) for p in only): return
    arrays = lists(sparse) + list(dense) + [np.asarray(m) for m in more]
    run(op, arrays, lambda ph: getattr(R, op)(
        indices=ph[:len(sparse)], values=ph[len(sparse):2 * len(sparse)], shapes=ph[2 * len(sparse):3 * len(sparse)],
        dense_inputs=ph[3 * len(sparse):3 * len(sparse) + len(dense)], **dict(zip(MORE[op], ph[3 * len(sparse) + len(dense):])), **attrs))

MORE = {'SparseCross': [], 'SparseCrossV2': ['sep'], 'SparseCrossHashed': ['num_buckets', 'strong_hash', 'salt']}

def run(op, arrays, call):
    with tf.Graph().as_default() as g, tf.device('/cpu:0'):
        ph = [tf.compat.v1.placeholder(tf.as_dtype(a.dtype) if a.dtype != object else tf.string) for a in arrays]
        node = call(ph)[0].op
        code, msg, vals = 0, '', []
        try:
            with tf.compat.v1.Session(graph=g) as s: vals = s.run(list(node.outputs), dict(zip(ph, arrays)))
        except tf.errors.OpError as e:
            code, msg = e.error_code, e.message.split('\n')[0]
            if msg.startswith('Graph execution error'): msg = e.message.split('Node: ')[1].split('\n')[1]
    write(node.node_def, arrays, vals, code, msg, [t.dtype for t in node.outputs])

def section_sparse_cross():
    def first(sparse, dense, out, internal, buckets=0, key=956888297470):
        cross('SparseCross', sparse, dense, hashed_output=out == tf.int64, num_buckets=buckets, hash_key=key, out_type=out, internal_type=internal)
    T, S = tf.int64, tf.string
    sets = [([A], []), ([A, B], []), ([B, A], [WORDS]), ([A], [LONGS, WORDS]), ([], [WORDS]), ([], [WORDS, LONGS]), ([A, A, A], []), ([], []), ([B, B], [LONGS])]
    for sparse, dense in sets:
        for internal in (T, S):
            first(sparse, dense, S, internal)
            for buckets in (0, 1, 1000): first(sparse, dense, T, internal, buckets)
        first(sparse, dense, T, T, 100, -1)
        for sep in (b'_Y_', b''): cross('SparseCrossV2', sparse, dense, words(sep).reshape(()))
        for buckets in (0, 1000, -5):
            for strong in (False, True):
                if strong and any(d is LONGS for d in dense): continue  # TensorFlow crashes
                cross('SparseCrossHashed', sparse, dense, i64(buckets), np.bool_(strong), at(137, -173))
    first([A], [], S, S, key=0)
    # Rows that do not ascend, that are beyond the others, and none.
    odd = at([0, 0], [2, 0], [1, 0], [7, 0]), words(b'a', b'b', b'c', b'd'), at(3, 2)
    none = NONE, words(), at(3, 0)
    for o in (odd, none, (NONE, words(), at(0, 2))): first([o, A], [], S, S); first([o], [], T, T)
    first([], [np.zeros((3, 0), i64), LONGS], T, T); first([], [np.zeros((0, 2), i64)], T, T)
    # Inputs that do not fit.
    bad = [(at(0, 1, 2), A[1], A[2]), (at([0, 0, 0]), words(b'a'), at(3, 2)), (A[0], words(b'a'), A[2]), (A[0], A[1].reshape(3, 1), A[2]),
           (A[0], A[1], at(3)), (A[0], A[1], at([3, 2])), (A[0], A[1], at(2, 2))]
    for b in bad:
        first([A, b], [WORDS], S, S)
        cross('SparseCrossV2', [A, b], [WORDS], words(b'_').reshape(()))
        cross('SparseCrossHashed', [A, b], [WORDS], i64(9), np.bool_(False), at(1, 2))
    first([A], [WORDS[:2]], S, S); first([A], [WORDS.reshape(-1)], S, S)
    cross('SparseCrossV2', [A], [WORDS], words(b'_', b'-')); cross('SparseCrossHashed', [A], [WORDS], i64(9), np.bool_(False), at(1, 2, 3))

def section_ragged_cross():
    def ragged(r, s, d, order, out, buckets=0, key=1 << 40, splits=tf.int64, **attrs):
        arrays = [x[0] for x in r] + [x[1] for x in r] + lists(s) + list(d)
        n, m = len(r), len(s)
        run('RaggedCross', arrays, lambda ph: R.RaggedCross(
            ragged_values=ph[:n], ragged_row_splits=ph[n:2 * n], sparse_indices=ph[2 * n:2 * n + m], sparse_values=ph[2 * n + m:2 * n + 2 * m],
            sparse_shape=ph[2 * n + 2 * m:2 * n + 3 * m], dense_inputs=ph[2 * n + 3 * m:], input_order=order, hashed_output=out == tf.int64,
            num_buckets=buckets, hash_key=key, out_values_type=out, out_row_splits_type=splits))
    if only and not any('RaggedCross'.startswith(p) for p in only): return
    x = words(b'a', b'b', b'c', b'd'), at(0, 1, 1, 4)
    y = np.array([4, -5, 6], i64), at(0, 2, 3, 3)
    z = words(b'a'), at(0, 0, 1, 1)
    narrow = lambda c: (c[0], c[1].astype(i32))
    for out in (tf.int64, tf.string):
        for splits in (tf.int64, tf.int32):
            x1, y1, z1 = (c if splits == tf.int64 else narrow(c) for c in (x, y, z))
            for buckets in (0, 50):
                ragged([x1, y1], [], [], 'RR', out, buckets, splits=splits)
                ragged([x1, y1], [A, B], [WORDS, LONGS], 'DRSDSR', out, buckets, splits=splits)
                ragged([z1], [], [WORDS], 'DR', out, buckets, splits=splits)
        ragged([], [A], [WORDS], 'SD', out); ragged([], [], [LONGS], 'D', out); ragged([], [], [], '', out); ragged([], [A, B], [], 'SS', out)
        odd = at([0, 0], [2, 0], [1, 0], [7, 0]), words(b'a', b'b', b'c', b'd'), at(3, 2)
        ragged([], [odd], [], 'S', out); ragged([x], [odd], [], 'RS', out)
    S = tf.string
    for values, splits in [(x[0], at(0, 1, 1)), (x[0], at(0, 1, 4)), (x[0], at(1, 1, 1, 4)), (x[0], at(0, 3, 1, 4)), (x[0], at()), (x[0], at([0, 1, 1, 4])), (x[0].reshape(2, 2), x[1])]:
        ragged([(values, splits), y], [], [], 'RR', S)
    ragged([x], [(at(0, 1, 2), A[1], A[2])], [], 'RS', S); ragged([x], [(A[0], A[1], at(3))], [], 'RS', S); ragged([x], [(A[0], A[1], at(2, 2))], [], 'RS', S)
    ragged([x], [], [WORDS.reshape(-1)], 'RD', S); ragged([x], [], [WORDS[:2]], 'RD', S)
    ragged([x], [], [], 'D', S); ragged([x], [], [], 'S', S); ragged([], [], [WORDS], 'R', S); ragged([x], [], [], 'Q', S)

def section_fill():
    for t in F + SI + UI + C + [bool]:
        case('RaggedFillEmptyRows', at(0, 0, 3), arr(t, 3), i64(5), arr(t, ()))
        case('RaggedFillEmptyRows', at(3, 0, 3), arr(t, 3), i64(4), arr(t, ()))
        if t != bool: case('RaggedFillEmptyRowsGrad', at(4, 1, 0), arr(t, 7))
    case('RaggedFillEmptyRows', at(1, 0), words(b'a', b'b'), i64(4), np.array(b'none', object))
    v = arr(f32, 3)
    for rows, n in [((0, 1, 2), 3), ((2, 1, 0), 3), ((0, 1, 1), 3), ((), 3), ((), 0), ((), -1), ((0, 1, 1), 0), ((0, 1, 3), 3), ((0, -1, 1), 3)]:
        case('RaggedFillEmptyRows', np.array(rows, i64), v[:len(rows)], i64(n), f32(7))
    for bad in [(at(0, 1), v, i64(3), f32(7)), (at([0, 1, 2]), v, i64(3), f32(7)), (at(0, 1, 2), v.reshape(3, 1), i64(3), f32(7)), (at(0, 1, 2), v, at(3), f32(7)), (at(0, 1, 2), v, i64(3), v)]:
        case('RaggedFillEmptyRows', *bad)
    for places in ([], [0, 1, 2], [3], [-1]): case('RaggedFillEmptyRowsGrad', np.array(places, i64), arr(f32, 3))
    case('RaggedFillEmptyRowsGrad', at([0]), arr(f32, 3)); case('RaggedFillEmptyRowsGrad', at(0), arr(f32, (3, 1)))

def section_counts():
    indices, shape = at([0, 2], [0, 3], [2, 0], [0, 4], [2, 1]), at(4, 6)
    for t in (i32, i64):
        for w in (i32, i64, f32, np.float64):
            for least, most in [(-1, -1), (0, 0), (9, -1), (2, -1), (-1, 4), (3, 4), (-1, 20), (30, 20)]:
                for binary in (False, True):
                    kw = dict(minlength=least, maxlength=most, binary_output=binary)
                    for shaped in [(12,), (3, 4), (1, 12)]:
                        for n in (0, 12): case('DenseCountSparseOutput', rng.integers(0, 7, shaped).astype(t), arr(w, shaped if n else 0), **kw)
                    for n in (0, 5):
                        case('SparseCountSparseOutput', indices, rng.integers(0, 7, 5).astype(t), shape, arr(w, n), **kw)
                        case('RaggedCountSparseOutput', at(0, 2, 2, 5), rng.integers(0, 7, 5).astype(t), arr(w, n), **kw)
    kw, none = dict(minlength=-1, maxlength=-1, binary_output=False), np.zeros(0, f32)
    for v in [np.zeros(0, i32), np.zeros((0, 3), i32), np.zeros((3, 0), i32), np.zeros((1, 2, 2), i32), np.int32(4), np.array([2 ** 31 - 1, 0], i32), np.array([1, -1], i32)]:
        case('DenseCountSparseOutput', v, none, **kw)
        case('DenseCountSparseOutput', v, arr(f32, 2), **kw)
    v = np.array([1, 5, 1, 3, 0], i32)
    case('SparseCountSparseOutput', indices[:, :1], v, at(4), none, **kw)
    case('SparseCountSparseOutput', np.zeros((5, 3), i64), v, at(1, 1, 1), none, **kw)
    big = at(2 ** 32 + 3, 6), at(2 ** 31 - 1, 6), at(2 ** 32, 6)
    for bad in [(indices[0], v, shape), (indices, v.reshape(1, 5), shape), (indices, v, at([4, 6])), (indices, v[:4], shape), (indices, v, at(4)), (indices[:, :0], v, at()),
                (indices, v, at(4, 4)), (indices, v, at(2, 6)), (-indices, v, shape), (indices, -v, shape), (indices[:0], v[:0], at(0, 6)), (indices[:0], v[:0], shape)] + [(indices, v, b) for b in big]:
        case('SparseCountSparseOutput', *bad, none, **kw)
    case('SparseCountSparseOutput', indices, v, shape, arr(f32, 4), **kw)
    for splits in [at(), at(0), at(0, 5), at(1, 5), at(0, 4), at(0, 3, 2, 5), at(0, 0, 9, 5), at(0, 0, 0, 5, 5)]: case('RaggedCountSparseOutput', splits, v, none, **kw)
    case('RaggedCountSparseOutput', at(0, 5), -v, none, **kw); case('RaggedCountSparseOutput', at(0, 5), v, arr(f32, 4), **kw); case('RaggedCountSparseOutput', at(0, 5), v.reshape(1, 5), none, **kw)
    case('RaggedCountSparseOutput', at(0, 0), v[:0], none, **kw)

def section_segments():
    for op in ('SparseSegmentSumGradV2', 'SparseSegmentMeanGradV2', 'SparseSegmentSqrtNGradV2'):
        for t in F:
            for ti in (i32, i64):
                for ts in (i32, i64):
                    case(op, arr(t, (3, 2)), np.array([4, 0, 4, 1, 4], ti), np.array([0, 0, 1, 2, 2], ts), i32(6))
        g, i, s = arr(f32, (3, 2)), np.array([4, 0, 4], i32), np.array([0, 1, 2], i32)
        for bad in [(g, i, s, i32(0)), (g, i[:0], s[:0], i32(3)), (g[:, :0], i, s, i32(6)), (arr(f32, (3, 2, 2)), i, s, i32(6)), (arr(f32, 3), i, s, i32(6)), (f32(3), i, s, i32(6)),
                    (g, i, s, i32(4)), (g, i, s + 1, i32(6)), (g, i, s - 1, i32(6)), (g, -i, s, i32(6)), (g, i[:2], s, i32(6)), (g, i, s.reshape(1, 3), i32(6)), (g, i.reshape(1, 3), s, i32(6)),
                    (g, i, s[::-1].copy(), i32(6)), (g, i, np.array([0, 5, 1], i32), i32(6)), (g, i, s, np.array([6], i32)), (g[:0], i, s, i32(6))]:
            case(op, *bad)
            case(op[:-2], *bad) if bad[1].size else None  # TensorFlow leaves what is without indices undefined

def section_product():
    bf = tf.bfloat16.as_numpy_dtype
    def some(t, shape, part):
        return np.where(rng.random(shape) < part, rng.uniform(-4, 4, shape), 0).astype(t)
    for ta in (f32, bf):
        for tb in (f32, bf):
            for a_is, b_is in [(True, False), (False, True), (True, True), (False, False)]:
                for turn_a in (False, True):
                    for turn_b in (False, True):
                        sizes = [(3, 4, 5), (2, 70, 19)] + ([(3, 131, 140), (1, 1, 1), (3, 0, 2), (0, 3, 2), (2, 3, 0)] if turn_a == turn_b == b_is else [])
                        for m, k, n in sizes:
                            a, b = some(ta, (m, k), .5), some(tb, (k, n), .5)
                            case('SparseMatMul', a.T.copy() if turn_a else a, b.T.copy() if turn_b else b, transpose_a=turn_a, transpose_b=turn_b, a_is_sparse=a_is, b_is_sparse=b_is)
    nan = np.array([[0, 1], [-0.0, 2]], f32), np.array([[np.nan, np.inf, 3], [1, 0, -np.inf]], f32)
    for a_is in (True, False):
        case('SparseMatMul', *nan, a_is_sparse=a_is, b_is_sparse=True); case('SparseMatMul', *nan, a_is_sparse=True, b_is_sparse=a_is)
    case('SparseMatMul', *nan[::-1], a_is_sparse=True); case('SparseMatMul', arr(f32, 3), arr(f32, (3, 3)), a_is_sparse=True); case('SparseMatMul', arr(f32, (3, 3)), arr(f32, 3), a_is_sparse=True)

if __name__ == '__main__': golden.main(globals())

"""Writes golden_rows.gz, as golden.py does: python golden_rows.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, i64, i32 = np.float32, np.int64, np.int32
S = lambda *w: np.array(list(w) + [None], object)[:-1]

def section_inplace():
    for t in F + C + SI + UI + [bool, object]:
        make = lambda s: np.array([b'%d' % i for i in range(int(np.prod(s)))], object).reshape(s) if t == object else arr(t, s)
        for op in ('InplaceUpdate', 'InplaceAdd', 'InplaceSub'):
            if op != 'InplaceUpdate' and t in (bool, object): continue
            for s in ((4, 3), (4,), (4, 2, 0), (5, 1, 2)):
                case(op, make(s), np.array([0, 2, -1, 6], i32), make((4,) + s[1:]))
            case(op, make((4, 3)), np.zeros(0, i32), make((0, 3)))
        case('DeepCopy', make((3, 2))); case('DeepCopy', make(()))
    for bad in [((3, 2), (2, 1), (2, 2)), ((3, 2), (2,), (2,)), ((3, 2), (2,), (2, 3)), ((3, 2), (2,), (3, 2))]: case('InplaceUpdate', arr(f32, bad[0]), np.zeros(bad[1], i32), arr(f32, bad[2]))

def section_unravel():
    for t in (i32, i64):
        for dims in ([3, 4], [7], [2, 3, 4], [1, 1]):
            n = int(np.prod(dims))
            case('UnravelIndex', np.arange(n).astype(t), np.array(dims, t)); case('UnravelIndex', t(n - 1), np.array(dims, t)); case('UnravelIndex', np.array([-1, 0], t), np.array(dims, t))
        case('UnravelIndex', np.array([5], t), np.array([5], t)); case('UnravelIndex', np.array([0], t), np.array([3, 0], t)); case('UnravelIndex', np.array([0], t), np.array([3, -2], t))
        case('UnravelIndex', np.zeros((1, 1), t), np.array([3], t)); case('UnravelIndex', np.zeros(1, t), t(3))

def section_logsum():
    for t in F:
        for s, axis in [((6,), 0), ((3, 4), 1), ((3, 4), 0), ((2, 3, 2), -2), ((0, 3), 0), ((2, 0), 1), ((2, 100), 1)]:
            for exclusive in (False, True):
                for reverse in (False, True): case('CumulativeLogsumexp', arr(t, s), i32(axis), exclusive=exclusive, reverse=reverse)
        case('CumulativeLogsumexp', np.array([-np.inf, -np.inf, 1, -np.inf, 3], t), i64(0))
    case('CumulativeLogsumexp', np.array([np.nan, 1, 2], f32), i32(0)); case('CumulativeLogsumexp', np.array([-1e30, 1e30, 2], f32), i32(0))
    case('CumulativeLogsumexp', arr(f32, (3,)), i32(1)); case('CumulativeLogsumexp', arr(f32, (3,)), np.array([0, 1], i32)); case('CumulativeLogsumexp', f32(1), i32(0))

def section_products_of_logs():
    for op in ('Xlogy', 'Xlog1py'):
        for t in (half, bf): case(op, arr(t, (40,)), arr(t, (40,), 0, 9)); case(op, np.array([0, 0, 1, -2], t), np.array([0, -3, 0, 5], t))

def section_einsum():
    for eq, shapes in [('...->', [()]), ('->...', [()]), ('a...a->', [(2, 2)]), ('a,b->...', [(2,), (3,)]), ('...a,a->', [(2,), (2,)]), ('a...->a', [(2, 3)]), ('...a,a->', [(4, 2), (2,)])]:
        case('Einsum', *[arr(f32, s) for s in shapes], equation=eq)

def section_messages():
    case('UnsortedSegmentSum', f32(7), i32(1), np.array([4], i32)); case('ConcatV2', np.array([2], i32), i32(3), i32(0)); case('SplitV', arr(f32, (5, 3)), np.array([2, 3], i32), np.zeros(0, i32), num_split=2)
    case('BandedTriangularSolve', np.array([[1., 0., -1.], [-1., 0., 1.]]), arr(np.float64, (3, 2))); case('Reshape', f32([[1]]), np.ones(254, i32))
    for e, text in (('SHIFT-JIS', 'こんにちは'), ('shift_jis', 'Hello'), ('euc_kr', '안녕'), ('EUC-KR', '안'), ('gb18030', '你好'), ('big5', '你好'), ('euc-jp', 'こんにちは')):
        case('UnicodeTranscode', S(b'abc', text.encode(e)), input_encoding=e, output_encoding='UTF-8')

if __name__ == '__main__': golden.main(globals())

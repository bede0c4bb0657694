"""Writes golden_text.gz, as golden.py does: python golden_text.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

golden.RENAMED['ReduceJoin', 'reduction_indices'] = 'reduction_indices'
f32, i64, i32 = np.float32, np.int64, np.int32

def words(*w, shape=None):
    a = np.array(list(w) + [None], object)[:-1]
    return a.reshape(shape) if shape is not None else a

PLAIN = words(b'', b'a', b'hello', b'a\x01b', b'\xff\xfe\xfd', b'tree house')
LETTERS = words('Gr\u00f6\u00dfe'.encode(), '\u4f60\u597d\u4e16\u754c'.encode(), '\U0001f600x\U0001f601'.encode(), b'abc', b'\x80\x80a', b'a\xe4\xbd')

def section_substr():
    for t in (i32, i64):
        for unit in ('BYTE', 'UTF8_CHAR'):
            for text in (PLAIN, LETTERS):
                for pos in (0, 1, 3, -1, -3, 6, -7, 100, -100):
                    for n in (0, 1, 2, 50, -1):
                        case('Substr', text, t(pos), t(n), unit=unit)
                        case('Substr', text[2:4], t(pos), t(n), unit=unit)
                case('Substr', text, np.array([0, 0, -1, 1, 1, 0], t), np.array([0, 1, 2, 3, 1, -1], t), unit=unit)
                case('Substr', text[2], np.array([0, 1, -1], t), np.array([2, 2, 2], t), unit=unit)
                case('Substr', text[2:5].reshape(3, 1), np.array([0, 1], t), np.array([2, 1], t), unit=unit)
                case('Substr', text[2:4], np.array([[0], [1], [-1]], t), np.array([[1], [1], [1]], t), unit=unit)
                case('Substr', text[2:4], np.array([[0, 9], [1, 1]], t), np.array([[1, 1], [1, 1]], t), unit=unit)
                case('Substr', text[1:3], np.array([[0, 0], [4, 1]], t), np.array([[1, 1], [1, 1]], t), unit=unit)
    case('Substr', PLAIN[:0], i32(0), i32(1)); case('Substr', PLAIN[:0], np.zeros(0, i32), np.zeros(0, i32)); case('Substr', PLAIN[2:3], np.zeros(0, i32), np.zeros(0, i32))
    for bad in [(PLAIN, np.zeros(2, i32), np.zeros(3, i32)), (PLAIN, np.zeros(4, i32), np.zeros(4, i32)), (PLAIN, np.zeros((1, 1, 1), i32), np.zeros((1, 1, 1), i32)), (PLAIN, i32(0), np.zeros(1, i32)), (PLAIN.reshape(2, 3), np.zeros((3, 3), i32), np.zeros((3, 3), i32))]: case('Substr', *bad)

def section_join():
    text = words(*[bytes([c]) * (i % 3) for i, c in enumerate(range(97, 121))], shape=(2, 3, 4))
    for axes in ([], [0], [1], [2], [0, 1], [1, 0], [2, 0], [0, 1, 2], [2, 1, 0], [-1], [-1, -3]):
        for keep in (False, True):
            for separator in ('', ', '): case('ReduceJoin', text, np.array(axes, i32), keep_dims=keep, separator=separator)
    case('ReduceJoin', text, i32(1)); case('ReduceJoin', words(b'x')[0], np.zeros(0, i32)); case('ReduceJoin', text[:, :0], np.array([1], i32)); case('ReduceJoin', text[:, :0], np.array([0], i32)); case('ReduceJoin', text[:0], np.array([0, 1, 2], i32))
    for bad in ([3], [-4], [1, 1], [0, -3]): case('ReduceJoin', text, np.array(bad, i32))

def section_segments():
    text = words(*[bytes([c]) * (i % 3) for i, c in enumerate(range(97, 121))], shape=(2, 3, 4))
    for t in (i32, i64):
        for n in (i32, i64):
            for separator in ('', ', ', 'a\0b'):
                case('UnsortedSegmentJoin', text, np.array([1, 0], t), n(2), separator=separator)
                case('UnsortedSegmentJoin', text, np.array([[1, 0, 3], [3, 3, 1]], t), n(5), separator=separator)
                case('UnsortedSegmentJoin', text, rng.integers(0, 3, (2, 3, 4)).astype(t), n(3), separator=separator)
    case('UnsortedSegmentJoin', text[:0], np.zeros(0, i32), i32(2)); case('UnsortedSegmentJoin', text[:0], np.zeros(0, i32), i32(0))
    ids = np.array([1, 0], i32)
    for bad in [(text, ids, i32(1)), (text, -ids, i32(2)), (text, ids, i32(-1)), (text, i32(0), i32(2)), (text, np.zeros((2, 3, 4, 1), i32), i32(2)), (text, np.zeros(3, i32), i32(2)), (text, ids, np.array([2], i32)), (text, ids, np.zeros(0, i32))]: case('UnsortedSegmentJoin', *bad)

def section_base64():
    text = words(*[bytes(rng.integers(0, 256, n, np.uint8)) for n in range(12)])
    for pad in (False, True):
        case('EncodeBase64', text, pad=pad); case('EncodeBase64', text.reshape(3, 4), pad=pad); case('EncodeBase64', text[5], pad=pad)
    good = words(b'', b'YQ', b'YWE', b'YWJj', b'YQ==', b'YWE=', b'_-_-', b'YR', b'YWF', b'AAAAYQ==')
    case('DecodeBase64', good); case('DecodeBase64', good[3])
    for bad in (b'Y', b'YWJjY', b'YWJj\n', b'Y+Jj', b'Y/Jj', b'YQ=', b'====', b'=', b'==', b'Y===', b'YQ==YQ==', b'YW=j', b'\xff\xff', b'Y$JjY', b'YWE=='): case('DecodeBase64', words(bad))

if __name__ == '__main__': golden.main(globals())

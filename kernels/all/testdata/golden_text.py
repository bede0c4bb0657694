"""Writes golden_text.gz, as golden.py does: python golden_text.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden
import unicodedata

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

def u16(t): return t.encode('utf-16-be')
def u32(t): return t.encode('utf-32-be')
TEXT = 'Gr\u00f6\u00dfe \u4f60\u597d \U0001f600\t\n\x00.'
BROKEN = [b'a\xff\xfeb', b'\xe4\xbd', b'\xe4\xbdx', b'\xc0\x80', b'\xf0\x80\x80\x80', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\xf5', b'\xf0\x9f\x98', b'\xf0\x9f\x98\xff', b'\xe0\x9f\xbf', b'\x80\xbf', b'x\xc3', b'\xc3\xc3\xb6']
INPUTS = {'UTF-8': [TEXT.encode(), b'', b'abc'] + BROKEN,
          'UTF-16-BE': [u16(TEXT), b'', b'\xd8\x00\x00a', b'\xdc\x00\x00a', b'\x00a\xd8\x3d', b'\x00a\x00'],
          'UTF-16': [u16(TEXT), b'\xfe\xff' + u16('ab'), TEXT.encode('utf-16-le'), b'\xff\xfe' + 'ab'.encode('utf-16-le')],
          'UTF-16-LE': [TEXT.encode('utf-16-le')],
          'UTF-32-BE': [u32(TEXT), b'\x00\x11\x00\x00', b'\x00\x00\xd8\x00', b'\xff\xff\xff\xff' + u32('a')],
          'UTF-32-LE': [TEXT.encode('utf-32-le')],
          'US-ASCII': [b'abc\x80d'], 'latin1': [b'abc\x80\xe4'], 'ISO-8859-1': [b'\xe4'], 'ISO-8859-15': [b'\xa4\xe4'], 'windows-1252': [b'\x80\xe4'], 'windows-1251': [b'\xcf\xf0'], 'KOI8-R': [b'\xf0\xd2'],
          'SHIFT_JIS': ['\u65e5\u672cabc'.encode('shift_jis')], 'EUC-JP': ['\u65e5\u672cabc'.encode('euc_jp')], 'GB18030': ['\u4f60\u597dabc'.encode('gb18030')], 'Big5': ['\u4f60\u597dabc'.encode('big5')], 'EUC-KR': ['\ud55cabc'.encode('euc_kr')],
          'no such encoding': [b'a']}

def section_unicode():
    for encoding, texts in INPUTS.items():
        for errors in ('replace', 'ignore', 'strict'):
            for text in texts:
                for controls in (False, True):
                    attrs = dict(input_encoding=encoding, errors=errors, replace_control_characters=controls)
                    case('UnicodeDecode', words(text, b''), replacement_char=33, Tsplits=tf.int32, **attrs); case('UnicodeDecodeWithOffsets', words(text, b'', text), **attrs)
                    for output in ('UTF-8', 'UTF-16-BE', 'UTF-32-BE'): case('UnicodeTranscode', words(text, b''), output_encoding=output, **attrs)
    case('UnicodeDecode', words(b'ab', b'cde', b'', b'f').reshape(2, 2), input_encoding='UTF-8'); case('UnicodeDecode', words(b'ab')[0], input_encoding='utf8'); case('UnicodeDecode', words(b'a')[:0], input_encoding='UTF-8')
    case('UnicodeTranscode', words(b'ab', b'cde', b'', b'f').reshape(2, 2), input_encoding='UTF-8', output_encoding='UTF-16-BE')
    case('UnicodeDecode', words(b'a'), input_encoding='UTF-8', replacement_char=-1); case('UnicodeDecode', words(b'a'), input_encoding='UTF-8', replacement_char=0x110000)

def section_unicode_encode():
    points = np.array([72, 0xf6, 0x4f60, 0x1f600, 0, 0xffff], i32)
    odd = np.array([65, 0xd800, 0x110000, -1, 66], i32)
    for encoding in ('UTF-8', 'UTF-16-BE', 'UTF-32-BE'):
        for t in (i32, i64):
            case('UnicodeEncode', points, np.array([0, 2, 2, 6], t), output_encoding=encoding); case('UnicodeEncode', points[:0], np.array([0], t), output_encoding=encoding)
            for errors in ('replace', 'ignore', 'strict'): case('UnicodeEncode', odd, np.array([0, 5], t), output_encoding=encoding, errors=errors, replacement_char=33)
    for bad in [(points, np.zeros(0, i32)), (points, np.array([1, 6], i32)), (points, np.array([0, 5], i32)), (points, np.array([0, 4, 2, 6], i32)), (points, np.array([0, 9, 6], i32))]: case('UnicodeEncode', *bad, output_encoding='UTF-8')

def section_script():
    # What has been assigned since the version of Unicode that TensorFlow has is left out.
    known = lambda c: c != 0xcf3 and (unicodedata.category(chr(c)) == 'Cn' or unicodedata.ucd_3_2_0.category(chr(c)) != 'Cn')
    some = np.array([c for c in range(0x20, 0x2000, 7) if known(c)], i32)
    case('UnicodeScript', some); case('UnicodeScript', some[:800].reshape(4, 200))
    case('UnicodeScript', np.array([-1, 0x110000, 0xd800, 0, 65, 0xe9, 0x3b1, 0x416, 0x5d0, 0x627, 0x905, 0x4f60, 0x3042, 0x30a2, 0xac00, 0x1f600, 0x301, 0x378, 0x10ffff], i32))

if __name__ == '__main__': golden.main(globals())

"""Writes golden_audio.gz, as golden.py does: python golden_audio.py OUTPUT [OP_PREFIX...]"""
import struct

from golden import *
import golden

f32, i32 = np.float32, np.int32

def text(b): return np.array(b, object)

def wav(samples, channels=1, rate=8000, size=16, format=1, bits=16, before=b'', after=b'', per=None, second=None):
    per = 2 * channels if per is None else per
    body = b'fmt ' + struct.pack('<IHHIIHH', size, format, channels, rate, per * rate if second is None else second, per, bits) + b'x' * (size - 16)
    data = b'data' + struct.pack('<I', 2 * len(samples)) + np.array(samples, '<i2').tobytes()
    rest = b'WAVE' + before + body + data + after
    return b'RIFF' + struct.pack('<I', len(rest)) + rest

def section_wav():
    s = [0, 1, -1, 32767, -32768, 1000, -2000, 5]
    junk = b'JUNK' + struct.pack('<I', 3) + b'abc'
    for c in (1, 2, 4):
        for frames in (-1, 0, 3, 20):
            for want in (-1, 0, 1, 3): case('DecodeWav', text(wav(s, c)), desired_samples=frames, desired_channels=want)
    for b in [wav(s, size=18), wav(s, before=junk), wav(s, after=junk), wav([]), wav(s, rate=2000000000), b'', b'RIFF', wav(s)[:30], wav(s)[:50], b'x' + wav(s), wav(s, size=17), wav(s, format=3), wav(s, bits=8),
              wav(s, channels=0), wav(s, per=3), wav(s, second=1), wav(s, before=b'nope'), wav(s, after=b'data' + struct.pack('<I', 0)), wav(s, after=b'da'), wav(s)[:36], wav(s, after=b'list' + struct.pack('<I', 0xffffffff))]:
        case('DecodeWav', text(b))
    case('DecodeWav', np.array([b'a'], object))
    for shape in [(5, 1), (4, 2), (0, 1)]: case('EncodeWav', arr(f32, shape, -2, 2), i32(44100))
    case('EncodeWav', np.array([[np.inf], [-np.inf], [.5], [1.], [-1.]], f32), i32(16777217))
    for a in [(arr(f32, (3, 0)), i32(1)), (arr(f32, (3,)), i32(1)), (arr(f32, (3, 1)), i32(0)), (arr(f32, (3, 1)), i32(-1)), (arr(f32, (3, 1)), np.ones(1, i32))]: case('EncodeWav', *a)

def section_spectrum():
    for n, w, s in [(40, 16, 8), (40, 13, 5), (30, 2, 1), (64, 16, 20), (10, 16, 4), (33, 33, 1)]:
        for sq in (False, True): case('AudioSpectrogram', arr(f32, (n, 2), -1, 1), window_size=w, stride=s, magnitude_squared=sq)
    case('AudioSpectrogram', arr(f32, (4,)), window_size=2, stride=1)
    for width, rate in [(65, 16000), (129, 8000), (257, 44100), (33, 6000)]:
        for a in [{}, dict(filterbank_channel_count=10, dct_coefficient_count=10), dict(upper_frequency_limit=2500., lower_frequency_limit=300., filterbank_channel_count=5, dct_coefficient_count=3)]:
            case('Mfcc', np.abs(arr(f32, (2, 3, width))), i32(rate), **a)
    x = np.abs(arr(f32, (1, 2, 65)))
    for a in [dict(filterbank_channel_count=5), dict(upper_frequency_limit=10.), dict(lower_frequency_limit=-1.), dict(dct_coefficient_count=0)]: case('Mfcc', x, i32(8000), **a)
    case('Mfcc', x[0], i32(8000)); case('Mfcc', x, i32(0)); case('Mfcc', x, np.ones(1, i32)); case('Mfcc', x[:, :, :1], i32(8000)); case('Mfcc', x * 0, i32(16000))

if __name__ == '__main__': golden.main(globals())

"""Writes golden_codecs.gz, as golden.py does: python golden_codecs.py OUTPUT [OP_PREFIX...]. It needs Pillow, which makes the files."""
import io
from golden import *
import golden
from PIL import Image

u8, i32 = np.uint8, np.int32
DECODERS = ['DecodeJpeg', 'DecodePng', 'DecodeGif', 'DecodeBmp', 'DecodeImage', 'DecodeWebP', 'DecodeAndCropJpeg']
def pixels(h, w, c=3): return rng.integers(0, 256, (h, w, c)).astype(u8)
def image(a): return Image.fromarray(a[..., 0] if a.shape[2] == 1 else a)
def file(img, **kw):
    b = io.BytesIO(); img.save(b, **kw)
    return b.getvalue()
def scalar(b): return np.array(b, object)
def window(*v): return np.array(v, i32)

def decode(op, data, *more, **kw):
    if op == 'DecodeAndCropJpeg' and not more: more = (window(0, 0, 2, 2),)
    case(op, scalar(data), *more, **kw)

def everywhere(data):
    for op in DECODERS:
        decode(op, data)
        for channels in (1, 3, 4):
            if op != 'DecodeGif': decode(op, data, channels=channels)
    for expand in (True, False):
        for t in (tf.uint8, tf.uint16, tf.float32): decode('DecodeImage', data, expand_animations=expand, dtype=t)

# Pictures whose blocks are flat have only means, which all decoders agree on.
def flat(h, w, side=16, c=3): return np.repeat(np.repeat(rng.integers(0, 256, ((h + side - 1) // side, (w + side - 1) // side, c)), side, 0), side, 1)[:h, :w].astype(u8)

def section_jpeg():
    for size in [(16, 16), (1, 1), (33, 40), (48, 5), (17, 64), (31, 3)]:
        for subsampling in (0, 1, 2):
            for progressive in (False, True):
                data = file(image(flat(*size)), format='JPEG', quality=100, subsampling=subsampling, progressive=progressive)
                for kw in [{}, dict(fancy_upscaling=False), dict(channels=1), dict(channels=3, dct_method='INTEGER_ACCURATE')]: decode('DecodeJpeg', data, **kw)
                case('ExtractJpegShape', scalar(data)); case('ExtractJpegShape', scalar(data), output_type=tf.int64)
        data = file(image(flat(*size, c=1)), format='JPEG', quality=95)
        for kw in [{}, dict(channels=3)]: decode('DecodeJpeg', data, **kw)
        case('ExtractJpegShape', scalar(data))
    data = file(image(flat(33, 40)), format='JPEG', quality=100, subsampling=2)
    everywhere(data)
    for w in [(0, 0, 33, 40), (5, 7, 20, 21), (32, 39, 1, 1), (0, 18, 17, 22), (0, 0, 0, 5), (-1, 0, 3, 3), (0, 0, 34, 40), (30, 0, 4, 4)]:
        decode('DecodeAndCropJpeg', data, window(*w)); decode('DecodeAndCropJpeg', data, window(*w), channels=1)
    decode('DecodeAndCropJpeg', data, window(1, 2, 3)); decode('DecodeAndCropJpeg', data, i32(1))
    for kw in [dict(channels=4), dict(channels=2), dict(ratio=3), dict(dct_method='FAST'), dict(ratio=8, channels=1)]: decode('DecodeJpeg', data, **kw)
    big = file(image(flat(64, 64, 32)), format='JPEG', quality=100, subsampling=0)
    for ratio in (2, 4, 8): decode('DecodeJpeg', big, ratio=ratio); decode('DecodeAndCropJpeg', big, window(1, 2, 4, 3), ratio=ratio)
    for n in (3, 20, 200, len(data) // 3): decode('DecodeJpeg', data[:n]); case('ExtractJpegShape', scalar(data[:n]))
    decode('DecodeJpeg', data[:-2]); decode('DecodeJpeg', data + b'trailing')
    decode('DecodeJpeg', b''); decode('DecodeJpeg', b'nothing'); case('ExtractJpegShape', scalar(b'')); case('ExtractJpegShape', scalar(b'\xff\xd8\xff\xd9'))
    case('DecodeJpeg', np.array([data, data], object))

def section_encode():
    a, op = pixels(3, 4), 'EncodeJpeg'
    for x, kw in [(a[0], {}), (a[..., :2], {}), (a, dict(format='grayscale')), (a[..., :1], dict(format='rgb')), (a, dict(quality=101)), (a, dict(quality=-1)), (a[:0], {}), (a, dict(xmp_metadata='x' * 70000))]: case(op, x, **kw)
    for q in (i32(101), i32(-1), window(3)): case(op + 'VariableQuality', a, q)
    case(op + 'VariableQuality', a[..., :2], i32(3)); case(op + 'VariableQuality', a[0], i32(3))

def section_bmp():
    for c, bits in [(1, 8), (3, 24), (4, 32)]:
        for h, w in [(1, 1), (2, 3), (-3, 4), (5, 5)]:
            row = (c * w + 3) // 4 * 4
            head = b'BM' + struct.pack('<IHHIIiiHHIIiiII', 54 + row * abs(h), 0, 0, 54, 40, w, h, 1, bits, 0, 0, 0, 0, 0, 0)
            data = head + rng.bytes(row * abs(h))
            for channels in (0, 1, 3, 4):
                for op in ('DecodeBmp', 'DecodeImage'): decode(op, data, channels=channels)
            if h > 0:
                for t in (tf.uint16, tf.float32): decode('DecodeImage', data, dtype=t)
            decode('DecodeBmp', data[:-1]); decode('DecodeBmp', data + b'x')
    everywhere(data)
    def patched(at, v): return data[:at] + struct.pack('<i', v) + data[at + 4:]
    for at, v in [(10, -1), (10, 53), (18, 0), (18, -5), (22, 0), (18, 1 << 30), (22, 1 << 20), (26, 1 + (16 << 16)), (26, 1)]: decode('DecodeBmp', patched(at, v))
    decode('DecodeBmp', b'BM'); decode('DecodeBmp', data[:31]); decode('DecodeBmp', b'x' * 40)

def gif(*images, screen=(6, 5), palette=None, transparent=None):
    """A GIF of images that are (left, top, width, height, interlaced, data): Pillow makes none of a transparent first frame or of an odd size."""
    colours = bytes(range(24)) if palette is None else palette
    b = b'GIF89a' + struct.pack('<HHBBB', *screen, 0x80 | (len(colours) // 3).bit_length() - 2 if colours else 0, 0, 0) + colours
    for left, top, w, h, interlaced, data in images:
        if transparent is not None: b += b'\x21\xf9\x04\x01\x00\x00' + bytes([transparent]) + b'\x00'
        b += b'\x2c' + struct.pack('<HHHHB', left, top, w, h, 0x40 if interlaced else 0) + b'\x03' + codes(data, 3)
    return b + b'\x3b'

def codes(data, size):
    """LZW that never uses its table: a clear code in front of every few pixels."""
    acc, n, out = 0, 0, b''
    def put(code):
        nonlocal acc, n, out
        acc |= code << n; n += size + 1
        while n >= 8: out += bytes([acc & 255]); acc >>= 8; n -= 8
    for i, v in enumerate(data):
        if i % 4 == 0: put(1 << size)
        put(int(v))
    put((1 << size) + 1)
    if n: out += bytes([acc & 255])
    return b''.join(bytes([len(out[i:i + 255])]) + out[i:i + 255] for i in range(0, len(out), 255)) + b'\x00'

def section_gif():
    some = lambda w, h: rng.integers(0, 8, w * h)
    for data in [gif((0, 0, 6, 5, False, some(6, 5))), gif((0, 0, 6, 5, True, some(6, 5)), (1, 2, 3, 2, False, some(3, 2))), gif((0, 0, 6, 5, False, some(6, 5)), (0, 0, 6, 5, False, some(6, 5)), transparent=3)]: everywhere(data)
    for h in (1, 2, 3, 4, 5, 8, 9, 17): decode('DecodeGif', gif((0, 0, 3, h, True, some(3, h)), screen=(3, h)))
    decode('DecodeGif', gif((2, 1, 3, 3, False, some(3, 3)), (0, 0, 6, 5, False, some(6, 5)), transparent=2))
    decode('DecodeGif', gif((0, 0, 8, 9, False, some(8, 9)), (4, 4, 8, 2, False, some(8, 2))))
    decode('DecodeGif', gif((9, 9, 2, 2, False, some(2, 2))))
    decode('DecodeGif', gif((0, 0, 3, 2, False, some(3, 2)), palette=b''))
    decode('DecodeGif', gif((0, 0, 3, 2, False, [1, 2, 3, 4, 5, 7]), palette=bytes(12)))
    decode('DecodeGif', gif((0, 0, 6, 5, False, some(3, 5)))); decode('DecodeGif', gif((0, 0, 6, 5, False, some(6, 5)), (0, 0, 9, 5, False, some(3, 5)), (0, 0, 6, 5, False, some(6, 5))))
    decode('DecodeGif', gif()); decode('DecodeGif', gif((0, 0, 0, 5, False, [])))
    data = gif((0, 0, 6, 5, False, some(6, 5)), (0, 0, 6, 5, False, some(6, 5)))
    for n in (4, 8, 12, 20, 40, 50, len(data) - 20, len(data) - 1): decode('DecodeGif', data[:n])
    many = [image(pixels(20, 30)).convert('P', palette=Image.Palette.ADAPTIVE) for _ in range(3)]
    data = file(many[0], format='GIF', save_all=True, append_images=many[1:])
    decode('DecodeGif', data); decode('DecodeImage', data); decode('DecodeImage', data, expand_animations=False); decode('DecodePng', data)

def section_webp():
    smooth = np.asarray(Image.fromarray(pixels(5, 6)).resize((37, 29), Image.Resampling.BICUBIC))
    translucent = np.concatenate([smooth, np.asarray(Image.fromarray(pixels(4, 4, 1)[..., 0]).resize((37, 29), Image.Resampling.BICUBIC))[..., None]], 2)
    for a in (smooth, translucent):
        for kw in [dict(lossless=True), dict(quality=80), dict(quality=20)]: everywhere(file(image(a), format='WEBP', **kw))
    for h, w in [(1, 1), (2, 2), (1, 5), (16, 3), (4, 17)]:
        for kw in [dict(lossless=True), dict(quality=60)]: decode('DecodeWebP', file(image(pixels(h, w)), format='WEBP', **kw))
    frames = [image(np.roll(translucent, 3 * i, 1)) for i in range(4)]
    for kw in [dict(lossless=True), dict(quality=70), dict(lossless=True, allow_mixed=True, minimize_size=True)]: everywhere(file(frames[0], format='WEBP', save_all=True, append_images=frames[1:], duration=40, **kw))
    data = file(frames[0], format='WEBP', lossless=True)
    for n in (12, 16, 25, 30, len(data) // 2, len(data) - 3): decode('DecodeWebP', data[:n])

def section_png():
    everywhere(file(image(pixels(4, 5)), format='PNG'))

if __name__ == '__main__': golden.main(globals())

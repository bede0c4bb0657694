"""Writes options.gz, what TensorFlow reads from files of all kinds with all options: python generate_options.py OUTPUT. It needs Pillow.

A record is: channels, ratio, whether colours are interpolated, whether the transform is the fast one, height, width (little-endian uint32 each), the file, and
the pixels, each with its length in front of it. The file is empty where it is that of the record before.
"""
import gzip, io, os, struct, sys
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
from PIL import Image

rng = np.random.default_rng(11)
out = gzip.GzipFile(sys.argv[1], 'wb', mtime=0)
def blob(b): out.write(struct.pack('<I', len(b)) + b)

def picture(h, w, n, noise):
    y, x, c = np.ogrid[:h, :w, :n]
    a = 127 + 60 * np.sin(x / 5 + c) + 60 * np.cos(y / 7 - c) + rng.integers(-noise, noise + 1, (h, w, n))
    return np.clip(a, 0, 255).astype(np.uint8)

for h, w in [(1, 1), (7, 19), (24, 33), (35, 70)]:
    for mode, n, kinds in [('L', 1, [{}]), ('RGB', 3, [dict(subsampling=s) for s in (0, 1, 2)] + [dict(keep_rgb=True)]), ('CMYK', 4, [{}])]:
        for kind in kinds:
            for more in [dict(quality=20), dict(quality=100, progressive=True), dict(quality=80, restart_marker_blocks=2)]:
                a, b = picture(h, w, n, 3 if more['quality'] < 100 else 90), io.BytesIO()
                Image.fromarray(a[..., 0] if n == 1 else a, mode).save(b, 'JPEG', **kind, **more)
                file = b.getvalue()
                for channels in (1, 3) if n < 4 else (3,):
                    for ratio, smooth, fast in [(1, True, True), (1, False, False), (2, True, True), (4, True, False), (8, False, True)]:
                        pixels = tf.io.decode_jpeg(b.getvalue(), channels, ratio=ratio, fancy_upscaling=smooth, dct_method='' if fast else 'INTEGER_ACCURATE').numpy()
                        out.write(struct.pack('<6I', channels, ratio, smooth, fast, *pixels.shape[:2]))
                        blob(file); blob(pixels.tobytes())
                        file = b''
out.close()

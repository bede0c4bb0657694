"""Writes tensorflow.gz, what TensorFlow makes of photograph-like images: python generate.py OUTPUT. It needs Pillow.

A record is: height, width, channels, quality, whether colours are subsampled (little-endian uint32 each), the pixels, TensorFlow's file, the pixels it reads from
it, and those it reads from it without interpolating colours, each with its length in front of it.
"""
import gzip, os, struct, sys
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
from PIL import Image

rng = np.random.default_rng(7)
out = gzip.GzipFile(sys.argv[1], 'wb', mtime=0)
def blob(b): out.write(struct.pack('<I', len(b)) + b)

for h, w in [(1, 1), (8, 8), (16, 16), (17, 33), (40, 64), (5, 3), (31, 100)]:
    for c in (1, 3):
        coarse = Image.fromarray(rng.integers(0, 256, (max(h // 6, 2), max(w // 6, 2), 3)).astype(np.uint8))
        pixels = np.asarray(coarse.resize((w, h), Image.Resampling.BICUBIC))[..., :c]
        for quality in (30, 75, 95, 100):
            for subsample in (True, False):
                file = tf.io.encode_jpeg(pixels, quality=quality, chroma_downsampling=subsample)
                out.write(struct.pack('<5I', h, w, c, quality, subsample))
                blob(pixels.tobytes()); blob(file.numpy())
                for smooth in (True, False): blob(tf.io.decode_jpeg(file, fancy_upscaling=smooth, dct_method='INTEGER_ACCURATE').numpy().tobytes())

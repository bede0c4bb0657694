"""Writes decode.json.gz: what TensorFlow decodes from PNGs of every colour type and depth, for TestDecodeLikeTensorFlow.

Run with a Python that has TensorFlow 2.21, in this folder.
"""
import base64
import gzip
import json
import os
import struct
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(3)
WIDTH, HEIGHT = 5, 4


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(depth, colour, raw, extra):
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


files = []
for depth, colour in [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (8, 2), (16, 2), (1, 3), (2, 3), (4, 3), (8, 3), (8, 4), (16, 4), (8, 6), (16, 6)]:
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    row = (WIDTH * channels * depth + 7) // 8
    raw = b"".join(b"\0" + rng.bytes(row) for _ in range(HEIGHT))
    extras = [b""]
    if colour == 3:
        palette = chunk(b"PLTE", rng.bytes(3 << depth))
        extras = [palette, palette + chunk(b"tRNS", rng.bytes(max(1, (1 << depth) // 2)))]
    if colour == 0:  # the first pixel's gray is the transparent one
        extras.append(chunk(b"tRNS", struct.pack(">H", 1) if depth < 16 else raw[1:3]))
    if colour == 2:
        extras.append(chunk(b"tRNS", b"".join(struct.pack(">H", v) for v in raw[1:4]) if depth == 8 else raw[1:7]))
    files += [(f"depth {depth}, colour {colour}, {len(e)} bytes more", png(depth, colour, raw, e)) for e in extras]

cases = []
for name, file in files:
    for channels in (0, 1, 3, 4):
        for dtype in (tf.uint8, tf.uint16):
            v = tf.io.decode_png(file, channels, dtype).numpy()
            cases.append({"name": f"{name}, {channels} channels of {dtype.name}", "file": base64.b64encode(file).decode(), "channels": channels,
                          "bits": 8 * dtype.size, "shape": list(v.shape), "want": v.astype(int).flatten().tolist()})
with gzip.GzipFile("decode.json.gz", "wb", mtime=0) as f:
    f.write(json.dumps(cases).encode())

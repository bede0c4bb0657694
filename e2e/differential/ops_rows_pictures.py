"""Rows for files of pictures: PNG, BMP and GIF of random pixels, and JPEG of one colour, on which all decoders agree."""
import struct
import zlib

import numpy as np

from ops_make import row

# A grey picture of 8 by 8 pixels: tables, one block without details.
JPEG = (b"\xff\xd8" + b"\xff\xdb\x00\x43\x00" + b"\x01" * 64 + b"\xff\xc0\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00"
        + b"\xff\xc4\x00\x14\x00" + b"\x01" + b"\x00" * 15 + b"\x00" + b"\xff\xc4\x00\x14\x10" + b"\x01" + b"\x00" * 15 + b"\x00"
        + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + b"\x3f" + b"\xff\xd9")


def scalar(data):
    return np.asarray(data, object)


def png(m):
    height, width, channels = m.int(1, 3), m.int(1, 4), m.int(1, 4)
    depth = m.pick(8, 16)
    lines = b"".join(b"\0" + m.rng.bytes(width * channels * depth // 8) for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, depth, (0, 4, 2, 6)[channels - 1], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")))


def bmp(m):
    height, width, channels = m.int(1, 3), m.int(1, 4), m.pick(1, 3, 4)
    line = (channels * width + 3) // 4 * 4
    return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54 + line * height, 0, 0, 54, 40, width, m.pick(1, -1) * height, 1, 8 * channels,
                               0, 0, 0, 0, 0, 0) + m.rng.bytes(line * height)


def gif(m):
    """Some frames of two by two pixels, without compression: a clear code stands before every pixel."""
    colours = m.rng.bytes(12)
    frames = b""
    for _ in range(m.int(1, 2)):
        codes = [c for pixel in m.rng.integers(0, 4, 4) for c in (4, int(pixel))] + [5]
        bits = sum(code << 3 * i for i, code in enumerate(codes))
        data = bits.to_bytes((3 * len(codes) + 7) // 8, "little")
        frames += b"\x2c" + struct.pack("<HHHHB", 0, 0, 2, 2, 0) + b"\x02" + bytes([len(data)]) + data + b"\0"
    return b"GIF89a" + struct.pack("<HHBBB", 2, 2, 0x81, 0, 0) + colours + frames + b"\x3b"


def jpeg(m):
    return JPEG


def perhaps_cut(m, data):
    return data[:m.int(0, len(data) - 1)] if m.chance(.1) else data


@row("DecodePng DecodeBmp")
def decode(m):
    m.set(channels=m.pick(0, 0, 1, 3, 4))
    return {"contents": scalar(perhaps_cut(m, (png if m.op == "DecodePng" else bmp)(m)))}


@row("DecodeGif")
def decode_gif(m):
    return {"contents": scalar(perhaps_cut(m, gif(m)))}


@row("DecodeImage")
def decode_any(m):
    m.set(channels=m.pick(0, 0, 1, 3, 4))
    m.flags("expand_animations")
    return {"contents": scalar(perhaps_cut(m, m.pick(png, bmp, gif, jpeg)(m)))}


@row("DecodeJpeg DecodeAndCropJpeg")
def decode_jpeg(m):
    m.set(channels=m.pick(0, 1, 3), ratio=m.pick(1, 1, 2, 8))
    m.flags("fancy_upscaling", "try_recover_truncated")
    inputs = {"contents": scalar(jpeg(m))}
    if m.op == "DecodeAndCropJpeg":
        inputs["crop_window"] = m.ints([m.int(0, 3), m.int(0, 3), m.int(1, 5), m.int(1, 5)])
    return inputs


@row("ExtractJpegShape")
def shape_of_jpeg(m):
    return {"contents": scalar(perhaps_cut(m, jpeg(m)))}

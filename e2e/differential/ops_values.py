"""What goes into ops: values and shapes at the edges, chosen by a seed."""
import numpy as np
import tensorflow as tf

BFLOAT16 = tf.bfloat16.as_numpy_dtype
FLOATS = {np.dtype(d) for d in (np.float16, np.float32, np.float64, BFLOAT16)}

STRINGS = [b"", b"a", b"A", b"abc", b"abc abc", b" pad\t", b"\x00", b"a\x00b", b"\xff\xfe", "é".encode(), "日本語".encode(),
           "\U0001f600x".encode(), b"1", b"-1", b"1.5", b"nan", b"inf", b"1e400", b"0x10", b" 7 ", b"9223372036854775808", b"a,b,,c", b"x" * 70]


def is_float(dtype):
    return np.dtype(dtype) in FLOATS


def limits(dtype):
    """The greatest and the least normal positive number of a floating-point type."""
    info = tf.as_dtype(dtype)
    tiny = {np.float16: 6.104e-05, np.float32: 1.1754944e-38, np.float64: 2.2250738585072014e-308}.get(np.dtype(dtype).type, 1.1754944e-38)
    return float(info.max), tiny


def float_values(rng, dtype, n, palette):
    """n numbers. Denormals are left out: TensorFlow's servers flush them on some threads."""
    most, tiny = limits(dtype)
    if palette == "any":
        palette = rng.choice(["plain", "ties", "special", "scale", "unit", "positive", "integers"], p=[.25, .15, .25, .1, .1, .1, .05])
    if palette == "plain":
        v = rng.uniform(-4, 4, n)
    elif palette == "unit":
        v = rng.uniform(0, 1, n)
    elif palette == "positive":
        v = rng.uniform(.1, 5, n)
    elif palette == "ties":
        v = rng.choice([-1., 0., 1., 2.], n)
    elif palette == "integers":
        v = rng.integers(-300, 300, n).astype(float)
    elif palette == "scale":
        v = rng.choice([-1, 1], n) * 10. ** rng.uniform(np.log10(tiny) + .1, np.log10(most) - .1, n)
    else:
        v = rng.choice([np.nan, np.inf, -np.inf, 0., -0., 1., -1., .5, -.5, 2., -2., 3.7, 1e-4, -1e-4, most, -most, tiny, -tiny, 100., -100., np.pi], n)
    return v


def int_values(rng, dtype, n, palette):
    info = np.iinfo(dtype)
    if palette in ("any", "special", "scale"):
        palette = rng.choice(["plain", "ties", "edges", "whole"], p=[.4, .2, .25, .15]) if palette == "any" else "edges"
    if palette == "edges":
        v = rng.choice([info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, info.max // 2 + 1, 7] + ([-1, -2] if info.min else [3]), n)
    elif palette == "whole":
        v = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    elif palette == "ties":
        v = rng.integers(0, 3, n)
    elif palette in ("positive", "unit"):
        v = rng.integers(1, 6, n)
    else:
        v = rng.integers(-5 if info.min else 0, 9, n)
    return v


def values(rng, dtype, shape, palette="any"):
    """An array of a NumPy type with values of a palette."""
    dtype, n = np.dtype(dtype), int(np.prod(shape, dtype=np.int64))
    if dtype == object:
        v = np.empty(n, object)
        v[:] = [STRINGS[i] for i in rng.integers(0, len(STRINGS), n)]
    elif dtype == bool:
        v = rng.random(n) < rng.choice([0, .5, 1], p=[.1, .8, .1])
    elif is_float(dtype):
        v = float_values(rng, dtype, n, palette)
    elif dtype.kind == "c":
        part = np.float32 if dtype == np.complex64 else np.float64
        if palette == "any":  # what C++ makes of infinite parts differs from compiler to compiler
            palette = rng.choice(["plain", "ties", "unit", "integers"])
        v = float_values(rng, part, n, palette) + 1j * float_values(rng, part, n, palette)
    elif dtype.fields:  # a quantized type
        return values(rng, dtype[0], shape, palette).view(dtype)
    elif dtype.kind in "iu":
        v = int_values(rng, dtype, n, palette)
    elif tf.as_dtype(dtype).is_integer:  # int4, uint4
        v = rng.integers(-8 if tf.as_dtype(dtype).min < 0 else 0, 8, n).astype(np.int8)
    else:  # the small floats
        v = rng.choice([0., -0., 1., -1., .5, 2., 448., np.nan, -16.], n).astype(np.float32)
    with np.errstate(all="ignore"):
        return np.asarray(v).astype(dtype).reshape(shape)


def shape(rng, low=0, high=4, zero=.06, dims=(1, 2, 3, 4, 5)):
    """A shape of a rank in [low, high]; a dimension is 0 with the given probability."""
    rank = int(rng.integers(low, high, endpoint=True))
    return tuple(0 if rng.random() < zero else int(rng.choice(dims)) for _ in range(rank))


def broadcast(rng, full):
    """A shape that broadcasts to another one, most of the time."""
    cut = int(rng.integers(0, len(full) + 1)) if rng.random() < .4 else 0
    out = [1 if rng.random() < .25 else d for d in full[cut:]]
    if out and rng.random() < .04:
        out[int(rng.integers(len(out)))] += 1
    return tuple(out)

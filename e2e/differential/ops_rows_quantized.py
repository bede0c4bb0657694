"""Rows for tensors that stand for others by integers: with ranges (Quantized…), or with scales and zero points (Uniform…)."""
import numpy as np

from ops_make import row


def span(m, low, high, bad=.05):
    """A range, by names: seldom an empty one."""
    ends = sorted(m.rng.uniform(-4, 4, 2).astype(np.float32))
    if m.chance(bad):
        ends.reverse()
    return {low: ends[0], high: ends[1]}


@row("QuantizedAdd QuantizedMul")
def arithmetic(m):
    shape = m.shape(high=3)
    x, y = (shape, shape[m.int(0, len(shape)):])[:: m.pick(1, -1)]
    return {"x": m.array("T1", x), "y": m.array("T2", y), **span(m, "min_x", "max_x"), **span(m, "min_y", "max_y")}


@row("QuantizedBiasAdd")
def bias(m):
    shape = m.shape(low=1)
    return {"input": m.array("T1", shape), "bias": m.array("T2", m.bent(shape[-1:])), **span(m, "min_input", "max_input"), **span(m, "min_bias", "max_bias")}


@row("QuantizedMatMul")
def product(m):
    rows, inner, columns = (m.int(1, 5) for _ in range(3))
    m.flags("transpose_a", "transpose_b")
    a, b = (rows, inner), (inner, columns)
    if m.attrs.get("transpose_a"):
        a = a[::-1]
    if m.attrs.get("transpose_b"):
        b = b[::-1]
    return {"a": m.array("T1", m.bent(a)), "b": m.array("T2", m.bent(b)), **span(m, "min_a", "max_a"), **span(m, "min_b", "max_b")}


def over_images(m):
    """The attributes of a window that moves over images."""
    m.set(strides=[1, *[m.int(1, 2)] * 2, 1], padding=m.pick("SAME", "VALID"))


@row("QuantizedConv2D")
def convolution(m):
    over_images(m)
    depth = m.int(1, 3)
    return {"input": m.array("Tinput", (m.int(1, 2), m.int(3, 5), m.int(3, 5), depth)), "filter": m.array("Tfilter", m.bent((m.int(1, 3), m.int(1, 3), depth, m.int(1, 3)))),
            **span(m, "min_input", "max_input"), **span(m, "min_filter", "max_filter")}


@row("QuantizedMaxPool QuantizedAvgPool")
def pool(m):
    over_images(m)
    m.set(ksize=[1, m.int(1, 3), m.int(1, 3), 1])
    return {"input": m.array("T", m.bent((m.int(1, 2), m.int(3, 5), m.int(3, 5), m.int(1, 3)))), **span(m, "min_input", "max_input")}


@row("QuantizedBatchNormWithGlobalNormalization")
def normalization(m):
    m.set(variance_epsilon=m.pick(1e-3, .1), scale_after_normalization=m.chance(.5))
    depth, out = m.int(1, 3), {}
    for name in ("t", "m", "v", "beta", "gamma"):
        shape = (m.int(1, 2), m.int(1, 3), m.int(1, 3), depth) if name == "t" else m.bent((depth,))
        out.update({name: m.array("Tinput", shape), **span(m, name + "_min", name + "_max")})
    out.update(v_min=np.float32(.1), v_max=np.float32(m.pick(1, 3)))
    return out


@row("QuantizedInstanceNorm")
def instance(m):
    m.flags("output_range_given")
    m.set(given_y_min=-1., given_y_max=m.pick(1., 3.))
    return {"x": m.array("T", m.bent((m.int(1, 2), m.int(1, 4), m.int(1, 4), m.int(1, 3)))), **span(m, "x_min", "x_max")}


@row("QuantizedConcat")
def concatenation(m):
    shape, n = list(m.shape(low=1, high=3)), m.int(2, 3)
    axis = m.axis(len(shape))
    parts = []
    for _ in range(n):
        own = list(shape)
        if -len(shape) <= axis < len(shape):
            own[axis] = m.int(1, 4)
        parts.append(m.array("T", m.bent(tuple(own))))
    spans = [span(m, "low", "high") for _ in range(n)]
    return {"concat_dim": m.ints(axis), "values": parts, "input_mins": [s["low"] for s in spans], "input_maxes": [s["high"] for s in spans]}


@row("QuantizedReshape")
def reshape(m):
    return {"tensor": m.array("T", (2, m.int(1, 3))), "shape": m.ints(m.pick([-1], [2, -1], [-1, 2], [7]), "Tshape"), **span(m, "input_min", "input_max")}


@row("RequantizationRangePerChannel RequantizePerChannel")
def channels(m):
    depth = m.int(1, 4)
    ends = {"input_min": -m.array("float32", (depth,), "positive"), "input_max": m.array("float32", m.bent((depth,)), "positive")}
    if m.op == "RequantizationRangePerChannel":
        m.set(clip_value_max=m.pick(6., 1e30))
    else:
        ends.update(span(m, "requested_output_min", "requested_output_max"))
    return {"input": m.array("T", (m.int(1, 2), m.int(1, 3), depth)), **ends}


@row("QuantizeAndDequantizeV3")
def there_and_back(m):
    m.flags("signed_input", "narrow_range")
    m.set(range_given=True)
    low = m.array("T", (), "positive")
    return {"input": m.any("T", palette="plain"), "input_min": -low, "input_max": low + np.ones_like(low), "num_bits": m.ints(m.pick(2, 8, 16))}


# The least and the greatest number of each type.
LIMITS = {"qint8": (-128, 127), "quint8": (0, 255), "qint16": (-2**15, 2**15 - 1), "quint16": (0, 2**16 - 1), "qint32": (-2**31, 2**31 - 1)}


def limits(m, attr, prefix=""):
    low, high = LIMITS[m.types[attr]]
    m.set(**{prefix + "quantization_min_val": low, prefix + "quantization_max_val": high})


def points(m, scales, zeros, n=None, zero=None):
    """Scales and zero points: of a tensor, or of n channels."""
    shape = () if n is None else (n,)
    return {scales: m.rng.uniform(.1, 2, shape).astype(np.float32), zeros: m.ints(m.rng.integers(-5, 6, shape) if zero is None else np.full(shape, zero))}


def axis_of(m, attr, shape):
    """An axis whose channels have scales of their own, or -1; and how many these are."""
    axis = m.int(0, len(shape) - 1) if shape and m.chance(.5) else -1
    m.set(**{attr: axis})
    return None if axis < 0 else shape[axis]


@row("UniformQuantize UniformDequantize")
def quantize(m):
    limits(m, "Tout" if m.op == "UniformQuantize" else "Tin")
    shape = m.shape(zero=0)
    n = axis_of(m, "quantization_axis", shape)
    return {"input": m.array("Tin", shape, "plain"), **points(m, "scales", "zero_points", n)}


@row("UniformRequantize")
def requantize(m):
    limits(m, "Tin", "input_")
    limits(m, "Tout", "output_")
    shape = m.shape(zero=0)
    n = axis_of(m, "input_quantization_axis", shape)
    m.set(output_quantization_axis=m.attrs["input_quantization_axis"] if m.chance(.5) else -1)
    return {"input": m.array("Tin", shape, "plain"), **points(m, "input_scales", "input_zero_points", n),
            **points(m, "output_scales", "output_zero_points", n if m.attrs["output_quantization_axis"] >= 0 else None)}


@row("UniformQuantizedAdd")
def add(m):
    for side in ("lhs_", "rhs_", "output_"):
        limits(m, "T", side)
    shape = m.shape(zero=0)
    return {"lhs": m.array("T", shape, "plain"), "rhs": m.array("T", shape[m.int(0, len(shape)):], "plain"), **points(m, "lhs_scales", "lhs_zero_points"),
            **points(m, "rhs_scales", "rhs_zero_points"), **points(m, "output_scales", "output_zero_points")}


@row("UniformQuantizedClipByValue")
def clip(m):
    limits(m, "T")
    shape = m.shape(zero=0)
    n = axis_of(m, "quantization_axis", shape)
    ends = () if n is None else (n,)
    return {"operand": m.array("T", shape, "plain"), "min": m.array("T", ends, "plain"), "max": m.array("T", ends, "plain"), **points(m, "scales", "zero_points", n)}


@row("UniformQuantizedDot UniformQuantizedDotHybrid")
def dot(m):
    rows, inner, columns = (m.int(1, 4) for _ in range(3))
    hybrid = m.op.endswith("Hybrid")
    limits(m, "Trhs" if hybrid else "Tin", "rhs_")
    out = {"lhs": m.array("Tlhs" if hybrid else "Tin", (rows, inner), "plain"), "rhs": m.array("Trhs" if hybrid else "Tin", m.bent((inner, columns)), "plain")}
    if not hybrid:
        limits(m, "Tin", "lhs_")
        limits(m, "Tout", "output_")
        out.update(points(m, "lhs_scales", "lhs_zero_points"))
    # The numbers of a filter lie around 0.
    out.update(points(m, "rhs_scales", "rhs_zero_points", zero=0))
    if not hybrid:
        out.update(points(m, "output_scales", "output_zero_points"))
    return out

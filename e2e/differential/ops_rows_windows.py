"""Rows for patches, dilations and pools that tell more than the values, older forms of layers, and rows in place."""
import numpy as np

from ops_make import row
from ops_rows_nn import pooled, window


def image(m, spatial, channels=3):
    """The shape of images: seldom without elements."""
    return tuple(m.int(0 if m.chance(.03) else 1, high) for high in (2,) + (7,) * spatial + (channels,))


def counted(size, kernel, stride, padding):
    """How many windows there are along each dimension."""
    return tuple(max(-(-d // s) if padding == "SAME" else -(-(d - k + 1) // s), 0) for d, k, s in zip(size, kernel, stride))


@row("Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput")
def dilation(m):
    shape, kernel, stride, rates = image(m, 2), (m.int(1, 3), m.int(1, 3)), (m.int(1, 2), m.int(1, 2)), (m.int(1, 2), m.int(1, 2))
    padding = m.pick("SAME", "VALID")
    m.set(strides=[1, *stride, 1], rates=[1, *rates, 1], padding=padding)
    wide = [(k - 1) * r + 1 for k, r in zip(kernel, rates)]
    if padding == "VALID" and m.chance(.95):
        shape = (shape[0], *(max(d, w) for d, w in zip(shape[1:], wide)), shape[3])
    out = (shape[0], *counted(shape[1:3], wide, stride, padding), shape[3])
    palette = m.pick("plain", "ties")
    inputs = {"input": m.array("T", shape, palette), "filter": m.array("T", m.bent((*kernel, shape[3]), .03), palette)}
    return dict(inputs, out_backprop=m.array("T", m.bent(out, .03), palette)) if "Back" in m.op else inputs


@row("ExtractImagePatches ExtractVolumePatches")
def patches(m):
    spatial = 2 if "Image" in m.op else 3
    kernel = [m.int(1, 3) for _ in range(spatial)]
    m.set(ksizes=[1, *kernel, 1], strides=[1, *(m.int(1, 3) for _ in kernel), 1], padding=m.pick("SAME", "VALID"))
    if spatial == 2:
        m.set(rates=[1, *(m.int(1, 2) for _ in kernel), 1])
    return {"images" if spatial == 2 else "input": m.array("T", image(m, spatial), "plain")}


@row("FractionalAvgPool FractionalMaxPool")
def fractional(m):
    m.set(pooling_ratio=[1., m.pick(1., 1.44, 1.73), m.pick(1., 1.44, 2.), 1.], deterministic=True, seed=m.int(1, 99), seed2=m.int(1, 99))
    m.flags("pseudo_random", "overlapping")
    shape = (m.int(1, 2), m.int(2, 9), m.int(2, 9), m.int(1, 3))
    return {"value": m.array("T", m.bent(shape, .02), m.pick("plain", "ties"))}


def bounds(m, size):
    """Where the windows along a dimension begin, and the end."""
    inner = sorted(set(int(x) for x in m.rng.integers(1, size, m.int(0, 3)))) if size > 1 else []
    return [0, *inner, size]


@row("FractionalAvgPoolGrad FractionalMaxPoolGrad")
def fractional_grad(m):
    m.flags("overlapping")
    n, height, width, depth = m.int(1, 2), m.int(1, 7), m.int(1, 7), m.int(1, 3)
    rows, columns = bounds(m, height), bounds(m, width)
    out = (n, len(rows) - 1, len(columns) - 1, depth)
    ends = {"row_pooling_sequence": m.ints(rows, "int64"), "col_pooling_sequence": m.ints(columns, "int64")}
    grad = {"out_backprop": m.array("T", m.bent(out, .02), "plain")}
    if "Avg" in m.op:
        return dict(grad, orig_input_tensor_shape=m.ints((n, height, width, depth), "int64"), **ends)
    x, y = m.array("T", (n, height, width, depth), "ties"), np.zeros(out, m.dtype("T"))
    more = 1 if m.attrs.get("overlapping") else 0
    for i in range(out[1]):
        for j in range(out[2]):
            y[:, i, j] = x[:, rows[i]:rows[i + 1] + more, columns[j]:columns[j + 1] + more].max(axis=(1, 2))
    return dict(grad, orig_input=x, orig_output=y, **ends)


@row("FusedPadConv2D")
def pad_and_convolve(m):
    m.set(mode=m.pick("REFLECT", "SYMMETRIC"), strides=[1, m.int(1, 2), m.int(1, 2), 1], padding=m.pick("SAME", "VALID"))
    m.constant = True  # the client has to know the shape of the paddings
    shape, depth = (1, m.int(2, 5), m.int(2, 5)), m.int(1, 3)  # TensorFlow takes the rows of a batch's first image for all
    pads = [[0, 0], [m.int(0, 2), m.int(0, 2)], [m.int(0, 1), m.int(0, 1)], [0, 0]]
    return {"input": m.array("T", (*shape, depth), "plain"), "paddings": m.ints(pads),
            "filter": m.array("T", m.bent((m.int(1, 2), m.int(1, 2), depth, m.int(1, 3)), .02), "plain")}


@row("MaxPoolWithArgmax MaxPoolGradWithArgmax")
def argmax(m):
    m.flags("include_batch_in_index")
    size, kernel, stride, _, padding, _ = window(m, 2)
    if padding == "VALID":
        kernel = [min(k, max(d, 1)) for k, d in zip(kernel, size)]
    m.set(ksize=[1, *kernel, 1], strides=[1, *stride, 1], padding=padding)
    n, depth = m.int(1, 2), m.int(1, 3)
    x = m.array("T", (n, *size, depth), m.pick("plain", "ties"))
    if m.op == "MaxPoolWithArgmax":
        return {"input": x}
    out = (n, *counted(size, kernel, stride, padding), depth)
    places = int(np.prod(size)) * depth * (n if m.attrs.get("include_batch_in_index") else 1)
    return {"input": x, "grad": m.array("T", m.bent(out, .03), "plain"), "argmax": m.index("Targmax", out, places, .04)}


@row("Conv3DBackpropFilter Conv3DBackpropInput")
def volume_grad(m):
    shape, kernel, stride, padding = image(m, 3), [m.int(1, 3) for _ in range(3)], [m.int(1, 2) for _ in range(3)], m.pick("SAME", "VALID")
    shape = tuple(max(d, 1) for d in shape)
    if padding == "VALID":
        kernel = [min(k, d) for k, d in zip(kernel, shape[1:])]
    m.set(strides=[1, *stride, 1], padding=padding)
    channels = m.int(1, 3)
    out = (shape[0], *counted(shape[1:4], kernel, stride, padding), channels)
    return {"input": m.array("T", shape, "plain"), "filter": m.array("T", (*kernel, shape[4], channels), "plain"), "out_backprop": m.array("T", m.bent(out, .03), "plain")}


@row("BatchNormWithGlobalNormalization BatchNormWithGlobalNormalizationGrad")
def old_norm(m):
    m.set(variance_epsilon=m.pick(.001, .1), scale_after_normalization=m.chance(.5))
    shape = image(m, 2)
    line = lambda palette: m.array("T", m.bent((shape[3],), .02), palette)
    out = {"t": m.array("T", m.bent(shape, .02), "plain"), "m": line("plain"), "v": line("positive"), "gamma": line("plain")}
    if m.op.endswith("Grad"):
        return dict(out, backprop=m.array("T", m.bent(shape, .02), "plain"))
    return dict(out, beta=line("plain"))


@row("GRUBlockCell GRUBlockCellGrad")
def gru(m):
    n, wide, units = m.int(0 if m.chance(.05) else 1, 3), m.int(1, 4), m.int(1, 4)
    one = lambda *s: m.array("float32", m.bent(s, .01), "plain")
    out = {"x": one(n, wide), "h_prev": one(n, units), "w_ru": one(wide + units, 2 * units), "w_c": one(wide + units, units), "b_ru": one(2 * units), "b_c": one(units)}
    return dict(out, **{name: one(n, units) for name in ("r", "u", "c", "d_h")}) if m.op.endswith("Grad") else out


@row("AdjustContrast")
def contrast(m):
    low = m.pick(0., -5., 10.)
    return {"images": m.array("T", m.bent(image(m, 2)), "plain"), "contrast_factor": np.float32(m.pick(0., .5, 2., -1.)), "min_value": np.float32(low),
            "max_value": np.float32(low + m.pick(0., 3., 200.))}


@row("InplaceAdd InplaceSub InplaceUpdate")
def in_place(m):
    m.types["T"] = m.pick("float32", "float64", "int32", "int64", "float16", "complex64")
    shape, n = m.shape(1, 3, zero=.03), m.int(0, 4)
    places = m.rng.permutation(np.arange(max(shape[0], 1)))[:n].astype(np.int32)
    if m.chance(.1):
        places = places - 7  # they wrap around
    return {"x": m.array("T", shape, "plain"), "i": places[0] if places.size == 1 and m.chance(.05) else places,
            "v": m.array("T", m.bent((len(places),) + shape[1:], .03), "plain")}


@row("ParallelConcat")
def parallel_concat(m):
    shape, n = (1,) + m.shape(0, 3), m.int(1, 4)
    m.constant = True  # the client has to know the shapes
    m.set(shape=[n, *shape[1:]])
    return {"values": [m.array("T", shape) for _ in range(n)]}


@row("UnravelIndex")
def unravel(m):
    dims = m.shape(1, 4, zero=.02)
    return {"indices": m.index("Tidx", m.shape(0, 1), int(np.prod(dims)), .08), "dims": m.ints(dims, "Tidx")}


@row("DebugNumericSummaryV2")
def debug_summary(m):
    m.set(tensor_debug_mode=m.pick(2, 3, 4, 5, 8), tensor_id=m.pick(0, 7, -1, 2**20))
    m.types.update(T=m.pick("float32", "float64", "float16", "bfloat16", "int32", "bool"), output_dtype=m.pick("float32", "float64"))
    return {"input": m.any("T")}

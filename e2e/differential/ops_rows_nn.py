"""Rows for neural networks and images."""
import numpy as np

from ops_make import row

PALETTES = ("plain", "plain", "ties", "any")


@row("BiasAdd BiasAddV1")
def bias(m):
    shape = m.shape(2 if m.chance(.96) else 1, 5)
    at = -1
    if m.op == "BiasAdd" and m.chance(.4):
        m.set(data_format=m.pick("NHWC", "NCHW"))
        at = 1 if m.attrs["data_format"] == "NCHW" and len(shape) > 1 else -1
    return {"value": m.array("T", shape), "bias": m.array("T", m.bent((shape[at],)))}


@row("BiasAddGrad")
def bias_grad(m):
    if m.chance(.4):
        m.set(data_format=m.pick("NHWC", "NCHW"))
    return {"out_backprop": m.any("T", 2 if m.chance(.96) else 1, 5)}


def window(m, spatial, depthwise=False):
    """Sizes of a convolution: input, filter and output shapes without batch and channels, and its attributes."""
    size = [m.int(0 if m.chance(.03) else 1, 6) for _ in range(spatial)]
    kernel = [m.int(1, 3) for _ in range(spatial)]
    stride = [m.int(1, 3)] * spatial if depthwise else [m.int(1, 3) for _ in range(spatial)]
    dilation = [m.int(1, 2) if m.chance(.2) and stride == [1] * spatial else 1 for _ in range(spatial)]
    padding = m.pick("SAME", "VALID")
    out = []
    for d, k, s, r in zip(size, kernel, stride, dilation):
        reach = (k - 1) * r + 1
        out.append(max(-(-d // s) if padding == "SAME" else -(-(d - reach + 1) // s), 0))
    return size, kernel, stride, dilation, padding, out


def explicit(m, size, kernel, stride, dilation):
    pads = [[m.int(0, 2), m.int(0, 2)] for _ in size]
    out = [max((d + sum(p) - (k - 1) * r - 1) // s + 1, 0) for d, p, k, s, r in zip(size, pads, kernel, stride, dilation)]
    m.set(explicit_paddings=[0, 0] + [x for p in pads for x in p] + [0, 0])
    return "EXPLICIT", out


@row("Conv Conv2D Conv3D Conv2DBackpropFilter Conv2DBackpropInput Conv3DBackpropFilterV2 Conv3DBackpropInputV2")
def conv(m):
    spatial = 3 if "3D" in m.op else 2 if m.op != "Conv" else m.int(2, 3)
    size, kernel, stride, dilation, padding, out = window(m, spatial)
    if spatial == 2 and m.op != "Conv" and m.chance(.2):
        padding, out = explicit(m, size, kernel, stride, dilation)
    n, cin, cout = m.int(0 if m.chance(.05) else 1, 3), m.int(1, 4), m.int(1, 4)
    groups = 1
    if spatial == 2 and m.op == "Conv2D" and m.chance(.1) and m.types["T"] in ("float32", "float64"):
        groups, cin, cout = 2, 4, 2 * m.int(1, 2)
    m.set(strides=[1] + stride + [1], padding=padding)
    if max(dilation) > 1:
        m.set(dilations=[1] + dilation + [1])
    if m.op == "Conv":
        m.set(dilations=[1] + dilation + [1])
    palette = m.pick(*PALETTES)
    x, w, dy = (n, *size, cin), (*kernel, cin // groups, cout), (n, *out, cout)
    if "BackpropFilter" in m.op:
        return {"input": m.array("T", x, palette), "filter_sizes": m.ints(w), "out_backprop": m.array("T", m.bent(dy), palette)}
    if "BackpropInput" in m.op:
        return {"input_sizes": m.ints(x, "Tshape" if "3D" in m.op else "int32"), "filter": m.array("T", w, palette), "out_backprop": m.array("T", m.bent(dy), palette)}
    return {"input": m.array("T", m.bent(x, .02), palette), "filter": m.array("T", m.bent(w), palette)}


@row("DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput")
def depthwise(m):
    size, kernel, stride, dilation, padding, out = window(m, 2, depthwise=True)
    if m.chance(.2):
        padding, out = explicit(m, size, kernel, stride, dilation)
    if m.op != "DepthwiseConv2dNative":
        dilation = [1, 1]
        if padding != "EXPLICIT":
            out = [max(-(-d // s) if padding == "SAME" else -(-(d - k + 1) // s), 0) for d, k, s in zip(size, kernel, stride)]
    n, cin, multiplier = m.int(0 if m.chance(.05) else 1, 2), m.int(1, 4), m.int(1, 3)
    m.set(strides=[1] + stride + [1], padding=padding)
    palette = m.pick(*PALETTES)
    x, w, dy = (n, *size, cin), (*kernel, cin, multiplier), (n, *out, cin * multiplier)
    if "BackpropFilter" in m.op:
        return {"input": m.array("T", x, palette), "filter_sizes": m.ints(w), "out_backprop": m.array("T", m.bent(dy), palette)}
    if "BackpropInput" in m.op:
        return {"input_sizes": m.ints(x), "filter": m.array("T", w, palette), "out_backprop": m.array("T", m.bent(dy), palette)}
    return {"input": m.array("T", m.bent(x, .02), palette), "filter": m.array("T", m.bent(w), palette)}


@row("AvgPool AvgPool3D AvgPoolGrad AvgPool3DGrad MaxPool MaxPool3D MaxPoolV2 MaxPoolGrad MaxPoolGradV2 MaxPool3DGrad MaxPoolGradGrad "
     "MaxPoolGradGradV2 MaxPool3DGradGrad")
def pool(m):
    spatial = 3 if "3D" in m.op else 2
    size, kernel, stride, _, padding, out = window(m, spatial)
    if padding == "VALID" and not m.chance(.05):
        kernel = [min(k, max(d, 1)) for k, d in zip(kernel, size)]
    out = [max(-(-d // s) if padding == "SAME" else -(-(d - k + 1) // s), 0) for d, k, s in zip(size, kernel, stride)]
    n, c = m.int(0 if m.chance(.05) else 1, 2), m.int(1, 4)
    if m.op == "MaxPool" and m.chance(.15) and min(kernel) > 1:
        pads = [[m.int(0, k - 1), m.int(0, k - 1)] for k in kernel]
        m.set(explicit_paddings=[0, 0] + [x for p in pads for x in p] + [0, 0])
        padding = "EXPLICIT"
    ksize, strides = [1] + kernel + [1], [1] + stride + [1]
    m.set(padding=padding)
    if not m.op.endswith("V2"):
        m.set(ksize=ksize, strides=strides)
    palette = m.pick("plain", "ties", "plain", "any")
    dtype = "TInput" if m.op == "MaxPool3DGrad" else "T"
    if m.op == "MaxPool3DGrad":
        m.types["T"] = m.types["TInput"]
    x, y = m.array(dtype, (n, *size, c), palette), (n, *out, c)
    if m.op in ("AvgPoolGrad", "AvgPool3DGrad"):
        return {"orig_input_shape": m.ints(x.shape), "grad": m.array("T", y, palette)}
    if "Grad" in m.op:
        largest = pooled(x, kernel, stride, padding, out) if m.chance(.9) else m.array(dtype, y, palette)
        grad = m.array("T", m.bent(x.shape if "GradGrad" in m.op else y), palette)
        inputs = {"orig_input": x, "orig_output": largest, "grad": grad}
    else:
        inputs = {"value" if m.op == "AvgPool" else "input": x}
    if m.op.endswith("V2"):
        inputs.update(ksize=m.ints(ksize), strides=m.ints(strides))
    return inputs


def pooled(x, kernel, stride, padding, out):
    """What MaxPool makes of x."""
    y = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
    for place in np.ndindex(*out):
        cut = [slice(None)]
        for i, p in enumerate(place):
            pad = max((out[i] - 1) * stride[i] + kernel[i] - x.shape[i + 1], 0) // 2 if padding == "SAME" else 0
            low = p * stride[i] - pad
            cut.append(slice(max(low, 0), low + kernel[i]))
        part = x[tuple(cut)]
        if part.size:
            y[(slice(None), *place)] = part.max(axis=tuple(range(1, x.ndim - 1)))
    return y


@row("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3")
def batch_norm(m):
    c, training = m.int(1, 4), bool(m.int(0, 1))
    shape = (m.int(0 if m.chance(.05) else 1, 3), m.int(1, 3), m.int(1, 3), c)
    m.set(is_training=training, epsilon=m.pick(1e-3, 1e-4, .1))
    if m.chance(.3) and training and "Grad" not in m.op:
        m.set(exponential_avg_factor=m.pick(1., .5, .9))
    stat = "T" if m.op in ("FusedBatchNorm", "FusedBatchNormGrad") else "U"
    palette = m.pick("plain", "plain", "integers")
    channel = lambda p="positive": m.array(stat, m.bent((c,), .02), p)
    if "Grad" in m.op:
        inputs = {"y_backprop": m.array("T", shape, palette), "x": m.array("T", shape, palette),
                  "scale": m.array(stat, (c,), "plain"), "reserve_space_1": channel("plain"), "reserve_space_2": channel()}
        if m.op.endswith("V3"):
            inputs["reserve_space_3"] = m.array(stat, (c,), "plain")
        return inputs
    empty = training and m.attrs.get("exponential_avg_factor", 1.) == 1.
    moments = lambda: m.array(stat, (0,), "plain") if empty else channel()
    return {"x": m.array("T", shape, palette), "scale": channel("plain"), "offset": channel("plain"), "mean": moments(), "variance": moments()}


@row("LRN LRNGrad")
def lrn(m):
    shape = m.bent(m.shape(4, 4), .03)
    m.set(depth_radius=m.int(0, 4), bias=m.pick(1., 2., .5), alpha=m.pick(1., 1e-4, .3), beta=m.pick(.5, .75, 1., .3))
    one = lambda: m.array("T", shape, "plain")
    return {"input": one()} if m.op == "LRN" else {"input_grads": one(), "input_image": one(), "output_image": one()}


@row("Softmax LogSoftmax")
def softmax(m):
    return {"logits": m.any("T", 0 if m.chance(.03) else 1, 4)}


@row("SoftmaxCrossEntropyWithLogits")
def xent(m):
    n, c = m.shape(2, 2)
    return {"features": m.array("T", m.pick((n, c), (n, c), (1, c), (n, 1))), "labels": m.array("T", m.bent((n, c)), m.pick("unit", "any"))}


@row("SparseSoftmaxCrossEntropyWithLogits")
def sparse_xent(m):
    n, c = m.shape(2, 2, zero=.04)
    return {"features": m.array("T", (n, c)), "labels": m.index("Tlabels", m.bent((n,)), c)}


@row("TopK TopKV2 ApproxTopK NthElement")
def top_k(m):
    shape = m.shape(0 if m.chance(.04) else 1, 4)
    most = shape[-1] if shape else 1
    k = m.int(0, most) if m.chance(.95) else m.pick(-1, most + 1)
    x = m.array("T", shape, m.pick("ties", "plain", "any", "special"))
    if m.op == "NthElement":
        m.flags("reverse")
        return {"input": x, "n": m.ints(min(k, max(most - 1, 0)) if m.chance(.95) else k)}
    if m.op == "ApproxTopK":
        m.set(k=max(k, 0), reduction_dimension=-1)
        m.constant = True  # the client refuses a shape that it does not know
        return {"input": x}
    m.flags("sorted")
    if m.op == "TopK":
        m.set(k=max(k, 0))
        return {"input": x}
    return {"input": x, "k": m.ints(k, "Tk")}


@row("InTopK InTopKV2")
def in_top_k(m):
    n, c = m.shape(2, 2)
    inputs = {"predictions": m.array("float32", (n, c), m.pick("ties", "any")), "targets": m.index("T", m.bent((n,)), c, .1)}
    if m.op == "InTopK":
        m.set(k=m.int(-1, c + 1))
    else:
        inputs["k"] = m.ints(m.int(-1, c + 1), "T")
    return inputs


def lstm_weights(m, inputs, units):
    one = lambda *s: m.array("T", s, "plain")
    return {"w": one(inputs + units, 4 * units), "wci": one(units), "wcf": one(units), "wco": one(units), "b": one(4 * units)}


@row("LSTMBlockCell LSTMBlockCellGrad BlockLSTM BlockLSTMV2 BlockLSTMGrad BlockLSTMGradV2")
def lstm(m):
    batch, inputs, units, time = (m.int(1, 3) for _ in range(4))
    m.set(use_peephole=bool(m.int(0, 1)))
    if "Grad" not in m.op:
        m.set(cell_clip=m.pick(3., -1., .5))
        if m.op != "BlockLSTMV2":
            m.set(forget_bias=m.pick(1., 0.))
    one = lambda *s: m.array("T", s, "unit")
    block = m.op.startswith("Block")
    out = {"seq_len_max": m.ints(m.int(0, time), "int64")} if block else {}
    steps = (time,) if block else ()
    out.update(x=m.array("T", m.bent(steps + (batch, inputs), .02), "plain"), cs_prev=one(batch, units), h_prev=one(batch, units))
    out.update(lstm_weights(m, inputs, units))
    if "Grad" in m.op:
        for name in ("i", "cs", "f", "o", "ci", "co") + (("h",) if block else ()):
            out[name] = one(*steps, batch, units)
        for name in ("cs_grad", "h_grad"):
            out[name] = one(*steps, batch, units)
    return out


@row("AdjustContrastv2 AdjustHue AdjustSaturation RGBToHSV HSVToRGB")
def image(m):
    shape = m.bent(m.shape(3 if m.op.startswith("Adjust") else 1, 4)[:-1] + (3,))
    images = m.array("T", shape, m.pick("unit", "plain", "ties"))
    factor = {"AdjustContrastv2": "contrast_factor", "AdjustHue": "delta", "AdjustSaturation": "scale"}.get(m.op)
    return {"images": images, factor: m.array("float32", (), m.pick("plain", "unit"))} if factor else {"images": images}


@row("NearestNeighbors")
def nearest(m):
    d = m.int(1, 3)
    return {"points": m.array("float32", (m.int(0, 4), d), "plain"), "centers": m.array("float32", m.bent((m.int(0, 4), d)), "plain"), "k": m.ints(m.int(0, 5), "int64")}

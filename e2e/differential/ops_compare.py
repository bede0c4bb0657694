"""Tells whether two servers gave the same."""
import re

import numpy as np
import tensorflow.compat.v1 as tf

import ops_values as v

# Results that add up many products, in an order that is not said. They are compared with what went in.
SUMS = re.compile(r"ScaleAndTranslate|MatMul|Conv|Einsum|FFT|^Sum$|^Mean$|EuclideanNorm|Cumsum|Cumulative|Segment(Sum|Mean|SqrtN)|AddN|Accumulate|L2Loss|Bincount|BiasAddGrad|BatchNorm|GRU|LRN|"
                  r"AvgPool|Xent|CrossEntropy|Cholesky|Determinant|Inverse|Solve|^Lu$|^Qr$|Svd$|Eig|^Matrix(Exponential|Logarithm|SquareRoot)$|LSTM|Scatter|Adjust|Apply|NearestNeighbors|"
                  r"Histogram|^Cross$|LinSpace|Kmeans|Audio|Igamma|PadGrad|SliceGrad|ClipByNorm|SquaredDifference|Range$|Prod$|Cumprod|Sigmoid|Tanh|Elu|Selu|Softplus|HSV|Softmax|Mfcc")
# Functions that are approximated, each in its own way.
SPECIAL = re.compile(r"Bessel|Betainc|Digamma|Erfinv|Expint|Fresnel|Igamma|Lgamma|Ndtri|Polygamma|Spence|Zeta|Dawsn|Gamma|Erf|Poisson|^Pow$")
DECOMPOSED = re.compile(r"^Matrix(Exponential|Logarithm|SquareRoot)$|Cholesky|Determinant|Inverse|Solve|^Lu$|^Qr$|Svd$|Eig")
WAVES = re.compile(r"^(Sin|Cos|Tan|Log|Erfinv|Expm1|Bessel[JY][01]|Log1p|Xlogy|Xlog1py|Lgamma|Digamma|Atan2|Acos|Angle)$")  # small where they cross 0
UNSIGNED_VECTORS = re.compile(r"^Qr$|Svd$|^(Batch)?SelfAdjointEig(V2)?$|^Eig$")


def array(x):
    """A fetched value; NumPy would cut a string's last zeros."""
    return np.array(x, object) if isinstance(x, bytes) else np.asarray(x)


# Results that are protocol buffers, which may be encoded in more than one way.
ENCODED = {"DecodeJSONExample": tf.train.Example, "TensorSummary": tf.Summary, "TensorSummaryV2": tf.Summary}


class Outcome:
    """What a server gave for a call: values, or the name of an error's class."""

    def __init__(self, values=None, error=None, message=""):
        self.values, self.error, self.message, self.seconds = values, error, message, 0

    def told(self):
        """The line of the message that says what failed."""
        lines = self.message.split("\n")
        at = next((i + 1 for i, x in enumerate(lines) if x.startswith("Node: ")), 0)
        return next((x for x in lines[at:] if x and not x.startswith("From /")), "")[:200]

    def __repr__(self):
        return "%s: %s" % (self.error, self.told()) if self.error else " and ".join(
            "%s %s" % (getattr(x, "dtype", type(x).__name__), np.asarray(x).tolist()) for x in self.values or [])[:300]


def eps(dtype):
    return 2. ** -7 if np.dtype(dtype) == v.BFLOAT16 else float(np.finfo(dtype).eps)


def tolerance(op, dtype):
    """The relative difference that is all right."""
    e = eps(dtype)
    if e > 1e-4:
        return (16 if SUMS.search(op) else 4) * e
    if DECOMPOSED.search(op):
        return 3000 * e
    if SPECIAL.search(op):
        return (3e4 if e < 1e-10 else 300) * e
    return (64 if SUMS.search(op) else 16) * e


def magnitude(call):
    """How large the sums of a call's numbers may become on the way, and a bound for them beyond which they overflow."""
    size, count = 1., 1
    for x in call.arrays():
        if v.is_float(x.dtype) or x.dtype.kind == "c":
            with np.errstate(all="ignore"):
                m = np.abs(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
            m = m[np.isfinite(m)]
            if m.size:
                size *= max(float(m.max()), 1.)
                count = max(count, m.size)
    return size, count


def numbers(call, want, got):
    """What differs between two arrays of floating-point numbers, or None."""
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    rtol, (most, tiny) = tolerance(call.op, want.dtype), v.limits(np.empty(0, want.dtype).real.dtype if want.dtype.kind == "c" else want.dtype)
    with np.errstate(all="ignore"):
        a, b = want.astype(wide), got.astype(wide)
    atol = max(tiny, 4 * eps(want.dtype)) if WAVES.search(call.op) else tiny
    size, count = magnitude(call) if SUMS.search(call.op) else (1., 1)
    if SUMS.search(call.op):
        atol = max(atol, rtol * size)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= atol + rtol * np.abs(a))
        if want.dtype.kind == "c":
            same |= ~np.isfinite(a) & ~np.isfinite(b)
        if SUMS.search(call.op) and size * count > most / 16:  # a partial sum may overflow, or not
            same |= ~(np.isfinite(a) & np.isfinite(b))
        same |= (np.isinf(a) & (np.abs(b) > most * (1 - 4 * rtol))) | (np.isinf(b) & (np.abs(a) > most * (1 - 4 * rtol)))  # rounded up, or just not
    if want.dtype.kind != "c" and call.op in SIGNED:
        same &= (a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b))
    return None if same.all() else "values"


# Ops that carry the sign of a zero over, or compute it by a plain rule.
SIGNED = set("Identity IdentityN Reshape Squeeze ExpandDims Gather GatherV2 GatherNd Slice StridedSlice Concat ConcatV2 Pack Unpack Split SplitV Tile Transpose "
             "Reverse ReverseV2 Roll Pad BroadcastTo Cast Neg Select SelectV2 Mul RealDiv Add AddV2 Sub Where Unique DynamicStitch DynamicPartition MatrixDiag "
             "Bitcast Fill OneHot Snapshot StopGradient Ceil Floor Rint Round Sqrt".split())


def difference(call, theirs, ours):
    """None if both are the same, else what kind of difference there is."""
    if theirs.error or ours.error:
        return None if theirs.error == ours.error else "%s here, %s with TensorFlow" % (ours.error or "a value", theirs.error or "a value")
    if len(theirs.values) != len(ours.values):
        return "outputs"
    for i, (want, got) in enumerate(zip(theirs.values, ours.values)):
        if call.op == "Eig":  # in any order, and what belongs to equal values is not determined
            want, got = (np.sort_complex(np.round(x, 3)) for x in (want, got)) if i == 0 and np.isfinite(want).all() else (got, got)
        want, got = array(want), array(got)
        if call.op in ENCODED:
            want, got = (np.array([ENCODED[call.op].FromString(b).SerializeToString() for b in x.reshape(-1)], object).reshape(x.shape) for x in (want, got))
        if want.dtype != got.dtype or want.shape != got.shape:
            return "shapes"
        if UNSIGNED_VECTORS.search(call.op) and v.is_float(want.dtype) | (want.dtype.kind == "c"):
            want, got = np.abs(want), np.abs(got)
        if want.dtype.fields:
            want, got = want.view(want.dtype[0]), got.view(got.dtype[0])
        if v.is_float(want.dtype) or want.dtype.kind == "c":
            kind = numbers(call, want, got)
        elif want.dtype.itemsize == 1 and want.dtype.kind not in "biu":  # the small types
            kind = None if np.array_equal(want.astype(np.float32), got.astype(np.float32), equal_nan=True) else "values"
        else:
            kind = None if (want == got).all() else "values"
        if kind:
            return kind
    return None

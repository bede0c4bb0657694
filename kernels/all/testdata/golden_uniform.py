"""Writes golden_uniform.gz, as golden.py does: python golden_uniform.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, i32 = np.float32, np.int32
LIMITS = {tf.qint8: (-128, 127), tf.quint8: (0, 255), tf.qint32: (-2 ** 31, 2 ** 31 - 1)}

def q(dtype, shape, lo=None, hi=None):
    low, high = LIMITS[dtype]
    return rng.integers(low if lo is None else lo, high + 1 if hi is None else hi, shape).astype(dtype.as_numpy_dtype)

def scales(*shape): return rng.uniform(.05, 2, shape).astype(f32)
def zeros(*shape): return rng.integers(-20, 20, shape).astype(i32)
def ends(**names): return {k + '_quantization_' + end: v for k, pair in names.items() for end, v in zip(('min_val', 'max_val'), pair)}

SHAPES = [((3, 4, 5), -1), ((3, 4, 5), 0), ((3, 4, 5), 1), ((3, 4, 5), 2), ((6,), 0), ((6,), -1), ((), -1), ((0, 3), 1), ((3, 0), 1), ((2, 300), 1)]

def of(shape, axis): return () if axis < 0 else (shape[axis],)

def section_quantize():
    for t, (low, high) in LIMITS.items():
        for shape, axis in SHAPES:
            n = of(shape, axis)
            for lo, hi in [(low, high), (-3, 9), (-40000, 40000)]:
                kw = dict(quantization_axis=axis, quantization_min_val=lo, quantization_max_val=hi)
                case('UniformQuantize', arr(f32, shape, -90, 90, special=True), scales(*n), zeros(*n), Tout=t, **kw)
            case('UniformDequantize', q(t, shape), scales(*n), zeros(*n), Tout=tf.float32, **kw)
        case('UniformQuantize', np.array([.5, -.5, 1.5, 2.5, 3e9, -3e9, np.nan, np.inf], f32), f32(1), i32(3), Tout=t, quantization_min_val=low, quantization_max_val=high)
    x, kw = arr(f32, (2, 3)), dict(quantization_min_val=-128, quantization_max_val=127)
    for s, z, axis in [(scales(3), zeros(3), -1), (scales(3), zeros(3), 0), (scales(3), zeros(2), 1), (scales(), zeros(3), 1), (scales(), zeros(), 1), (scales(), zeros(), 2), (scales(3, 1), zeros(3, 1), 1), (-scales(), zeros(), -1), (np.array([1, np.nan, 1], f32), zeros(3), 1), (f32(0), zeros(), -1)]:
        case('UniformQuantize', x, s, z, Tout=tf.qint8, quantization_axis=axis, **kw)
        case('UniformDequantize', q(tf.qint8, (2, 3)), s, z, Tout=tf.float32, quantization_axis=axis, **kw)
        case('UniformQuantizedClipByValue', q(tf.qint32, (2, 3)), q(tf.qint32, s.shape), q(tf.qint32, s.shape), s, z, quantization_axis=axis, **kw)
    for shape, axis in SHAPES:
        n = of(shape, axis)
        lo = q(tf.qint32, n, -90, 0)
        case('UniformQuantizedClipByValue', q(tf.qint32, shape, -200, 200), lo, q(tf.qint32, n, -9, 90), scales(*n), zeros(*n), quantization_axis=axis, **kw)
    case('UniformQuantizedClipByValue', q(tf.qint32, (2, 3)), q(tf.qint32, (3,)), q(tf.qint32, ()), scales(), zeros(), **kw)
    case('UniformQuantizedClipByValue', q(tf.qint32, (2, 3)), q(tf.qint32, ()), q(tf.qint32, (1,)), scales(), zeros(), **kw)

def section_requantize():
    for t in (tf.qint8, tf.qint32):
        for shape, axis in SHAPES:
            n = of(shape, axis)
            for a, b in [(axis, axis), (-1, axis), (axis, -1)]:
                na, nb = of(shape, a), of(shape, b)
                kw = dict(input_quantization_axis=a, output_quantization_axis=b, Tout=tf.qint8, **ends(input=(-128, 127), output=(-100, 127)))
                case('UniformRequantize', q(t, shape), scales(*na), zeros(*na), scales(*nb), zeros(*nb), **kw)
        kw = dict(Tout=tf.qint8, **ends(input=(-128, 127), output=(-128, 127)))
        x = q(t, (2, 30))
        for a, b in [(1e-30, 1e30), (1e30, 1e-30), (1e-9, 1), (1, 1e-9), (1, 1), (2, 1), (1, 2), (.75, 1), (np.inf, 1), (1, np.inf), (np.nan, 1), (0, 1), (1, -1)]:
            case('UniformRequantize', x, f32(a), i32(0), f32(b), i32(0), **kw)
        case('UniformRequantize', x, scales(2), zeros(2), scales(30), zeros(30), input_quantization_axis=0, output_quantization_axis=1, **kw)
        case('UniformRequantize', x, scales(), zeros(), scales(), zeros(), input_quantization_axis=-2, **kw)

def section_add():
    kw = ends(lhs=(-128, 127), rhs=(-128, 127), output=(-5000, 6000))
    def add(a, b, la, ra, oa, out, **more):
        ns = [of(a, la), of(b, ra), of(out, oa)]
        grids = [g for n in ns for g in (scales(*n), zeros(*n))]
        case('UniformQuantizedAdd', q(tf.qint32, a, -900, 900), q(tf.qint32, b, -900, 900), *grids, lhs_quantization_axis=la, rhs_quantization_axis=ra, output_quantization_axis=oa, **{**kw, **more})
    for a, b, out in [((2, 3), (2, 3), (2, 3)), ((2, 3), (3,), (2, 3)), ((3,), (2, 3), (2, 3)), ((), (2, 3), (2, 3)), ((2, 3), (), (2, 3)), ((2, 1, 3), (4, 1), (2, 4, 3)), ((0, 3), (3,), (0, 3)), ((1,), (1,), (1,)), ((2, 3), (1, 3), (2, 3))]:
        add(a, b, -1, -1, -1, out)
        if a: add(a, b, len(a) - 1, -1, -1, out)
        if b: add(a, b, -1, len(b) - 1, -1, out)
        if a and b: add(a, b, len(a) - 1, len(b) - 1, -1, out)
        if a and b and a[-1] == b[-1]: add(a, b, len(a) - 1, len(b) - 1, len(out) - 1, out)
    add((2, 3), (2, 3), 1, -1, 1, (2, 3)); add((2, 3), (2, 3), 0, -1, 0, (2, 3))
    add((2, 3), (2, 3), 0, 1, 1, (2, 3)); add((2, 3), (2, 3), 1, 0, 1, (2, 3)); add((2, 3), (2, 3), -2, -1, -1, (2, 3)); add((2, 3), (4,), -1, -1, -1, (2, 3))
    add((2, 3), (2, 3), -1, -1, -1, (2, 3), output_quantization_min_val=-2 ** 31, output_quantization_max_val=2 ** 31 - 1)
    for bad in range(2, 8, 2):
        grids = [f32(1), i32(0)] * 3
        grids[bad - 2] = f32(-1)
        case('UniformQuantizedAdd', q(tf.qint32, (2,)), q(tf.qint32, (2,)), *grids, **kw)
    case('UniformQuantizedAdd', q(tf.qint32, (2, 3)), q(tf.qint32, (3,)), f32(1), zeros(3), *[f32(1), i32(0)] * 2, **kw)

def section_dot():
    kw = ends(lhs=(-128, 127), rhs=(-128, 127), output=(-90000, 80000))
    def dot(m, k, n, ra, oa, k2=None, **more):
        ns = [(), of((k, n), ra), of((m, n), oa)]
        grids = [g for s in ns for g in (scales(*s), zeros(*s))]
        case('UniformQuantizedDot', q(tf.qint8, (m, k)), q(tf.qint8, (k2 or k, n)), *grids, Tout=tf.qint32, rhs_quantization_axis=ra, output_quantization_axis=oa, **{**kw, **more})
    def hybrid(m, k, n, ra, scale=9):
        s = of((k, n), ra)
        case('UniformQuantizedDotHybrid', arr(f32, (m, k), -scale, scale), q(tf.qint8, (k, n)), scales(*s), zeros(*s), Tout=tf.float32, rhs_quantization_axis=ra, **ends(rhs=(-128, 127)))
    for m, k, n in [(2, 3, 4), (1, 1, 1), (5, 70, 33), (0, 3, 2), (2, 0, 3), (2, 3, 0), (2, 3, 2100)]:
        for ra, oa in [(-1, -1), (1, -1), (1, 1)]: dot(m, k, n, ra, oa)
        for ra in (-1, 1): hybrid(m, k, n, ra)
    dot(2, 3, 4, -1, 1); dot(2, 3, 4, 1, 1, k2=5); dot(2, 3, 4, 0, -1); dot(2, 3, 4, 1, 0); dot(2, 3, 4, -1, -1, lhs_quantization_axis=0)
    hybrid(2, 3, 4, 1, 1e-40); hybrid(2, 3, 4, 0)
    for x in [np.zeros((2, 3)), np.ones((2, 3)), -np.ones((2, 3)), np.array([[np.inf, 0, 1], [1e38, -1e38, 3]]), np.array([[-5, -4, -1], [5, 4, 1]])]:
        case('UniformQuantizedDotHybrid', x.astype(f32), q(tf.qint8, (3, 2)), f32(.5), i32(3), Tout=tf.float32, **ends(rhs=(-128, 127)))
    a, b, one = q(tf.qint8, (2, 3)), q(tf.qint8, (3, 4)), (f32(1), i32(0))
    for grids in [(f32(-1), i32(0), *one, *one), (*one, f32(0), i32(0), *one), (*one, *one, f32(-1), i32(0)), (scales(2), zeros(2), *one, *one), (f32(1), zeros(1), *one, *one), (*one, scales(3), zeros(3), *one), (*one, scales(4), zeros(), *one), (*one, scales(4), zeros(4), scales(2), zeros(2))]:
        case('UniformQuantizedDot', a, b, *grids, Tout=tf.qint32, rhs_quantization_axis=1, output_quantization_axis=1, **kw)
    case('UniformQuantizedDot', a[0], b, *one * 3, Tout=tf.qint32, **kw); case('UniformQuantizedDot', a, b[0], *one * 3, Tout=tf.qint32, **kw)
    case('UniformQuantizedDotHybrid', arr(f32, (2, 3)), b, f32(-1), i32(0), Tout=tf.float32, **ends(rhs=(-128, 127))); case('UniformQuantizedDotHybrid', arr(f32, 3), b, *one, Tout=tf.float32, **ends(rhs=(-128, 127)))

def section_channels():
    for shape in [(2, 3, 4, 5), (1, 1, 1, 1), (2, 3, 4, 40)]:
        n = shape[3]
        for lo, hi in [(None, None), (0, 1000), (-1000, 0), (0, 1)]:
            x, low, high = q(tf.qint32, shape, lo, hi), arr(f32, n, -9, 1), arr(f32, n, 0, 9)
            for most in (1e30, 2.5): case('RequantizationRangePerChannel', x, low, high, clip_value_max=most)
            for t in (tf.qint8, tf.quint8):
                case('RequantizePerChannel', x, low, high, f32(-3), f32(2), out_type=t); case('RequantizePerChannel', x, low, high, f32(-3e-3), f32(2e-3), out_type=t)
    x = q(tf.qint32, (1, 2, 2, 3))
    case('RequantizationRangePerChannel', x, scales(3), scales(2), clip_value_max=9.); case('RequantizationRangePerChannel', x, scales(2), scales(2), clip_value_max=9.); case('RequantizationRangePerChannel', x[0], scales(3), scales(3), clip_value_max=9.)
    case('RequantizationRangePerChannel', x[:0], scales(3), scales(3), clip_value_max=9.); case('RequantizePerChannel', x[0], scales(3), scales(3), f32(-1), f32(1), out_type=tf.qint8); case('RequantizePerChannel', x, scales(3), scales(2), f32(-1), f32(1), out_type=tf.qint8)
    case('RequantizePerChannel', x, scales(3), scales(3), f32(0), f32(1), out_type=tf.qint8); case('RequantizePerChannel', x, scales(3), scales(3), f32(0), f32(1), out_type=tf.quint8)

def numbers(lhs, rhs, out):
    """A serialized UniformQuantizedConvolutionDimensionNumbersAttr: (batch, feature, places...) of images, (feature of results, of images, places...) of filters, results."""
    def varint(field, v): return bytes([field << 3, v])
    def packed(field, v): return bytes([field << 3 | 2, len(v), *v])
    return (varint(1, lhs[0]) + varint(2, lhs[1]) + packed(3, lhs[2:]) + varint(4, rhs[1]) + varint(5, rhs[0]) + packed(6, rhs[2:])
            + varint(7, out[0]) + varint(8, out[1]) + packed(9, out[2:]))

NHWC = dict(dimension_numbers=numbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)))

def conv(lhs, rhs, rn=(), on=(), lhs_axis=-1, **kw):
    limits = ends(lhs=(-128, 127), rhs=(-128, 127), output=(-2 ** 31, 2 ** 31 - 1))
    kw = dict(dict(padding='VALID'), **kw)
    case('UniformQuantizedConvolution', q(tf.qint8, lhs), q(tf.qint8, rhs), scales(), zeros(), scales(*rn), zeros(*rn), scales(*on), zeros(*on), Tout=tf.qint32,
         lhs_quantization_axis=lhs_axis, rhs_quantization_axis=kw.pop('rhs_axis', -1), output_quantization_axis=kw.pop('out_axis', -1), **limits, **kw)

def hybrid(lhs, rhs, rn=(), x=None, **kw):
    kw = dict(dict(padding='VALID'), **kw)
    case('UniformQuantizedConvolutionHybrid', arr(f32, lhs) if x is None else x, q(tf.qint8, rhs), scales(*rn), zeros(*rn), Tout=tf.float32,
         rhs_quantization_axis=kw.pop('rhs_axis', -1), **ends(rhs=(-128, 127)), **kw)

def section_convolution():
    for f in (conv, hybrid):
        for lhs, rhs in [((2, 3, 7), (4, 3, 3)), ((2, 3, 7, 6), (4, 3, 3, 2)), ((1, 2, 4, 5, 3), (3, 2, 2, 3, 1)), ((1, 1, 1, 1), (1, 1, 1, 1)), ((2, 2, 3, 3), (2, 2, 5, 5))]:
            n = len(lhs) - 2
            for kw in [dict(), dict(padding='SAME'), dict(window_strides=[2] * n), dict(padding='SAME', window_strides=[3] * n), dict(rhs_dilation=[2] * n, padding='SAME'),
                       dict(lhs_dilation=[2] * n), dict(lhs_dilation=[2] * n, padding='SAME', window_strides=[2] * n), dict(padding='EXPLICIT', explicit_padding=list(range(1, 2 * n + 1))),
                       dict(padding='EXPLICIT', explicit_padding=[2] * (2 * n), lhs_dilation=[3] * n, rhs_dilation=[2] * n, window_strides=[2] * n)]: f(lhs, rhs, **kw)
        for kw in [dict(), dict(padding='SAME', window_strides=[2, 1])]:
            f((2, 7, 6, 3), (3, 2, 3, 4), **NHWC, **kw)
            f((2, 7, 6, 4), (3, 2, 2, 4), feature_group_count=2, **NHWC, **kw); f((4, 7, 6, 3), (3, 2, 3, 4), batch_group_count=2, **NHWC, **kw)
        f((2, 3, 7, 6), (4, 3, 3, 2), (4,), rhs_axis=0); f((2, 7, 6, 3), (3, 2, 3, 4), (4,), rhs_axis=3, **NHWC)
        f((6, 5, 7, 3), (3, 2, 4, 4), dimension_numbers=numbers((3, 0, 2, 1), (2, 3, 1, 0), (1, 2, 3, 0)), feature_group_count=1)
        f((6, 5, 7, 4), (3, 2, 4, 6), dimension_numbers=numbers((3, 0, 2, 1), (2, 3, 1, 0), (1, 2, 3, 0)))
        f((4, 4, 5), (4, 2, 2), feature_group_count=2); f((4, 4, 5), (4, 4, 2), batch_group_count=4); f((4, 4, 5), (4, 1, 2), feature_group_count=4, batch_group_count=1)
        f((0, 3, 7), (4, 3, 3)); f((2, 3, 0), (4, 3, 3), padding='SAME'); f((2, 3, 7), (0, 3, 3))
        for lhs, rhs, kw in [((2, 3, 7), (4, 3, 3, 1), {}), ((2, 3), (4, 3), {}), ((2, 3, 7), (4, 2, 3), {}), ((2, 3, 7), (4, 3, 3), dict(feature_group_count=2)), ((2, 3, 7), (4, 3, 3), dict(batch_group_count=3)),
                             ((2, 3, 7), (4, 3, 3), dict(window_strides=[1, 1])), ((2, 3, 7), (4, 3, 3), dict(window_strides=[0])), ((2, 3, 7), (4, 3, 3), dict(lhs_dilation=[0])), ((2, 3, 7), (4, 3, 3), dict(rhs_dilation=[-1])),
                             ((2, 3, 7), (4, 3, 3), dict(padding='EXPLICIT')), ((2, 3, 7), (4, 3, 3), dict(padding='EXPLICIT', explicit_padding=[-1, 0])), ((2, 3, 7), (4, 3, 3), dict(explicit_padding=[1, 1])), ((2, 3, 7), (4, 3, 3), dict(padding='FULL')),
                             ((2, 3, 7), (4, 3, 3), dict(feature_group_count=0)), ((2, 3, 7), (4, 3, 3), dict(batch_group_count=0)), ((2, 3, 7), (4, 3, 3), dict(batch_group_count=-1)), ((2, 4, 7), (3, 2, 3), dict(feature_group_count=2)),
                             ((2, 3, 7), (4, 3, 3), dict(dimension_numbers=b'nonsense')), ((2, 3, 7), (4, 3, 3), dict(dimension_numbers=numbers((0, 1, 3), (0, 1, 2), (0, 1, 2)))), ((2, 3, 7), (4, 3, 3), dict(dimension_numbers=numbers((0, 1, 2, 3), (0, 1, 2), (0, 1, 2)))),
                             ((2, 3, 7), (4, 3, 3), dict(rhs_axis=1)), ((2, 3, 7), (4, 3, 3), dict(rhs_axis=0)), ((2, 3, 2), (4, 3, 9), {})]: f(lhs, rhs, **kw)
    conv((2, 3, 7, 6), (4, 3, 3, 2), (4,), (4,), rhs_axis=0, out_axis=1); conv((2, 3, 7, 6), (4, 3, 3, 2), (), (4,), out_axis=1); conv((2, 3, 7), (4, 3, 3), lhs_axis=1); conv((2, 3, 7), (4, 3, 3), (4,), (3,), rhs_axis=0, out_axis=1)
    conv((2, 3, 7), (4, 3, 3), (4,), (2,), rhs_axis=0, out_axis=0)
    for v in (0, np.nan, np.inf): hybrid((2, 2, 3), (1, 2, 1), x=np.full((2, 2, 3), v, f32))

if __name__ == '__main__': golden.main(globals())

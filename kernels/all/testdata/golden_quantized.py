"""Writes golden_quantized.gz, as golden.py does: python golden_quantized.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64
QUANTIZED = [(tf.qint8, np.int8), (tf.quint8, np.uint8), (tf.qint16, np.int16), (tf.quint16, np.uint16), (tf.qint32, np.int32)]
RANGES = [(-1., 1.), (-3.5, 12.25), (0., 6.), (-2., 0.), (0., 0.), (1., 3.), (-4., -1.), (-1e-4, 1e-4)]

def q(dtype, shape, lo=None, hi=None):
    d = dtype.as_numpy_dtype
    t = dict(QUANTIZED)[dtype]
    info = np.iinfo(t)
    v = rng.integers(info.min if lo is None else lo, info.max + 1 if hi is None else hi, size=shape, dtype=i64).astype(t)
    if v.size > 1 and lo is None: v.reshape(-1)[:2] = info.min, info.max
    return v.astype(d)

def section_conversions():
    for t, _ in QUANTIZED:
        for lo, hi in RANGES:
            for mode in ('MIN_COMBINED', 'MIN_FIRST', 'SCALED'):
                for narrow in (False, True):
                    if narrow and mode != 'SCALED': continue
                    case('Dequantize', q(t, (3, 5)), f32(lo), f32(hi), mode=mode, narrow_range=narrow)
                    for rounding in ('HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'):
                        x = np.concatenate([arr(f32, (11,), -15, 15), np.array([0, .5, 1.5, -.5, -2.5, lo, hi], f32)])
                        case('QuantizeV2', x, f32(lo), f32(hi), T=t, mode=mode, narrow_range=narrow, round_mode=rounding)
            case('Dequantize', q(t, (3, 5)), f32(lo), f32(hi), mode='MIN_COMBINED', dtype=tf.bfloat16)
        for mode in ('MIN_COMBINED', 'SCALED', 'MIN_FIRST'):
            for axis in (0, 1, 2):
                n = (2, 3, 4)[axis]
                lo, hi = arr(f32, (n,), -3, 0), arr(f32, (n,), 0, 5)
                case('Dequantize', q(t, (2, 3, 4)), lo, hi, mode=mode, axis=axis)
                case('QuantizeV2', arr(f32, (2, 3, 4)), lo, hi, T=t, mode=mode, axis=axis, ensure_minimum_range=.5)
    a, z, o = q(tf.qint8, (2, 3)), f32(0), f32(1)
    case('Dequantize', a, z, o, axis=2); case('Dequantize', a, np.zeros(2, f32), np.zeros(3, f32), axis=0); case('Dequantize', a[:0], z, o)
    case('QuantizeV2', arr(f32, (3,)), o, z, T=tf.qint8); case('QuantizeV2', arr(f32, (3,)), np.zeros(2, f32), np.zeros(2, f32), T=tf.qint8, axis=0)
    case('QuantizeV2', arr(f32, (3,)), np.zeros(1, f32), np.zeros(2, f32), T=tf.qint8); case('QuantizeV2', arr(f32, (1, 3)), np.zeros(1, f32), np.ones(1, f32), T=tf.qint8, axis=0)
    case('QuantizeV2', arr(f32, (3,)), np.zeros(3, f32), np.zeros(3, f32), T=tf.qint8, axis=1); case('QuantizeV2', np.zeros(0, f32), z, o, T=tf.quint8)

def section_round_trip():
    for t in (f32, f64):
        x = np.concatenate([arr(t, (20,), -5, 5), np.array([0, .5, -.5, 1, -1], t)])
        for signed in (False, True):
            for bits in (1, 4, 8, 16):
                for narrow in (False, True):
                    for given in (False, True):
                        a = dict(signed_input=signed, range_given=given)
                        for lo, hi in [(-1.5, 3.), (0., 2.), (-2., 0.)]:
                            for rounding in ('HALF_TO_EVEN', 'HALF_UP'):
                                for v in ('V2', 'V4'): case('QuantizeAndDequantize' + v, x, t(lo), t(hi), num_bits=bits, round_mode=rounding, narrow_range=narrow, **a)
                            case('QuantizeAndDequantizeV3', x, t(lo), t(hi), i32(bits), narrow_range=narrow, **a)
                golden.producer = 21
                case('QuantizeAndDequantize', x, num_bits=bits, signed_input=signed); case('QuantizeAndDequantize', x, num_bits=bits, signed_input=signed, range_given=True, input_min=-1., input_max=2.)
                golden.producer = None
        for axis in (0, 1, 2):
            n = (2, 3, 4)[axis]
            lo, hi = arr(t, (n,), -3, 0), arr(t, (n,), 0, 5)
            for given in (False, True):
                for v in ('V2', 'V4'): case('QuantizeAndDequantize' + v, arr(t, (2, 3, 4)), lo, hi, axis=axis, range_given=given)
                case('QuantizeAndDequantizeV3', arr(t, (2, 3, 4)), lo, hi, i32(8), axis=axis, range_given=given)
            case('QuantizeAndDequantizeV4Grad', arr(t, (2, 3, 4)), arr(t, (2, 3, 4)), lo, hi, axis=axis)
        case('QuantizeAndDequantizeV4Grad', arr(t, (2, 3)), arr(t, (2, 3)), t(-1), t(2)); case('QuantizeAndDequantizeV2', x[:0], t(-1), t(2))
    x, z, o = arr(f32, (2, 3)), f32(0), f32(1)
    for bits in (0, 63, 62): case('QuantizeAndDequantizeV2', x, z, o, num_bits=bits); case('QuantizeAndDequantizeV3', x, z, o, i32(bits))
    case('QuantizeAndDequantizeV2', x, o, z, range_given=True); case('QuantizeAndDequantizeV3', x, o, z, i32(8)); case('QuantizeAndDequantizeV3', x[0, 0], z, o, i32(8))
    case('QuantizeAndDequantizeV4Grad', x, x[:1], z, o); case('QuantizeAndDequantizeV2', x, z, o, axis=2)

def section_fake():
    x = np.concatenate([arr(f32, (20,), -8, 8), np.array([0, -6, 6, .5, 100, -100], f32)])
    for lo, hi in [(-6., 6.), (0., 4.), (-3., 0.), (1., 5.), (-7., -2.), (-.1, 127.4)]:
        for bits in (2, 4, 8, 16):
            for narrow in (False, True):
                a = dict(num_bits=bits, narrow_range=narrow)
                case('FakeQuantWithMinMaxArgs', x, min=lo, max=hi, **a); case('FakeQuantWithMinMaxArgsGradient', arr(f32, x.shape), x, min=lo, max=hi, **a)
                case('FakeQuantWithMinMaxVars', x, f32(lo), f32(hi), **a); case('FakeQuantWithMinMaxVarsGradient', arr(f32, x.shape), x, f32(lo), f32(hi), **a)
    for s in [(4,), (3, 4), (2, 3, 4), (2, 1, 3, 4)]:
        lo, hi = np.array([-1, 0, -3, 0], f32), np.array([1, 0, 2, 5], f32)
        case('FakeQuantWithMinMaxVarsPerChannel', arr(f32, s), lo, hi); case('FakeQuantWithMinMaxVarsPerChannelGradient', arr(f32, s), arr(f32, s), lo, hi)
    case('FakeQuantWithMinMaxVars', x, f32(0), f32(0)); case('FakeQuantWithMinMaxVarsGradient', x, x, f32(0), f32(0))
    case('FakeQuantWithMinMaxArgs', x, min=1., max=1.); case('FakeQuantWithMinMaxArgs', x, num_bits=1); case('FakeQuantWithMinMaxVars', x, f32(0), f32(1), num_bits=17)
    case('FakeQuantWithMinMaxVars', x, np.zeros(1, f32), f32(1)); case('FakeQuantWithMinMaxVarsGradient', x, x[:3], f32(0), f32(1)); case('FakeQuantWithMinMaxArgsGradient', x, x[:3])
    case('FakeQuantWithMinMaxVarsPerChannel', arr(f32, (2, 3)), lo, hi); case('FakeQuantWithMinMaxVarsPerChannel', arr(f32, (2, 4)), lo[None], hi)

def ends(lo, hi): return f32(lo), f32(hi)

def section_requantize():
    big, none = dict(lo=-70000, hi=90000), {}
    for r in RANGES + [(-100., 300.), (-3e5, 1e6)]:
        for kw in (big, none):
            x = q(tf.qint32, (3, 7), **kw)
            case('QuantizeDownAndShrinkRange', x, *ends(*r), out_type=tf.quint8); case('RequantizationRange', x, *ends(*r))
            for to in (tf.quint8, tf.qint8):
                for into in [(-1., 1.), (0., 6.), (-5., 0.), (0., 0.), (-.5, 1e6)]: case('Requantize', x, *ends(*r), *ends(*into), out_type=to)
    x = q(tf.qint32, (4,))
    case('Requantize', x, *ends(0, 1), *ends(1, 2), out_type=tf.quint8); case('Requantize', x, *ends(0, 1), *ends(-1, -2), out_type=tf.quint8); case('Requantize', x, np.zeros(1, f32), f32(1), *ends(0, 1), out_type=tf.quint8)
    case('QuantizeDownAndShrinkRange', x[:0], *ends(0, 1), out_type=tf.quint8); case('RequantizationRange', x[:0], *ends(0, 1)); case('RequantizationRange', x, np.zeros(0, f32), f32(1))

def section_arithmetic():
    u8, i8, i = tf.quint8, tf.qint8, tf.qint32
    for a, b in [((-1., 1.), (0., 6.)), ((0., 255.), (-3., 12.)), ((2., 5.), (-7., -2.))]:
        for s1, s2 in [((5,), (5,)), ((), (4,)), ((3,), ()), ((2, 3), (3,)), ((4,), (2, 3, 4)), ((0,), (0,)), ((2, 3), (2, 3))]:
            for op in ('QuantizedAdd', 'QuantizedMul'): case(op, q(u8, s1), q(u8, s2), *ends(*a), *ends(*b), Toutput=i)
        for t in (u8, i8):
            case('QuantizedBiasAdd', q(t, (3, 4)), q(t, (4,)), *ends(*a), *ends(*b), out_type=i); case('QuantizedBiasAdd', q(t, (2, 2, 3)), q(t, (3,)), *ends(*a), *ends(*b), out_type=i)
        for ta in (False, True):
            for tb in (False, True): case('QuantizedMatMul', q(u8, (5, 4) if ta else (4, 5)), q(u8, (3, 5) if tb else (5, 3)), *ends(*a), *ends(*b), Toutput=i, transpose_a=ta, transpose_b=tb)
        for pad in ('SAME', 'VALID'):
            for st in (1, 2, 3):
                for f in ((3, 3), (2, 1), (1, 4)): case('QuantizedConv2D', q(u8, (2, 6, 5, 3)), q(u8, (*f, 3, 4)), *ends(*a), *ends(*b), out_type=i, strides=[1, st, st, 1], padding=pad)
        for t in (u8, i):
            for op in ('QuantizedRelu', 'QuantizedRelu6'): case(op, q(t, (3, 5)), *ends(*a), out_type=t)
            case('QuantizedConcat', i32(1), q(t, (2, 3)), q(t, (2, 1)), f32(a[0]), f32(b[0]), f32(a[1]), f32(b[1])); case('QuantizedConcat', i32(0), q(t, (2, 3)), q(t, (1, 3)), f32(a[0]), f32(a[0]), f32(a[1]), f32(a[1]))
            case('QuantizedReshape', q(t, (2, 6)), np.array([3, -1], i32), *ends(*a))
        for t in (u8, i8):
            for pad in ('SAME', 'VALID'):
                for op in ('QuantizedMaxPool', 'QuantizedAvgPool'): case(op, q(t, (2, 6, 5, 3)), *ends(*a), ksize=[1, 2, 3, 1], strides=[1, 2, 1, 1], padding=pad)
        case('QuantizedInstanceNorm', q(u8, (2, 3, 4, 5)), *ends(*a)); case('QuantizedInstanceNorm', q(u8, (2, 3, 4, 5)), *ends(*a), output_range_given=True, given_y_min=-1., given_y_max=2.); case('QuantizedInstanceNorm', q(u8, (1, 3, 4, 2)), *ends(*a), min_separation=20.)
        for scale in (False, True): case('QuantizedBatchNormWithGlobalNormalization', q(u8, (2, 3, 2, 4)), *ends(*a), q(u8, (4,)), *ends(*b), q(u8, (4,)), *ends(0, 3), q(u8, (4,)), *ends(*a), q(u8, (4,)), *ends(*b), out_type=i, variance_epsilon=.01, scale_after_normalization=scale)
    x, y = q(u8, (2, 3)), q(u8, (3, 2))
    for op in ('QuantizedAdd', 'QuantizedMul'): case(op, x, y, *ends(0, 1), *ends(0, 1), Toutput=i); case(op, x, x, *ends(1, 1), *ends(0, 1), Toutput=i); case(op, x, x, *ends(0, 1), *ends(2, 1), Toutput=i); case(op, x, x, np.zeros(1, f32), f32(1), *ends(2, 1), Toutput=i)
    case('QuantizedMatMul', x, x, *ends(0, 1), *ends(0, 1), Toutput=i); case('QuantizedMatMul', x, y, *ends(1, 1), *ends(0, 1), Toutput=i); case('QuantizedMatMul', x, y, *ends(0, 1), *ends(1, 1), Toutput=i); case('QuantizedMatMul', x[0], y, *ends(0, 1), *ends(0, 1), Toutput=i)
    case('QuantizedBiasAdd', x, x[0, :2], *ends(0, 1), *ends(0, 1), out_type=i); case('QuantizedBiasAdd', x[0], x[0], *ends(0, 1), *ends(0, 1), out_type=i); case('QuantizedRelu', x, np.zeros(1, f32), f32(1), out_type=u8)
    z, w = q(u8, (1, 4, 4, 2)), q(u8, (2, 2, 2, 1))
    for st in ([1, 1, 2, 1], [2, 1, 1, 1]): case('QuantizedConv2D', z, w, *ends(0, 1), *ends(0, 1), out_type=i, strides=st, padding='SAME')
    case('QuantizedConv2D', z[0], w, *ends(0, 1), *ends(0, 1), out_type=i, strides=[1, 1, 1, 1], padding='SAME'); case('QuantizedConv2D', z, w[:, :, :1], *ends(0, 1), *ends(0, 1), out_type=i, strides=[1, 1, 1, 1], padding='SAME'); case('QuantizedConv2D', z[:0], w, *ends(0, 1), *ends(0, 1), out_type=i, strides=[1, 1, 1, 1], padding='SAME')
    case('QuantizedConcat', i32(2), x, x, *[f32(0)] * 2, *[f32(1)] * 2); case('QuantizedConcat', i32(0), x, y, *[f32(0)] * 2, *[f32(1)] * 2); case('QuantizedConcat', i32(0), x, x[0], *[f32(0)] * 2, *[f32(1)] * 2); case('QuantizedReshape', x, np.array([4], i32), *ends(0, 1)); case('QuantizedInstanceNorm', z, *ends(1, 1))

if __name__ == '__main__': golden.main(globals())

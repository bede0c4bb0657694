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

if __name__ == '__main__': golden.main(globals())

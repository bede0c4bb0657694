"""Writes golden_nn.gz, as golden.py does: python golden_nn.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64
WINDOWS = [((2, 6, 5, 3), (2, 2), (2, 2), 'SAME'), ((2, 6, 5, 3), (3, 2), (1, 2), 'VALID'), ((1, 5, 5, 1), (3, 3), (2, 1), 'SAME')]

def out_size(n, k, s, pad): return (n + s - 1) // s if pad == 'SAME' else (n - k) // s + 1

def section_argmax():
    for t in F + SI + UI:
        for j, ((n, h, w, c), k, st, pad) in enumerate(WINDOWS):
            for batches in (False, True):
                x, kw = arr(t, (n, h, w, c)), dict(ksize=[1, *k, 1], strides=[1, *st, 1], padding=pad, include_batch_in_index=batches)
                for i in (tf.int32, tf.int64): case('MaxPoolWithArgmax', x, Targmax=i, **kw)
                shape = (n, out_size(h, k[0], st[0], pad), out_size(w, k[1], st[1], pad), c)
                at = rng.integers(0, h * w * c, shape)
                if batches: at += np.arange(n).reshape(-1, 1, 1, 1) * h * w * c
                case('MaxPoolGradWithArgmax', x, arr(t, shape), at.astype(i64), **kw)
            if t != f32: break
    one = dict(ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding='VALID')
    x = arr(f32, (1, 3, 3, 1)); x[0, 0, 0, 0] = x[0, 1, 2, 0] = np.nan
    case('MaxPoolWithArgmax', x, **one)
    case('MaxPoolWithArgmax', arr(f32, (2, 1, 2, 4)), ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding='SAME'); case('MaxPoolWithArgmax', arr(f32, (2, 1, 2, 3)), ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding='SAME')
    case('MaxPoolWithArgmax', x[0], **one); case('MaxPoolWithArgmax', x[:0], **one)
    case('MaxPoolWithArgmax', x, ksize=[2, 1, 1, 1], strides=[1, 1, 1, 1], padding='VALID')
    case('MaxPoolGradWithArgmax', x, arr(f32, (1, 2, 2, 1)), np.zeros((1, 2, 1, 1), i64), **one)
    case('MaxPoolGradWithArgmax', x, arr(f32, (1, 2, 1, 1)), np.zeros((1, 2, 2, 1), i64), **one)

def section_fractional():
    for t in (f32, f64, i32, i64):
        for shape, ratio in [((2, 10, 7, 3), (1.44, 1.73)), ((1, 20, 6, 1), (2.5, 1)), ((1, 8, 9, 2), (2, 3.))]:
            for pseudo in (False, True):
                for overlap in (False, True):
                    for op in ('FractionalMaxPool', 'FractionalAvgPool'):
                        case(op, arr(t, shape, -90, 90), pooling_ratio=[1., *ratio, 1.], pseudo_random=pseudo, overlapping=overlap, deterministic=True, seed=3, seed2=8)
    x = arr(f32, (1, 4, 4, 1))
    for op in ('FractionalMaxPool', 'FractionalAvgPool'):
        for ratio in ([1., .5, 1., 1.], [2., 1., 1., 1.], [1., 5., 1., 1.]): case(op, x, pooling_ratio=ratio, deterministic=True, seed=1)
        case(op, x, pooling_ratio=[1., 2., 2., 1.], seed=1); case(op, x[0], pooling_ratio=[1., 2., 2., 1.], deterministic=True, seed=1); case(op, x[:0], pooling_ratio=[1., 2., 2., 1.], deterministic=True, seed=1)

def section_fractional_grad():
    rows, cols = np.array([0, 2, 3, 5], i64), np.array([0, 1, 3], i64)
    for t in (f32, f64, i32, i64):
        for overlap in (False, True):
            x, more = arr(t, (2, 5, 3, 2), -90, 90), int(overlap)
            y = np.stack([np.stack([x[:, rows[r]:rows[r + 1] + more, cols[c]:cols[c + 1] + more].max((1, 2)) for c in range(2)], 1) for r in range(3)], 1)
            case('FractionalMaxPoolGrad', x, y, arr(t, y.shape), rows, cols, overlapping=overlap)
            case('FractionalAvgPoolGrad', np.array(x.shape, i64), arr(t, y.shape, -90, 90), rows, cols, overlapping=overlap)
    x, y = arr(f32, (1, 4, 4, 1)), arr(f32, (1, 2, 2, 1))
    b = np.array([0, 2, 4], i64)
    case('FractionalMaxPoolGrad', x, y, y, b, b); case('FractionalMaxPoolGrad', x[0], y, y, b, b); case('FractionalMaxPoolGrad', x, y[0], y, b, b)
    case('FractionalMaxPoolGrad', x, y, y, np.arange(20), b); case('FractionalMaxPoolGrad', x, y, y, b[None], b); case('FractionalMaxPoolGrad', x[:0], y, y, b, b)
    s = np.array([1, 4, 4, 1], i64)
    case('FractionalAvgPoolGrad', s[:3], y, b, b); case('FractionalAvgPoolGrad', s, y[0], b, b); case('FractionalAvgPoolGrad', s, y, b[:2], b)
    case('FractionalAvgPoolGrad', s * 0, y, b, b); case('FractionalAvgPoolGrad', s, y[:, :0], b, b)

def section_patches():
    for t in F + SI + UI + C:
        for j, ((n, h, w, c), k, st, pad) in enumerate(WINDOWS):
            for rate in ((1, 1), (2, 1)):
                case('ExtractImagePatches', arr(t, (n, h + 2, w, c)), ksizes=[1, *k, 1], strides=[1, *st, 1], rates=[1, *rate, 1], padding=pad)
            if t not in C: case('ExtractVolumePatches', arr(t, (n, 4, h, w, c)), ksizes=[1, 2, *k, 1], strides=[1, 2, *st, 1], padding=pad)
            if t != f32: break
    x = arr(f32, (1, 3, 3, 2)); one = [1, 1, 1, 1]
    case('ExtractImagePatches', x, ksizes=[1, 1, 1, 2], strides=one, rates=one, padding='VALID'); case('ExtractImagePatches', x, ksizes=[1, 0, 1, 1], strides=one, rates=one, padding='VALID')
    case('ExtractImagePatches', x[0], ksizes=one, strides=one, rates=one, padding='VALID'); case('ExtractImagePatches', x, ksizes=[1, 5, 1, 1], strides=one, rates=one, padding='VALID')
    case('ExtractImagePatches', x, ksizes=[1, 1, 1, 1], strides=[1, 5, 5, 1], rates=one, padding='SAME'); case('ExtractImagePatches', x[:0], ksizes=one, strides=one, rates=one, padding='VALID')
    case('ExtractImagePatches', x, ksizes=[1, 6, 5, 1], strides=one, rates=[1, 1, 2, 1], padding='SAME')
    case('ExtractVolumePatches', x[None], ksizes=[1, 1, 5, 3, 1], strides=[1, 3, 2, 1, 1], padding='SAME')

def section_dilation():
    for t in F + SI + UI:
        for (n, h, w, c), k, st, pad in WINDOWS:
            for rate in ((1, 1), (2, 1)):
                kw = dict(strides=[1, *st, 1], rates=[1, *rate, 1], padding=pad)
                x, f = arr(t, (n, h, w, c)), arr(t, (*k, c))
                case('Dilation2D', x, f, **kw)
                dy = arr(t, (n, out_size(h, (k[0] - 1) * rate[0] + 1, st[0], pad), out_size(w, (k[1] - 1) * rate[1] + 1, st[1], pad), c))
                if t not in (half, bf):
                    case('Dilation2DBackpropInput', x, f, dy, **kw); case('Dilation2DBackpropFilter', x, f, dy, **kw)
            if t != f32: break
    one = dict(strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding='VALID')
    for t in F: case('Dilation2D', np.full((1, 2, 2, 1), np.nan, t), np.zeros((1, 1, 1), t), **one)
    x, f = arr(f32, (1, 3, 3, 2)), arr(f32, (2, 2, 2))
    case('Dilation2D', x[0], f, **one); case('Dilation2D', x, f[0], **one); case('Dilation2D', x, f[:, :, :1], **one); case('Dilation2D', x, arr(f32, (5, 1, 2)), **one)
    case('Dilation2D', x, f, strides=[1, 1, 1, 2], rates=[1, 1, 1, 1], padding='VALID'); case('Dilation2D', x, f, strides=[1, 1, 1, 1], rates=[2, 1, 1, 1], padding='VALID')
    for op in ('Dilation2DBackpropInput', 'Dilation2DBackpropFilter'): case(op, x, f, arr(f32, (1, 2, 1, 2)), **one); case(op, x, f, arr(f32, (1, 2, 1)), **one)

def section_norm():
    golden.producer = 8
    for t in (f32, f64, half):
        for scale in (False, True):
            a = dict(variance_epsilon=.01, scale_after_normalization=scale)
            x, v = arr(t, (2, 3, 4, 5)), [arr(t, (5,)), arr(t, (5,), .1, 2), arr(t, (5,)), arr(t, (5,))]
            case('BatchNormWithGlobalNormalization', x, *v, **a)
            case('BatchNormWithGlobalNormalizationGrad', x, *v[:3], arr(t, x.shape), **a)
    case('BatchNormWithGlobalNormalization', x[0], *v, **a); case('BatchNormWithGlobalNormalization', x, v[0][None], *v[1:], **a); case('BatchNormWithGlobalNormalization', x, *v[:3], v[0][None], **a)
    golden.producer = None

def section_isotonic():
    for t, o in [(t, tf.as_dtype(t)) for t in F] + [(np.int8, tf.float32), (np.int16, tf.float32), (i32, tf.float64), (i64, tf.float64)]:
        for s in [(), (7,), (3, 9), (2, 0), (0, 3), (2, 2, 5)]: case('IsotonicRegression', arr(t, s, -20, 20), output_dtype=o)
    case('IsotonicRegression', np.array([3, np.nan, 1, 2], f32)); case('IsotonicRegression', np.arange(9, dtype=f32)); case('IsotonicRegression', -np.arange(9, dtype=f32))

def section_recurrent():
    n, i, c = 3, 4, 2
    x, h, wru, wc, bru, bc = (arr(f32, s, -1, 1) for s in ((n, i), (n, c), (i + c, 2 * c), (i + c, c), (2 * c,), (c,)))
    case('GRUBlockCell', x, h, wru, wc, bru, bc)
    case('GRUBlockCellGrad', x, h, wru, wc, bru, bc, *(arr(f32, (n, c), 0, 1) for _ in range(4)))
    case('GRUBlockCell', x[:0], h[:0], wru, wc, bru, bc)
    for at, bad in [(0, x[0]), (1, h[:2]), (2, wru[1:]), (2, wru[:, 1:]), (3, wc[1:]), (3, wc[:, 1:]), (4, bru[1:]), (5, bc[1:]), (5, bc[None])]:
        args = [x, h, wru, wc, bru, bc]; args[at] = bad
        case('GRUBlockCell', *args)

def section_convolution():
    golden.producer = 9
    for t in (f32, f64, half):
        for pad, st in (('SAME', [1, 1, 2, 1, 1]), ('VALID', [1, 1, 1, 1, 1])):
            x, f = arr(t, (2, 4, 5, 3, 2)), arr(t, (2, 3, 2, 2, 3))
            dy = arr(t, (2, *(out_size(x.shape[1 + d], f.shape[d], st[1 + d], pad) for d in range(3)), 3))
            case('Conv3DBackpropInput', x, f, dy, strides=st, padding=pad); case('Conv3DBackpropFilter', x, f, dy, strides=st, padding=pad)
    golden.producer = None
    for t in (f32, f64, half):
        for b, s in [(1, (3,)), (2, (2, 3)), (3, (2, 1, 2))]:
            case('Conv', arr(t, (*s, 5, 4, 2)), arr(t, (2, 3, 2, 3)), strides=[1, 1, 1, 1], padding='SAME', batch_dims=b); case('Conv', arr(t, (*s, 3, 5, 4, 2)), arr(t, (2, 2, 3, 2, 3)), strides=[1, 1, 2, 1, 1], padding='VALID', batch_dims=b)
    x, f = arr(f32, (1, 3, 3, 2)), arr(f32, (2, 2, 2, 1))
    case('AvgPoolGrad', np.array([1, 3, 3, 2], i32), arr(f32, (1, 2, 2, 2)), ksize=[1, 2, 2, 1], strides=[1, 1, 1, 3], padding='VALID'); case('AvgPool', x, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 3], padding='VALID')
    # One image at a time: TensorFlow takes rows of the first one for the others.
    for t in (f32, f64, half, bf):
        for mode in ('REFLECT', 'SYMMETRIC'):
            for p in ([0, 0], [2, 1], [1, 3]):
                for pad in ('SAME', 'VALID'): case('FusedPadConv2D', arr(t, (1, 5, 4, 2)), np.array([[0, 0], p, p[::-1], [0, 0]], i32), arr(t, (3, 2, 2, 3)), mode=mode, strides=[1, 2, 1, 1], padding=pad)
    x, f, kw = arr(f32, (1, 3, 3, 2)), arr(f32, (2, 2, 2, 1)), dict(strides=[1, 1, 1, 1], padding='VALID')
    for p in ([[0, 0], [3, 0], [0, 0], [0, 0]], [[0, 0], [4, 0], [0, 0], [0, 0]], [[0, 0], [-1, 0], [0, 0], [0, 0]], [[0, 0]] * 3, [[0, 0, 0]] * 4, [0] * 4, [[0, 0], [0, 0], [0, 0], [1, 0]]):
        for mode in ('REFLECT', 'SYMMETRIC'): case('FusedPadConv2D', x, np.array(p, i32), f, mode=mode, **kw)
    case('FusedPadConv2D', x, np.zeros((4, 2), i32), f[:, :, :1], mode='REFLECT', **kw); case('FusedPadConv2D', x[:0], np.zeros((4, 2), i32), f, mode='REFLECT', **kw); case('FusedPadConv2D', x, np.zeros((4, 2), i32), f[0], mode='REFLECT', **kw)

if __name__ == '__main__': golden.main(globals())

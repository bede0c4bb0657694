"""Writes golden_draws.gz, as golden.py does: python golden_draws.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64
T = [f32, f64, half]
def shape(*v, t=i32): return np.array(v, t)

def section_sobol():
    for dim, n, skip in [(1, 1, 0), (1, 9, 0), (2, 5, 3), (3, 40, 1), (40, 7, 1000), (1000, 3, 0), (21200, 2, 123456), (5, 3, 2**30 - 9), (2, 1100, 17)]:
        for t in (tf.float32, tf.float64): case('SobolSample', i32(dim), i32(n), i32(skip), dtype=t)
    for a in [(0, 1, 0), (21201, 1, 0), (1, 0, 0), (1, 1, -1), (1, 2**31 - 5, 5), (1000, 2**30, 0)]: case('SobolSample', *map(i32, a))
    for a in [(shape(1), i32(1), i32(0)), (i32(1), shape(1), i32(0)), (i32(1), i32(1), shape(0))]: case('SobolSample', *a)

def section_binomial():
    op = 'StatelessRandomBinomial'
    for t in T:
        for to in (tf.float16, tf.float32, tf.float64, tf.int32, tf.int64):
            for seed in ((1, 2), (7, -5)):
                for n, p in [(10, .3), (10, .7), (1000, .4), (1000, .6), (0, .5), (-3, .5), (9, 0), (9, 1), (9, 2), (25, .5), (19, .5), (5000, .001)]:
                    case(op, shape(13), shape(*seed, t=i64), t(n), t(p), dtype=to)
        case(op, shape(5, 2, 3), shape(1, 2), arr(t, (2, 1), 1, 90), arr(t, (3,), 0, 1), dtype=tf.int32)
        case(op, shape(4, 2, 3, t=i64), shape(1, 2), arr(t, (2, 3), 1, 90), arr(t, (2, 3), 0, 1), dtype=tf.int64)
        case(op, shape(7), shape(1, 2), t(9), t(np.nan), dtype=tf.float32)
    for a in [(shape(5), shape(1), f32(1), f32(.5)), (shape(5, 2), shape(1, 2), arr(f32, (3,)), f32(.5)), (shape(3), shape(1, 2), arr(f32, (3,)), arr(f32, (2,))), (i32(3), shape(1, 2), f32(1), f32(.5)), (shape(0, 3), shape(1, 2), f32(1), f32(.5))]: case(op, *a)

def section_truncated():
    # TensorFlow's threads take the numbers from where each begins, so only few of them are the same everywhere.
    for op, seed in [('ParameterizedTruncatedNormal', ()), ('StatelessParameterizedTruncatedNormal', (shape(3, 4),))]:
        kw = {} if seed else dict(seed=3, seed2=4)
        for t in T[:2]:
            for mean, dev, low, high in [(0, 1, -2, 2), (1, 2, -1, 9), (0, 1, 1, 1.5), (0, 1, 3, np.inf), (0, 1, -np.inf, -3), (5, .1, -10, 4.95), (0, 1, 4, 4.1), (0, 10, -1, 1), (2, 1, 0, 1), (0, 1, -1, 5)]:
                for n in (1, 3, 6): case(op, shape(n), *seed, t(mean), t(dev), t(low), t(high), **kw)
            for bad in [(0, 0, 1, 2), (0, -1, 1, 2), (0, 1, 2, 2), (0, 1, 3, 2), (0, 1, -np.inf, np.inf)]: case(op, shape(3), *seed, *map(t, bad), **kw)
    op = 'ParameterizedTruncatedNormal'
    v = arr(f32, (3,), 0, 1)
    case(op, shape(0, 3), f32(0), f32(1), f32(-1), f32(1), seed=1); case(op, i32(3), f32(0), f32(1), f32(-1), f32(1), seed=1)
    for i in range(4):
        params = [f32(0), f32(1), f32(-1), f32(1)]
        params[i] = arr(f32, (2, 2), .5, 1); case(op, shape(2, 2), *params, seed=1)
        params[i] = v; case(op, shape(2, 2), *params, seed=1)
    case('Stateless' + op, shape(3), shape(1), f32(0), f32(1), f32(-1), f32(1)); case('Stateless' + op, shape(3), shape(1, 2), v, arr(f32, (2,), 1, 2), f32(-1), f32(1))
    case('Stateless' + op, shape(2), shape(1, 2), v, f32(1), f32(-9), f32(9))

if __name__ == '__main__': golden.main(globals())

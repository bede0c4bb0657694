"""Writes golden_boxes.gz, as golden.py does: python golden_boxes.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, i32 = np.float32, np.int32

def boxes(t, *shape, lo=0, hi=1, special=False): return arr(t, (*shape, 4), lo, hi, special)

def wide(t, *shape): # boxes that overlap much
    b = rng.uniform(0, .4, (*shape, 4)); b[..., 2:] += .6
    return b.astype(t)

def versions(b, s, most, limit=.5, least=0., sigma=.3, th=None):
    # All versions of NonMaxSuppression, for the same boxes.
    t = b.dtype.type
    th = th or t
    if t == f32: case('NonMaxSuppression', b, s, i32(most), iou_threshold=limit)
    case('NonMaxSuppressionV2', b, s, i32(most), th(limit))
    case('NonMaxSuppressionV3', b, s, i32(most), th(limit), th(least))
    for pad in (False, True):
        case('NonMaxSuppressionV4', b, s, i32(most), th(limit), th(least), pad_to_max_output_size=pad)
        for g in (0, sigma): case('NonMaxSuppressionV5', b, s, i32(most), t(limit), t(least), t(g), pad_to_max_output_size=pad)

def section_versions():
    for t in (f32, half):
        for n in (0, 1, 5, 20):
            for most in (0, 3, 30):
                for limit, least in [(.3, 0.), (.7, .4), (0., -1.), (1., .2)]:
                    versions(boxes(t, n) if limit > .5 else wide(t, n), arr(t, (n,), 0, 1), most, limit, least)
        versions(wide(t, 9), np.ones(9, t), 5)
        versions(wide(t, 9), arr(t, (9,), -1, 1), 9, .9, -np.inf, .05)
        versions(boxes(t, 12, special=True), arr(t, (12,), special=True), 9, .6, -1.)
        versions(np.full((3, 4), np.nan, t), np.array([1, 2, 3], t), 3)
        versions(np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0], [.5, .5, .5, .9], [0, 0, np.inf, 1]], t), np.array([5, 4, 3, 2, 1], t), 5, .9)
        versions(wide(t, 12), arr(t, (12,), 0, 1), 12, th=half if t == f32 else f32)
    b, s = boxes(f32, 3), arr(f32, (3,))
    for a in [(b[0], s), (b[:, :3], s), (b, b), (b, s[:2])]: versions(*a, 2)
    versions(b, s, -1)
    for limit in (-.1, 1.1, np.nan): versions(b, s, 2, limit)
    versions(b, s, 2, sigma=-1.); versions(b, s, 2, sigma=np.nan)
    versions(b, s, [2]); versions(b, s, 2, [.5]); versions(b, s, 2, .5, [0.]); versions(b, s, 2, sigma=[.1])

def section_combined():
    op = 'CombinedNonMaxSuppression'
    for n, k, q, c in [(1, 8, 1, 1), (2, 9, 1, 3), (2, 9, 3, 3), (1, 0, 1, 2), (0, 4, 1, 2), (1, 5, 2, 2), (1, 3, 1, 0), (3, 25, 2, 2)]:
        for per, total in [(3, 4), (1, 20), (9, 3), (40, 50)]:
            for limit, least in [(.5, .3), (.2, -np.inf), (1., 0.)]:
                for pad in (False, True): case(op, wide(f32, n, k, q) * f32(1.5) - f32(.2), arr(f32, (n, k, c), 0, 1), i32(per), i32(total), f32(limit), f32(least), pad_per_class=pad, clip_boxes=bool(per % 2))
    case(op, wide(f32, 1, 6, 1), np.full((1, 6, 2), .5, f32), i32(4), i32(9), f32(.9), f32(0))
    for n in (9, 17, 40, 150):  # scores that are equal
        for levels in (1, 2, 6): case(op, boxes(f32, 2, n, 1), rng.integers(1, levels + 1, (2, n, 3)).astype(f32), i32(n), i32(n * 2), f32(1.), f32(0))
    case(op, boxes(f32, 1, 14, 1, special=True), arr(f32, (1, 14, 1), special=True), i32(9), i32(9), f32(.9), f32(-.5))
    case(op, boxes(f32, 1, 6, 1), arr(f32, (1, 6, 2), -9, -2), i32(4), i32(9), f32(.5), f32(-7))
    b, s, m, t = boxes(f32, 2, 5, 1), arr(f32, (2, 5, 3)), i32(2), f32(.5)
    for a in [(b[:1], s, m, m, t, t), (b[0], s, m, m, t, t), (b, s[0], m, m, t, t), (b, s[:, :4], m, m, t, t), (b[..., :3], s, m, m, t, t), (np.repeat(b, 2, 2), s, m, m, t, t), (b, s, i32(0), m, t, t),
              (b, s, m, i32(0), t, t), (b, s, i32([2]), m, t, t), (b, s, m, i32([2]), t, t), (b, s, m, m, f32(2), t), (b, s, m, m, f32([.5]), t), (b, s, m, m, t, f32([.5])), (b, s, m, m, f32(np.nan), t)]: case(op, *a)

if __name__ == '__main__': golden.main(globals())

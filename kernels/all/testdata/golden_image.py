"""Writes golden_image.gz, as golden.py does: python golden_image.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, f64 = np.float32, np.float64
CENTERS = [{}, dict(align_corners=True), dict(half_pixel_centers=True)]
INTS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64]

def size(h, w): return np.array([h, w], np.int32)

SIZES = [((2, 3, 4, 3), (6, 7)), ((1, 5, 4, 1), (2, 3)), ((2, 4, 3, 2), (4, 3)), ((1, 1, 1, 2), (3, 2)), ((1, 6, 5, 3), (1, 1)), ((0, 2, 3, 1), (4, 4)), ((1, 3, 2, 4), (3, 5)), ((1, 7, 9, 1), (13, 4))]

def section_resize():
    for op in ['ResizeBilinear', 'ResizeNearestNeighbor']:
        for at in CENTERS:
            for t in F + INTS:
                for shape, to in SIZES if t == f32 else SIZES[:2]: case(op, arr(t, shape, -100, 100), size(*to), **at)
        case(op, arr(f32, (1, 3, 2, 3), special=True), size(4, 4))
        x = arr(f32, (1, 3, 2, 1))
        for a in [(x[0], size(2, 2)), (x, size(2, 2)[:1]), (x, np.int32(2)), (x, size(0, 2)), (x, size(2, -1)), (x[:, :0], size(2, 2)), (x[:, :, :, :0], size(2, 2)), (x, np.array([1, 2, 3], np.int32))]: case(op, *a)
        case(op, x, size(2, 2), align_corners=True, half_pixel_centers=True)

def section_resize_gradients():
    for at in CENTERS:
        for t in F:
            for shape, to in SIZES if t == f32 else SIZES[:2]:
                case('ResizeBilinearGrad', arr(f32, (shape[0], *to, shape[3])), arr(t, shape), **at)
        for t in F + [np.int8, np.uint8, np.int32]:
            for shape, to in SIZES if t == f32 else SIZES[:2]: case('ResizeNearestNeighborGrad', arr(t, (shape[0], *to, shape[3])), size(*shape[1:3]), **at)
    case('ResizeNearestNeighborGrad', arr(f32, (1, 3, 2, 1)), size(5, 4), align_corners=True, half_pixel_centers=True)
    case('ResizeNearestNeighborGrad', arr(f32, (1, 0, 2, 1)), size(2, 2))
    g, x = arr(f32, (1, 3, 2, 1)), arr(f32, (1, 2, 2, 1))
    for a in [(g[0], size(2, 2)), (g, size(2, 2)[:1]), (g, np.int32(2)), (g, size(0, 2))]: case('ResizeNearestNeighborGrad', *a)
    for a in [(g[0], x), (g, x[0]), (g[:, :0], x), (g, x[:, :0]), (g[:, :, :, :0], x), (g, arr(f32, (3, 2, 2, 4)))]: case('ResizeBilinearGrad', *a)
    case('ResizeBilinearGrad', g, x, align_corners=True, half_pixel_centers=True)

def section_suppression():
    op, i32 = 'NonMaxSuppressionWithOverlaps', np.int32
    for n in (0, 1, 4, 12):
        for most in (0, 3, 20):
            for limit, least in [(.3, 0.), (.7, .4), (0., -1.), (2., -np.inf), (-1., 0.)]: case(op, arr(f32, (n, n), 0, 1), arr(f32, (n,), 0, 1), i32(most), f32(limit), f32(least))
    case(op, arr(f32, (5, 5), 0, 1), np.ones(5, f32), i32(4), f32(.6), f32(0))
    for least in (-1., 0.): case(op, arr(f32, (12, 12), special=True), arr(f32, (12,), special=True), i32(9), f32(.6), f32(least))
    case(op, np.full((3, 3), np.nan, f32), np.array([1, 2, 3], f32), i32(3), f32(.5), f32(-1))
    case(op, np.full((3, 3), -np.inf, f32), np.array([1, 2, 3], f32), i32(3), f32(.5), f32(-1))
    x, s, m, t = arr(f32, (3, 3)), arr(f32, (3,)), i32(2), f32(.5)
    for a in [(s, s, m, t, t), (x[:2], s, m, t, t), (x, x, m, t, t), (x, s[:2], m, t, t), (x, s, i32([2]), t, t), (x, s, m, s, t), (x, s, m, t, s), (x, s, i32(-1), t, t)]: case(op, *a)

if __name__ == '__main__': golden.main(globals())

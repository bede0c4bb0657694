"""Writes golden_crops.gz, as golden.py does: python golden_crops.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, f64, i32 = np.float32, np.float64, np.int32
CENTERS = [{}, dict(align_corners=True), dict(half_pixel_centers=True)]
INTS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64]
SIZES = [((2, 3, 4, 3), (6, 7)), ((1, 5, 4, 1), (2, 3)), ((2, 4, 3, 2), (4, 3)), ((1, 1, 1, 2), (3, 2)), ((1, 6, 5, 3), (1, 1)), ((0, 2, 3, 1), (4, 4)), ((1, 3, 2, 4), (3, 5)), ((1, 7, 9, 1), (13, 4))]
FILTERS = ['lanczos1', 'lanczos3', 'lanczos5', 'gaussian', 'box', 'triangle', 'keyscubic', 'mitchellcubic']

def size(h, w): return np.array([h, w], i32)
def pair(a, b): return np.array([a, b], f32)

def section_resize():
    for op in ['ResizeArea', 'ResizeBicubic']:
        for at in CENTERS[:2] if op == 'ResizeArea' else CENTERS:
            for t in F + INTS:
                for shape, to in SIZES if t == f32 else SIZES[:2]: case(op, arr(t, shape, -100, 100), size(*to), **at)
        case(op, arr(f32, (1, 3, 2, 3), special=True), size(4, 4))
        x = arr(f32, (1, 3, 2, 1))
        for a in [(x[0], size(2, 2)), (x, size(2, 2)[:1]), (x, i32(2)), (x, size(0, 2)), (x, size(2, -1)), (x[:, :0], size(2, 2)), (x[:, :, :, :0], size(2, 2)), (x, np.array([1, 2, 3], i32))]: case(op, *a)
    for at in CENTERS:
        for t in (f32, f64):
            for shape, to in SIZES: case('ResizeBicubicGrad', arr(f32, (shape[0], *to, shape[3])), arr(t, shape), **at)
    g, x = arr(f32, (1, 3, 2, 1)), arr(f32, (1, 2, 2, 1))
    for a in [(g[0], x), (g, x[0]), (g[:, :0], x), (g, x[:, :0]), (g[:, :, :, :0], x), (g, arr(f32, (3, 2, 2, 4)))]: case('ResizeBicubicGrad', *a)
    both = dict(align_corners=True, half_pixel_centers=True)
    case('ResizeBicubic', x, size(2, 2), **both); case('ResizeBicubicGrad', g, x, **both)
    case('ResizeNearestNeighborGrad', arr(half, (1, 8, 16, 3)), size(1879048192, 1879048192)); case('ResizeBilinear', arr(f32, (3, 1, 1, 3)), size(2**31 - 1, 2**31 - 1))

def section_quantized():
    for at in CENTERS + [dict(align_corners=True, half_pixel_centers=True)]:
        for t, n in [(tf.quint8, np.uint8), (tf.qint32, np.int32), (tf.float32, f32)]:
            for shape, to in SIZES:
                if not shape[0]: continue  # TensorFlow leaves two outputs out
                lo, hi = (0, 256) if n == np.uint8 else (-2**31, 2**31)
                case('QuantizedResizeBilinear', arr(n, shape, lo, hi).astype(t.as_numpy_dtype), size(*to), f32(-1), f32(2.5), **at)
    x = arr(f32, (1, 3, 2, 1))
    for a in [(x[0], size(2, 2), f32(0), f32(1)), (x, size(0, 2), f32(0), f32(1)), (x, size(2, 2), f32([0]), f32(1)), (x, size(2, 2), f32(0), f32([1]))]: case('QuantizedResizeBilinear', *a)

def section_translate():
    op = 'ScaleAndTranslate'
    for k in FILTERS + ['Lanczos3', 'BOX']:
        for anti in (True, False):
            for shape, to in SIZES:
                for s, m in [((2., 1.5), (0., 0.)), ((.3, .6), (1.5, -2.)), ((1., 1.), (.25, .5))]:
                    case(op, arr(f32, shape), size(*to), pair(*s), pair(*m), kernel_type=k, antialias=anti)
                    case('ScaleAndTranslateGrad', arr(f32, (shape[0], *to, shape[3])), arr(f32, shape), pair(*s), pair(*m), kernel_type=k, antialias=anti)
    for t in F + INTS:
        for shape, to in SIZES[:2]: case(op, arr(t, shape, -100, 100), size(*to), pair(.7, 1.3), pair(.5, -.5))
    case(op, arr(f32, (1, 4, 5, 2), special=True), size(4, 4), pair(.7, 1.3), pair(.5, -.5))
    case(op, arr(f32, (1, 4, 5, 2), special=True), size(4, 4), pair(1., 1.), pair(2., -2.))
    x, g = arr(f32, (1, 4, 5, 2)), arr(f32, (1, 3, 3, 2))
    for m in [pair(100, 0), pair(np.nan, 0), pair(np.inf, -np.inf)]: case(op, x, size(3, 3), pair(1, 1), m); case('ScaleAndTranslateGrad', g, x, pair(1, 1), m)
    s, m = pair(1, 1), pair(0, 0)
    for a in [(x[0], size(2, 2), s, m), (x, i32(2), s, m), (x, size(2, 2)[:1], s, m), (x, size(0, 2), s, m), (x[..., :0], size(2, 2), s, m), (x[:, :0], size(2, 2), s, m), (x, size(2, 2), pair(0, 1), m), (x, size(2, 2), pair(np.nan, 1), m),
              (x, size(2, 2), f32(1), m), (x, size(2, 2), s[:1], m), (x, size(2, 2), s, f32(1)), (x, size(2, 2), s, m[:1])]: case(op, *a)
    for a in [(g[0], x, s, m), (g, x[0], s, m), (g, x, -s, m), (g, x, s[:1], m), (g, x, s, f32(1))]: case('ScaleAndTranslateGrad', *a)
    case(op, x, size(2, 2), s, m, kernel_type='sinc'); case('ScaleAndTranslateGrad', g, x, s, m, kernel_type='sinc')

def boxes(n): return rng.uniform(-.3, 1.3, (n, 4)).astype(f32)
def which(n, batch): return rng.integers(0, batch, n).astype(i32)

def section_crop():
    for way in ('bilinear', 'nearest'):
        for t in [f32, f64, half] + INTS:
            for batch, n, crop in [(3, 5, (4, 3)), (1, 4, (1, 1)), (2, 3, (7, 1)), (2, 0, (2, 2))]:
                shape = (batch, 5, 6, 2)
                case('CropAndResize', arr(t, shape, -100, 100), boxes(n), which(n, batch), size(*crop), method=way, extrapolation_value=2.5)
                if way == 'bilinear': case('CropAndResizeGradBoxes', arr(f32, (n, *crop, 2)), arr(t, shape), boxes(n), which(n, batch))
                if t in (f32, f64, half): case('CropAndResizeGradImage', arr(f32, (n, *crop, 2)), boxes(n), which(n, batch), np.array(shape, i32), T=tf.as_dtype(t), method=way)
    x, b, i, s, g = arr(f32, (2, 4, 5, 2)), boxes(3), which(3, 2), size(3, 2), arr(f32, (3, 3, 2, 2))
    case('CropAndResize', x, np.array([[0, 0, 1, 1], [1, 1, 0, 0], [.5, .5, .5, .5]], f32), i, s)
    case('CropAndResize', arr(f32, (2, 4, 5, 2), special=True), np.array([[0, 0, 1, 1]] * 2, f32), i[:2], size(6, 6))
    case('CropAndResize', arr(f32, (2, 1, 1, 2)), b, i, s); case('CropAndResize', x, np.full((3, 4), 3e38, f32), i, s)
    for bad in [(x[0], b, i, s), (x[:, :0], b, i, s), (x, b[0], i, s), (x, b[:, :3], i, s), (x, b, i[:2], s), (x, b, np.array([[0, 1, 1]], i32), s), (x, b, i, s[:1]), (x, b, i, i32(2)), (x, b, i, size(0, 2)), (x, b, np.array([0, 1, 2], i32), s),
                (x, b, np.array([0, -1, 1], i32), s), (x, b * f32(np.nan), i, s), (x, b * f32(np.inf), i, s), (x[:0], b, i, s), (x[:0], b[:0], i[:0], s)]: case('CropAndResize', *bad)
    z = np.array([2, 4, 5, 2], i32)
    for bad in [(g[0], b, i, z), (g[:, :0], b, i, z), (g, b[0], i, z), (g, b[:, :3], i, z), (g[:2], b, i, z), (g, b, i[:2], z), (g, b, i, z[:3]), (g, b, i, i32(2)), (g, b, i, np.array([2, 0, 5, 2], i32)), (g, b, i, np.array([2, 4, 5, 3], i32)),
                (g, b, np.array([0, 1, 2], i32), z), (g, b, i, np.array([-1, 4, 5, 2], i32))]: case('CropAndResizeGradImage', *bad, T=tf.float32)
    for bad in [(g[0], x, b, i), (g[:, :0], x, b, i), (g, x[0], b, i), (g, x[:, :0], b, i), (g, x[..., :1], b, i), (g, x, b[0], i), (g, x, b[:, :3], i), (g[:2], x, b, i), (g, x, b, np.array([0, 1, 2], i32))]: case('CropAndResizeGradBoxes', *bad)

if __name__ == '__main__': golden.main(globals())

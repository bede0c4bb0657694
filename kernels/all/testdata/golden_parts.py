"""Writes golden_parts.gz, as golden.py does: python golden_parts.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64

def size(h, w): return np.array([h, w], i32)

def section_draw():
    op = 'DrawBoundingBoxes'
    for t in (f32, half):
        for shape in [(2, 6, 7, 3), (1, 5, 4, 1), (1, 1, 1, 4), (0, 3, 3, 3), (2, 0, 4, 3)]:
            for n in (0, 1, 12) if shape[1] else (0,):  # TensorFlow refuses boxes in images without rows
                b = arr(f32, (shape[0], n, 4), -.3, 1.3)
                case(op, arr(t, shape), b)
                for colours in [(3, 4), (0, 4), (1, 6)]: case('DrawBoundingBoxesV2', arr(t, shape), b, arr(f32, colours))
        case(op, arr(t, (1, 6, 7, 3)), np.array([[[0, 0, 1, 1], [.2, .3, .7, .6], [.7, .6, .2, .3], [np.nan, 0, 1, 1], [0, 0, np.inf, 1], [2, 2, 3, 3], [-1, -1, -.5, 2]]], f32))
    x, b, c = arr(f32, (2, 4, 5, 3)), arr(f32, (2, 3, 4), 0, 1), arr(f32, (2, 3))
    for bad in [(x[0], b), (x, b[0]), (x[:1], b), (x[..., :2], b), (x, b[..., :3])]: case(op, *bad); case(op + 'V2', *bad, c)
    for bad in [c[0], c[:, :2]]: case(op + 'V2', x, b, bad)

def section_glimpse():
    x = arr(f32, (3, 6, 7, 2))
    for op in ('ExtractGlimpse', 'ExtractGlimpseV2'):
        for normalized in (False, True):
            for centered in (False, True):
                a = dict(normalized=normalized, centered=centered, uniform_noise=False, noise='zero')
                for s in [(3, 2), (1, 1), (6, 7), (9, 9), (0, 3)]:
                    for lo, hi in [(-.5, .5), (0, 1), (-3, 9)]: case(op, x, size(*s), arr(f32, (3, 2), lo, hi), **a)
                case(op, x, size(3, 3), np.array([[np.nan, 0], [np.inf, 0], [0, -np.inf]], f32), **a)
        y = np.full((1, 4, 4, 2), 3, f32)  # noise has one value
        for noise in ('uniform', 'gaussian'): case(op, y, size(6, 6), np.zeros((1, 2), f32), uniform_noise=noise == 'uniform', noise=noise)
        o = np.zeros((3, 2), f32)
        for bad in [(x[0], size(2, 2), o), (x, size(2, 2)[:1], o), (x, i32(2), o), (x, size(2, 2), o[0]), (x, size(2, 2), o[:2]), (x, size(2, 2), o[:, :1]), (x, size(-1, 2), o)]: case(op, *bad, uniform_noise=False, noise='zero')
        case(op, x, size(2, 2), o, uniform_noise=False, noise='red')

def section_distort():
    b, none = arr(f32, (1, 3, 4), 0, 1), np.zeros((0, 0, 4), f32)
    b = np.concatenate([np.minimum(b[..., :2], b[..., 2:]), np.maximum(b[..., :2], b[..., 2:])], -1)
    for seed in range(1, 12):
        for t in (np.uint8, np.int8, np.int16, i32, i64):
            image = np.array([60, 90, 3], t)
            for boxes, kw in [(b, {}), (none, dict(use_image_if_no_bounding_boxes=True)), (b, dict(aspect_ratio_range=[.1, 9.], area_range=[.3, 1.])), (b, dict(area_range=[.9, .95], max_attempts=3))]:
                case('SampleDistortedBoundingBox', image, boxes, seed=seed, seed2=5, min_object_covered=.3, **kw)
                case('SampleDistortedBoundingBoxV2', image, boxes, f32(.4), seed=seed, seed2=0, **kw)
                case('StatelessSampleDistortedBoundingBox', image, boxes, f32(.2), np.array([seed, -7], (i32, i64)[seed % 2]), **kw)
    op, image, whole = 'SampleDistortedBoundingBoxV2', np.array([40, 50, 3], i32), dict(use_image_if_no_bounding_boxes=True, seed=3)
    for dims in [(0, 0, 3), (1, 1, 3), (1, 900, 3), (30000, 30000, 3), (2**31 - 2, 1, 1), (2**31 - 1, 4, 3), (-1, 4, 3), (4, -2, 3)]: case(op, np.array(dims, i32), none, f32(.1), **whole)
    for bad in [(image[:2], b, f32(.1)), (image.reshape(3, 1), b, f32(.1)), (image, b[0], f32(.1)), (image, b[..., :3], f32(.1)), (image, b * f32(2), f32(.1)), (image, b - f32(2), f32(.1)), (image, b, f32(-1)), (image, b, f32([.1])), (image, none, f32(.1))]: case(op, *bad, seed=3)
    for kw in [dict(aspect_ratio_range=[1.]), dict(aspect_ratio_range=[0., 1.]), dict(area_range=[1.]), dict(area_range=[-1., .5]), dict(area_range=[.5, 1.5]), dict(max_attempts=0), dict(area_range=[.9, .1])]: case(op, image, b, f32(.1), seed=3, **kw)
    case('SampleDistortedBoundingBox', image, b, seed=3, min_object_covered=-.5); case('StatelessSampleDistortedBoundingBox', image, b, f32(.1), np.array([1, 2, 3], i32))

def section_old():
    golden.producer = 7
    for seed in range(1, 9):
        for t in [np.uint8, np.int8, np.int16, i32, i64, f32, f64]:
            for to in [(3, 4), (7, 9), (1, 9), (7, 2), (0, 3)]: case('RandomCrop', arr(t, (7, 9, 3)), np.array(to, i64), seed=seed, seed2=seed * 3)
    x = arr(f32, (5, 4, 2))
    for bad in [(x[0], [2, 2]), (x, [2]), (x, 2), (x, [6, 2]), (x, [2, 5])]: case('RandomCrop', bad[0], np.array(bad[1], i64), seed=1)
    golden.producer = 1
    for t in [np.uint8, np.int8, np.int16, i32, f32, f64]:
        for shape in [(4, 5, 3), (2, 3, 4, 2), (0, 3, 3, 1), (2, 0, 3, 1)]: case('AdjustContrast', arr(t, shape, -100, 100), f32(1.7), f32(-50), f32(90))
    case('AdjustContrast', arr(f32, (3, 4, 2), special=True), f32(.5), f32(-1), f32(1)); case('AdjustContrast', x, f32(2), f32(1), f32(-1))
    for bad in [(x[0], f32(1), f32(0), f32(1)), (x, f32([1]), f32(0), f32(1)), (x, f32(1), f32([0]), f32(1)), (x, f32(1), f32(0), f32([1]))]: case('AdjustContrast', *bad)
    golden.producer = None

def section_project():
    matrices = [[1, 0, 0, 0, 1, 0, 0, 0], [.8, .3, -1, -.2, 1.1, .5, 0, 0], [1, 0, 2.5, 0, 1, -1.5, 0, 0], [1, .1, 0, .2, .9, 1, .01, -.02], [-1, 0, 4, 0, -1, 3, 0, 0], [.2, 0, -7, 0, .3, 9, 0, 0], [1, 0, 0, 0, 1, 0, -.5, 0]]
    for way in ('NEAREST', 'BILINEAR'):
        for mode in ('CONSTANT', 'NEAREST', 'REFLECT', 'WRAP'):
            kw = dict(interpolation=way, fill_mode=mode)
            for t in [np.uint8, i32, i64, f32, f64, half, bf]:
                for m in matrices:
                    case('ImageProjectiveTransformV2', arr(t, (2, 4, 5, 3), 0, 100), np.array([m], f32), size(5, 6), **kw)
                case('ImageProjectiveTransformV3', arr(t, (2, 4, 5, 3), 0, 100), np.array(matrices[2:4], f32), size(6, 5), f32(7.3), **kw)
            for shape in [(2, 1, 1, 2), (0, 3, 3, 1), (1, 1, 4, 1)]:
                for m in matrices: case('ImageProjectiveTransformV3', arr(f32, shape), np.array([m], f32), size(4, 3), f32(-1), **kw)
            for m in [[np.nan] * 8, [np.inf] * 8, [1, 0, 3e38, 0, 1, -3e38, 0, 0], [1, 0, np.inf, 0, 1, -np.inf, 0, 0]]: case('ImageProjectiveTransformV3', arr(f32, (1, 4, 4, 1)), np.array([m], f32), size(3, 3), f32(9), **kw)
            case('ImageProjectiveTransformV3', arr(f32, (1, 4, 4, 2), special=True), np.array([matrices[1]], f32), size(4, 4), f32(9), **kw)
    x, m, kw = arr(f32, (2, 4, 4, 1)), np.array([matrices[0]], f32), dict(interpolation='NEAREST')
    for bad in [(x[0], m, size(2, 2)), (x, m[0], size(2, 2)), (x, m[:, :6], size(2, 2)), (x, np.repeat(m, 3, 0), size(2, 2)), (x, m, size(2, 2)[:1]), (x, m, i32(2)), (x, m, size(0, 2))]: case('ImageProjectiveTransformV2', *bad, **kw)
    case('ImageProjectiveTransformV3', x, m, size(2, 2), f32([1]), **kw)

def section_convolved():
    golden.KNOWN.add(('FusedResizeAndPadConv2D', 2))
    op = 'FusedResizeAndPadConv2D'  # one image at a time: TensorFlow takes rows of the first one for the others
    for t in (f32, f64, half):
        for align in (False, True):
            for mode in ('REFLECT', 'SYMMETRIC'):
                for p in ([0, 0], [2, 1], [1, 3]):
                    for s in [(5, 4), (8, 9), (4, 4)]:
                        for pad in ('SAME', 'VALID'): case(op, arr(t, (1, 5, 4, 2)), size(*s), np.array([[0, 0], p, p[::-1], [0, 0]], i32), arr(t, (3, 2, 2, 3)), mode=mode, strides=[1, 2, 1, 1], padding=pad, resize_align_corners=align)
    x, f, kw, z = arr(f32, (1, 3, 3, 2)), arr(f32, (2, 2, 2, 1)), dict(strides=[1, 1, 1, 1], padding='VALID', mode='REFLECT'), np.zeros((4, 2), i32)
    for bad in [(x[0], size(2, 2), z, f), (x[:0], size(2, 2), z, f), (x, size(0, 2), z, f), (x, i32(2), z, f), (x, size(2, 2)[:1], z, f), (x, size(2, 2), z + 1, f), (x, size(2, 2), z[:3], f), (x, size(2, 2), z, f[:, :, :1]), (x, size(2, 2), z, f[0])]: case(op, *bad, **kw)

if __name__ == '__main__': golden.main(globals())

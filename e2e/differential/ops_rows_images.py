"""Rows for images of other sizes, parts of images, and boxes."""
import numpy as np

from ops_make import row

SIZED = "ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor"


def extent(m, channels=3):
    """The shape of images: seldom an empty one."""
    return tuple(m.int(0 if m.chance(.03) else 1, high) for high in (2, 6, 6, channels))


def size(m):
    """A height and a width."""
    return m.ints([m.int(0 if m.chance(.03) else 1, 8) for _ in range(2)])


def centers(m):
    pick = m.int(0, 2)
    if m.op == "ResizeArea":
        m.set(align_corners=pick == 1)
    else:
        m.set(align_corners=pick == 1, half_pixel_centers=pick == 2 or m.chance(.03))


@row(SIZED)
def resize(m):
    centers(m)
    return {"images": m.array("T", m.bent(extent(m)), m.pick("plain", "any", "ties")), "size": size(m)}


@row("ResizeBilinearGrad ResizeBicubicGrad")
def resize_grad(m):
    centers(m)
    shape = extent(m)
    grads = (shape[0], m.int(1, 8), m.int(1, 8), shape[3])
    return {"grads": m.array("float32", m.bent(grads), "plain"), "original_image": m.array("T", m.bent(shape), "plain")}


@row("ResizeNearestNeighborGrad")
def nearest_grad(m):
    pick = m.int(0, 2)
    m.set(align_corners=pick == 1, half_pixel_centers=pick == 2)
    shape = extent(m)
    return {"grads": m.array("T", shape, "plain"), "size": m.ints([m.int(1, 8), m.int(1, 8)])}


@row("ScaleAndTranslate ScaleAndTranslateGrad")
def translate(m):
    m.set(antialias=bool(m.int(0, 1)), kernel_type=m.pick("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"))
    shape = tuple(max(n, 1) for n in extent(m))
    numbers = {"scale": np.asarray([m.pick(.25, .5, 1, 1.5, 3), m.pick(.3, 1, 2)], np.float32), "translation": m.array("float32", m.bent((2,), .02), "plain")}
    if m.op == "ScaleAndTranslate":
        return {"images": m.array("T", shape, "plain"), "size": size(m), **numbers}
    return {"grads": m.array("T", (shape[0], m.int(1, 8), m.int(1, 8), shape[3]), "plain"), "original_image": m.array("T", shape, "plain"), **numbers}


@row("QuantizedResizeBilinear")
def resize_quantized(m):
    m.flags("align_corners", "half_pixel_centers")
    shape = tuple(max(n, 1) for n in extent(m))
    return {"images": m.array("T", m.bent(shape), "plain"), "size": size(m), "min": np.float32(-1), "max": np.float32(2)}


@row("FusedResizeAndPadConv2D")
def resize_and_convolve(m):
    height, width, depth = m.int(1, 5), m.int(1, 5), m.int(1, 3)
    m.set(resize_align_corners=m.chance(.5), mode=m.pick("REFLECT", "SYMMETRIC"), strides=[1, m.int(1, 2), m.int(1, 2), 1], padding=m.pick("SAME", "VALID"))
    m.constant = True  # the client has to know the shape of the paddings
    pads = [[0, 0], [m.int(0, 2), m.int(0, 2)], [m.int(0, 2), m.int(0, 2)], [0, 0]]
    return {"input": m.array("T", (1, m.int(1, 5), m.int(1, 5), depth), "plain"), "size": m.ints([height, width]), "paddings": m.ints(pads),
            "filter": m.array("T", m.bent((m.int(1, 3), m.int(1, 3), depth, m.int(1, 3)), .02), "plain")}


def boxes(m, *shape):
    """Boxes that lie in an image or a little beside it."""
    return m.rng.uniform(-.3, 1.3, (*shape, 4)).astype(np.float32)


@row("CropAndResize CropAndResizeGradImage CropAndResizeGradBoxes")
def crop(m):
    shape, n = tuple(max(d, 1) for d in extent(m)), m.int(0, 4)
    m.set(method=m.pick("bilinear", "nearest") if "Boxes" not in m.op else "bilinear")
    where = {"boxes": m.array("float32", m.bent((n, 4)), "unit") if m.chance(.2) else boxes(m, n), "box_ind": m.index("int32", m.bent((n,), .02), shape[0])}
    if m.op == "CropAndResize":
        return {"image": m.array("T", shape, "plain"), **where, "crop_size": size(m)}
    grads = m.array("float32", m.bent((n, m.int(1, 5), m.int(1, 5), shape[3])), "plain")
    if "Image" in m.op:
        return {"grads": grads, **where, "image_size": m.ints(shape)}
    return {"grads": grads, "image": m.array("T", shape, "plain"), **where}


@row("NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5")
def suppression(m):
    n, one, limit = m.int(0, 12), lambda x, t="T": np.asarray(x, m.dtype(t)), m.pick(0., .3, .5, .7, 1.)
    places = m.rng.uniform(0, .5, (n, 4)) + (0, 0, .5, .5) if m.chance(.7) else m.rng.uniform(-1, 1, (n, 4))
    kind = "T_threshold" if m.op[-1] in "234" else "T"
    out = {"boxes": one(places, "float32" if m.op[-1] == "n" else "T")}
    out["scores"] = m.array("float32" if m.op[-1] == "n" else "T", m.bent((n,)), m.pick("unit", "ties", "any"))
    out["max_output_size"] = m.ints(m.int(-1 if m.chance(.03) else 0, 15))
    if m.op[-1] == "n":
        m.set(iou_threshold=limit)
        return out
    out["iou_threshold"] = one(limit if not m.chance(.03) else 1.5, kind)
    if m.op[-1] > "2":
        out["score_threshold"] = one(m.pick(0., .3, -1., -np.inf), kind)
    if m.op[-1] > "3":
        m.flags("pad_to_max_output_size")
    if m.op[-1] > "4":
        out["soft_nms_sigma"] = one(m.pick(0., .1, .5, 2.))
    return out


@row("NonMaxSuppressionWithOverlaps")
def suppression_by_overlaps(m):
    n, one = m.int(0, 10), lambda x: np.asarray(x, np.float32)
    return {"overlaps": m.array("float32", m.bent((n, n)), m.pick("unit", "any")), "scores": m.array("float32", m.bent((n,)), m.pick("unit", "ties", "any")),
            "max_output_size": m.ints(m.int(0, 12)), "overlap_threshold": one(m.pick(0., .3, .6)), "score_threshold": one(m.pick(0., .3, -np.inf))}


@row("CombinedNonMaxSuppression")
def combined(m):
    n, k, classes = m.int(0, 2), m.int(0, 7), m.int(1, 2)
    sets, one = m.pick(1, classes), lambda x: np.asarray(x, np.float32)
    m.flags("pad_per_class", "clip_boxes")
    return {"boxes": boxes(m, n, k, sets), "scores": m.rng.random(m.bent((n, k, classes))).astype(np.float32), "max_output_size_per_class": m.ints(m.int(1, 5)),
            "max_total_size": m.ints(m.int(1, 12)), "iou_threshold": one(m.pick(0., .3, .6, 1.)), "score_threshold": one(m.pick(0., .4, -.5))}


@row("DrawBoundingBoxes DrawBoundingBoxesV2")
def draw(m):
    shape = (m.int(0, 2), m.int(1, 7), m.int(1, 7), m.pick(1, 3, 4))
    out = {"images": m.array("T", shape, "plain"), "boxes": boxes(m, *m.bent((shape[0], m.int(0, 12)), .02))}
    if m.op[-1] == "2":
        out["colors"] = m.array("float32", m.bent((m.int(0, 3), 4), .03), "unit")
    return out


@row("ExtractGlimpse ExtractGlimpseV2")
def glimpse(m):
    shape = tuple(max(d, 1) for d in extent(m))
    m.set(uniform_noise=False, noise="zero")
    m.flags("centered", "normalized")
    return {"input": m.array("float32", shape, "plain"), "size": size(m), "offsets": m.array("float32", m.bent((shape[0], 2)), m.pick("unit", "plain"))}


@row("ImageProjectiveTransformV2 ImageProjectiveTransformV3")
def project(m):
    shape = tuple(max(d, 1) for d in extent(m))
    m.set(interpolation=m.pick("NEAREST", "BILINEAR"), fill_mode=m.pick("CONSTANT", "NEAREST", "REFLECT", "WRAP"))
    matrix = m.rng.uniform(-.3, .3, m.bent((m.pick(1, shape[0]), 8), .03))
    if m.chance(.8) and matrix.shape[-1] == 8:
        matrix += (1, 0, m.int(-3, 3), 0, 1, m.int(-3, 3), 0, 0)
    out = {"images": m.array("dtype", shape, "unit" if m.dtype("dtype").kind == "f" else "ties"), "transforms": matrix.astype(np.float32), "output_shape": size(m)}
    if m.op[-1] == "3":
        out["fill_value"] = np.asarray(m.pick(0., 1., 7.), np.float32)
    return out


@row("SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 StatelessSampleDistortedBoundingBox")
def distort(m):
    low = m.rng.uniform(0, .5, (1, m.int(0, 3), 2))
    out = {"image_size": m.ints([m.int(0 if m.chance(.05) else 1, 120), m.int(1, 120), 3], "T"),
           "bounding_boxes": np.concatenate([low, low + m.rng.uniform(0, .5, low.shape)], -1).astype(np.float32)}
    m.set(use_image_if_no_bounding_boxes=m.chance(.8), aspect_ratio_range=m.pick([.75, 1.33], [.2, 5.]), area_range=m.pick([.05, 1.], [.5, .9]))
    if m.op[0] == "S" and "Stateless" not in m.op:
        m.set(seed=m.int(1, 99), seed2=m.int(0, 9))
    covered = m.pick(0., .1, .7, 1.)
    if m.op.endswith("BoundingBox") and "Stateless" not in m.op:
        m.set(min_object_covered=covered)
        return out
    out["min_object_covered"] = np.asarray(covered, np.float32)
    if "Stateless" in m.op:
        out["seed"] = m.ints([m.int(-9, 99), m.int(0, 99)], "Tseed")
    return out

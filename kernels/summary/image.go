package summary

import (
	"math"
	"slices"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/png"
)

func newImageSummary(c *kernels.Construction) (any, error) {
	limit, err := maxImages(c)
	if err != nil {
		return nil, err
	}
	p, err := c.Attrs().Tensor("bad_color")
	if err != nil {
		return nil, err
	}
	bad, err := tensor.FromTensorProto(p, tensor.Host)
	if err != nil {
		return nil, err
	}
	defer bad.Release()
	if bad.DType() != tensor.Uint8 {
		return nil, status.InvalidArgumentf("bad_color must be uint8, got %v", bad.DType())
	}
	if err := badColorVector(bad); err != nil {
		return nil, err
	}
	badColor := slices.Clone(tensor.Of[uint8](bad))
	return kernels.Func(func(ctx *kernels.Context) error {
		tag, err := args.ScalarString(ctx, 0, "Tags must be a scalar")
		if err != nil {
			return err
		}
		t := ctx.Input(1)
		if s := t.Shape(); imagesShape(s) == nil && (s[1] == 0 || s[2] == 0) {
			return status.InvalidArgumentf("input tensor must have non-zero dims. Found: [%d, %d, %d, %d].", s[0], s[1], s[2], s[3])
		}
		values, err := imageValues(tag, t, badColor, limit)
		if err != nil {
			return err
		}
		return outputSummary(ctx, values...)
	}), nil
}

func maxImages(c *kernels.Construction) (int, error) {
	n, err := c.Attrs().Int("max_images")
	if err == nil && n >= 1<<31 {
		err = status.InvalidArgumentf("max_images must be < 2^31")
	}
	return int(n), err
}

func badColorVector(t *tensor.Tensor) error {
	if t.Rank() != 1 {
		return status.InvalidArgumentf("bad_color must be a vector, got shape %v", t.Shape())
	}
	return nil
}

// imagesShape rejects shapes that are not those of images, and images that are too large for a summary.
func imagesShape(s tensor.Shape) error {
	if len(s) != 4 || s[3] != 1 && s[3] != 3 && s[3] != 4 {
		return status.InvalidArgumentf("Tensor must be 4-D with last dim 1, 3, or 4, not %v", s)
	}
	if s[0] >= 1<<31 || s[1] >= 1<<31 || s[2] >= 1<<31 || s[1]*s[2] >= 1<<29 {
		return status.InvalidArgumentf("Tensor too large for summary %v", s)
	}
	return nil
}

// imageValues returns the summaries of the first limit images of a tensor of shape [images, height, width, channels].
func imageValues(tag string, t *tensor.Tensor, badColor []uint8, limit int) ([]*summarypb.Summary_Value, error) {
	if err := imagesShape(t.Shape()); err != nil {
		return nil, err
	}
	depth, pixels := t.Dim(3), t.Dim(1)*t.Dim(2)
	each := depth * pixels
	imagesOf, ok := pixelReaders[t.DType()]
	if !ok {
		return nil, status.InvalidArgumentf("Only DT_INT8, DT_HALF, DT_DOUBLE, and DT_FLOAT images are supported. Got %v", t.DType())
	}
	if t.DType() != tensor.Uint8 && len(badColor) < depth {
		return nil, status.InvalidArgumentf("expected depth <= bad_color.size, got depth = %d, bad_color.size = %d", depth, len(badColor))
	}
	image := imagesOf(t, each, depth, badColor)
	var values []*summarypb.Summary_Value
	for i := range min(limit, t.Dim(0)) {
		file, err := png.Encode(image(i), t.Dim(2), t.Dim(1), depth, -1)
		if err != nil {
			return nil, err
		}
		values = append(values, &summarypb.Summary_Value{Tag: partTag(tag, "image", i, limit), Value: &summarypb.Summary_Value_Image{Image: &summarypb.Summary_Image{
			Height: int32(t.Dim(1)), Width: int32(t.Dim(2)), Colorspace: int32(depth), EncodedImageString: file,
		}}})
	}
	return values, nil
}

// pixelReaders maps types to functions that return image i of a tensor as bytes. An image has each samples.
var pixelReaders = map[tensor.DType]func(t *tensor.Tensor, each, depth int, badColor []uint8) func(i int) []uint8{
	tensor.Uint8: func(t *tensor.Tensor, each, _ int, _ []uint8) func(i int) []uint8 {
		return func(i int) []uint8 { return tensor.Of[uint8](t)[i*each:][:each] }
	},
	tensor.Float16: normalizer(halfArithmetic), tensor.Float32: normalizer(arithmetic[float32]()), tensor.Float64: normalizer(arithmetic[float64]()),
}

func normalizer[T tensor.Elem](a imageArithmetic[T]) func(t *tensor.Tensor, each, depth int, badColor []uint8) func(i int) []uint8 {
	return func(t *tensor.Tensor, each, depth int, badColor []uint8) func(i int) []uint8 {
		return normalized(tensor.Of[T](t), each, depth, badColor, a)
	}
}

// imageArithmetic scales samples of a type in their own precision, as TensorFlow does.
type imageArithmetic[T any] struct {
	float func(T) float64
	scale func(v T, scale, offset float32) float64
}

func arithmetic[T element.Floating]() imageArithmetic[T] {
	return imageArithmetic[T]{
		float: func(v T) float64 { return float64(v) },
		scale: func(v T, scale, offset float32) float64 {
			product := T(v * T(scale)) //nolint:unconvert // It rounds: without it the product and the sum may become one operation.
			return float64(product + T(offset))
		},
	}
}

var halfArithmetic = imageArithmetic[element.Float16]{
	float: func(v element.Float16) float64 { return float64(v.Float()) },
	scale: func(v element.Float16, scale, offset float32) float64 {
		product := element.ToFloat16(v.Float() * element.ToFloat16(scale).Float())
		return float64(element.ToFloat16(product.Float() + offset).Float())
	},
}

// normalized returns a function for image i of float samples as bytes, which are valid until the next call. An image without negative
// samples is scaled by its greatest sample. Any other image is scaled by its greatest absolute value, and centred at 128. Pixels with a
// sample that is infinite or NaN become badColor.
func normalized[T any](samples []T, each, depth int, badColor []uint8, a imageArithmetic[T]) func(i int) []uint8 {
	out := make([]uint8, each)
	return func(i int) []uint8 {
		image := samples[i*each:][:each]
		least, greatest := float32(math.Inf(1)), float32(math.Inf(-1))
		for p := 0; p < each; p += depth {
			if pixel := image[p:][:depth]; a.finite(pixel) {
				for _, v := range pixel {
					least, greatest = min(least, float32(a.float(v))), max(greatest, float32(a.float(v)))
				}
			}
		}
		scale, offset := normalization(least, greatest)
		for p := 0; p < each; p += depth {
			pixel := image[p:][:depth]
			if !a.finite(pixel) {
				copy(out[p:][:depth], badColor)
				continue
			}
			for j, v := range pixel {
				out[p+j] = uint8(element.Trunc32(a.scale(v, scale, offset)))
			}
		}
		return out
	}
}

func (a imageArithmetic[T]) finite(pixel []T) bool {
	for _, v := range pixel {
		if f := a.float(v); f-f != 0 {
			return false
		}
	}
	return true
}

// normalization returns the factor and the offset for samples between least and greatest.
func normalization(least, greatest float32) (scale, offset float32) {
	const nothing = 1e-6
	to, most := float32(255), greatest
	if least < 0 {
		to, offset, most = 127, 128, max(-least, float32(math.Abs(float64(greatest))))
	}
	if most >= nothing {
		scale = to / most
	}
	return scale, offset
}

package image

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// centres defines how the pixels of a resized image are aligned with those of the image.
type centres struct {
	align bool // corner pixels coincide
	half  bool // a pixel's position is its centre, not its first corner
}

// newCentres reads the attributes. ResizeArea always positions pixels by their corners, and has no attribute for centres.
func newCentres(c *kernels.Construction) (centres, error) {
	align, err1 := c.Attrs().Bool("align_corners")
	if _, ok := c.Attrs()["half_pixel_centers"]; !ok {
		return centres{align: align}, err1
	}
	half, err2 := c.Attrs().Bool("half_pixel_centers")
	return centres{align, half}, args.FirstError(err1, err2)
}

func (c centres) check() error {
	if c.half && c.align {
		return status.InvalidArgumentf("If half_pixel_centers is True, align_corners must be False.")
	}
	return nil
}

// scale returns the distance between neighbours, in pixels of the image, when from pixels become to.
func (c centres) scale(from, to int) float32 {
	if c.align && from > 1 && to > 1 {
		return float32(from-1) / float32(to-1)
	}
	return float32(from) / float32(to)
}

// at returns the position of pixel i, in pixels of the image.
func (c centres) at(i int, scale float32) float32 {
	if c.half {
		return float32((float32(i)+0.5)*scale) - 0.5
	}
	return float32(float32(i) * scale)
}

// nearest lists the nearest of from pixels for each of to pixels.
func (c centres) nearest(m *kernels.Meter, from, to int) ([]int32, error) {
	list, err := kernels.Scratch[int32](m, to)
	if err != nil {
		return nil, err
	}
	scale := c.scale(from, to)
	for i := range list {
		at := float32(i) * scale
		if c.half {
			at = (float32(i) + 0.5) * scale
		}
		place := math.Floor(float64(at))
		if c.align {
			place = math.Round(float64(at))
		}
		list[i] = int32(max(0, min(place, float64(from-1))))
	}
	return list, nil
}

// between is a position between two pixels: part of the way from the lower to the upper one.
type between struct {
	lower, upper int32
	part         float32
}

// neighbours lists the two of from pixels that each of to pixels lies between.
func (c centres) neighbours(m *kernels.Meter, from, to int) ([]between, error) {
	list, err := kernels.Scratch[between](m, to)
	if err != nil {
		return nil, err
	}
	scale, last := c.scale(from, to), float64(from-1)
	for i := range list {
		at := c.at(i, scale)
		floor := math.Floor(float64(at))
		list[i] = between{
			lower: int32(max(0, min(floor, last))),
			upper: int32(max(0, min(math.Ceil(float64(at)), last))),
			part:  at - float32(floor),
		}
	}
	return list, nil
}

// extent holds the sizes of the images in one tensor.
type extent struct{ batch, height, width, channels int }

func extentOf(t *tensor.Tensor) extent { return extent{t.Dim(0), t.Dim(1), t.Dim(2), t.Dim(3)} }

// allocate allocates output 0 for images of these sizes.
func (e extent) allocate(ctx *kernels.Context, dtype tensor.DType) (*tensor.Tensor, error) {
	shape := tensor.Shape{int64(e.batch), int64(e.height), int64(e.width), int64(e.channels)}
	n := int64(1)
	for _, d := range shape {
		if d < 0 {
			return nil, status.InvalidArgumentf("Expected a non-negative size, got %d", d)
		}
		if d > 0 && n > math.MaxInt64/d {
			return nil, status.InvalidArgumentf("Encountered overflow when multiplying %d with %d, result: %d", n, d, n*d)
		}
		n *= d
	}
	return ctx.Allocate(0, dtype, shape)
}

// resized checks the inputs of an op that resizes images, and returns the sizes of its images and its output.
func resized(ctx *kernels.Context, c centres) (from, to extent, err error) {
	if err := c.check(); err != nil {
		return from, to, err
	}
	images := ctx.Input(0)
	if images.Rank() != 4 {
		return from, to, status.InvalidArgumentf("input must be 4-dimensional%v", images.Shape())
	}
	from = extentOf(images)
	switch {
	case from.channels == 0:
		return from, to, status.InvalidArgumentf("image must have at least one channel")
	case from.height == 0 || from.width == 0:
		return from, to, status.InvalidArgumentf("input image must be of non-zero size")
	case from.height >= math.MaxInt32 || from.width >= math.MaxInt32:
		return from, to, status.InvalidArgumentf("input sizes must be between 0 and max int32")
	}
	to = from
	to.height, to.width, err = sizeInput(ctx, "output dimensions must be positive")
	return from, to, err
}

// resizeFloats returns the constructor of an op that resizes images to floats; resize computes them.
func resizeFloats[T pixel](load loader[T], resize func(ctx *kernels.Context, c centres, dst []float32, src []T, from, to extent) error) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		centres, err := newCentres(c)
		return kernels.Func(func(ctx *kernels.Context) error {
			from, to, err := resized(ctx, centres)
			if err != nil {
				return err
			}
			out, err := to.allocate(ctx, tensor.Float32)
			if err != nil || out.Len() == 0 {
				return err
			}
			src, release, err := load(ctx, 0)
			if err != nil {
				return err
			}
			defer release()
			return resize(ctx, centres, tensor.Of[float32](out), src, from, to)
		}), err
	}
}

// resizeGrad returns the constructor of the gradient of an op that resizes images to floats.
func resizeGrad[T element.Floating](spread func(ctx *kernels.Context, c centres, dst []T, from, to extent) error) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		centres, err := newCentres(c)
		return kernels.Func(func(ctx *kernels.Context) error {
			dtype := element.DTypeOf[T]()
			from, to, err := gradientOf(ctx, centres, dtype)
			if err != nil {
				return err
			}
			out, err := to.allocate(ctx, dtype)
			if err != nil || out.Len() == 0 {
				return err
			}
			return spread(ctx, centres, element.ViewOf[T](out), from, to)
		}), err
	}
}

// sizeInput reads a height and a width from input 1; refused is the error if they are not positive.
func sizeInput(ctx *kernels.Context, refused string) (height, width int, err error) {
	if err := args.CheckType(ctx, 1, tensor.Int32); err != nil {
		return 0, 0, err
	}
	size := ctx.Input(1)
	if size.Rank() != 1 {
		return 0, 0, status.InvalidArgumentf("shape_t must be 1-dimensional%v", size.Shape())
	}
	if size.Len() != 2 {
		return 0, 0, status.InvalidArgumentf("shape_t must have two elements%v", size.Shape())
	}
	v := tensor.Of[int32](size)
	if v[0] <= 0 || v[1] <= 0 {
		return 0, 0, status.InvalidArgumentf("%s", refused)
	}
	return int(v[0]), int(v[1]), nil
}

// gradientOf checks the inputs of the gradient of an op that resizes images to floats. It returns the sizes of the gradient, its input, and
// of the images, its output.
func gradientOf(ctx *kernels.Context, c centres, dtype tensor.DType) (from, to extent, err error) {
	if err := args.FirstError(c.check(), args.CheckType(ctx, 0, tensor.Float32), args.CheckType(ctx, 1, dtype)); err != nil {
		return from, to, err
	}
	grads, image := ctx.Input(0), ctx.Input(1)
	if grads.Rank() != 4 {
		return from, to, status.InvalidArgumentf("input_grad must be 4-dimensional%v", grads.Shape())
	}
	from = extentOf(grads)
	if from.height == 0 || from.width == 0 {
		return from, to, status.InvalidArgumentf("resized dimensions must be positive")
	}
	if image.Rank() != 4 {
		return from, to, status.InvalidArgumentf("original_image must be 4-dimensional%v", image.Shape())
	}
	to = from
	to.height, to.width = image.Dim(1), image.Dim(2)
	switch {
	case to.height == 0 || to.width == 0:
		return from, to, status.InvalidArgumentf("original dimensions must be positive")
	case to.height >= math.MaxInt32 || to.width >= math.MaxInt32:
		return from, to, status.InvalidArgumentf("original sizes must be between 0 and max int32")
	}
	return from, to, nil
}

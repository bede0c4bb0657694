package image

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// distortion holds the attributes of SampleDistortedBoundingBox, which draws a random part of an image that covers enough of one of its
// boxes.
type distortion struct {
	covered     float32 // the minimum fraction of a box; an input of newer versions
	whole       bool    // without boxes, the whole image is one
	ratio, area [2]float32
	attempts    int64
}

func newDistortion(c *kernels.Construction, coveredInput bool) (d distortion, err error) {
	if !coveredInput {
		if d.covered, err = c.Attrs().Float("min_object_covered"); err == nil {
			err = checkCovered(d.covered)
		}
	}
	if err != nil {
		return d, err
	}
	a := c.Attrs().Reader()
	d.whole = a.Bool("use_image_if_no_bounding_boxes")
	ratio, area := a.FloatList("aspect_ratio_range"), a.FloatList("area_range")
	d.attempts = a.Int("max_attempts")
	if err := a.Err(); err != nil {
		return d, err
	}
	switch {
	case len(ratio) != 2:
		return d, status.InvalidArgumentf("Aspect ratio range field must specify 2 dimensions")
	case !(ratio[0] > 0 && ratio[1] > 0):
		return d, status.InvalidArgumentf("Aspect ratio range must be non-negative: [%.6g, %.6g]", ratio[0], ratio[1])
	case len(area) != 2:
		return d, status.InvalidArgumentf("Area range field must specify 2 dimensions")
	case !(area[0] > 0 && area[1] > 0):
		return d, status.InvalidArgumentf("Area range must be non-negative: [%.6g, %.6g]", area[0], area[1])
	case !(area[0] <= 1 && area[1] <= 1):
		return d, status.InvalidArgumentf("Area range must be less then or equal to 1.0: [%.6g, %.6g]", area[0], area[1])
	case d.attempts <= 0 || d.attempts > math.MaxInt32:
		return d, status.InvalidArgumentf("Max attempts must be non-negative: %d", d.attempts)
	}
	d.ratio, d.area = [2]float32(ratio), [2]float32(area)
	return d, nil
}

func checkCovered(v float32) error {
	if !(v >= 0) {
		return status.InvalidArgumentf("Min object covered must be non-negative: %.6g", v)
	}
	return nil
}

// distort returns the constructor of an op with its own generator.
func distort[T element.Integer](coveredInput bool) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		d, err := newDistortion(c, coveredInput)
		if err != nil {
			return nil, err
		}
		g, err := philox.NewGenerator(c)
		return kernels.Func(func(ctx *kernels.Context) error {
			return drawPart[T](ctx, d, coveredInput, g.Reserve(d.attempts))
		}), err
	}
}

// statelessDistort returns the constructor of the op whose seed is input 3.
func statelessDistort[T element.Integer](c *kernels.Construction) (any, error) {
	d, err := newDistortion(c, true)
	return kernels.Func(func(ctx *kernels.Context) error {
		seed := ctx.Input(3)
		if seed.Rank() != 1 || seed.Len() != 2 {
			return status.InvalidArgumentf("seed must have shape [2], not %v", seed.Shape())
		}
		seed0, err := args.IntAt(seed, 0)
		if err != nil {
			return err
		}
		seed1, err := args.IntAt(seed, 1)
		if err != nil {
			return err
		}
		return drawPart[T](ctx, d, true, philox.Scrambled(uint64(seed0), uint64(seed1)))
	}), err
}

// rectangle is a range of pixels in an image. Its numbers overflow as TensorFlow's do.
type rectangle struct{ left, top, right, bottom int32 }

func (r rectangle) area() float32 { return float32((r.right - r.left) * (r.bottom - r.top)) }

// overlap returns the area of the intersection.
func (r rectangle) overlap(o rectangle) float32 {
	both := rectangle{max(r.left, o.left), max(r.top, o.top), min(r.right, o.right), min(r.bottom, o.bottom)}
	if both.left > both.right || both.top > both.bottom {
		return 0
	}
	return both.area()
}

// drawPart tries to draw a part of the image, and falls back to the whole image.
func drawPart[T element.Integer](ctx *kernels.Context, d distortion, coveredInput bool, gen philox.Philox) error {
	image, err := imageArea[T](ctx)
	if err != nil {
		return err
	}
	boxes := ctx.Input(1)
	if err := args.CheckType(ctx, 1, tensor.Float32); err != nil {
		return err
	}
	if boxes.Rank() != 3 {
		return status.InvalidArgumentf("input boxes must be 3-dimensional [batch, num_boxes, coords]: %v", boxes.Shape())
	}
	if boxes.Dim(2) != 4 {
		return status.InvalidArgumentf("bounding boxes must have shape [4] or [*, 4], got %v", boxes.Shape())
	}
	if coveredInput {
		if err := args.NeedScalar(ctx.Input(2), tensor.Float32, "min_object_covered must be 0-D, got shape %v"); err != nil {
			return err
		}
		d.covered = tensor.Of[float32](ctx.Input(2))[0]
		if err := checkCovered(d.covered); err != nil {
			return err
		}
	}
	meter := ctx.Meter()
	defer meter.Done()
	objects, err := d.objects(&meter, tensor.Of[float32](boxes), image)
	if err != nil {
		return err
	}
	random := philox.OneAtATime(&gen)
	part := image
	for range d.attempts {
		if err := ctx.Ended(); err != nil {
			return err
		}
		ratio := float32(philox.UnitFloat(random.Next())*(d.ratio[1]-d.ratio[0])) + d.ratio[0]
		if try, ok := d.draw(&random, image, ratio); ok && d.covers(try, objects) {
			part = try
			break
		}
	}
	return outputPart[T](ctx, part, image)
}

// imageArea returns the image whose height, width and channels are input 0.
func imageArea[T element.Integer](ctx *kernels.Context) (r rectangle, err error) {
	if err := args.CheckType(ctx, 0, element.DTypeOf[T]()); err != nil {
		return r, err
	}
	size := ctx.Input(0)
	if size.Rank() != 1 {
		return r, status.InvalidArgumentf("image_size must be 1-dimensional%v", size.Shape())
	}
	if size.Dim(0) != 3 {
		return r, status.InvalidArgumentf("image_size must contain 3 elements%v", size.Shape())
	}
	v := element.ViewOf[T](size)
	for i, name := range []string{"height", "width"} {
		if n := int64(v[i]); n < 0 || n >= math.MaxInt32 {
			return r, status.InvalidArgumentf("image %s cannot be >= int32 max", name)
		}
	}
	return rectangle{0, 0, int32(v[1]), int32(v[0])}, nil
}

// objects returns the boxes in pixels.
func (d *distortion) objects(m *kernels.Meter, boxes []float32, image rectangle) ([]rectangle, error) {
	if len(boxes) == 0 {
		if !d.whole {
			return nil, status.InvalidArgumentf("No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to not provide any bounding boxes.")
		}
		return []rectangle{image}, nil
	}
	list, err := kernels.Scratch[rectangle](m, len(boxes)/4)
	if err != nil {
		return nil, err
	}
	for _, v := range boxes {
		if !(v >= 0 && v <= 1) {
			return nil, status.InvalidArgumentf("All bounding box coordinates must be in [0.0, 1.0]: %.6g", v)
		}
	}
	at := func(v float32, n int32) int32 { return int32(min(float32(v*float32(n)), math.MaxInt32-127)) }
	for i := range list {
		b := boxAt(boxes, i)
		list[i] = rectangle{at(b.x1, image.right), at(b.y1, image.bottom), at(b.x2, image.right), at(b.y2, image.bottom)}
	}
	return list, nil
}

// covers reports whether a part of the image covers enough of one of the objects.
func (d *distortion) covers(part rectangle, objects []rectangle) bool {
	if part.area() < 1 {
		return false
	}
	for _, o := range objects {
		if area := o.area(); area >= 1 && part.overlap(o)/area >= d.covered {
			return true
		}
	}
	return false
}

// nearestInt rounds v to the nearest integer, ties to even.
func nearestInt(v float32) int { return toInt(math.RoundToEven(float64(v))) }

// draw draws a part of an image with a given ratio of width to height. It fails if none fits.
func (d *distortion) draw(random *philox.Numbers32, image rectangle, ratio float32) (part rectangle, ok bool) {
	width, height := image.right, image.bottom
	if width <= 0 || height <= 0 || !(ratio > 0) || d.area[0] > d.area[1] {
		return part, false
	}
	least, most := float32(float32(d.area[0]*float32(width))*float32(height)), float32(float32(d.area[1]*float32(width))*float32(height))
	root := func(v float32) int32 { return int32(nearestInt(float32(math.Sqrt(float64(v / ratio))))) }
	wide := func(h int32) int { return nearestInt(float32(h) * ratio) }
	h, highest := root(least), root(most)
	if wide(highest) > int(width) {
		highest = element.Trunc32((float64(width) + 0.5 - float64(float32(0.0000001))) / float64(ratio))
		if wide(highest) > int(width) {
			highest--
		}
	}
	highest = min(highest, height)
	if h = min(h, highest); h < highest {
		h += int32(random.Below32(uint32(highest - h + 1)))
	}
	w := int32(wide(h))
	// Grow or shrink a part whose size is slightly off because of rounding.
	if float32(w*h) < least {
		h++
		w = int32(wide(h))
	}
	if float32(w*h) > most {
		h--
		w = int32(wide(h))
	}
	if area := float32(w * h); area < least || area > most || w > width || h > height || w <= 0 || h <= 0 {
		return part, false
	}
	var x, y int32
	if h < height {
		y = int32(random.Below32(uint32(height - h)))
	}
	if w < width {
		x = int32(random.Below32(uint32(width - w)))
	}
	return rectangle{x, y, x + w, y + h}, true
}

// outputPart outputs the start and size of the part, and its sides as fractions of the image.
func outputPart[T element.Integer](ctx *kernels.Context, part, image rectangle) error {
	begin, err1 := ctx.Allocate(0, element.DTypeOf[T](), tensor.Shape{3})
	size, err2 := ctx.Allocate(1, element.DTypeOf[T](), tensor.Shape{3})
	sides, err3 := ctx.Allocate(2, tensor.Float32, tensor.Shape{1, 1, 4})
	if err := args.FirstError(err1, err2, err3); err != nil {
		return err
	}
	channels := T(0) // all channels, so the size is −1
	copy(element.ViewOf[T](begin), []T{T(part.top), T(part.left), channels})
	copy(element.ViewOf[T](size), []T{T(part.bottom - part.top), T(part.right - part.left), channels - 1})
	width, height := float32(image.right), float32(image.bottom)
	copy(tensor.Of[float32](sides), []float32{float32(part.top) / height, float32(part.left) / width, float32(part.bottom) / height, float32(part.right) / width})
	return nil
}

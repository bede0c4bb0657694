package image

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// crops are boxes to cut out of images and resize to a common size.
type crops struct {
	boxes         []float32
	image         []int32 // the source image of each box
	height, width int     // of each crop
	from          extent  // the images
	nearest       bool
}

// method reads the attribute for nearest-neighbour or bilinear sampling.
func method(c *kernels.Construction) (nearest bool, err error) {
	name, err := c.Attrs().Str("method")
	if err == nil && name != "bilinear" && name != "nearest" {
		err = status.InvalidArgumentf("method must be 'bilinear' or 'nearest'%s", name)
	}
	return name == "nearest", err
}

// cropBoxes checks and reads boxes from input i, and the images they belong to from input i+1.
func cropBoxes(ctx *kernels.Context, i int) (boxes []float32, image []int32, err error) {
	if err := args.FirstError(args.CheckType(ctx, i, tensor.Float32), args.CheckType(ctx, i+1, tensor.Int32)); err != nil {
		return nil, nil, err
	}
	b, at := ctx.Input(i), ctx.Input(i+1)
	switch {
	case b.Len() == 0 && at.Len() == 0:
	case b.Rank() != 2:
		err = status.InvalidArgumentf("boxes must be 2-D%v", b.Shape())
	case b.Dim(1) != 4:
		err = status.InvalidArgumentf("boxes must have 4 columns")
	case at.Rank() != 1:
		err = status.InvalidArgumentf("box_index must be 1-D%v", at.Shape())
	case at.Dim(0) != b.Dim(0):
		err = status.InvalidArgumentf("box_index has incompatible shape")
	}
	return tensor.Of[float32](b), tensor.Of[int32](at), err
}

// checkImages rejects boxes of images that do not exist.
func (c *crops) checkImages() error {
	for _, i := range c.image {
		if i < 0 || int(i) >= c.from.batch {
			return status.Errorf(status.OutOfRange, "box_index has values outside [0, batch_size)")
		}
	}
	return nil
}

// cropAndResize returns the constructor of CropAndResize.
func cropAndResize[T pixel](load loader[T]) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		nearest, err1 := method(c)
		outside, err2 := c.Attrs().Float("extrapolation_value")
		return kernels.Func(func(ctx *kernels.Context) error {
			run, err := readCrops(ctx)
			if err != nil {
				return err
			}
			run.nearest = nearest
			out, err := extent{len(run.image), run.height, run.width, run.from.channels}.allocate(ctx, tensor.Float32)
			if err != nil {
				return err
			}
			if err := run.checkImages(); err != nil {
				return err
			}
			for _, v := range run.boxes {
				if v-v != 0 {
					return status.InvalidArgumentf("Boxes contains at least one element that is not finite")
				}
			}
			if out.Len() == 0 {
				return nil
			}
			src, release, err := load(ctx, 0)
			if err != nil {
				return err
			}
			defer release()
			return cropEach(ctx, &run, tensor.Of[float32](out), src, outside)
		}), args.FirstError(err1, err2)
	}
}

// readCrops checks and reads the inputs of CropAndResize.
func readCrops(ctx *kernels.Context) (c crops, err error) {
	images, boxes, at, size := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	if images.Rank() != 4 {
		return c, status.InvalidArgumentf("input image must be 4-D%v", images.Shape())
	}
	c.from = extentOf(images)
	switch {
	case c.from.height == 0 || c.from.width == 0:
		return c, status.InvalidArgumentf("image dimensions must be positive")
	case boxes.Rank() != 2:
		return c, status.InvalidArgumentf("boxes must be 2-D, got: %v", boxes.Shape())
	case at.Rank() != 1:
		return c, status.InvalidArgumentf("box_indices must be rank 1 but is shape %v", at.Shape())
	}
	if c.boxes, c.image, err = cropBoxes(ctx, 1); err != nil {
		return c, err
	}
	if err := args.CheckType(ctx, 3, tensor.Int32); err != nil {
		return c, err
	}
	switch {
	case size.Rank() != 1:
		return c, status.InvalidArgumentf("crop_size must be 1-D%v", size.Shape())
	case size.Len() != 2:
		return c, status.InvalidArgumentf("crop_size must have two elements%v", size.Shape())
	}
	c.height, c.width = int(tensor.Of[int32](size)[0]), int(tensor.Of[int32](size)[1])
	if c.height <= 0 || c.width <= 0 {
		return c, status.InvalidArgumentf("crop dimensions must be positive")
	}
	return c, nil
}

// side is one direction of a box in an image.
type side struct {
	from, to, pace float32
	pixels, crop   int
}

// vertical and horizontal return the sides of box i.
func (c *crops) vertical(i int) side {
	return newSide(c.boxes[4*i], c.boxes[4*i+2], c.from.height, c.height)
}

func (c *crops) horizontal(i int) side {
	return newSide(c.boxes[4*i+1], c.boxes[4*i+3], c.from.width, c.width)
}

func newSide(from, to float32, pixels, crop int) side {
	s := side{from: from, to: to, pixels: pixels, crop: crop}
	if crop > 1 {
		s.pace = float32((to-from)*float32(pixels-1)) / float32(crop-1)
	}
	return s
}

// at returns the position of the crop's pixel i between two pixels of the image; ok is false if it lies outside.
func (s *side) at(i int) (b between, ok bool) {
	last := float32(s.pixels - 1)
	var place float32
	if s.crop > 1 {
		place = float32(s.from*last) + float32(float32(i)*s.pace)
	} else {
		place = float32(0.5 * float64(s.from+s.to) * float64(s.pixels-1))
	}
	if !(place >= 0 && place <= last) {
		return between{}, false
	}
	// A float may be no closer to the last pixel than the one after it.
	floor := math.Floor(float64(place))
	return between{
		lower: int32(inside(int(floor), s.pixels)),
		upper: int32(inside(int(math.Ceil(float64(place))), s.pixels)),
		part:  place - float32(floor),
	}, true
}

// closest returns the nearest pixel.
func (b between) closest() int32 {
	if b.part < 0.5 {
		return b.lower
	}
	return b.upper
}

// cropEach computes rows of crops.
func cropEach[T pixel](ctx *kernels.Context, c *crops, dst []float32, src []T, outside float32) error {
	n, row := c.from.channels, c.from.width*c.from.channels
	ctx.Parallel(len(c.image)*c.height, max(1, element.CostlyGrain/(c.width*n)), func(lo, hi int) {
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			i := r / c.height
			line, vertical, horizontal := dst[r*c.width*n:][:c.width*n], c.vertical(i), c.horizontal(i)
			y, ok := vertical.at(r % c.height)
			if !ok {
				fill(line, outside)
				continue
			}
			image := src[int(c.image[i])*c.from.height*row:][:c.from.height*row]
			top, bottom := image[int(y.lower)*row:][:row], image[int(y.upper)*row:][:row]
			middle := image[int(y.closest())*row:][:row]
			for j := range c.width {
				to := line[j*n:][:n]
				x, ok := horizontal.at(j)
				switch {
				case !ok:
					fill(to, outside)
				case c.nearest:
					element.Convert(to, middle[int(x.closest())*n:][:n])
				default:
					interpolatePixel(to, top, bottom, x, y.part)
				}
			}
		}
	})
	return ctx.Ended()
}

// interpolatePixel interpolates a pixel's channels between those of four pixels.
func interpolatePixel[T pixel](to []float32, top, bottom []T, x between, down float32) {
	left, right := int(x.lower)*len(to), int(x.upper)*len(to)
	for c := range to {
		above := mix(float32(top[left+c]), float32(top[right+c]), x.part)
		below := mix(float32(bottom[left+c]), float32(bottom[right+c]), x.part)
		to[c] = mix(above, below, down)
	}
}

// mix interpolates between a and b.
func mix(a, b, part float32) float32 { return a + float32((b-a)*part) }

func fill(dst []float32, v float32) {
	for i := range dst {
		dst[i] = v
	}
}

package image

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// readCropGrads checks and reads the gradients of crops from input 0, and their boxes from input i on.
func readCropGrads(ctx *kernels.Context, i int) (c crops, err error) {
	if err := args.CheckType(ctx, 0, tensor.Float32); err != nil {
		return c, err
	}
	grads := ctx.Input(0)
	if c.boxes, c.image, err = cropBoxes(ctx, i); err != nil {
		return c, err
	}
	if grads.Dim(0) != len(c.image) {
		return c, status.InvalidArgumentf("boxes and grads have incompatible shape")
	}
	c.height, c.width = grads.Dim(1), grads.Dim(2)
	return c, nil
}

// checkCropGrads rejects tensors that cannot be gradients of crops.
func checkCropGrads(grads *tensor.Tensor) error {
	if grads.Rank() != 4 {
		return status.InvalidArgumentf("grads image must be 4-D%v", grads.Shape())
	}
	if grads.Dim(1) == 0 || grads.Dim(2) == 0 {
		return status.InvalidArgumentf("grads dimensions must be positive")
	}
	return nil
}

// cropGradImage returns the constructor of CropAndResizeGradImage; add adds a product of factors and gradients.
func cropGradImage[T any](add func(dst []T, grads []float32, outer, inner float32)) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		nearest, err := method(c)
		return kernels.Func(func(ctx *kernels.Context) error {
			if err := checkCropGrads(ctx.Input(0)); err != nil {
				return err
			}
			run, err := readCropGrads(ctx, 1)
			if err != nil {
				return err
			}
			run.nearest = nearest
			if run.from, err = imageSize(ctx); err != nil {
				return err
			}
			out, err := run.from.allocate(ctx, element.DTypeOf[T]())
			if err != nil {
				return err
			}
			if err := run.checkImages(); err != nil || out.Len() == 0 {
				return err
			}
			return spreadCrops(ctx, &run, element.ViewOf[T](out), add)
		}), err
	}
}

// imageSize reads input 3: the sizes of the images that were cropped.
func imageSize(ctx *kernels.Context) (e extent, err error) {
	if err := args.CheckType(ctx, 3, tensor.Int32); err != nil {
		return e, err
	}
	size := ctx.Input(3)
	if size.Rank() != 1 {
		return e, status.InvalidArgumentf("image_size must be 1-D%v", size.Shape())
	}
	if size.Len() != 4 {
		return e, status.InvalidArgumentf("image_size must have 4 elements%v", size.Shape())
	}
	v := tensor.Of[int32](size)
	e = extent{int(v[0]), int(v[1]), int(v[2]), int(v[3])}
	switch {
	case e.height <= 0 || e.width <= 0:
		return e, status.InvalidArgumentf("image dimensions must be positive")
	case ctx.Input(0).Dim(3) != e.channels:
		return e, status.InvalidArgumentf("image_size and grads are incompatible")
	}
	return e, nil
}

// cropParts is the number of parts that the images are divided into. Each part scans all boxes, since an image must get its boxes in order.
const cropParts = 64

// spreadCrops adds the gradient of each pixel of a crop to those of its source pixels.
func spreadCrops[T any](ctx *kernels.Context, c *crops, dst []T, add func(dst []T, grads []float32, outer, inner float32)) error {
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	src, n := tensor.Of[float32](ctx.Input(0)), c.from.channels
	row, crop := c.from.width*n, c.height*c.width*n
	ctx.Parallel(c.from.batch, c.from.batch/cropParts+1, func(lo, hi int) {
		for i, at := range c.image {
			if int(at) < lo || int(at) >= hi {
				continue
			}
			image, grads := dst[int(at)*c.from.height*row:][:c.from.height*row], src[i*crop:][:crop]
			vertical, horizontal := c.vertical(i), c.horizontal(i)
			for j := range c.height {
				if ctx.Ended() != nil {
					return
				}
				if y, ok := vertical.at(j); ok {
					spreadCropRow(c, image, grads[j*c.width*n:], y, &horizontal, add)
				}
			}
		}
	})
	return ctx.Ended()
}

func spreadCropRow[T any](c *crops, image []T, grads []float32, y between, horizontal *side, add func(dst []T, grads []float32, outer, inner float32)) {
	n := c.from.channels
	pixel := func(y, x int32) []T { return image[(int(y)*c.from.width+int(x))*n:][:n] }
	for j := range c.width {
		x, ok := horizontal.at(j)
		if !ok {
			continue
		}
		g := grads[j*n:][:n]
		if c.nearest {
			add(pixel(y.closest(), x.closest()), g, 1, 1)
			continue
		}
		add(pixel(y.lower, x.lower), g, 1-x.part, 1-y.part)
		add(pixel(y.lower, x.upper), g, x.part, 1-y.part)
		add(pixel(y.upper, x.lower), g, 1-x.part, y.part)
		add(pixel(y.upper, x.upper), g, x.part, y.part)
	}
}

func addCrop[T element.Floating](dst []T, grads []float32, outer, inner float32) {
	for i, g := range grads {
		dst[i] += T(float32(outer * float32(inner*g)))
	}
}

// addCropHalves rounds each product and each sum to the type, as TensorFlow does.
func addCropHalves(dst []element.Float16, grads []float32, outer, inner float32) {
	for i, g := range grads {
		part := element.ToFloat16(float32(outer * float32(inner*g)))
		dst[i] = element.ToFloat16(dst[i].Float() + part.Float())
	}
}

// cropGradBoxes returns the constructor of CropAndResizeGradBoxes.
func cropGradBoxes[T pixel](load loader[T]) func(*kernels.Construction) (any, error) {
	return kernels.Always(func(ctx *kernels.Context) error {
		grads, images := ctx.Input(0), ctx.Input(1)
		if err := checkCropGrads(grads); err != nil {
			return err
		}
		if images.Rank() != 4 {
			return status.InvalidArgumentf("input image must be 4-D%v", images.Shape())
		}
		from := extentOf(images)
		switch {
		case from.height == 0 || from.width == 0:
			return status.InvalidArgumentf("image dimensions must be positive")
		case from.channels != grads.Dim(3):
			return status.InvalidArgumentf("image, grads depth differ")
		}
		run, err := readCropGrads(ctx, 2)
		if err != nil {
			return err
		}
		run.from = from
		out, err := ctx.Allocate(0, tensor.Float32, tensor.Shape{int64(len(run.image)), 4})
		if err != nil {
			return err
		}
		if err := run.checkImages(); err != nil || out.Len() == 0 {
			return err
		}
		src, release, err := load(ctx, 1)
		if err != nil {
			return err
		}
		defer release()
		return moveBoxes(ctx, &run, tensor.Of[float32](out), src)
	})
}

// moveBoxes sums, for each box, how its crop changes with its sides.
func moveBoxes[T pixel](ctx *kernels.Context, c *crops, dst []float32, src []T) error {
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	n := c.from.channels
	if n == 0 {
		return nil
	}
	grads, row, crop := tensor.Of[float32](ctx.Input(0)), c.from.width*n, c.height*c.width*n
	ctx.Parallel(len(c.image), max(1, element.CostlyGrain/crop), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			image := src[int(c.image[i])*c.from.height*row:][:c.from.height*row]
			vertical, horizontal := c.vertical(i).steady(), c.horizontal(i).steady()
			for j := range c.height {
				if ctx.Ended() != nil {
					return
				}
				y, ok := vertical.at(j)
				if !ok {
					continue
				}
				top, bottom := image[int(y.lower)*row:][:row], image[int(y.upper)*row:][:row]
				for k := range c.width {
					if x, ok := horizontal.at(k); ok {
						moveBox((*[4]float32)(dst[4*i:]), pixelMove{vertical.weights(j), horizontal.weights(k)}, grads[i*crop+(j*c.width+k)*n:][:n], top, bottom, x, y.part)
					}
				}
			}
		}
	})
	return ctx.Ended()
}

// pixelMove is how far a pixel of a crop moves with each side of the box.
type pixelMove struct{ y, x sideMove }

// sideMove is how far a pixel moves with the first and the last side, in one direction. The numbers of a crop of more
// than one pixel are floats.
type sideMove struct {
	first, last float64
	single      bool
}

func (m sideMove) add(first, last *float32, slope float32) {
	if m.single {
		*first = float32(float64(*first) + float64(slope)*m.first)
		*last = float32(float64(*last) + float64(slope)*m.last)
		return
	}
	*first += float32(slope * float32(m.first))
	*last += float32(slope * float32(m.last))
}

// moveBox adds the contribution of one pixel of a crop to the gradient of its box's sides: top, left, bottom and right.
func moveBox[T pixel](dst *[4]float32, move pixelMove, grads []float32, top, bottom []T, x between, down float32) {
	n := len(grads)
	left, right := int(x.lower)*n, int(x.upper)*n
	for c, g := range grads {
		topLeft, topRight := float32(top[left+c]), float32(top[right+c])
		bottomLeft, bottomRight := float32(bottom[left+c]), float32(bottom[right+c])
		slopeY := float32((1-x.part)*(bottomLeft-topLeft)) + float32(x.part*(bottomRight-topRight))
		slopeX := float32((1-down)*(topRight-topLeft)) + float32(down*(bottomRight-bottomLeft))
		move.y.add(&dst[0], &dst[2], slopeY*g)
		move.x.add(&dst[1], &dst[3], slopeX*g)
	}
}

// steady returns the side with the pace that the gradient of boxes uses, which is rounded differently.
func (s side) steady() side {
	if s.crop > 1 {
		s.pace = (s.to - s.from) * s.ratio()
	}
	return s
}

// ratio returns the number of the image's pixels per step of the crop.
func (s *side) ratio() float32 { return float32(s.pixels-1) / float32(s.crop-1) }

// weights returns how far pixel i of the crop moves with the sides.
func (s *side) weights(i int) sideMove {
	if s.crop == 1 {
		half := 0.5 * float64(s.pixels-1)
		return sideMove{half, half, true}
	}
	last := float32(float32(i) * s.ratio())
	return sideMove{float64(float32(s.pixels-1) - last), float64(last), false}
}

package image

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// scaleAndTranslate returns the constructor of ScaleAndTranslate.
func scaleAndTranslate[T pixel](load loader[T]) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		sample, err := newSampling(c)
		return kernels.Func(func(ctx *kernels.Context) error {
			from, to, err := translated(ctx)
			if err != nil {
				return err
			}
			scale, move, err := transformation(ctx)
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
			meter := ctx.Meter()
			defer meter.Done()
			columns, err1 := sample.spans(ctx, &meter, to.width, from.width, scale[1], move[1])
			rows, err2 := sample.spans(ctx, &meter, to.height, from.height, scale[0], move[0])
			if err := args.FirstError(err1, err2); err != nil {
				return err
			}
			return gather(ctx, tensor.Of[float32](out), src, rows, columns, from, to)
		}), err
	}
}

// translated checks the images and the output's size, and returns both sizes.
func translated(ctx *kernels.Context) (from, to extent, err error) {
	images, size := ctx.Input(0), ctx.Input(1)
	if err := args.CheckType(ctx, 1, tensor.Int32); err != nil {
		return from, to, err
	}
	switch {
	case images.Rank() != 4:
		return from, to, status.InvalidArgumentf("input must be 4-dimensional%v", images.Shape())
	case size.Rank() != 1:
		return from, to, status.InvalidArgumentf("output_shape_t must be 1-dimensional%v", size.Shape())
	case size.Len() != 2:
		return from, to, status.InvalidArgumentf("output_shape_t must have two elements%v", size.Shape())
	}
	from = extentOf(images)
	to = from
	to.height, to.width = int(tensor.Of[int32](size)[0]), int(tensor.Of[int32](size)[1])
	switch {
	case from.height >= math.MaxInt32 || from.width >= math.MaxInt32:
		return from, to, status.InvalidArgumentf("input sizes must be between 0 and max int32")
	case to.height <= 0 || to.width <= 0:
		return from, to, status.InvalidArgumentf("output dimensions must be positive")
	case from.channels == 0:
		return from, to, status.InvalidArgumentf("image must have at least one channel")
	case from.height == 0 || from.width == 0:
		return from, to, status.InvalidArgumentf("input image must be of non-zero size")
	}
	return from, to, nil
}

// transformation reads inputs 2 and 3: the scales of rows and columns, and the translation that follows.
func transformation(ctx *kernels.Context) (scale, move [2]float32, err error) {
	for i, to := range []*[2]float32{&scale, &move} {
		t := ctx.Input(2 + i)
		if err := args.CheckType(ctx, 2+i, tensor.Float32); err != nil {
			return scale, move, err
		}
		if t.Rank() != 1 {
			return scale, move, status.InvalidArgumentf("t must be 1-dimensional%v", t.Shape())
		}
		if t.Len() != 2 {
			return scale, move, status.InvalidArgumentf("t must have two elements%v", t.Shape())
		}
		copy(to[:], tensor.Of[float32](t))
		if i == 0 && !(scale[0] > 0 && scale[1] > 0) {
			return scale, move, status.InvalidArgumentf("Scale must be greater than zero.")
		}
	}
	return scale, move, nil
}

// newScaleAndTranslateGrad returns the kernel of ScaleAndTranslateGrad.
func newScaleAndTranslateGrad(c *kernels.Construction) (any, error) {
	sample, err := newSampling(c)
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.FirstError(args.CheckType(ctx, 0, tensor.Float32), args.CheckType(ctx, 1, tensor.Float32)); err != nil {
			return err
		}
		grads, images := ctx.Input(0), ctx.Input(1)
		if grads.Rank() != 4 {
			return status.InvalidArgumentf("input_grad must be 4-dimensional%v", grads.Shape())
		}
		if images.Rank() != 4 {
			return status.InvalidArgumentf("original_image must be 4-dimensional%v", images.Shape())
		}
		from := extentOf(grads)
		to := from
		to.height, to.width = images.Dim(1), images.Dim(2)
		if to.height >= math.MaxInt32 || to.width >= math.MaxInt32 || from.height >= math.MaxInt32 || from.width >= math.MaxInt32 {
			return status.InvalidArgumentf("original sizes must be between 0 and max int32")
		}
		scale, move, err := transformation(ctx)
		if err != nil {
			return err
		}
		out, err := to.allocate(ctx, tensor.Float32)
		if err != nil || out.Len() == 0 {
			return err
		}
		meter := ctx.Meter()
		defer meter.Done()
		columns, err1 := sample.gradient(ctx, &meter, from.width, to.width, scale[1], move[1])
		rows, err2 := sample.gradient(ctx, &meter, from.height, to.height, scale[0], move[0])
		if err := args.FirstError(err1, err2); err != nil {
			return err
		}
		return gather(ctx, tensor.Of[float32](out), tensor.Of[float32](grads), rows, columns, from, to)
	}), err
}

// gradient returns the spans of the gradient for a line of n pixels that was resized to to pixels.
func (s sampling) gradient(ctx *kernels.Context, m *kernels.Meter, to, n int, scale, move float32) (spans, error) {
	forward, err := s.spans(ctx, m, to, n, scale, move)
	if err != nil {
		return spans{}, err
	}
	return forward.transposed(m, n)
}

// gather computes rows of the output, each from a span of rows, and each of their pixels from a span of columns.
func gather[T pixel](ctx *kernels.Context, dst []float32, src []T, rows, columns spans, from, to extent) error {
	in, out := from.width*from.channels, to.width*to.channels
	grain := max(1, element.CostlyGrain/(max(1, rows.size)*in+max(1, columns.size)*out+1))
	err := element.WithScratch(ctx, to.batch*to.height, grain, in, func(mixed []float32, lo, hi int) {
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			clear(mixed)
			start, weights := rows.of(r%to.height, from.height)
			for j, w := range weights {
				if ctx.Ended() != nil {
					return
				}
				addScaled(mixed, src[(r/to.height*from.height+start+j)*in:][:in], w)
			}
			line := dst[r*out:][:out]
			clear(line)
			for x := range to.width {
				start, weights := columns.of(x, from.width)
				for j, w := range weights {
					addScaled(line[x*to.channels:][:to.channels], mixed[(start+j)*to.channels:][:to.channels], w)
				}
			}
		}
	})
	return args.FirstError(err, ctx.Ended())
}

func addScaled[T pixel](dst []float32, src []T, by float32) {
	for i, v := range src {
		dst[i] += float32(by * float32(v))
	}
}

package image

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// resizeBilinear makes the constructor of ResizeBilinear.
func resizeBilinear[T pixel](load loader[T]) func(*kernels.Construction) (any, error) {
	return resizeFloats(load, interpolate[T])
}

// interpolate computes rows of the output, each from two rows of the images.
func interpolate[T pixel](ctx *kernels.Context, c centres, dst []float32, src []T, from, to extent) error {
	if from == to {
		ctx.Device.Parallel(len(src), element.CheapGrain, func(lo, hi int) { element.Convert(dst[lo:hi], src[lo:hi]) })
		return nil
	}
	meter := ctx.Meter()
	defer meter.Done()
	ys, err1 := c.neighbours(&meter, from.height, to.height)
	xs, err2 := c.neighbours(&meter, from.width, to.width)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	in, out := from.width*from.channels, to.width*to.channels
	ctx.Device.Parallel(to.batch*to.height, max(1, element.CostlyGrain/out), func(lo, hi int) {
		for r := lo; r < hi && ctx.Step.Cancellation.Err() == nil; r++ {
			image, y := r/to.height*from.height, ys[r%to.height]
			top, bottom := src[(image+int(y.lower))*in:][:in], src[(image+int(y.upper))*in:][:in]
			interpolateRow(dst[r*out:][:out], top, bottom, xs, y.part, to.channels)
		}
	})
	return ctx.Step.Cancellation.Err()
}

func interpolateRow[T pixel](dst []float32, top, bottom []T, xs []between, down float32, channels int) {
	for i, x := range xs {
		left, right, to := int(x.lower)*channels, int(x.upper)*channels, dst[i*channels:][:channels]
		for c := range to {
			above := mix(float32(top[left+c]), float32(top[right+c]), x.part)
			below := mix(float32(bottom[left+c]), float32(bottom[right+c]), x.part)
			to[c] = mix(above, below, down)
		}
	}
}

// mix is part of the way from a to b.
func mix(a, b, part float32) float32 { return a + float32((b-a)*part) }

// resizeBilinearGradHalves makes the kernel of ResizeBilinearGrad for a half type. It adds up floats.
func resizeBilinearGradHalves[H element.HalfFloat](c *kernels.Construction) (any, error) {
	centres, err := newCentres(c)
	return kernels.Func(func(ctx *kernels.Context) error {
		dtype := element.DTypeOf[H]()
		from, to, err := gradientOf(ctx, centres, dtype)
		if err != nil {
			return err
		}
		out, err := to.allocate(ctx, dtype)
		if err != nil || out.Len() == 0 {
			return err
		}
		wide, release, err := element.Scratch[float32](ctx.Device, out.Len())
		if err != nil {
			return err
		}
		defer release()
		if err := spread(ctx, centres, wide, from, to); err != nil {
			return err
		}
		dst := element.ViewOf[H](out)
		ctx.Device.Parallel(len(dst), element.CheapGrain, func(lo, hi int) { element.Narrow(dst[lo:hi], wide[lo:hi]) })
		return nil
	}), err
}

// spread adds the gradient of each pixel to those of the four that it came from.
func spread[T element.Floating](ctx *kernels.Context, c centres, dst []T, from, to extent) error {
	meter := ctx.Meter()
	defer meter.Done()
	ys, err1 := c.neighbours(&meter, to.height, from.height)
	xs, err2 := c.neighbours(&meter, to.width, from.width)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	tensor.Clear(dst)
	src := tensor.Of[float32](ctx.Input(0))
	in, out := from.width*from.channels, to.width*to.channels
	ctx.Device.Parallel(to.batch, max(1, element.CostlyGrain/(in*from.height)), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			for i, y := range ys {
				if ctx.Step.Cancellation.Err() != nil {
					return
				}
				top, bottom := dst[(b*to.height+int(y.lower))*out:][:out], dst[(b*to.height+int(y.upper))*out:][:out]
				spreadRow(top, bottom, src[(b*from.height+i)*in:][:in], xs, y.part, from.channels)
			}
		}
	})
	return ctx.Step.Cancellation.Err()
}

func spreadRow[T element.Floating](top, bottom []T, src []float32, xs []between, down float32, channels int) {
	for i, x := range xs {
		left, right := int(x.lower)*channels, int(x.upper)*channels
		for c, v := range src[i*channels:][:channels] {
			above, below := v*(1-down), v*down
			top[left+c] += T(above * (1 - x.part))
			top[right+c] += T(above * x.part)
			bottom[left+c] += T(below * (1 - x.part))
			bottom[right+c] += T(below * x.part)
		}
	}
}

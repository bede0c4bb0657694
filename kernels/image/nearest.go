package image

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// largestNearest is the size above which float32 cannot represent every index.
const largestNearest = 1 << 24

// newResizeNearest returns the kernel of ResizeNearestNeighbor. It moves pixels of any type as bytes.
func newResizeNearest(c *kernels.Construction) (any, error) {
	dtype, err1 := c.Attrs().Type("T")
	centres, err2 := newCentres(c)
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.CheckType(ctx, 0, dtype); err != nil {
			return err
		}
		from, to, err := resized(ctx, centres)
		if err != nil {
			return err
		}
		if from.height >= largestNearest || from.width >= largestNearest {
			return status.InvalidArgumentf("nearest neighbor requires max height & width of 2^24")
		}
		out, err := to.allocate(ctx, dtype)
		if err != nil || out.Len() == 0 {
			return err
		}
		return pickNearest(ctx, centres, out.Data(), from, to, to.channels*dtype.Size())
	}), args.FirstError(err1, err2)
}

// pickNearest copies the nearest pixel for each pixel of the output. A pixel has size bytes.
func pickNearest(ctx *kernels.Context, c centres, dst []byte, from, to extent, size int) error {
	meter := ctx.Meter()
	defer meter.Done()
	ys, err1 := c.nearest(&meter, from.height, to.height)
	xs, err2 := c.nearest(&meter, from.width, to.width)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	src, in, out := ctx.Input(0).Data(), from.width*size, to.width*size
	ctx.Parallel(to.batch*to.height, max(1, element.CostlyGrain/out), func(lo, hi int) {
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			row, line := src[(r/to.height*from.height+int(ys[r%to.height]))*in:][:in], dst[r*out:][:out]
			for i, x := range xs {
				copy(line[i*size:][:size], row[int(x)*size:])
			}
		}
	})
	return ctx.Ended()
}

// resizeNearestGrad returns the constructor of ResizeNearestNeighborGrad; add adds a pixel to another one.
func resizeNearestGrad[T any](add func(dst, src []T)) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		centres, err := newCentres(c)
		return kernels.Func(func(ctx *kernels.Context) error {
			dtype := element.DTypeOf[T]()
			if err := args.CheckType(ctx, 0, dtype); err != nil {
				return err
			}
			grads := ctx.Input(0)
			if grads.Rank() != 4 {
				return status.InvalidArgumentf("input must be 4-dimensional%v", grads.Shape())
			}
			from := extentOf(grads)
			to := from
			if to.height, to.width, err = sizeInput(ctx, "shape_t's elements must be positive"); err != nil {
				return err
			}
			if from.height > math.MaxInt32 || from.width > math.MaxInt32 {
				return status.InvalidArgumentf("input sizes must be between 0 and max int32")
			}
			out, err := to.allocate(ctx, dtype)
			if err != nil || out.Len() == 0 {
				return err
			}
			return gatherNearest(ctx, centres, element.ViewOf[T](out), from, to, add)
		}), err
	}
}

// gatherNearest adds the gradient of each pixel to that of its source pixel.
func gatherNearest[T any](ctx *kernels.Context, c centres, dst []T, from, to extent, add func(dst, src []T)) error {
	meter := ctx.Meter()
	defer meter.Done()
	ys, err1 := c.nearest(&meter, to.height, from.height)
	xs, err2 := c.nearest(&meter, to.width, from.width)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	src, n := element.ViewOf[T](ctx.Input(0)), from.channels
	ctx.Parallel(to.batch, max(1, element.CostlyGrain/max(1, from.height*from.width*n)), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			for i, y := range ys {
				if ctx.Ended() != nil {
					return
				}
				row, line := dst[(b*to.height+int(y))*to.width*n:], src[(b*from.height+i)*from.width*n:]
				for j, x := range xs {
					add(row[int(x)*n:][:n], line[j*n:][:n])
				}
			}
		}
	})
	return ctx.Ended()
}

func addPixel[T element.Integer | element.Floating](dst, src []T) {
	for i, v := range src {
		dst[i] += v
	}
}

// addFloat16 rounds each sum to the type, as TensorFlow does.
func addFloat16(dst, src []element.Float16) {
	for i, v := range src {
		dst[i] = element.ToFloat16(dst[i].Float() + v.Float())
	}
}

// addBFloat16 rounds each sum to the type, as TensorFlow does.
func addBFloat16(dst, src []element.BFloat16) {
	for i, v := range src {
		dst[i] = element.ToBFloat16(dst[i].Float() + v.Float())
	}
}

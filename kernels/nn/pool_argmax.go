package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// argmaxPooling holds the attributes of max pooling that also returns the index of each maximum: in its image or, if batches is set, in all
// images.
type argmaxPooling struct {
	pooling
	batches bool
}

func newArgmaxPooling(c *kernels.Construction) (a argmaxPooling, err error) {
	if a.batches, err = c.Attrs().Bool("include_batch_in_index"); err != nil {
		return a, err
	}
	ksize, err1 := c.Attrs().IntList("ksize")
	strides, err2 := c.Attrs().IntList("strides")
	if err := args.FirstError(err1, err2, a.readPadding(c)); err != nil {
		return a, err
	}
	return a, a.setWindow(c.Node.Op, ksize, strides)
}

// planArgmax checks the images and computes the windows over them.
func (a *argmaxPooling) planArgmax(image *tensor.Tensor) (pool, error) {
	if image.Rank() != 4 {
		return pool{}, status.InvalidArgumentf("tensor_in must be 4-dimensional (2)")
	}
	if image.Len() == 0 {
		return pool{}, status.InvalidArgumentf("tensor_in must not be empty (2)")
	}
	p, err := a.plan(image.Shape())
	p.over = 1
	return p, err
}

// argmaxKernel is MaxPoolWithArgmax. As in TensorFlow, a window over channels is checked and then ignored. NaN is the maximum if it comes
// first in its window, and only then.
type argmaxKernel[T element.Ordered, I int32 | int64] struct{ argmaxPooling }

func (k *argmaxKernel[T, I]) Compute(ctx *kernels.Context) error {
	image := ctx.Input(0)
	if err := args.CheckType(ctx, 0, element.DTypeOf[T]()); err != nil {
		return err
	}
	p, err := k.planArgmax(image)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, image.DType(), p.outShape())
	if err != nil {
		return err
	}
	argmax, err := ctx.Allocate(1, element.DTypeOf[I](), p.outShape())
	if err != nil || out.Len() == 0 {
		return err
	}
	src, dst, places := element.ViewOf[T](image), element.ViewOf[T](out), tensor.Of[I](argmax)
	ctx.Parallel(p.batch*p.rows.out, p.grain(), func(lo, hi int) {
		p.eachPlace(lo, hi, func(place, image int, rows, cols [3]int) {
			base := image
			if k.batches {
				base = 0
			}
			best, at := dst[place*p.depth:][:p.depth], places[place*p.depth:][:p.depth]
			first := true
			for y := rows[0]; y < rows[1]; y++ {
				for x := cols[0]; x < cols[1]; x++ {
					start := image + ((rows[2]+y)*p.cols.in+cols[2]+x)*p.depth
					for c, v := range src[start:][:p.depth] {
						if first || v > best[c] {
							best[c], at[c] = v, I(start-base+c)
						}
					}
					first = false
				}
			}
		})
	})
	return nil
}

// argmaxGradKernel is MaxPoolGradWithArgmax. It adds the gradient of each place to the element that was the maximum.
type argmaxGradKernel[T element.Ordered] struct{ argmaxPooling }

func (k *argmaxGradKernel[T]) Compute(ctx *kernels.Context) error {
	dtype := element.DTypeOf[T]()
	if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, dtype), args.CheckType(ctx, 2, tensor.Int64)); err != nil {
		return err
	}
	image, grad, argmax := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	p, err := k.plan(image.Shape())
	if err != nil {
		return err
	}
	if err := args.FirstError(expectShape("grad", p.outShape(), grad.Shape()), expectShape("argmax", p.outShape(), argmax.Shape())); err != nil {
		return err
	}
	size, per := p.rows.in*p.cols.in*p.depth, grad.Len()/max(1, p.batch)
	// from returns the offset of the elements that the index at place i of the result refers to, and their number.
	from := func(i int) (start, n int) {
		if k.batches {
			return 0, p.batch * size
		}
		return i / per * size, size
	}
	places := tensor.Of[int64](argmax)
	for i, at := range places {
		if start, n := from(i); at < 0 || at >= int64(n) {
			return status.InvalidArgumentf("Invalid output gradient index: %d, %d, %d", int64(start)+at, start, start+n)
		}
	}
	out, err := ctx.Allocate(0, dtype, image.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	dst, g := element.ViewOf[T](out), element.ViewOf[T](grad)
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	for i, at := range places {
		start, _ := from(i)
		dst[start+int(at)] += g[i]
	}
	return nil
}

// argmaxRows returns the rows of MaxPoolWithArgmax for one element type.
func argmaxRows[T element.Ordered]() []kernels.Def {
	return append(argmaxRowsOf[T, int32](), argmaxRowsOf[T, int64]()...)
}

func argmaxRowsOf[T element.Ordered, I int32 | int64]() []kernels.Def {
	like := kernels.Def{Types: dtypes.Only("Targmax", element.DTypeOf[I]()), Expensive: true, New: func(c *kernels.Construction) (any, error) {
		a, err := newArgmaxPooling(c)
		return &argmaxKernel[T, I]{a}, err
	}}
	return halves.With("T", like, element.DTypeOf[T]())
}

// argmaxGradRows returns those of its gradient.
func argmaxGradRows[T element.Ordered]() []kernels.Def {
	like := kernels.Def{Types: dtypes.Only("Targmax", tensor.Int64), Expensive: true, New: func(c *kernels.Construction) (any, error) {
		a, err := newArgmaxPooling(c)
		return &argmaxGradKernel[T]{a}, err
	}}
	return halves.With("T", like, element.DTypeOf[T]())
}

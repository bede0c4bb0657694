package nn

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// convFirstKernel is Conv2D of images whose channels come first. Where the direct methods apply, it computes band by band: a band's part of
// the image and its results have their channels last, but only in the second-level cache. moved computes the rest.
type convFirstKernel[T element.Numeric] struct {
	convKernel[T]
	moved kernels.Kernel
}

func (k *convFirstKernel[T]) Compute(ctx *kernels.Context) error {
	image, filter := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	s := image.Shape()
	if len(s) != 4 || image.Len() == 0 || filter.Len() == 0 {
		return k.moved.Compute(ctx)
	}
	c, err := k.plan(tensor.Shape{s[0], s[2], s[3], s[1]}, filter.Shape())
	if err != nil {
		return err
	}
	if !c.pointwise() && (k.first == nil || !c.direct()) {
		return k.moved.Compute(ctx)
	}
	out, err := ctx.Allocate(0, k.dtype, tensor.Shape{s[0], int64(c.outDepth), int64(c.rows.out), int64(c.cols.out)})
	if err != nil || out.Len() == 0 {
		return err
	}
	dst, src, f := element.ViewOf[T](out), element.ViewOf[T](image), element.ViewOf[T](filter)
	if !c.pointwise() {
		return k.first(ctx, &c, dst, src, f)
	}
	places := c.rows.out * c.cols.out
	for n := 0; n < c.batch && ctx.Ended() == nil; n++ {
		k.mul(ctx.Parallel, true, false, c.outDepth, places, c.inDepth, f, c.outDepth, src[n*c.inDepth*places:], places, dst[n*c.outDepth*places:], places, false)
	}
	return ctx.Ended()
}

// convolveFirst is convolveDirectly for images whose channels come first.
func convolveFirst(ctx *kernels.Context, c *convolution, out, image, filter []float32) error {
	packed, release, err := element.Scratch[float32](ctx.Device, simd.PanelsLen(c.patch(), c.outDepth))
	if err != nil {
		return err
	}
	defer release()
	panels := simd.PackPanels(packed, filter, c.outDepth, c.patch(), c.outDepth)
	b := c.bands(mostBand / c.outDepth)
	line, row, all := c.cols.extent(c.cols.out)*c.inDepth, c.cols.out*c.outDepth, c.rows.out*c.cols.out
	padded := c.rows.extent(b.rows) * line
	return element.WithScratch(ctx, c.batch*b.count, 1, padded+b.rows*row, func(work []float32, lo, hi int) {
		results := work[padded:]
		for i := lo; i < hi; i++ {
			n, first, rows := b.place(i)
			from := work[:c.rows.extent(rows)*line]
			c.padFirst(from, image[n*c.rows.in*c.cols.in*c.inDepth:], first*c.rows.stride-c.rows.before, line)
			b.over(rows, line).TimesPanels(from, &panels, simd.Grid{C: results[:rows*row], RowStep: row, ColumnStep: c.outDepth})
			simd.Transpose(out[n*all*c.outDepth+first*c.cols.out:], all, results, c.outDepth, c.outDepth, rows*c.cols.out)
		}
	})
}

// padFirst is pad for an image whose channels come first.
func (c *convolution) padFirst(dst, image []float32, y, line int) {
	c.eachLine(dst, y, line, func(to []float32, y, column int) {
		if pixels := len(to) / c.inDepth; pixels > 0 {
			simd.Transpose(to, c.inDepth, image[y*c.cols.in+column:], c.rows.in*c.cols.in, pixels, c.inDepth)
		}
	})
}

// conv2 returns the kernel of Conv2D.
func conv2[T element.Numeric](w windowing, by methods[T]) kernels.Kernel {
	k := convKernel[T]{w, element.DTypeOf[T](), by}
	moved := w.inLayout(&k, []int{0}, -1, 0)
	if w.channelsFirst {
		return &convFirstKernel[T]{k, moved}
	}
	return moved
}

// convolveRows returns the rows of Conv2D for one element type.
func convolveRows[T element.Numeric](by methods[T]) []kernels.Def {
	return halves.Rows("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) {
		w, err := newWindowing(c)
		if err != nil {
			return nil, err
		}
		return conv2(w, by), nil
	})
}

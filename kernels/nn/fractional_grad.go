package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/printing"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// fractionalMaxGradKernel is FractionalMaxPoolGrad. It adds the gradient of each place to the first maximum of the place's region.
type fractionalMaxGradKernel[T element.Ordered] struct{ overlapping bool }

func (k *fractionalMaxGradKernel[T]) Compute(ctx *kernels.Context) error {
	rows, cols, err := k.check(ctx)
	if err != nil {
		return err
	}
	in, result, grad := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	out, err := ctx.Allocate(0, in.DType(), in.Shape())
	if err != nil {
		return err
	}
	src, have, g, dst := element.ViewOf[T](in), element.ViewOf[T](result), element.ViewOf[T](grad), element.ViewOf[T](out)
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	depth, size := in.Dim(3), in.Len()/in.Dim(0)
	var failed error
	eachCell(ctx, &rows, &cols, 0, result.Dim(0)*result.Dim(1), func(c cell) {
		for d := range depth {
			best := -1
			for y := c.top; y < c.bottom; y++ {
				for x := c.left; x < c.right; x++ {
					if at := (y*cols.in+x)*depth + d; best < 0 || src[best] < src[at] {
						best = at
					}
				}
			}
			to := c.place*depth + d
			switch {
			case best < 0:
				failed = status.InvalidArgumentf("Invalid input backprop index: %d, %d", best, size)
			case src[best] != have[to]:
				failed = errOtherMaxima
			case to < len(g):
				dst[best] += g[to]
			}
		}
	})
	return failed
}

var errOtherMaxima = status.InvalidArgumentf("tensor_out_dup is not the same as tensor_out")

// check checks the inputs and returns the regions.
func (k *fractionalMaxGradKernel[T]) check(ctx *kernels.Context) (rows, cols regions, err error) {
	dtype := element.DTypeOf[T]()
	for i, want := range []tensor.DType{dtype, dtype, dtype, tensor.Int64, tensor.Int64} {
		if err := args.CheckType(ctx, i, want); err != nil {
			return rows, cols, err
		}
	}
	in, result, grad, rowSeq, colSeq := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3), ctx.Input(4)
	for i, name := range []string{"orig_input", "orig_output"} {
		if t := ctx.Input(i); t.Rank() != 4 {
			return rows, cols, status.InvalidArgumentf("%s should be a tensor of rank 4, got %s", name, printing.DebugText(t))
		} else if t.Len() == 0 {
			return rows, cols, status.InvalidArgumentf("%s must not be empty, got %s", name, printing.DebugText(t))
		}
	}
	if n, ok := shapes.MulSize(int64(rowSeq.Len()), int64(colSeq.Len())); !ok || n > int64(in.Len()) {
		return rows, cols, status.InvalidArgumentf("Pooling region has more elements than the input tensor. row_pooling_sequence: %scol_pooling_sequence: %sorig_input: %s",
			printing.DebugText(rowSeq), printing.DebugText(colSeq), printing.DebugText(in))
	}
	for i, name := range []string{"row_pooling_sequence", "col_pooling_sequence"} {
		if t := ctx.Input(3 + i); t.Rank() != 1 {
			return rows, cols, status.InvalidArgumentf("%s must be a vector, received shape %v", name, t.Shape())
		}
	}
	if in.Dim(0) != result.Dim(0) || in.Dim(3) != result.Dim(3) || rowSeq.Len() != result.Dim(1)+1 || colSeq.Len() != result.Dim(2)+1 {
		return rows, cols, errOtherMaxima
	}
	if grad.Len() > result.Len() {
		return rows, cols, status.InvalidArgumentf("Invalid input backprop index: %d, %d", result.Len(), in.Len())
	}
	if rows, err = regionsOf(rowSeq, in.Dim(1), k.overlapping, "Row"); err != nil {
		return rows, cols, err
	}
	cols, err = regionsOf(colSeq, in.Dim(2), k.overlapping, "Column")
	return rows, cols, err
}

// regionsOf returns the regions whose borders an input holds.
func regionsOf(borders *tensor.Tensor, in int, overlapping bool, what string) (regions, error) {
	r := regions{tensor.Of[int64](borders), in, overlapping}
	for i, b := range r.borders {
		last := i == len(r.borders)-1
		if b < 0 || last && !overlapping && b < 1 {
			return r, status.InvalidArgumentf("%s sequence tensor values must not be negative, got %s", what, shapes.JoinInts(r.borders))
		}
	}
	return r, nil
}

// fractionalAvgGradKernel is FractionalAvgPoolGrad. It divides the gradient of each place among the elements of the place's region.
// Gradients are summed in float64.
type fractionalAvgGradKernel[T element.Ordered] struct{ overlapping bool }

func (k *fractionalAvgGradKernel[T]) Compute(ctx *kernels.Context) error {
	shape, rows, cols, err := k.check(ctx)
	if err != nil {
		return err
	}
	grad := ctx.Input(1)
	out, err := ctx.Allocate(0, grad.DType(), shape)
	if err != nil {
		return err
	}
	sums, release, err := element.Scratch[float64](ctx.Device, out.Len())
	if err != nil {
		return err
	}
	defer release()
	if err := kernels.Clear(ctx, sums); err != nil {
		return err
	}
	g, dst, depth := element.ViewOf[T](grad), element.ViewOf[T](out), grad.Dim(3)
	eachCell(ctx, &rows, &cols, 0, grad.Dim(0)*grad.Dim(1), func(c cell) {
		n := float64((c.bottom - c.top) * (c.right - c.left))
		for y := c.top; y < c.bottom; y++ {
			for x := c.left; x < c.right; x++ {
				to := sums[(y*cols.in+x)*depth:][:depth]
				for d, v := range g[c.place*depth:][:depth] {
					to[d] += float64(v) / n
				}
			}
		}
	})
	for i, v := range sums {
		dst[i] = T(v)
	}
	return nil
}

// check checks the inputs and returns the shape of the image and the regions.
func (k *fractionalAvgGradKernel[T]) check(ctx *kernels.Context) (shape tensor.Shape, rows, cols regions, err error) {
	for i, want := range []tensor.DType{tensor.Int64, element.DTypeOf[T](), tensor.Int64, tensor.Int64} {
		if err := args.CheckType(ctx, i, want); err != nil {
			return nil, rows, cols, err
		}
	}
	sizes, grad := ctx.Input(0), ctx.Input(1)
	if sizes.Rank() != 1 || sizes.Len() != 4 {
		return nil, rows, cols, status.InvalidArgumentf("original input tensor shape must be1-dimensional and 4 elements")
	}
	if grad.Rank() != 4 {
		return nil, rows, cols, status.InvalidArgumentf("out_backprop must be 4-dimensional")
	}
	for _, d := range grad.Shape() {
		if d <= 0 {
			return nil, rows, cols, status.InvalidArgumentf("out_backprop must be positive for all dimension, got:%d", d)
		}
	}
	for i, what := range []string{"row", "col"} {
		if t := ctx.Input(2 + i); t.Len() <= grad.Dim(1+i) {
			return nil, rows, cols, status.InvalidArgumentf("Given out_backprop shape %v, %s_seq_tensor must have at least %d elements, but got %d", grad.Shape(), what, grad.Dim(1+i)+1, t.Len())
		}
	}
	v := tensor.Of[int64](sizes)
	for i, what := range []string{"Batch", "Rows", "Columns", "Depth"} {
		if v[i] == 0 {
			return nil, rows, cols, status.InvalidArgumentf("%s dimension of input must not be 0", what)
		}
	}
	if shape, err = shapes.ShapeOf(v); err != nil {
		return nil, rows, cols, err
	}
	if shape[0] < int64(grad.Dim(0)) || shape[3] != int64(grad.Dim(3)) {
		return nil, rows, cols, status.InvalidArgumentf("out_backprop of shape %v is none of an input of shape %v", grad.Shape(), shape)
	}
	if rows, err = regionsOf(ctx.Input(2), int(shape[1]), k.overlapping, "Row"); err != nil {
		return nil, rows, cols, err
	}
	cols, err = regionsOf(ctx.Input(3), int(shape[2]), k.overlapping, "Column")
	rows.borders, cols.borders = rows.borders[:grad.Dim(1)+1], cols.borders[:grad.Dim(2)+1]
	return shape, rows, cols, err
}

// fractionalMaxGrad and fractionalAvgGrad return the rows of one element type.
func fractionalMaxGrad[T element.Ordered]() []kernels.Def {
	return kernels.ForType("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) {
		overlapping, err := c.Attrs().Bool("overlapping")
		return &fractionalMaxGradKernel[T]{overlapping}, err
	})
}

func fractionalAvgGrad[T element.Ordered]() []kernels.Def {
	return kernels.ForType("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) {
		overlapping, err := c.Attrs().Bool("overlapping")
		return &fractionalAvgGradKernel[T]{overlapping}, err
	})
}

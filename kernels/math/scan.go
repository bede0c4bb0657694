package math

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// scanKernel implements Cumsum and Cumprod: running sums or products along an axis.
type scanKernel[T element.Numeric] struct {
	dtype              tensor.DType
	product            bool
	exclusive, reverse bool
}

func (k *scanKernel[T]) Compute(ctx *kernels.Context) error {
	out, at, err := scanOutput(ctx, k.dtype)
	if err != nil || out.Len() == 0 {
		return err
	}
	in := ctx.Input(0)
	n := in.Dim(at)
	outer, inner := shapes.Around(in.Shape(), at)
	dst, src := element.ViewOf[T](out), element.ViewOf[T](in)
	ctx.Parallel(outer, max(1, element.CheapGrain/(n*inner)), func(lo, hi int) {
		running := make([]T, inner)
		for o := lo; o < hi; o++ {
			k.scan(dst[o*n*inner:][:n*inner], src[o*n*inner:][:n*inner], running)
		}
	})
	return nil
}

// scanOutput allocates the output for an input of type dtype, in the input's memory if it may be reused, and returns the axis.
func scanOutput(ctx *kernels.Context, dtype tensor.DType) (out *tensor.Tensor, at int, err error) {
	in, axes := ctx.Input(0), ctx.Input(1)
	if err := args.CheckType(ctx, 0, dtype); err != nil {
		return nil, 0, err
	}
	if axes.Rank() != 0 {
		return nil, 0, status.InvalidArgumentf("ScanOp: axis must be a scalar, not %v", axes.Shape())
	}
	axis, err := args.IntAt(axes, 0)
	if err != nil {
		return nil, 0, err
	}
	rank := int64(in.Rank())
	if axis < -rank || axis >= rank {
		return nil, 0, status.InvalidArgumentf("ScanOp: Expected scan axis in the range [%d, %d), but got %d", -rank, rank, axis)
	}
	out, err = ctx.Forward(0, 0, dtype, in.Shape())
	return out, int((axis + rank) % rank), err
}

// scan scans rows of len(running) elements.
func (k *scanKernel[T]) scan(dst, src, running []T) {
	inner := len(running)
	for i := range running {
		running[i] = 0
		if k.product {
			running[i] = 1
		}
	}
	rows := len(src) / inner
	for r := range rows {
		if k.reverse {
			r = rows - 1 - r
		}
		from, to := src[r*inner:(r+1)*inner], dst[r*inner:(r+1)*inner]
		for i, v := range from {
			next := running[i] + v
			if k.product {
				next = running[i] * v
			}
			if k.exclusive {
				to[i] = running[i]
			} else {
				to[i] = next
			}
			running[i] = next
		}
	}
}

// scanRows returns the rows of Cumsum or, if product is set, of Cumprod.
func scanRows(product bool) []kernels.Def {
	return slices.Concat(scanOf[float32](product), scanOf[float64](product),
		scanOf[int8](product), scanOf[int16](product), scanOf[int32](product), scanOf[int64](product),
		scanOf[uint8](product), scanOf[uint16](product), scanOf[uint32](product), scanOf[uint64](product),
		scanOf[complex64](product), scanOf[complex128](product))
}

func scanOf[T element.Numeric](product bool) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		return &scanKernel[T]{dtype, product, a.Bool("exclusive"), a.Bool("reverse")}, a.Err()
	})
}

// logSumScan implements CumulativeLogsumexp: the logarithms of running sums of exponentials along an axis.
type logSumScan[T element.Floating] struct {
	dtype              tensor.DType
	exclusive, reverse bool
}

// Compute implements kernels.Kernel.
func (k *logSumScan[T]) Compute(ctx *kernels.Context) error {
	out, at, err := scanOutput(ctx, k.dtype)
	if err != nil || out.Len() == 0 {
		return err
	}
	in := ctx.Input(0)
	n := in.Dim(at)
	outer, inner := shapes.Around(in.Shape(), at)
	dst, src := element.ViewOf[T](out), element.ViewOf[T](in)
	ctx.Parallel(outer*inner, max(1, element.CostlyGrain/n), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k.scan(dst, src, i/inner*n*inner+i%inner, inner, n)
		}
	})
	return nil
}

// scan scans n elements, starting at first, that lie step apart.
func (k *logSumScan[T]) scan(dst, src []T, first, step, n int) {
	if k.reverse {
		first, step = first+(n-1)*step, -step
	}
	running := T(math.Inf(-1))
	for i := range n {
		at := first + i*step
		next := logSum(running, src[at])
		if k.exclusive {
			dst[at] = running
		} else {
			dst[at] = next
		}
		running = next
	}
}

// logSum returns log(exp(a) + exp(b)), computed relative to the greater of the two. If b is NaN, it returns log(2·exp(a)), as TensorFlow
// does.
func logSum[T element.Floating](a, b T) T {
	least, most := a, a
	if b < a {
		least = b
	} else if a < b {
		most = b
	}
	if math.IsInf(float64(most), -1) {
		return most
	}
	return T(math.Log1p(math.Exp(float64(least-most)))) + most
}

// logSumScans returns the rows of CumulativeLogsumexp.
func logSumScans() []kernels.Def {
	return append(logSumScanOf[float32](), logSumScanOf[float64]()...)
}

func logSumScanOf[T element.Floating]() []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		return &logSumScan[T]{dtype, a.Bool("exclusive"), a.Bool("reverse")}, a.Err()
	})
}

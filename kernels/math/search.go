package math

import (
	"slices"
	"sort"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// bucketizeKernel counts, for each element, the sorted boundaries that it has reached.
type bucketizeKernel[T element.Integer | element.Floating] struct {
	dtype      tensor.DType
	boundaries []float32
}

func (k *bucketizeKernel[T]) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.Int32, in.Shape())
	if err != nil {
		return err
	}
	dst := tensor.Of[int32](out)
	for i, v := range element.ViewOf[T](in) {
		// As in C++, an integer becomes a float32 to be compared with one.
		x := float64(v)
		if k.dtype != tensor.Float64 {
			x = float64(float32(v))
		}
		dst[i] = int32(sort.Search(len(k.boundaries), func(b int) bool { return x < float64(k.boundaries[b]) }))
	}
	return nil
}

// bucketize returns the rows of Bucketize for one element type.
func bucketize[T element.Integer | element.Floating]() []kernels.Def {
	dtype := element.DTypeOf[T]()
	return kernels.ForType("T", dtype, func(c *kernels.Construction) (any, error) {
		list, err := c.Attrs().List("boundaries")
		if err != nil {
			return nil, err
		}
		boundaries := list.GetF()
		if !sort.SliceIsSorted(boundaries, func(i, j int) bool { return boundaries[i] < boundaries[j] }) {
			return nil, status.InvalidArgumentf("Expected sorted boundaries")
		}
		return &bucketizeKernel[T]{dtype, boundaries}, nil
	})
}

// boundKernel implements LowerBound and UpperBound: where values would go in a sorted row, before or after equal elements.
type boundKernel[T element.Ordered] struct {
	dtype, out tensor.DType
	after      bool
}

func (k *boundKernel[T]) Compute(ctx *kernels.Context) error {
	sorted, values := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	if sorted.Rank() != 2 {
		return status.InvalidArgumentf("sorted input argument must be a matrix")
	}
	if values.Rank() != 2 {
		return status.InvalidArgumentf("values input argument must be a matrix")
	}
	if sorted.Dim(0) != values.Dim(0) {
		return status.InvalidArgumentf("Leading dim_size of both tensors must match.")
	}
	out, err := ctx.Allocate(0, k.out, values.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	n, m := sorted.Dim(1), values.Dim(1)
	rows := element.ViewOf[T](sorted)
	all := element.ViewOf[T](values)
	return ctx.Each(len(all), searchTime, func(lo, hi int) error {
		k.search(out, all, rows, lo, hi, n, m)
		return nil
	})
}

// search finds the places of values lo to hi. There are m for each sorted row, which has n elements.
func (k *boundKernel[T]) search(out *tensor.Tensor, values, rows []T, lo, hi, n, m int) {
	for i := lo; i < hi; i++ {
		v, row := values[i], rows[i/m*n:(i/m+1)*n]
		// Only < is used, with these operands on these sides, which puts NaNs where TensorFlow's search does.
		at := sort.Search(n, func(j int) bool { return v < row[j] })
		if !k.after {
			at = sort.Search(n, func(j int) bool { return !(row[j] < v) })
		}
		if k.out == tensor.Int32 {
			tensor.Of[int32](out)[i] = int32(at)
		} else {
			tensor.Of[int64](out)[i] = int64(at)
		}
	}
}

// searchTime is the time in nanoseconds to search a row.
const searchTime = 100

// boundRows returns the rows of LowerBound or, if after is set, of UpperBound.
func boundRows(after bool) []kernels.Def {
	return slices.Concat(boundOf[float32](after), boundOf[float64](after),
		boundOf[int8](after), boundOf[int16](after), boundOf[int32](after), boundOf[int64](after),
		boundOf[uint8](after), boundOf[uint16](after), boundOf[uint32](after), boundOf[uint64](after))
}

func boundOf[T element.Ordered](after bool) []kernels.Def {
	dtype := element.DTypeOf[T]()
	row := func(out tensor.DType) []kernels.Def {
		return halves.With("T", kernels.Def{Types: dtypes.Only("out_type", out), New: func(*kernels.Construction) (any, error) {
			return &boundKernel[T]{dtype, out, after}, nil
		}}, dtype)
	}
	return append(row(tensor.Int32), row(tensor.Int64)...)
}

// nthKernel implements NthElement: the element of each row that sorting would put at index n.
type nthKernel[T element.Ordered] struct {
	dtype   tensor.DType
	reverse bool
}

func (k *nthKernel[T]) Compute(ctx *kernels.Context) error {
	in, n := ctx.Input(0), ctx.Input(1)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	if n.Rank() != 0 {
		return status.InvalidArgumentf("N must be scalar but has rank %d", n.Rank())
	}
	at, err := args.IntAt(n, 0)
	if err != nil {
		return err
	}
	if at < 0 {
		return status.InvalidArgumentf("n must be non-negative but is %d", at)
	}
	if in.Rank() == 0 {
		return status.InvalidArgumentf("Input must be at least rank 1 but is rank 0")
	}
	width := in.Dim(in.Rank() - 1)
	if at >= int64(width) {
		return status.InvalidArgumentf("Input must have last dimension > n = %d", at)
	}
	if k.reverse {
		at = int64(width) - 1 - at
	}
	out, err := ctx.Allocate(0, k.dtype, in.Shape()[:in.Rank()-1])
	if err != nil {
		return err
	}
	src, dst := element.ViewOf[T](in), element.ViewOf[T](out)
	element.EachRow(ctx, len(dst), width, func(lo, hi int) {
		row, left := make([]T, width), sortPart
		for r := lo; r < hi; r++ {
			copy(row, src[r*width:])
			ended := false // then all are equal, and the sort is soon over
			sort.Slice(row, func(i, j int) bool {
				if left--; left < 0 {
					left, ended = sortPart, ctx.Ended() != nil
				}
				return row[i] < row[j] && !ended
			})
			dst[r] = row[at]
		}
	})
	return nil
}

// sortPart is the number of comparisons between two looks for the end of the step.
const sortPart = 1 << 16

// nth returns the rows of NthElement for one element type.
func nth[T element.Ordered]() []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(c *kernels.Construction) (any, error) {
		reverse, err := c.Attrs().Bool("reverse")
		return &nthKernel[T]{dtype, reverse}, err
	})
}

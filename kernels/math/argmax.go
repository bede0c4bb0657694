package math

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// argKernel finds the index of the extreme element along an axis. Of equal elements the first one wins. NaN is never extreme.
type argKernel[T element.Ordered] struct {
	dtype, out tensor.DType
	reduce     argReduction[T] // for the type of the output
	// worst is the value that every element beats or equals. If least is set, the smallest element wins.
	worst T
	least bool
}

func (k *argKernel[T]) Compute(ctx *kernels.Context) error {
	out, at, err := argOutput(ctx, k.dtype, k.out)
	if err != nil || out.Len() == 0 {
		return err
	}
	in := ctx.Input(0)
	outer, inner := shapes.Around(in.Shape(), at)
	k.reduce(ctx, k, out, element.ViewOf[T](in), outer, in.Dim(at), inner)
	return nil
}

// argOutput allocates the output, of type index, for an input of type dtype, and returns the axis.
func argOutput(ctx *kernels.Context, dtype, index tensor.DType) (out *tensor.Tensor, at int, err error) {
	in, dim := ctx.Input(0), ctx.Input(1)
	if err := args.CheckType(ctx, 0, dtype); err != nil {
		return nil, 0, err
	}
	if dim.Rank() != 0 {
		return nil, 0, status.InvalidArgumentf("dim must be a scalar, but received tensor of shape: %v", dim.Shape())
	}
	axis, err := args.IntAt(dim, 0)
	if err != nil {
		return nil, 0, err
	}
	rank := int64(in.Rank())
	if axis < -rank || axis >= rank {
		return nil, 0, status.InvalidArgumentf("Expected dimension in the range [%d, %d), but got %d", -rank, rank, axis)
	}
	at = int((axis + rank) % rank)
	if in.Dim(at) == 0 {
		return nil, 0, status.InvalidArgumentf("Reduction axis %d is empty in shape %v", axis, in.Shape())
	}
	out, err = ctx.Allocate(0, index, shapes.Replaced(in.Shape(), at, at+1))
	return out, at, err
}

// argReduction writes the indices of the extremes of src to out. src holds outer × n × inner elements.
type argReduction[T element.Ordered] func(ctx *kernels.Context, k *argKernel[T], out *tensor.Tensor, src []T, outer, n, inner int)

func argReduce[T element.Ordered, I int16 | uint16 | int32 | int64](ctx *kernels.Context, k *argKernel[T], out *tensor.Tensor, src []T, outer, n, inner int) {
	dst := tensor.Of[I](out)
	ctx.Parallel(outer, max(1, element.CheapGrain/(n*inner)), func(lo, hi int) {
		best := make([]T, inner)
		for o := lo; o < hi; o++ {
			part, to := src[o*n*inner:(o+1)*n*inner], dst[o*inner:(o+1)*inner]
			if inner == 1 {
				to[0] = I(k.find(part))
				continue
			}
			clear(to)
			for i := range best {
				best[i] = k.worst
			}
			for r := range n {
				row := part[r*inner : (r+1)*inner]
				for i, v := range row {
					if k.least && v < best[i] || !k.least && v > best[i] {
						best[i], to[i] = v, I(r)
					}
				}
			}
		}
	})
}

// find returns the index of the winner in a row.
func (k *argKernel[T]) find(row []T) int {
	best, at := k.worst, 0
	if k.least {
		for i, v := range row {
			if v < best {
				best, at = v, i
			}
		}
		return at
	}
	for i, v := range row {
		if v > best {
			best, at = v, i
		}
	}
	return at
}

// argRows returns the rows of ArgMax or, if least is set, of ArgMin.
func argRows(least bool) []kernels.Def {
	return slices.Concat(
		argRowsOf(tensor.Float32, least, float32(math.Inf(-1)), float32(math.Inf(1))),
		argRowsOf(tensor.Float64, least, math.Inf(-1), math.Inf(1)),
		argRowsOf[int8](tensor.Int8, least, math.MinInt8, math.MaxInt8),
		argRowsOf[int16](tensor.Int16, least, math.MinInt16, math.MaxInt16),
		argRowsOf[int32](tensor.Int32, least, math.MinInt32, math.MaxInt32),
		argRowsOf[int64](tensor.Int64, least, math.MinInt64, math.MaxInt64),
		argRowsOf[uint8](tensor.Uint8, least, 0, math.MaxUint8),
		argRowsOf[uint16](tensor.Uint16, least, 0, math.MaxUint16),
		argRowsOf[uint32](tensor.Uint32, least, 0, math.MaxUint32),
		argRowsOf[uint64](tensor.Uint64, least, 0, math.MaxUint64),
		argRowsOf[uint8](tensor.Bool, least, 0, 1)) // booleans are stored as bytes 0 and 1
}

// argRowsOf returns the rows for one element type, one for each output type. lowest and highest bound the elements.
func argRowsOf[T element.Ordered](dtype tensor.DType, least bool, lowest, highest T) []kernels.Def {
	worst := lowest
	if least {
		worst = highest
	}
	row := func(out tensor.DType, reduce argReduction[T]) []kernels.Def {
		k := &argKernel[T]{dtype: dtype, out: out, reduce: reduce, worst: worst, least: least}
		return halves.With("T", kernels.Def{
			Types: dtypes.Only("output_type", out), HostInputs: []string{"dimension"}, New: func(*kernels.Construction) (any, error) { return k, nil },
		}, dtype)
	}
	return slices.Concat(row(tensor.Int32, argReduce[T, int32]), row(tensor.Int64, argReduce[T, int64]),
		row(tensor.Int16, argReduce[T, int16]), row(tensor.Uint16, argReduce[T, uint16]))
}

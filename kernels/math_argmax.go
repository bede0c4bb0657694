package kernels

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// argKernel finds where along an axis the extreme element stands; the first one where several
// are equal. NaN is never extreme.
type argKernel[T ordered] struct {
	dtype, out tensor.DType
	// worst is what no element loses against; least tells that the smallest wins.
	worst T
	least bool
}

func (k *argKernel[T]) Compute(ctx *Context) error {
	out, at, err := argOutput(ctx, k.dtype, k.out)
	if err != nil || out.Len() == 0 {
		return err
	}
	in := ctx.Input(0)
	outer, inner := around(in.Shape(), at)
	switch k.out {
	case tensor.Int32:
		argReduce(ctx.Device, k, tensor.Of[int32](out), viewOf[T](in), outer, in.Dim(at), inner)
	case tensor.Int64:
		argReduce(ctx.Device, k, tensor.Of[int64](out), viewOf[T](in), outer, in.Dim(at), inner)
	case tensor.Int16:
		argReduce(ctx.Device, k, tensor.Of[int16](out), viewOf[T](in), outer, in.Dim(at), inner)
	case tensor.Uint16:
		argReduce(ctx.Device, k, tensor.Of[uint16](out), viewOf[T](in), outer, in.Dim(at), inner)
	}
	return nil
}

// argOutput makes the output, of type index, for an input of type dtype, and gives the axis.
func argOutput(ctx *Context, dtype, index tensor.DType) (out *tensor.Tensor, at int, err error) {
	in, dim := ctx.Input(0), ctx.Input(1)
	if err := checkType(ctx, 0, dtype); err != nil {
		return nil, 0, err
	}
	if dim.Rank() != 0 {
		return nil, 0, status.InvalidArgumentf("dim must be a scalar, but received tensor of shape: %v", dim.Shape())
	}
	axis, err := intAt(dim, 0)
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
	out, err = ctx.Allocate(0, index, replaced(in.Shape(), at, at+1))
	return out, at, err
}

func argReduce[T ordered, I int16 | uint16 | int32 | int64](dev Device, k *argKernel[T], dst []I, src []T, outer, n, inner int) {
	dev.Parallel(outer, max(1, cheapGrain/(n*inner)), func(lo, hi int) {
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

// find gives the winner's place in a row.
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

// argRows makes the rows of ArgMax and ArgMin for one element type.
func argRows[T ordered](dtype tensor.DType, least, greatest T) {
	for _, out := range []tensor.DType{tensor.Int32, tensor.Int64, tensor.Int16, tensor.Uint16} {
		for op, k := range map[string]*argKernel[T]{
			"ArgMax": {dtype: dtype, out: out, worst: least},
			"ArgMin": {dtype: dtype, out: out, worst: greatest, least: true},
		} {
			construct := func(*Construction) (any, error) { return k, nil }
			argRow(op, dtype, out, construct)
			if dtype == tensor.Float32 {
				for _, half := range halfTypes {
					argRow(op, half, out, halves(half, construct))
				}
			}
		}
	}
}

func argRow(op string, in, out tensor.DType, construct func(*Construction) (any, error)) {
	Register(Def{Op: op, Types: map[string][]tensor.DType{"T": {in}, "output_type": {out}}, HostInputs: []string{"dimension"}, New: construct})
}

func init() {
	argRows(tensor.Float32, float32(math.Inf(-1)), float32(math.Inf(1)))
	argRows(tensor.Float64, math.Inf(-1), math.Inf(1))
	argRows[int8](tensor.Int8, math.MinInt8, math.MaxInt8)
	argRows[int16](tensor.Int16, math.MinInt16, math.MaxInt16)
	argRows[int32](tensor.Int32, math.MinInt32, math.MaxInt32)
	argRows[int64](tensor.Int64, math.MinInt64, math.MaxInt64)
	argRows[uint8](tensor.Uint8, 0, math.MaxUint8)
	argRows[uint16](tensor.Uint16, 0, math.MaxUint16)
	argRows[uint32](tensor.Uint32, 0, math.MaxUint32)
	argRows[uint64](tensor.Uint64, 0, math.MaxUint64)
	argRows[uint8](tensor.Bool, 0, 1) // booleans are bytes of 0 and 1
}

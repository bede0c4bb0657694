package math

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// argKernel finds where along an axis the extreme element stands; the first one where several
// are equal. NaN is never extreme.
type argKernel[T element.Ordered] struct {
	dtype, out tensor.DType
	// worst is what no element loses against; least tells that the smallest wins.
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
	switch k.out {
	case tensor.Int32:
		argReduce(ctx.Device, k, tensor.Of[int32](out), element.ViewOf[T](in), outer, in.Dim(at), inner)
	case tensor.Int64:
		argReduce(ctx.Device, k, tensor.Of[int64](out), element.ViewOf[T](in), outer, in.Dim(at), inner)
	case tensor.Int16:
		argReduce(ctx.Device, k, tensor.Of[int16](out), element.ViewOf[T](in), outer, in.Dim(at), inner)
	case tensor.Uint16:
		argReduce(ctx.Device, k, tensor.Of[uint16](out), element.ViewOf[T](in), outer, in.Dim(at), inner)
	}
	return nil
}

// argOutput makes the output, of type index, for an input of type dtype, and gives the axis.
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

func argReduce[T element.Ordered, I int16 | uint16 | int32 | int64](dev kernels.Device, k *argKernel[T], dst []I, src []T, outer, n, inner int) {
	dev.Parallel(outer, max(1, element.CheapGrain/(n*inner)), func(lo, hi int) {
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
func argRows[T element.Ordered](table *kernels.Table, dtype tensor.DType, least, greatest T) {
	for _, out := range []tensor.DType{tensor.Int32, tensor.Int64, tensor.Int16, tensor.Uint16} {
		for op, k := range map[string]*argKernel[T]{
			"ArgMax": {dtype: dtype, out: out, worst: least},
			"ArgMin": {dtype: dtype, out: out, worst: greatest, least: true},
		} {
			construct := func(*kernels.Construction) (any, error) { return k, nil }
			argRow(table, op, dtype, out, construct)
			if dtype == tensor.Float32 {
				for _, half := range halves.Types {
					argRow(table, op, half, out, halves.Constructor(half, construct))
				}
			}
		}
	}
}

func argRow(table *kernels.Table, op string, in, out tensor.DType, construct func(*kernels.Construction) (any, error)) {
	table.Add(kernels.Def{Op: op, Types: map[string][]tensor.DType{"T": {in}, "output_type": {out}}, HostInputs: []string{"dimension"}, New: construct})
}

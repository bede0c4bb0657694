package math

import (
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
)

// addNKernel adds tensors of the same shape.
type addNKernel struct{ row elementwise.BinaryRow }

func (k *addNKernel) Compute(ctx *kernels.Context) error {
	first := ctx.Inputs[0].Tensor
	for i := range ctx.Inputs {
		if err := args.CheckType(ctx, i, k.row.In.DType); err != nil {
			return err
		}
		if s := ctx.Inputs[i].Tensor.Shape(); !s.Equal(first.Shape()) {
			return elementwise.DifferentShapes(ctx, i, first.Shape(), s)
		}
	}
	if len(ctx.Inputs) == 1 {
		ctx.SetOutput(0, first.Retain())
		return nil
	}
	var memory [8]int
	order := memory[:0]
	for i := range ctx.Inputs {
		order = append(order, i)
	}
	out, err := ctx.ForwardAny(0, k.row.In.DType, first.Shape(), order...)
	if err != nil {
		return err
	}
	// The input that is overwritten goes first.
	for i := range ctx.Inputs {
		if ctx.Inputs[i].Tensor == out {
			order[0], order[i] = i, 0
		}
	}
	n := out.Len()
	if n <= 4*element.BlockLen {
		k.sum(ctx, out, order, 0, n)
		return nil
	}
	k.parallel(ctx, out, order)
	return nil
}

func (k *addNKernel) parallel(ctx *kernels.Context, out *tensor.Tensor, order []int) {
	order = append([]int(nil), order...)
	ctx.Parallel(out.Len(), element.CheapGrain/len(order), func(lo, hi int) {
		for ; lo < hi; lo += 4 * element.BlockLen {
			k.sum(ctx, out, order, lo, min(lo+4*element.BlockLen, hi))
		}
	})
}

// sum adds elements lo to hi of all inputs. The caller keeps the range small enough for the cache.
func (k *addNKernel) sum(ctx *kernels.Context, out *tensor.Tensor, order []int, lo, hi int) {
	e := k.row.In
	at := func(t *tensor.Tensor) unsafe.Pointer { return e.At(element.Elements(t), lo) }
	dst := at(out)
	k.row.Each(dst, at(ctx.Inputs[order[0]].Tensor), at(ctx.Inputs[order[1]].Tensor), hi-lo)
	for _, i := range order[2:] {
		k.row.Each(dst, dst, at(ctx.Inputs[i].Tensor), hi-lo)
	}
}

// addNRows returns the rows of AddN and AccumulateNV2, one for each type that has an addition.
func addNRows() []kernels.Def {
	var rows []kernels.Def
	for _, row := range elementwise.Additions() {
		k := &addNKernel{row}
		rows = append(rows, kernels.Def{Types: dtypes.Only("T", row.In.DType), New: func(*kernels.Construction) (any, error) { return k, nil }})
	}
	return rows
}

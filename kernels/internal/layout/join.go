package layout

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// JoinTensors sets output 0, of the given shape, to parts concatenated along axis.
func JoinTensors(ctx *kernels.Context, shape tensor.Shape, axis int, parts []*tensor.Tensor) error {
	out, err := ctx.Allocate(0, parts[0].DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	before, after := shapes.Around(shape, axis)
	if !out.OnHost() {
		joinOn(ctx, out, before, parts)
		return nil
	}
	total := int(shape[axis]) * after
	at, runs := 0, before > 1
	nests := make([]*Nest, 0, len(parts))
	for _, p := range parts {
		if p.Len() > 0 {
			n := p.Len() / before
			nests = append(nests, NewNest([]int{before, n}, []int{total, 1}, []int{n, 1}, at, 0))
			at += n
			runs = runs && n > 1
		}
	}
	if runs && out.Len()*moveBytes(out.DType()) > moveGrain {
		joinRows(ctx, out, parts, nests, before)
		return nil
	}
	for _, p := range parts {
		if p.Len() > 0 {
			Move(ctx, out, p, nests[0])
			nests = nests[1:]
		}
	}
	return nil
}

// joinRows runs the parts' nests a few rows at a time, which writes the output from start to end.
func joinRows(ctx *kernels.Context, out *tensor.Tensor, parts []*tensor.Tensor, nests []*Nest, rows int) {
	const few = 8
	full := make([]*tensor.Tensor, 0, len(nests))
	for _, p := range parts {
		if p.Len() > 0 {
			full = append(full, p)
		}
	}
	m := MoverOf(out.DType())
	row := out.Len() / rows * moveBytes(out.DType())
	ctx.Parallel(rows, max(1, moveGrain/row), func(lo, hi int) {
		for ; lo < hi; lo += few {
			for i, p := range full {
				m.nest(out, p, nests[i], lo, min(lo+few, hi))
			}
		}
	})
}

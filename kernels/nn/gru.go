package nn

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
)

// gru holds the sizes and inputs of GRUBlockCell and its gradient, a step of gated recurrent units with reset gate r, update gate u and
// candidate c.
type gru struct {
	lstmSizes
	x, h, wru, wc, bru, bc []float32
}

// gruRows returns the rows of an op with kernel run.
func gruRows(run kernels.Func) []kernels.Def {
	return []kernels.Def{{Types: map[string][]tensor.DType{"T": {tensor.Float32}}, Expensive: true, New: kernels.Always(run)}}
}

// rankOf rejects an input that does not have the given rank.
func rankOf(ctx *kernels.Context, i, rank int, name string) error {
	if err := args.CheckType(ctx, i, tensor.Float32); err != nil {
		return err
	}
	if t := ctx.Input(i); t.Rank() != rank {
		return status.InvalidArgumentf("Rank of %s must be %d, got %d", name, rank, t.Rank())
	}
	return nil
}

// sized rejects an input whose dimension dim does not have size want.
func sized(t *tensor.Tensor, dim, want int, what string) error {
	if have := t.Dim(dim); have != want {
		return status.InvalidArgumentf("%s: %d vs. %d", what, have, want)
	}
	return nil
}

// readGRU checks the first six inputs.
func readGRU(ctx *kernels.Context) (g gru, err error) {
	for i, name := range []string{"x", "h_prev", "w_ru_", "w_c", "b_ru", "b_c"} {
		rank := 2
		if i >= 4 {
			rank = 1
		}
		if err := rankOf(ctx, i, rank, name); err != nil {
			return g, err
		}
	}
	x, h, wru, wc, bru, bc := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3), ctx.Input(4), ctx.Input(5)
	g.batch, g.input, g.cell = x.Dim(0), x.Dim(1), h.Dim(1)
	if err := args.FirstError(
		sized(h, 0, g.batch, "h_prev.dims(0) != batch_size"),
		sized(wru, 0, g.input+g.cell, "w_ru.dim_size(0) != input_size + cell_size"), sized(wru, 1, 2*g.cell, "w_ru.dim_size(1) != cell_size * 2"),
		sized(wc, 0, g.input+g.cell, "w_c.dim_size(0) != input_size + cell_size"), sized(wc, 1, g.cell, "w_c.dim_size(1) != cell_size"),
		sized(bru, 0, 2*g.cell, "b_ru.dim_size(0) != cell_size * 2"), sized(bc, 0, g.cell, "b_c.dim_size(0) != cell_size")); err != nil {
		return g, err
	}
	view := func(i int) []float32 { return element.ViewOf[float32](ctx.Input(i)) }
	g.x, g.h, g.wru, g.wc, g.bru, g.bc = view(0), view(1), view(2), view(3), view(4), view(5)
	return g, nil
}

// gruScratch returns working memory in parts of the given sizes.
func gruScratch(ctx *kernels.Context, sizes ...int) (parts [][]float32, release func(), err error) {
	total := 0
	for _, n := range sizes {
		total += n
	}
	all, release, err := element.Scratch[float32](ctx.Device, total)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range sizes {
		parts, all = append(parts, all[:n]), all[n:]
	}
	return parts, release, nil
}

// gruCell is the kernel of GRUBlockCell.
func gruCell(ctx *kernels.Context) error {
	g, err := readGRU(ctx)
	if err != nil {
		return err
	}
	shape := tensor.Shape{int64(g.batch), int64(g.cell)}
	out, err := zeroOutputs(ctx, shape, shape, shape, shape)
	if err != nil {
		return err
	}
	r, u, c, h := out[0], out[1], out[2], out[3]
	row, wide := g.input+g.cell, 2*g.cell
	work, release, err := gruScratch(ctx, g.batch*row, g.batch*wide)
	if err != nil {
		return err
	}
	defer release()
	xh, gates := work[0], work[1]
	for n := range g.batch {
		copy(xh[n*row:], g.x[n*g.input:(n+1)*g.input])
		copy(xh[n*row+g.input:(n+1)*row], g.h[n*g.cell:(n+1)*g.cell])
	}
	mul := ctx.Parallel
	gemm.Portable(mul, false, false, g.batch, wide, row, xh, row, g.wru, wide, gates, wide, false)
	for n := range g.batch {
		for k := range g.cell {
			at := n*g.cell + k
			r[at] = logistic32(gates[n*wide+k] + g.bru[k])
			u[at] = logistic32(gates[n*wide+g.cell+k] + g.bru[g.cell+k])
			xh[n*row+g.input+k] = g.h[at] * r[at]
		}
	}
	gemm.Portable(mul, false, false, g.batch, g.cell, row, xh, row, g.wc, g.cell, c, g.cell, false)
	for i := range c {
		c[i] = float32(math.Tanh(float64(c[i] + g.bc[i%g.cell])))
		h[i] = u[i]*(g.h[i]-c[i]) + c[i]
	}
	return nil
}

// gruCellGrad is the kernel of GRUBlockCellGrad.
func gruCellGrad(ctx *kernels.Context) error {
	g, err := readGRU(ctx)
	if err != nil {
		return err
	}
	var state [4][]float32
	for i, name := range []string{"r", "u", "c", "d_h"} {
		if err := rankOf(ctx, 6+i, 2, name); err != nil {
			return err
		}
		t := ctx.Input(6 + i)
		if err := args.FirstError(sized(t, 0, g.batch, name+".dims(0) != batch_size"), sized(t, 1, g.cell, name+".dims(1) != cell_size")); err != nil {
			return err
		}
		state[i] = element.ViewOf[float32](t)
	}
	r, u, c, dh := state[0], state[1], state[2], state[3]
	batch, cell := int64(g.batch), int64(g.cell)
	out, err := zeroOutputs(ctx, tensor.Shape{batch, int64(g.input)}, tensor.Shape{batch, cell}, tensor.Shape{batch, cell}, tensor.Shape{batch, 2 * cell})
	if err != nil {
		return err
	}
	dx, dhPrev, dc, dru := out[0], out[1], out[2], out[3]
	row, wide := g.input+g.cell, 2*g.cell
	work, release, err := gruScratch(ctx, g.batch*row, g.batch*row)
	if err != nil {
		return err
	}
	defer release()
	byGates, byCandidate := work[0], work[1]
	for i, d := range dh {
		dc[i] = d * (1 - u[i]) * (1 - c[i]*c[i])
	}
	mul := ctx.Parallel
	gemm.Portable(mul, false, true, g.batch, row, g.cell, dc, g.cell, g.wc, g.cell, byCandidate, row, false)
	for n := range g.batch {
		for k := range g.cell {
			at := n*g.cell + k
			dhr := byCandidate[n*row+g.input+k]
			dru[n*wide+k] = dhr * g.h[at] * r[at] * (1 - r[at])
			dru[n*wide+g.cell+k] = dh[at] * (g.h[at] - c[at]) * u[at] * (1 - u[at])
		}
	}
	gemm.Portable(mul, false, true, g.batch, row, wide, dru, wide, g.wru, wide, byGates, row, false)
	for n := range g.batch {
		for k := range g.input {
			dx[n*g.input+k] = byGates[n*row+k] + byCandidate[n*row+k]
		}
		for k := range g.cell {
			at, in := n*g.cell+k, n*row+g.input+k
			dhPrev[at] = byGates[in] + byCandidate[in]*r[at] + dh[at]*u[at]
		}
	}
	return nil
}

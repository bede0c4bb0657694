package nn

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// lstm holds the attributes of an op on long short-term memory cells.
type lstm struct {
	forgetBias, clip float32 // the value added to the forget gate; the bound of the cell state, unbounded if not positive
	peephole         bool    // whether the gates see the cell's state
	forget, input    int     // the quarters of the gates' row that hold the forget gate and the cell input
}

// newLSTM reads the attributes. A row of gates is ordered input, cell, forget, output. In the second version of the block op it is ordered
// input, forget, cell, output.
func newLSTM(c *kernels.Construction, bias, clip bool) (l lstm, err error) {
	l.forget, l.input = 2, 1
	if c.Node.Op == "BlockLSTMV2" || c.Node.Op == "BlockLSTMGradV2" {
		l.forget, l.input = 1, 2
	}
	if bias {
		if l.forgetBias, err = c.Attrs().Float("forget_bias"); err != nil {
			return l, err
		}
	}
	if clip {
		if l.clip, err = c.Attrs().Float("cell_clip"); err != nil {
			return l, err
		}
	}
	l.peephole, err = c.Attrs().Bool("use_peephole")
	return l, err
}

// lstmInputs are the inputs of a step that follow x: state and output of the previous step, weights, peepholes, bias.
type lstmInputs struct{ cs, h, w, wci, wcf, wco, b []float32 }

// lstmSizes are the number of rows of a step, and the widths of its input and its cells.
type lstmSizes struct{ batch, input, cell int }

// read checks inputs i onward, of which the first is x, against one another. x may have a leading time dimension; the peepholes must then
// match even if they are not used.
func (l *lstm) read(ctx *kernels.Context, i, rank int) (s lstmSizes, in lstmInputs, err error) {
	for k := range 8 {
		if err := args.CheckType(ctx, i+k, tensor.Float32); err != nil {
			return s, in, err
		}
	}
	x, cs, h, w := ctx.Input(i), ctx.Input(i+1), ctx.Input(i+2), ctx.Input(i+3)
	if x.Rank() != rank {
		if rank == 3 {
			return s, in, status.InvalidArgumentf("x must be 3D")
		}
		return s, in, status.InvalidArgumentf("x_tensor must be rank 2 but is rank %d.", x.Rank())
	}
	for k, name := range []string{"cs_prev", "h_prev", "w"} {
		if ctx.Input(i+1+k).Rank() != 2 {
			return s, in, status.InvalidArgumentf("%s must be 2D", name)
		}
	}
	for k, name := range []string{"wci", "wcf", "wco", "b"} {
		if ctx.Input(i+4+k).Rank() != 1 {
			return s, in, status.InvalidArgumentf("%s must be 1D", name)
		}
	}
	if rank == 2 && cs.Len() == 0 {
		return s, in, status.InvalidArgumentf("cs_prev_tensor is empty, has shape: (%d,%d).", cs.Dim(0), cs.Dim(1))
	}
	s = lstmSizes{x.Dim(rank - 2), x.Dim(rank - 1), cs.Dim(1)}
	peep := func(k int) int {
		if rank == 2 && !l.peephole {
			return s.cell
		}
		return ctx.Input(i + k).Len()
	}
	for _, c := range []struct {
		what       string
		have, want int
	}{
		{"cs_prev.dims(0) != batch_size", cs.Dim(0), s.batch},
		{"h_prev.dims(0) != batch_size", h.Dim(0), s.batch},
		{"h_prev.dims(1) != cell_size", h.Dim(1), s.cell},
		{"w.dim_size(0) != input_size + cell_size", w.Dim(0), s.input + s.cell},
		{"w.dim_size(1) != cell_size * 4", w.Dim(1), s.cell * 4},
		{"wci.dim_size(0) != cell_size", peep(4), s.cell},
		{"wcf.dim_size(0) != cell_size", peep(5), s.cell},
		{"wco.dim_size(0) != cell_size", peep(6), s.cell},
		{"b.dim_size(0) != cell_size * 4", ctx.Input(i + 7).Len(), s.cell * 4},
	} {
		if c.have != c.want {
			return s, in, status.InvalidArgumentf("%s: %d vs. %d", c.what, c.have, c.want)
		}
	}
	view := func(k int) []float32 { return element.ViewOf[float32](ctx.Input(i + k)) }
	return s, lstmInputs{view(1), view(2), view(3), view(4), view(5), view(6), view(7)}, nil
}

// lstmState is the result of a step, in the order of the ops' outputs.
type lstmState struct{ i, cs, f, o, ci, co, h []float32 }

// step computes a step. xh and gates are scratch memory for a row of inputs and a row of gates for each batch element.
func (l *lstm) step(ctx *kernels.Context, s lstmSizes, x []float32, in lstmInputs, out lstmState, xh, gates []float32) {
	row, wide := s.input+s.cell, 4*s.cell
	for n := range s.batch {
		copy(xh[n*row:], x[n*s.input:(n+1)*s.input])
		copy(xh[n*row+s.input:(n+1)*row], in.h[n*s.cell:(n+1)*s.cell])
	}
	gemm.Portable(ctx.Parallel, false, false, s.batch, wide, row, xh, row, in.w, wide, gates, wide, false)
	see := func(w []float32, c int, state float32) float32 {
		if l.peephole {
			return w[c] * state
		}
		return 0
	}
	for n := range s.batch {
		for c := range s.cell {
			at := n*s.cell + c
			gate := func(k int) float32 { return gates[n*wide+k*s.cell+c] + in.b[k*s.cell+c] }
			last := in.cs[at]
			i := logistic32(gate(0) + see(in.wci, c, last))
			ci := float32(math.Tanh(float64(gate(l.input))))
			f := logistic32(gate(l.forget) + l.forgetBias + see(in.wcf, c, last))
			cs := i*ci + f*last
			if l.clip > 0 {
				cs = min(max(cs, -l.clip), l.clip)
			}
			co := float32(math.Tanh(float64(cs)))
			o := logistic32(gate(3) + see(in.wco, c, cs))
			out.i[at], out.cs[at], out.f[at], out.o[at], out.ci[at], out.co[at], out.h[at] = i, cs, f, o, ci, co, o*co
		}
	}
}

func logistic32(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// lstmOutputs allocates the seven outputs.
func lstmOutputs(ctx *kernels.Context, shape tensor.Shape) (all [7][]float32, err error) {
	for o := range all {
		t, err := ctx.Allocate(o, tensor.Float32, shape)
		if err != nil {
			return all, err
		}
		all[o] = element.ViewOf[float32](t)
	}
	return all, nil
}

func lstmSlice(all [7][]float32, lo, hi int) lstmState {
	return lstmState{all[0][lo:hi], all[1][lo:hi], all[2][lo:hi], all[3][lo:hi], all[4][lo:hi], all[5][lo:hi], all[6][lo:hi]}
}

// lstmScratch returns two matrices with a row for each batch element, from the device's pool.
func lstmScratch(ctx *kernels.Context, s lstmSizes) (xh, gates *tensor.Tensor, err error) {
	if xh, err = tensor.New(ctx.Device.Pool(), tensor.Float32, tensor.Shape{int64(s.batch), int64(s.input + s.cell)}); err != nil {
		return nil, nil, err
	}
	if gates, err = tensor.New(ctx.Device.Pool(), tensor.Float32, tensor.Shape{int64(s.batch), int64(4 * s.cell)}); err != nil {
		xh.Release()
	}
	return xh, gates, err
}

func newLSTMBlockCell(c *kernels.Construction) (any, error) {
	l, err := newLSTM(c, true, true)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		s, in, err := l.read(ctx, 0, 2)
		if err != nil {
			return err
		}
		all, err := lstmOutputs(ctx, tensor.Shape{int64(s.batch), int64(s.cell)})
		if err != nil {
			return err
		}
		xh, gates, err := lstmScratch(ctx, s)
		if err != nil {
			return err
		}
		defer xh.Release()
		defer gates.Release()
		l.step(ctx, s, element.ViewOf[float32](ctx.Input(0)), in, lstmSlice(all, 0, s.batch*s.cell), element.ViewOf[float32](xh), element.ViewOf[float32](gates))
		return nil
	}), nil
}

// newBlockLSTM returns the kernel that runs a cell over as many time steps as input 0 says.
func newBlockLSTM(c *kernels.Construction) (any, error) {
	l, err := newLSTM(c, c.Node.Op == "BlockLSTM", true)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		most := ctx.Input(0)
		if most.Rank() != 0 || most.DType() != tensor.Int64 {
			return status.InvalidArgumentf("`seq_len_max_tensor` must be rank 0 but is rank %d", most.Rank())
		}
		s, in, err := l.read(ctx, 1, 3)
		if err != nil {
			return err
		}
		x := ctx.Input(1)
		steps := tensor.Of[int64](most)[0]
		if steps < 0 || steps > x.Shape()[0] {
			return status.InvalidArgumentf("seq_len_max = %d is not between 0 and the %d steps of x", steps, x.Dim(0))
		}
		all, err := lstmOutputs(ctx, tensor.Shape{x.Shape()[0], int64(s.batch), int64(s.cell)})
		if err != nil {
			return err
		}
		xh, gates, err := lstmScratch(ctx, s)
		if err != nil {
			return err
		}
		defer xh.Release()
		defer gates.Release()
		size := s.batch * s.cell
		for t := range int(steps) {
			out := lstmSlice(all, t*size, (t+1)*size)
			l.step(ctx, s, element.ViewOf[float32](x)[t*s.batch*s.input:], in, out, element.ViewOf[float32](xh), element.ViewOf[float32](gates))
			in.cs, in.h = out.cs, out.h
		}
		for _, o := range all {
			clear(o[int(steps)*size:])
		}
		return nil
	}), nil
}

// lstmRows returns the rows of an op on these cells: float32, and half types computed in float32.
func lstmRows(construct func(*kernels.Construction) (any, error)) []kernels.Def {
	return []kernels.Def{
		{Types: dtypes.Only("T", tensor.Float32), Expensive: true, New: construct},
		{Types: dtypes.Only("T", tensor.Float16), Expensive: true, New: halves.Constructor(tensor.Float16, construct)},
	}
}

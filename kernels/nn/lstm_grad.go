package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
)

// lstmGrads are the gradients that back sets or adds to: of the previous state, of the row of gates, of the peepholes.
type lstmGrads struct{ cs, gates, wci, wcf, wco []float32 }

// back computes the gradient of a step. dcs and dh are the gradients of its state and output.
func (l *lstm) back(s lstmSizes, in lstmInputs, st lstmState, dcs, dh []float32, out lstmGrads) {
	for n := range s.batch {
		gates := out.gates[n*4*s.cell:]
		for c := range s.cell {
			at := n*s.cell + c
			i, cs, f, o, ci, co := st.i[at], st.cs[at], st.f[at], st.o[at], st.ci[at], st.co[at]
			do := o * (1 - o) * dh[at] * co
			d := (1-co*co)*dh[at]*o + dcs[at]
			if l.peephole {
				d += do * in.wco[c]
			}
			df := f * (1 - f) * d * in.cs[at]
			di := i * (1 - i) * d * ci
			gates[c], gates[3*s.cell+c] = di, do
			gates[l.input*s.cell+c], gates[l.forget*s.cell+c] = (1-ci*ci)*d*i, df
			last := d * f
			if l.peephole {
				last += di*in.wci[c] + df*in.wcf[c]
				out.wci[c] += di * in.cs[at]
				out.wcf[c] += df * in.cs[at]
				out.wco[c] += do * cs
			}
			out.cs[at] = last
		}
	}
}

// lstmViews checks that the inputs from i onward have the given shape, and returns their elements.
func lstmViews(ctx *kernels.Context, i int, shape tensor.Shape, names ...string) ([][]float32, error) {
	all := make([][]float32, len(names))
	for k, name := range names {
		t := ctx.Input(i + k)
		if err := args.CheckType(ctx, i+k, tensor.Float32); err != nil {
			return nil, err
		}
		if !t.Shape().Equal(shape) {
			return nil, status.InvalidArgumentf("%s must have shape %v, but it has %v", name, shape, t.Shape())
		}
		all[k] = element.ViewOf[float32](t)
	}
	return all, nil
}

// zeroOutput allocates output o and clears it.
func zeroOutput(ctx *kernels.Context, o int, shape ...int64) ([]float32, error) {
	t, err := ctx.Allocate(o, tensor.Float32, shape)
	if err != nil {
		return nil, err
	}
	v := element.ViewOf[float32](t)
	clear(v)
	return v, nil
}

// zeroOutputs allocates outputs and clears them.
func zeroOutputs(ctx *kernels.Context, shapes ...tensor.Shape) (all [][]float32, err error) {
	all = make([][]float32, len(shapes))
	for o, s := range shapes {
		if all[o], err = zeroOutput(ctx, o, s...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func newLSTMBlockCellGrad(c *kernels.Construction) (any, error) {
	l, err := newLSTM(c, false, false)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		s, in, err := l.read(ctx, 0, 2)
		if err != nil {
			return err
		}
		batch, cell := int64(s.batch), int64(s.cell)
		v, err := lstmViews(ctx, 8, tensor.Shape{batch, cell}, "i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad")
		if err != nil {
			return err
		}
		out, err := zeroOutputs(ctx, tensor.Shape{batch, cell}, tensor.Shape{batch, 4 * cell}, ctx.Input(4).Shape(), ctx.Input(5).Shape(), ctx.Input(6).Shape())
		if err != nil {
			return err
		}
		l.back(s, in, lstmState{i: v[0], cs: v[1], f: v[2], o: v[3], ci: v[4], co: v[5]}, v[6], v[7], lstmGrads{out[0], out[1], out[2], out[3], out[4]})
		return nil
	}), nil
}

func newBlockLSTMGrad(c *kernels.Construction) (any, error) {
	l, err := newLSTM(c, false, false)
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
		return l.backThrough(ctx, s, in, int(steps))
	}), nil
}

// backThrough computes the gradients of time steps, last to first.
func (l *lstm) backThrough(ctx *kernels.Context, s lstmSizes, in lstmInputs, steps int) error {
	x := ctx.Input(1)
	batch, cell, row, wide := int64(s.batch), int64(s.cell), s.input+s.cell, 4*s.cell
	v, err := lstmViews(ctx, 9, tensor.Shape{x.Shape()[0], batch, cell}, "i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad")
	if err != nil {
		return err
	}
	last := tensor.Shape{batch, cell}
	out, err := zeroOutputs(ctx, x.Shape(), last, last, ctx.Input(4).Shape(), tensor.Shape{cell}, tensor.Shape{cell}, tensor.Shape{cell}, tensor.Shape{4 * cell})
	if err != nil {
		return err
	}
	xhTensor, gatesTensor, err := lstmScratch(ctx, s)
	if err != nil {
		return err
	}
	defer xhTensor.Release()
	defer gatesTensor.Release()
	xh, gates := element.ViewOf[float32](xhTensor), element.ViewOf[float32](gatesTensor)
	xGrad, csGrad, hGrad, wGrad, bGrad := out[0], out[1], out[2], out[3], out[7]
	size, first, images := s.batch*s.cell, in, element.ViewOf[float32](x)
	dcs, dh := make([]float32, size), make([]float32, size)
	for t := steps - 1; t >= 0; t-- {
		lo, hi := t*size, (t+1)*size
		in = first
		if t > 0 {
			in.cs, in.h = v[1][lo-size:lo], v[6][lo-size:lo]
		}
		elementwise.Add(dcs, csGrad, v[7][lo:hi])
		elementwise.Add(dh, hGrad, v[8][lo:hi])
		l.back(s, in, lstmState{i: v[0][lo:hi], cs: v[1][lo:hi], f: v[2][lo:hi], o: v[3][lo:hi], ci: v[4][lo:hi], co: v[5][lo:hi]}, dcs, dh,
			lstmGrads{csGrad, gates, out[4], out[5], out[6]})
		gemm.Portable(ctx.Parallel, false, true, s.batch, row, wide, gates, wide, in.w, wide, xh, row, false)
		from := images[t*s.batch*s.input:]
		for n := range s.batch {
			copy(xGrad[(t*s.batch+n)*s.input:], xh[n*row:n*row+s.input])
			copy(hGrad[n*s.cell:], xh[n*row+s.input:(n+1)*row])
			// Reuse the memory for the step's inputs.
			copy(xh[n*row:], from[n*s.input:(n+1)*s.input])
			copy(xh[n*row+s.input:(n+1)*row], in.h[n*s.cell:(n+1)*s.cell])
			elementwise.Add(bGrad, bGrad, gates[n*wide:(n+1)*wide])
		}
		gemm.Portable(ctx.Parallel, true, false, row, wide, s.batch, xh, row, gates, wide, wGrad, wide, true)
	}
	return nil
}

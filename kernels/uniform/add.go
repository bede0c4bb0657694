package uniform

import (
	"math"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// adder is UniformQuantizedAdd. It converts both operands to the output's scales and adds them.
type adder struct {
	lhs, rhs, out int // axes
	limits        limits
}

func newAdd(a *graph.AttrReader) kernels.Kernel {
	l := limitsOf(a, "output_")
	lhs, rhs, out := a.Int32("lhs_quantization_axis"), a.Int32("rhs_quantization_axis"), a.Int32("output_quantization_axis")
	if min(lhs, rhs, out) < -1 {
		a.Failf("lhs, rhs and output quantization_axis must be -1 or within [0, dims)")
	}
	return &adder{int(lhs), int(rhs), int(out), l}
}

// operand is one of the two operands, converted to the output's scales.
type operand struct {
	numbers []int32
	strides []int // one for each dimension of the output
}

// Compute implements kernels.Kernel.
func (k *adder) Compute(ctx *kernels.Context) error {
	if err := checkTypes(ctx, tensor.QInt32, tensor.QInt32); err != nil {
		return err
	}
	lhs, rhs := ctx.Input(0), ctx.Input(1)
	ofLHS, err := gridAt(ctx, 2, lhs.Shape(), k.lhs)
	if err != nil {
		return err
	}
	ofRHS, err := gridAt(ctx, 4, rhs.Shape(), k.rhs)
	if err != nil {
		return err
	}
	shape, ok := shapes.BroadcastShape(lhs.Shape(), rhs.Shape())
	if !ok {
		return status.InvalidArgumentf("Cannot Add tensors of shapes: %v%v", lhs.Shape(), rhs.Shape())
	}
	ofOut, err := gridAt(ctx, 6, shape, k.out)
	if err != nil {
		return err
	}
	for _, o := range []struct {
		name  string
		shape tensor.Shape
		axis  int
	}{{"lhs", lhs.Shape(), k.lhs}, {"rhs", rhs.Shape(), k.rhs}} {
		if o.axis >= 0 && k.out >= 0 && len(o.shape)-o.axis != len(shape)-k.out {
			return status.InvalidArgumentf("If %s and output is both per-axis quantized, the quantization axis must match.", o.name)
		}
	}
	if !positive(ofLHS.scales) || !positive(ofRHS.scales) || !positive(ofOut.scales) {
		return status.InvalidArgumentf("lhs/rhs/output scales elements must be all positive.")
	}
	out, err := ctx.Allocate(0, tensor.QInt32, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	a, err := converted(ctx, &m, lhs, ofLHS, ofOut, shape)
	if err != nil {
		return err
	}
	b, err := converted(ctx, &m, rhs, ofRHS, ofOut, shape)
	if err != nil {
		return err
	}
	k.add(ctx, tensor.Of[int32](out), shape, a, b, ofOut)
	return nil
}

// converted converts an operand to the output's scales, with zero points of 0. The output's zero points are added later.
func converted(ctx *kernels.Context, m *kernels.Meter, t *tensor.Tensor, from, to grid, shape tensor.Shape) (operand, error) {
	missing := len(shape) - t.Rank()
	if to.axis >= 0 {
		at := to.axis - missing
		if from.axis < 0 && (at < 0 || t.Shape()[at] != shape[to.axis]) {
			return operand{}, status.InvalidArgumentf("An operand of shape %v cannot have the scales of axis %d of the output of shape %v", t.Shape(), to.axis, shape)
		}
		to.axis = at
	}
	to.zeros = []int32{0}
	c, err := newConversion(ctx, m, t.Shape(), from, to, limits{math.MinInt32, math.MaxInt32})
	if err != nil {
		return operand{}, err
	}
	o := operand{strides: make([]int, len(shape))}
	if o.numbers, err = kernels.Scratch[int32](m, t.Len()); err != nil {
		return o, err
	}
	convert(ctx, c, t.Shape(), o.numbers, tensor.Of[int32](t))
	for d, stride := range shapes.StridesOf(t.Shape()) {
		if t.Shape()[d] != 1 {
			o.strides[missing+d] = stride
		}
	}
	return o, nil
}

// add adds the operands, broadcast to the output's shape.
func (k *adder) add(ctx *kernels.Context, dst []int32, shape tensor.Shape, a, b operand, to grid) {
	ctx.Parallel(len(dst), element.CheapGrain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			slice, atA, atB := 0, 0, 0
			rest := i
			for d := len(shape) - 1; d >= 0; d-- {
				size := int(shape[d])
				at := rest % size
				rest /= size
				if d == k.out {
					slice = at
				}
				atA += at * a.strides[d]
				atB += at * b.strides[d]
			}
			dst[i] = k.limits.clamp(a.numbers[atA] + b.numbers[atB] + to.zero(slice))
		}
	})
}

package gradients

import (
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph/grad"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

// roundedGradients checks the gradients of ops that round, which are those of the ops without rounding. Most are zero outside the range
// from -1 to 2.
func roundedGradients(t *testing.T) {
	values := []float64{-3, -1, 0.3, 1.4, 2.5, 7}
	all, inside := []float64{1, 1, 1, 1, 1, 1}, []float64{0, 1, 1, 1, 0, 0}
	for _, c := range []struct {
		name string
		want []float64
		more func(s *op.Scope, low, high op.Output) []op.Input
	}{
		{"QuantizeAndDequantizeV2", all, ends},
		{"QuantizeAndDequantizeV3", all, func(s *op.Scope, low, high op.Output) []op.Input {
			return append(ends(s, low, high), op.Const(s, int32(8)))
		}},
		{"QuantizeAndDequantizeV4", inside, ends},
		{"FakeQuantWithMinMaxVars", inside, ends},
		{"FakeQuantWithMinMaxArgs", inside, func(*op.Scope, op.Output, op.Output) []op.Input { return nil }},
		{"FakeQuantWithMinMaxVarsPerChannel", inside, func(s *op.Scope, low, high op.Output) []op.Input {
			six := op.Const(s, []int32{6})
			return []op.Input{node(s, "Fill", nil, six, low).Output(0), node(s, "Fill", nil, six, high).Output(0)}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := op.NewScope()
			x := node(s, "Placeholder", attrs{"dtype": tensor.Float32}).Output(0)
			a := attrs{}
			if c.name == "FakeQuantWithMinMaxArgs" {
				a = attrs{"min": float32(-1), "max": float32(2)}
			}
			y := node(s, c.name, a, append([]op.Input{x}, c.more(s, op.Const(s, float32(-1)), op.Const(s, float32(2)))...)...).Output(0)
			cover(s)
			d := grad.Gradients(s, []op.Output{y}, []op.Output{x})[0].Dense(s)
			fetches := []op.Output{d}
			in := tensorOf(t, tensor.Float32, tensor.Shape{6}, values)
			defer in.Release()
			feeds := map[string]*tensor.Tensor{x.Name(): in}
			if c.name == "QuantizeAndDequantizeV4" {
				// The gradient of the gradient with respect to dy is the same.
				dy := node(s, "Placeholder", attrs{"dtype": tensor.Float32}).Output(0)
				feeds[dy.Name()] = in
				first := node(s, "QuantizeAndDequantizeV4Grad", nil, dy, x, op.Const(s, float32(-1)), op.Const(s, float32(2))).Output(0)
				cover(s)
				fetches = append(fetches, grad.Gradients(s, []op.Output{first}, []op.Output{dy})[0].Dense(s))
			}
			got, _ := run(t, session(t, s), feeds, fetches...)
			for _, g := range got {
				if !slices.Equal(g, c.want) {
					t.Errorf("the gradient is %v, want %v", g, c.want)
				}
			}
		})
	}
}

func ends(_ *op.Scope, low, high op.Output) []op.Input { return []op.Input{low, high} }

package all_test

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestStrangeInputs runs each op of the goldens with inputs of other shapes and values. An op may reject them, but must not panic, write to
// shared inputs, or leak memory.
func TestStrangeInputs(t *testing.T) {
	t.Parallel()
	rounds, every := 3, 1
	if !extent.Check() {
		rounds = 1
	}
	if extent.RaceDetector { // a sample, since such small inputs are not divided among goroutines
		rounds, every = 1, 4
	}
	for i, g := range goldens(t) {
		if i%every != 0 {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(len(g.inputs)), uint64(len(g.node.Op))))
		for range rounds {
			strange := g
			strange.inputs = append([]*tensor.Tensor(nil), g.inputs...)
			for i, in := range g.inputs {
				if r.IntN(2) == 0 {
					strange.inputs[i] = reshaped(t, r, in)
				}
			}
			if why := strange.survive(t); why != "" {
				t.Errorf("%s\nnode: %v\ninputs: %s", why, g.node, contents(strange.inputs))
			}
		}
	}
}

// survive runs the record and describes a panic.
func (g *golden) survive(t *testing.T) (why string) {
	d := kt.NewDevice(t)
	defer func() {
		if p := recover(); p != nil {
			why = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	got, err := g.run(d, true)
	for _, v := range got {
		if v != nil {
			v.Release()
		}
	}
	if err != nil && err.Error() == "" {
		why = "an error without a message"
	}
	return why
}

// reshaped returns a tensor of the type of in, with another shape and its elements in another order.
func reshaped(t *testing.T, r *rand.Rand, in *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	shape := make(tensor.Shape, r.IntN(5))
	for i := range shape {
		shape[i] = []int64{0, 1, 1, 2, 3, 4}[r.IntN(6)]
	}
	out, err := tensor.New(tensor.Host, in.DType(), shape)
	if err != nil {
		t.Fatal(err)
	}
	size := in.DType().Size()
	for i := range out.Len() {
		from := 0
		if in.Len() > 0 {
			from = r.IntN(in.Len())
		}
		switch {
		case in.DType() == tensor.String:
			out.Strings()[i] = "x"
		case in.Len() == 0:
			clear(out.Data()[i*size : (i+1)*size])
		default:
			copy(out.Data()[i*size:(i+1)*size], in.Data()[from*size:])
		}
		if in.DType().IsInteger() && r.IntN(8) == 0 {
			for j := range size {
				out.Data()[i*size+j] = byte(-r.IntN(2))
			}
		}
	}
	return out
}

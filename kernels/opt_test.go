package kernels_test

import (
	"sync"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func float32Variable(name string, values ...float32) *containers.Variable {
	v := containers.NewVariable(name, tensor.Float32)
	v.Assign(kt.F32(kt.S(int64(len(values))), values...))
	return v
}

// TestOptimizersDoNotDeadlock runs updates that name the same variables in opposite orders.
func TestOptimizersDoNotDeadlock(t *testing.T) {
	d := kt.NewDevice(t)
	a, b := float32Variable("a", 1, 2), float32Variable("b", 3, 4)
	defer a.Close()
	defer b.Close()
	op := kt.Op{Type: "ApplyMomentum", Attrs: kt.Attrs{"T": tensor.Float32, "use_nesterov": false, "use_locking": true}, Outputs: 1}
	var wg sync.WaitGroup
	for _, order := range [][2]*containers.Variable{{a, b}, {b, a}} {
		wg.Go(func() {
			for range 200 {
				if _, err := d.Try(op, order[0], order[1], kt.F32(nil, 0), kt.F32(kt.S(2), 0, 0), kt.F32(nil, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestOptimizerLeavesReadersAlone tells that a value that was read before an update stays as it was.
func TestOptimizerLeavesReadersAlone(t *testing.T) {
	d := kt.NewDevice(t)
	v := float32Variable("v", 1, 2)
	defer v.Close()
	before := v.Read()
	defer before.Release()
	op := kt.Op{Type: "ApplyGradientDescent", Attrs: kt.Attrs{"T": tensor.Float32, "use_locking": false}, Outputs: 1}
	// The gradient is the variable's own value.
	if _, err := d.Try(op, v, kt.F32(nil, 0.5), before.Retain()); err != nil {
		t.Fatal(err)
	}
	after := v.Read()
	defer after.Release()
	if diff := kt.Diff(before, kt.F32(kt.S(2), 1, 2), 0); diff != "" {
		t.Errorf("what was read before: %s", diff)
	}
	if diff := kt.Diff(after, kt.F32(kt.S(2), 0.5, 1), 0); diff != "" {
		t.Errorf("what is there after: %s", diff)
	}
}

// TestOptimizerErrors compares the refusals with TensorFlow's texts.
func TestOptimizerErrors(t *testing.T) {
	d := kt.NewDevice(t)
	v, w, long, empty := float32Variable("v", 1, 2), float32Variable("w", 1, 2), float32Variable("long", 1, 2, 3), containers.NewVariable("empty", tensor.Float32)
	for _, x := range []*containers.Variable{v, w, long} {
		defer x.Close()
	}
	scalar, pair, triple := kt.F32(nil, 1), kt.F32(kt.S(2), 1, 1), kt.F32(kt.S(3), 1, 1, 1)
	attrs := kt.Attrs{"T": tensor.Float32, "use_locking": false, "use_nesterov": false}
	for _, c := range []struct {
		op     string
		inputs []any
		code   status.Code
		text   string
	}{
		{"ApplyGradientDescent", []any{v, scalar, triple}, status.InvalidArgument, "var and delta do not have the same shape[2] [3]"},
		{"ApplyGradientDescent", []any{v, pair, pair}, status.InvalidArgument, "alpha is not a scalar: [2]"},
		{"ApplyGradientDescent", []any{empty, scalar, pair}, status.FailedPrecondition, "Attempting to use uninitialized variables: empty"},
		{"ApplyMomentum", []any{v, long, scalar, pair, scalar}, status.InvalidArgument, "var and accum do not have the same shape[2] [3]"},
		{"ApplyMomentum", []any{v, w, scalar, triple, scalar}, status.InvalidArgument, "var and grad do not have the same shape[2] [3]"},
		{"ApplyMomentum", []any{v, v, scalar, pair, scalar}, status.InvalidArgument, "are the same variable v"},
		{"SparseApplyMomentum", []any{v, w, scalar, pair, kt.I32(kt.S(2), 0, 2), scalar}, status.InvalidArgument, "Index 2 at offset 1 in indices is out of range"},
		{"SparseApplyMomentum", []any{v, w, scalar, pair, kt.I32(kt.S(1), 0), scalar}, status.InvalidArgument, "grad must be the same size as indices in the first dimension."},
		{"SparseApplyMomentum", []any{v, w, scalar, pair, kt.I32(kt.S(1, 2), 0, 1), scalar}, status.InvalidArgument, "indices must be one-dimensional"},
	} {
		inputs := append([]any(nil), c.inputs...)
		for i, in := range inputs {
			if in, ok := in.(*tensor.Tensor); ok {
				inputs[i] = in.Retain()
			}
		}
		fails(t, d, c.code, c.text, kt.Op{Type: c.op, Attrs: attrs, Outputs: 1}, inputs...)
	}
}

package all_test

import (
	"fmt"
	"math"
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
	kt.CPUOnly(t) // on an accelerator the tests move each variable for one kernel at a time
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

// TestOptimizerLeavesReadersAlone checks that a value read before an update does not change.
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

// TestOptimizerErrors compares the errors with TensorFlow's texts.
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
		{"SparseApplyMomentum", []any{v, w, scalar, pair, kt.I32(kt.S(1), 0), scalar}, status.InvalidArgument, "grad must be the same size as indices in the first dimension."},
		{"SparseApplyMomentum", []any{v, w, scalar, pair, kt.I32(kt.S(1, 2), 0, 1), scalar}, status.InvalidArgument, "indices must be one-dimensional"},
	} {
		inputs := append([]any(nil), c.inputs...)
		for i, in := range inputs {
			if in, ok := in.(*tensor.Tensor); ok {
				inputs[i] = in.Retain()
			}
		}
		kt.Fails(t, d, c.code, c.text, kt.Op{Type: c.op, Attrs: attrs, Outputs: 1}, inputs...)
	}
}

// TestOptimizerLimits checks, for each form of the optimizers that limit their scalars, that each scalar is rejected beyond its limit, as
// is NaN. On a GPU they are not read.
func TestOptimizerLimits(t *testing.T) {
	kt.CPUOnly(t)
	d := kt.NewDevice(t)
	v, w, x := float32Variable("v", 1, 2), float32Variable("w", 1, 2), float32Variable("x", 1, 2)
	for _, x := range []*containers.Variable{v, w, x} {
		defer x.Close()
	}
	nan := float32(math.NaN())
	bad := map[string][]float32{"lr": {0, -1, nan}, "l1": {-1, nan}, "l2": {-1, nan}, "l2_shrinkage": {-1, nan}, "lr_power": {1, nan}}
	good := map[string]any{
		"var": v, "accum": w, "linear": x, "grad": kt.F32(kt.S(2), 1, 1), "row": kt.F32(kt.S(1), 1), "indices": kt.I32(kt.S(1), 0),
		"lr": kt.F32(nil, 1), "l1": kt.F32(nil, 1), "l2": kt.F32(nil, 1), "l2_shrinkage": kt.F32(nil, 1), "lr_power": kt.F32(nil, -0.5),
	}
	attrs := kt.Attrs{"T": tensor.Float32, "use_locking": false, "multiply_linear_by_lr": false}
	for op, names := range map[string][]string{
		"ApplyProximalAdagrad":       {"var", "accum", "lr", "l1", "l2", "grad"},
		"SparseApplyProximalAdagrad": {"var", "accum", "lr", "l1", "l2", "row", "indices"},
		"SparseApplyFtrl":            {"var", "accum", "linear", "row", "indices", "lr", "l1", "l2", "lr_power"},
		"SparseApplyFtrlV2":          {"var", "accum", "linear", "row", "indices", "lr", "l1", "l2", "l2_shrinkage", "lr_power"},
	} {
		for at, name := range names {
			for _, value := range bad[name] {
				var inputs []any
				for _, other := range names {
					in := good[other]
					if in, ok := in.(*tensor.Tensor); ok {
						in.Retain()
					}
					inputs = append(inputs, in)
				}
				inputs[at] = kt.F32(nil, value)
				kt.Fails(t, d, status.InvalidArgument, fmt.Sprintf(" scalar: %v", value), kt.Op{Type: op, Attrs: attrs, Outputs: 1}, inputs...)
			}
		}
	}
}

// TestSparseIndicesAreChecked checks that rows that the variable does not have are rejected before anything changes.
func TestSparseIndicesAreChecked(t *testing.T) {
	kt.CPUOnly(t) // a GPU does not check indices; see TestSparseRowsOnGPU
	d := kt.NewDevice(t)
	v, w := float32Variable("v", 1, 2), float32Variable("w", 1, 2)
	defer v.Close()
	defer w.Close()
	attrs := kt.Attrs{"T": tensor.Float32, "use_locking": false, "use_nesterov": false}
	kt.Fails(t, d, status.InvalidArgument, "Index 2 at offset 1 in indices is out of range", kt.Op{Type: "SparseApplyMomentum", Attrs: attrs, Outputs: 1},
		v, w, kt.F32(nil, 1), kt.F32(kt.S(2), 1, 1), kt.I32(kt.S(2), 0, 2), kt.F32(nil, 1))
	now := v.Read()
	defer now.Release()
	if diff := kt.Diff(now, kt.F32(kt.S(2), 1, 2), 0); diff != "" {
		t.Error(diff)
	}
}

// TestSparseRepeats checks that repeated rows are updated in the order of the indices, since momentum does not commute. With many rows,
// most have neighbours with the same hash.
func TestSparseRepeats(t *testing.T) {
	d := kt.NewDevice(t)
	const rows, inner, count = 300, 3, 1000
	for _, index := range []tensor.DType{tensor.Int32, tensor.Int64} {
		v, accum := make([]float32, rows*inner), make([]float32, rows*inner)
		grad, at32, at64 := make([]float32, count*inner), make([]int32, count), make([]int64, count)
		variable, slot := float32Matrix("v", rows, inner), float32Matrix("accum", rows, inner)
		for i := range count {
			row := i * i % 251
			at32[i], at64[i] = int32(row), int64(row)
			for j := range inner {
				grad[i*inner+j] = float32(i%7) - 3 + float32(j)
				p := row*inner + j
				accum[p] = accum[p]*0.5 + grad[i*inner+j]
				v[p] -= accum[p] * 0.25
			}
		}
		indices := kt.Of(tensor.Int32, kt.S(count), at32...)
		if index == tensor.Int64 {
			indices = kt.Of(tensor.Int64, kt.S(count), at64...)
		}
		attrs := kt.Attrs{"T": tensor.Float32, "use_locking": true, "use_nesterov": false, "Tindices": index}
		d.Run(t, kt.Op{Type: "SparseApplyMomentum", Attrs: attrs, Outputs: 1}, variable, slot, kt.F32(nil, 0.25), kt.F32(kt.S(count, inner), grad...), indices, kt.F32(nil, 0.5))
		for _, c := range []struct {
			variable *containers.Variable
			want     []float32
		}{{variable, v}, {slot, accum}} {
			got := c.variable.Read()
			if diff := kt.Diff(got, kt.F32(kt.S(rows, inner), c.want...), 1e-5); diff != "" {
				t.Errorf("%v, %s: %s", index, c.variable.Name, diff)
			}
			got.Release()
			c.variable.Close()
		}
	}
}

// float32Matrix returns a variable of zeros.
func float32Matrix(name string, rows, inner int64) *containers.Variable {
	v := containers.NewVariable(name, tensor.Float32)
	v.Assign(kt.F32(kt.S(rows, inner), make([]float32, rows*inner)...))
	return v
}

// TestSparseRowsOnGPU checks that a GPU skips rows that a variable does not have, as TensorFlow's kernels do.
func TestSparseRowsOnGPU(t *testing.T) {
	if kt.Accelerate == nil {
		t.Skip("without an accelerator")
	}
	d := kt.NewDevice(t)
	v, w := float32Variable("v", 1, 2), float32Variable("w", 0, 0)
	defer v.Close()
	defer w.Close()
	attrs := kt.Attrs{"T": tensor.Float32, "use_locking": false, "use_nesterov": false}
	d.Run(t, kt.Op{Type: "SparseApplyMomentum", Attrs: attrs, Outputs: 1},
		v, w, kt.F32(nil, 1), kt.F32(kt.S(3), 1, 5, 7), kt.I32(kt.S(3), -1, 1, 2), kt.F32(nil, 1))
	now := v.Read()
	defer now.Release()
	if diff := kt.Diff(now, kt.F32(kt.S(2), 1, -3), 0); diff != "" {
		t.Error(diff)
	}
}

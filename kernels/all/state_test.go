package all_test

import (
	"runtime"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// variable returns the handle of a resource variable x on the device.
func variable(t *testing.T, d *kt.Device, dtype tensor.DType, shape any) *tensor.Tensor {
	t.Helper()
	op := kt.Op{Type: "VarHandleOp", Outputs: 1, Attrs: kt.Attrs{"container": "", "shared_name": "x", "dtype": dtype, "shape": shape}}
	return d.Run(t, op)[0].Tensor
}

// refVariable returns a reference variable v on the device.
func refVariable(t *testing.T, d *kt.Device, dtype tensor.DType, shape any) *containers.Variable {
	t.Helper()
	op := kt.Op{Type: "VariableV2", Outputs: 1, Attrs: kt.Attrs{"container": "", "shared_name": "v", "dtype": dtype, "shape": shape}}
	return d.Run(t, op)[0].Ref
}

func TestResourceVariable(t *testing.T) {
	d := kt.NewDevice(t)
	f32 := kt.Attrs{"dtype": tensor.Float32, "validate_shape": true}
	shared, _ := tensor.FromSlice(tensor.Float32, kt.S(20), make([]float32, 20))
	h := variable(t, d, tensor.Float32, kt.S(20))
	defer h.Release()
	use := func(op string, outputs int, attrs kt.Attrs, inputs ...any) []kernels.Value {
		return d.Run(t, kt.Op{Type: op, Outputs: outputs, Attrs: attrs}, append([]any{h.Retain()}, inputs...)...)
	}
	missing := "Could not find variable x. This could mean that the variable has been deleted. In TF1, it can also mean the variable is uninitialized. Debug info: container=test, status error message="
	kt.Fails(t, d, status.FailedPrecondition, missing, kt.Op{Type: "ReadVariableOp", Attrs: f32, Outputs: 1}, h.Retain())
	kt.Expect(t, use("VarIsInitializedOp", 1, nil), kt.Bool(nil, false))

	use("AssignVariableOp", 0, f32, shared.Retain())
	kt.Expect(t, use("VarIsInitializedOp", 1, nil), kt.Bool(nil, true))
	one := kt.Iota[float32](tensor.Float32, kt.S(20))
	use("AssignAddVariableOp", 0, f32, one.Retain())
	if tensor.Of[float32](shared)[1] != 0 {
		t.Error("an update wrote to memory that others can see")
	}
	kt.Expect(t, use("ReadVariableOp", 1, f32), one)
	read := use("ReadVariableOp", 1, f32)
	use("AssignSubVariableOp", 0, f32, one.Retain())
	kt.Expect(t, read, one)
	kt.Expect(t, use("ReadVariableOp", 1, f32), shared)
	kt.Expect(t, use("VariableShape", 1, kt.Attrs{"out_type": tensor.Int64}), kt.I64(kt.S(1), 20))

	kt.Fails(t, d, status.InvalidArgument, "Trying to read variable with wrong dtype. Expected int32 got float",
		kt.Op{Type: "ReadVariableOp", Attrs: kt.Attrs{"dtype": tensor.Int32}, Outputs: 1}, h.Retain())
	kt.Fails(t, d, status.InvalidArgument, "Trying to assign to variable with tensor with wrong shape. Expected [20] got [2]",
		kt.Op{Type: "AssignVariableOp", Attrs: f32}, h.Retain(), kt.F32(kt.S(2), 1, 2))
	kt.Fails(t, d, status.InvalidArgument, "Trying to assign variable with wrong dtype. Expected float got int32",
		kt.Op{Type: "AssignVariableOp", Attrs: kt.Attrs{"dtype": tensor.Int32}}, h.Retain(), kt.I32(nil, 2))
	kt.Fails(t, d, status.InvalidArgument, "Cannot update variable with shape [20] using a Tensor with shape [2], shapes must be equal.",
		kt.Op{Type: "AssignAddVariableOp", Attrs: f32}, h.Retain(), kt.F32(kt.S(2), 1, 2))
	kt.Fails(t, d, status.InvalidArgument, "No OpKernel was registered to support Op 'AssignAddVariableOp'",
		kt.Op{Type: "AssignAddVariableOp", Attrs: kt.Attrs{"dtype": tensor.String}}, h.Retain(), kt.Str(nil, "a"))
	kt.Fails(t, d, status.InvalidArgument, "Trying to access resource y located in device /job:a from device "+kt.DeviceName,
		kt.Op{Type: "ReadVariableOp", Attrs: f32, Outputs: 1}, tensor.FromHandle(tensor.Handle{Name: "y", Device: "/job:a"}))

	use("DestroyResourceOp", 0, kt.Attrs{"ignore_lookup_error": false})
	kt.Fails(t, d, status.FailedPrecondition, missing, kt.Op{Type: "ReadVariableOp", Attrs: f32, Outputs: 1}, h.Retain())
	kt.Fails(t, d, status.NotFound, "x", kt.Op{Type: "DestroyResourceOp", Attrs: kt.Attrs{"ignore_lookup_error": false}}, h.Retain())
	use("DestroyResourceOp", 0, kt.Attrs{"ignore_lookup_error": true})
	use("AssignVariableOp", 0, f32, one.Retain())
	kt.Expect(t, use("ReadVariableOp", 1, f32), one)
}

// A handle that was received from another process has no local part.
func TestResourceVariableByName(t *testing.T) {
	d := kt.NewDevice(t)
	h := variable(t, d, tensor.Int32, kt.S())
	defer h.Release()
	i32 := kt.Attrs{"dtype": tensor.Int32}
	d.Run(t, kt.Op{Type: "AssignVariableOp", Attrs: i32}, h.Retain(), kt.I32(nil, 7))
	wire := h.Handles()[0]
	wire.Local = nil
	kt.Expect(t, d.Run(t, kt.Op{Type: "ReadVariableOp", Attrs: i32, Outputs: 1}, tensor.FromHandle(wire)), kt.I32(nil, 7))
}

// The handle of an anonymous variable that another process has had finds the variable while a tensor has the variable itself.
func TestAnonymousVariableByName(t *testing.T) {
	d := kt.NewDevice(t).For(scope(nil, nil, []string{kernels.AnonymousContainer}))
	h := d.Run(t, kt.Op{Type: "VarHandleOp", Attrs: kt.Attrs{"dtype": tensor.Int32, "shape": kt.S(), "container": "", "shared_name": graph.AnonymousName}, Outputs: 1})[0].Tensor
	i32 := kt.Attrs{"dtype": tensor.Int32}
	read := kt.Op{Type: "ReadVariableOp", Attrs: i32, Outputs: 1}
	wire := h.Handles()[0]
	wire.Local = nil
	d.Run(t, kt.Op{Type: "AssignVariableOp", Attrs: i32}, tensor.FromHandle(wire), kt.I32(nil, 7))
	kt.Expect(t, d.Run(t, read, h), kt.I32(nil, 7))
	for range 10_000 {
		if d.Resources().Anonymous(wire.Name) == nil {
			break
		}
		runtime.GC()
		runtime.Gosched()
	}
	kt.Fails(t, d, status.PermissionDenied, "", read, tensor.FromHandle(wire)) // as for any other name
}

func TestRefVariable(t *testing.T) {
	d := kt.NewDevice(t)
	v := refVariable(t, d, tensor.Float32, kt.S(20))
	if refVariable(t, d, tensor.Float32, kt.S(20)) != v {
		t.Error("one name, two variables")
	}
	older := kt.Op{Type: "Variable", Outputs: 1, Attrs: kt.Attrs{"container": "", "shared_name": "v", "dtype": tensor.Float32, "shape": kt.S(20)}}
	if d.Run(t, older)[0].Ref != v {
		t.Error("one name, two variables")
	}
	assign := kt.Attrs{"validate_shape": true, "use_locking": true}
	f32 := kt.Attrs{"T": tensor.Float32, "use_locking": false}
	initialized := func(want bool) {
		t.Helper()
		kt.Expect(t, d.Run(t, kt.Op{Type: "IsVariableInitialized", Outputs: 1}, v), kt.Bool(nil, want))
	}
	value := func(want *tensor.Tensor) {
		t.Helper()
		got := v.Read()
		defer got.Release()
		if diff := kt.Diff(got, want, 0); diff != "" {
			t.Error(diff)
		}
	}
	initialized(false)
	kt.Fails(t, d, status.InvalidArgument, "Assign requires shapes of both tensors to match. lhs shape= [20] rhs shape= [2]",
		kt.Op{Type: "Assign", Attrs: assign, Outputs: 1}, v, kt.F32(kt.S(2), 1, 2))
	kt.Fails(t, d, status.FailedPrecondition, "Attempting to use uninitialized value v", kt.Op{Type: "AssignAdd", Attrs: f32, Outputs: 1}, v, kt.F32(nil, 1))
	x := kt.Iota[float32](tensor.Float32, kt.S(20))
	if out := d.Run(t, kt.Op{Type: "Assign", Attrs: assign, Outputs: 1}, v, x.Retain()); out[0].Ref != v {
		t.Error("Assign yields no reference to its variable")
	}
	initialized(true)
	d.Run(t, kt.Op{Type: "AssignSub", Attrs: f32, Outputs: 1}, v, x.Retain())
	value(kt.F32(kt.S(20), make([]float32, 20)...))
	kt.Fails(t, d, status.InvalidArgument, "Parameters and update must be the same size", kt.Op{Type: "AssignAdd", Attrs: f32, Outputs: 1}, v, kt.F32(nil, 1))
	d.Run(t, kt.Op{Type: "Assign", Attrs: kt.Attrs{"validate_shape": false, "use_locking": true}, Outputs: 1}, v, kt.F32(nil, 3))
	value(kt.F32(nil, 3))
}

func TestTemporaryVariable(t *testing.T) {
	d := kt.NewDevice(t)
	attrs := kt.Attrs{"dtype": tensor.Float32, "shape": kt.S(20), "var_name": "tmp", "T": tensor.Float32}
	v := d.Run(t, kt.Op{Type: "TemporaryVariable", Attrs: attrs, Outputs: 1})[0].Ref
	kt.Fails(t, d, status.AlreadyExists, "tmp", kt.Op{Type: "TemporaryVariable", Attrs: attrs, Outputs: 1})
	kt.Expect(t, d.Run(t, kt.Op{Type: "DestroyTemporaryVariable", Attrs: attrs, Outputs: 1}, v), kt.F32(kt.S(20), make([]float32, 20)...))
	kt.Fails(t, d, status.FailedPrecondition, "uninitialized", kt.Op{Type: "DestroyTemporaryVariable", Attrs: attrs, Outputs: 1}, v)
}

func TestCountUpTo(t *testing.T) {
	d := kt.NewDevice(t)
	v := refVariable(t, d, tensor.Int32, kt.S())
	v.Assign(kt.I32(nil, 0))
	attrs := kt.Attrs{"T": tensor.Int32, "limit": 2}
	for want := range int32(2) {
		kt.Expect(t, d.Run(t, kt.Op{Type: "CountUpTo", Attrs: attrs, Outputs: 1}, v), kt.I32(nil, want))
	}
	kt.Fails(t, d, status.OutOfRange, "Reached limit of 2", kt.Op{Type: "CountUpTo", Attrs: attrs, Outputs: 1}, v)
}

func TestScatter(t *testing.T) {
	cases := []struct {
		op             string
		updates, wants *tensor.Tensor
	}{
		{"ScatterUpdate", kt.F32(kt.S(2, 2), 1, 2, 3, 4), kt.F32(kt.S(3, 2), 10, 10, 10, 10, 3, 4)},
		{"ScatterAdd", kt.F32(kt.S(2, 2), 1, 2, 3, 4), kt.F32(kt.S(3, 2), 10, 10, 10, 10, 14, 16)},
		{"ScatterSub", kt.F32(nil, 1), kt.F32(kt.S(3, 2), 10, 10, 10, 10, 8, 8)},
		{"ScatterMul", kt.F32(nil, 2), kt.F32(kt.S(3, 2), 10, 10, 10, 10, 40, 40)},
		{"ScatterDiv", kt.F32(nil, 2), kt.F32(kt.S(3, 2), 10, 10, 10, 10, 2.5, 2.5)},
		{"ScatterMin", kt.F32(kt.S(2, 2), 1, 20, 3, 4), kt.F32(kt.S(3, 2), 10, 10, 10, 10, 1, 4)},
		{"ScatterMax", kt.F32(kt.S(2, 2), 1, 20, 3, 4), kt.F32(kt.S(3, 2), 10, 10, 10, 10, 10, 20)},
	}
	attrs := kt.Attrs{"T": tensor.Float32, "dtype": tensor.Float32, "use_locking": false}
	indices := kt.I32(kt.S(2), 2, 2)
	if kt.Accelerate != nil { // any of several updates of one row may be the last
		cases[0].updates = kt.F32(kt.S(2, 2), 3, 4, 3, 4)
	}
	for _, c := range cases {
		t.Run(c.op, func(t *testing.T) {
			d := kt.NewDevice(t)
			start := kt.F32(kt.S(3, 2), 10, 10, 10, 10, 10, 10)
			v := refVariable(t, d, tensor.Float32, kt.S(3, 2))
			v.Assign(start.Retain())
			d.Run(t, kt.Op{Type: c.op, Attrs: attrs, Outputs: 1}, v, indices.Retain(), c.updates.Retain())
			got := v.Read()
			defer got.Release()
			if diff := kt.Diff(got, c.wants, 0); diff != "" {
				t.Error(diff)
			}
			if outside := (kt.Op{Type: c.op, Attrs: attrs, Outputs: 1}); kt.Accelerate == nil {
				kt.Fails(t, d, status.InvalidArgument, "indices[1] = 3 is not in [0, 3)", outside, v, kt.I32(kt.S(2), 0, 3), c.updates.Retain())
			} else { // indices out of range are skipped, on both sides
				d.Run(t, outside, v, kt.I32(kt.S(2), -1, 3), c.updates.Retain())
				got := v.Read()
				defer got.Release()
				if diff := kt.Diff(got, c.wants, 0); diff != "" {
					t.Error(diff)
				}
			}

			h := variable(t, d, tensor.Float32, kt.S(3, 2))
			defer h.Release()
			d.Run(t, kt.Op{Type: "AssignVariableOp", Attrs: attrs}, h.Retain(), start.Retain())
			d.Run(t, kt.Op{Type: "Resource" + c.op, Attrs: attrs}, h.Retain(), indices.Retain(), c.updates.Retain())
			kt.Expect(t, d.Run(t, kt.Op{Type: "ReadVariableOp", Attrs: attrs, Outputs: 1}, h.Retain()), c.wants)
			if start.Exclusive() == false || tensor.Of[float32](start)[5] != 10 {
				t.Error("the initial value was written to or kept")
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		d := kt.NewDevice(t)
		v := refVariable(t, d, tensor.Int32, kt.S(3))
		v.Assign(kt.I32(kt.S(3), 1, 2, 3))
		i32 := kt.Attrs{"T": tensor.Int32, "use_locking": false}
		kt.Fails(t, d, status.InvalidArgument, "updates must not contain 0", kt.Op{Type: "ScatterDiv", Attrs: i32, Outputs: 1}, v, kt.I32(nil, 1), kt.I32(nil, 0))
		kt.Fails(t, d, status.InvalidArgument, "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape [1], indices.shape [], params.shape [3]",
			kt.Op{Type: "ScatterAdd", Attrs: i32, Outputs: 1}, v, kt.I32(nil, 1), kt.I32(kt.S(1), 1))
		kt.Fails(t, d, status.InvalidArgument, "indices = -1 is not in [0, 3)", kt.Op{Type: "ScatterAdd", Attrs: i32, Outputs: 1}, v, kt.I32(nil, -1), kt.I32(nil, 1))
	})
	t.Run("strings", func(t *testing.T) {
		d := kt.NewDevice(t)
		v := refVariable(t, d, tensor.String, kt.S(2))
		v.Assign(kt.Str(kt.S(2), "a", "b"))
		before := v.Read()
		defer before.Release()
		for _, c := range []struct {
			at, update *tensor.Tensor
			want       string
		}{
			{kt.I64(kt.S(1), 1), kt.Str(kt.S(1), "c"), "c"},
			{kt.I64(kt.S(2), 1, 1), kt.Str(nil, "d"), "d"}, // one string for all rows
		} {
			d.Run(t, kt.Op{Type: "ScatterUpdate", Attrs: kt.Attrs{"T": tensor.String}, Outputs: 1}, v, c.at, c.update)
			after := v.Read()
			if diff := kt.Diff(after, kt.Str(kt.S(2), "a", c.want), 0); diff != "" || before.Strings()[1] != "b" {
				t.Error(diff, before.Strings())
			}
			after.Release()
		}
	})
}

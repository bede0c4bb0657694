package all_test

import (
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestRoutesInBothMemories runs ops that pass values on with a type that an accelerator keeps in its own memory, and with int32, which
// stays on the host.
func TestRoutesInBothMemories(t *testing.T) {
	for _, x := range []*tensor.Tensor{kt.Iota[float32](tensor.Float32, kt.S(2, 20)), kt.Iota[int32](tensor.Int32, kt.S(2, 20))} {
		t.Run(x.DType().String(), func(t *testing.T) {
			d := kt.NewDevice(t)
			v := containers.NewVariable("v", x.DType())
			defer v.Close()
			v.Assign(x.Retain())
			wide := kt.Attrs{"T": x.DType(), "dtype": x.DType(), "shape": kt.S(2, 20), "frame_name": "f", "squeeze_dims": []int64{0}, "out_type": tensor.Int32, "Tidx": tensor.Int32, "message": ""}
			op := func(name string, outputs int) kt.Op { return kt.Op{Type: name, Attrs: wide, Outputs: outputs} }
			for _, name := range []string{"Identity", "Snapshot", "StopGradient", "PreventGradient", "DebugGradientIdentity", "GuaranteeConst", "PlaceholderWithDefault",
				"EnsureShape", "Enter", "Exit", "NextIteration", "Print"} {
				kt.Expect(t, d.Run(t, op(name, 1), x.Retain()), x)
			}
			for _, name := range []string{"RefIdentity", "DebugGradientRefIdentity", "RefEnter", "RefExit", "RefNextIteration"} {
				if got := d.Run(t, op(name, 1), v); got[0].Ref != v {
					t.Errorf("%s does not pass the reference on", name)
				}
			}
			if got := d.Run(t, op("RefMerge", 2), v); got[0].Ref != v {
				t.Error("RefMerge does not pass the reference on")
			} else {
				kt.Expect(t, got[1:], kt.I32(nil, 0))
			}
			if got := d.Run(t, op("RefSwitch", 2), v, kt.Bool(nil, true)); got[1].Ref != v || got[0].Ref != nil {
				t.Error("RefSwitch does not pass the reference on")
			}
			if got := d.Run(t, op("RefSelect", 1), kt.I32(nil, 0), v); got[0].Ref != v {
				t.Error("RefSelect does not pass the reference on")
			}
			yes := d.Run(t, op("Switch", 2), x.Retain(), kt.Bool(nil, true))
			kt.Expect(t, yes[1:], x)
			third := d.Run(t, op("_SwitchN", 3), x.Retain(), kt.I32(nil, 2))
			kt.Expect(t, third[2:], x)
			kt.Expect(t, d.Run(t, op("Merge", 2), x.Retain()), x, kt.I32(nil, 0))
			flat, column := x.Reshaped(kt.S(40)), x.Reshaped(kt.S(1, 2, 20))
			kt.Expect(t, d.Run(t, op("Reshape", 1), x.Retain(), kt.I32(kt.S(1), -1)), flat)
			kt.Expect(t, d.Run(t, op("ExpandDims", 1), x.Retain(), kt.I32(nil, 0)), column)
			kt.Expect(t, d.Run(t, op("Squeeze", 1), column.Retain()), x)
			kt.Expect(t, d.Run(t, op("Shape", 1), x.Retain()), kt.I32(kt.S(2), 2, 20))
			kt.Expect(t, d.Run(t, op("ShapeN", 1), x.Retain(), flat.Retain()), kt.I32(kt.S(2), 2, 20), kt.I32(kt.S(1), 40))
			kt.Expect(t, d.Run(t, op("Size", 1), x.Retain()), kt.I32(nil, 40))
			kt.Expect(t, d.Run(t, op("Rank", 1), x.Retain()), kt.I32(nil, 2))

			step := kt.NewStep()
			move := kt.Attrs{"T": x.DType(), "tensor_type": x.DType(), "tensor_name": "e", "recv_device": kt.DeviceName, "index": 0}
			d.Run(t, kt.Op{Type: "_HostSend", Attrs: move, Step: step}, x.Retain())
			kt.Expect(t, d.Run(t, kt.Op{Type: "_HostRecv", Attrs: move, Outputs: 1, Step: step}), x)
			io := step.Feeds.(*kt.IO)
			for _, kind := range []string{"_", "_Device"} {
				io.Fed[0] = x.Retain()
				kt.Expect(t, d.Run(t, kt.Op{Type: kind + "Arg", Attrs: move, Outputs: 1, Step: step}), x)
				d.Run(t, kt.Op{Type: kind + "Retval", Attrs: move, Step: step}, x.Retain())
				fetched := d.OnHost(t, io.Fetched[0])
				expectSame(t, fetched, x)
				fetched.Release()
			}
		})
	}
}

// TestLoopsOfInt32 runs stacks and arrays of values that accelerators leave on the host.
func TestLoopsOfInt32(t *testing.T) {
	d := kt.NewDevice(t)
	attrs := kt.Attrs{"T": tensor.Int32, "dtype": tensor.Int32, "elem_type": tensor.Int32, "stack_name": "s", "element_shape": kt.Unknown{}, "element_shape_except0": kt.Unknown{}, "clear_after_read": false}
	op := func(name string) kt.Op { return kt.Op{Type: name, Attrs: attrs} }
	x, flow := kt.Iota[int32](tensor.Int32, kt.S(2, 20)), kt.F32(nil, 0)
	stack := d.Run(t, op("StackV2"), kt.I32(nil, 2))[0].Tensor
	kt.Expect(t, d.Run(t, op("StackPushV2"), stack.Retain(), x.Retain()), x)
	kt.Expect(t, d.Run(t, op("StackPopV2"), stack), x)
	named := d.Run(t, op("Stack"))[0].Ref
	kt.Expect(t, d.Run(t, op("StackPush"), named, x.Retain()), x)
	kt.Expect(t, d.Run(t, op("StackPop"), named), x)

	for _, c := range []struct {
		write string
		how   *tensor.Tensor
	}{{"TensorArrayScatterV3", kt.I32(kt.S(2), 0, 1)}, {"TensorArraySplitV3", kt.I64(kt.S(2), 1, 1)}} {
		made := d.Run(t, op("TensorArrayV3"), kt.I32(nil, 2))
		array := made[0].Tensor
		made[1].Release()
		inputs := []any{array.Retain(), c.how, x.Retain(), flow.Retain()}
		if c.write == "TensorArraySplitV3" {
			inputs[1], inputs[2] = inputs[2], inputs[1]
		}
		kt.Expect(t, d.Run(t, op(c.write), inputs...), flow)
		if c.write == "TensorArraySplitV3" {
			kt.Expect(t, d.Run(t, op("TensorArrayConcatV3"), array, flow.Retain()), x, kt.I64(kt.S(2), 1, 1))
			continue
		}
		kt.Expect(t, d.Run(t, op("TensorArrayGatherV3"), array.Retain(), kt.I32(kt.S(2), 0, 1), flow.Retain()), x)
		gradient := kt.Op{Type: "TensorArrayGradWithShape", Attrs: kt.Attrs{"source": "gradients"}}
		lead := d.Run(t, gradient, array.Retain(), flow.Retain(), kt.I32(kt.S(1), 3))
		lead[1].Release()
		kt.Expect(t, d.Run(t, op("TensorArrayReadV3"), lead[0].Tensor, kt.I32(nil, 1), flow.Retain()), kt.I32(kt.S(3, 20), make([]int32, 60)...))
		row := x.Rows(1, 2)
		last := row.Reshaped(kt.S(20))
		row.Release()
		kt.Expect(t, d.Run(t, op("TensorArrayReadV3"), array, kt.I32(nil, 1), flow.Retain()), last)
		last.Release()
	}
}

// TestScattersOfInt32 runs the ops that accelerators leave on the host, and the one without a golden case.
func TestScattersOfInt32(t *testing.T) {
	two, at := kt.I32(kt.S(2), 10, 20), kt.I32(kt.S(2, 1), 2, 0)
	kt.Check(t,
		kt.Case{Op: "ScatterNd", Inputs: in(at, two, kt.I32(kt.S(1), 3)), Want: out(kt.I32(kt.S(3), 20, 0, 10))},
		kt.Case{Op: "ScatterNdNonAliasingAdd", Inputs: in(kt.I32(kt.S(3), 1, 2, 3), at, two), Want: out(kt.I32(kt.S(3), 21, 2, 13))},
		kt.Case{Op: "ScatterNdNonAliasingAdd", Inputs: in(kt.F32(kt.S(3), 1, 2, 3), at, kt.F32(kt.S(2), 10, 20)), Want: out(kt.F32(kt.S(3), 21, 2, 13))},
		kt.Case{Op: "TensorScatterUpdate", Inputs: in(kt.I32(kt.S(3), 1, 2, 3), at, two), Want: out(kt.I32(kt.S(3), 20, 2, 10))},
		kt.Case{Op: "TensorScatterAdd", Inputs: in(kt.I32(kt.S(3), 1, 2, 3), at, two), Want: out(kt.I32(kt.S(3), 21, 2, 13))},
		kt.Case{Op: "TensorScatterSub", Inputs: in(kt.I32(kt.S(3), 1, 2, 3), at, two), Want: out(kt.I32(kt.S(3), -19, 2, -7))},
		kt.Case{Op: "TensorScatterMin", Inputs: in(kt.I32(kt.S(3), 1, 2, 30), at, two), Want: out(kt.I32(kt.S(3), 1, 2, 10))},
		kt.Case{Op: "TensorScatterMax", Inputs: in(kt.I32(kt.S(3), 1, 2, 30), at, two), Want: out(kt.I32(kt.S(3), 20, 2, 30))},
	)
}

// TestPlacesOfVariables reads and writes parts of variables.
func TestPlacesOfVariables(t *testing.T) {
	d := kt.NewDevice(t)
	attrs := kt.Attrs{"T": tensor.Float32, "dtype": tensor.Float32, "Index": tensor.Int32}
	h := variable(t, d, tensor.Float32, kt.S(3, 2))
	d.Run(t, kt.Op{Type: "AssignVariableOp", Attrs: attrs}, h.Retain(), kt.F32(kt.S(3, 2), 1, 2, 3, 4, 5, 6))
	kt.Expect(t, d.Run(t, kt.Op{Type: "ResourceGather", Attrs: attrs, Outputs: 1}, h.Retain(), kt.I32(kt.S(2), 2, 0)), kt.F32(kt.S(2, 2), 5, 6, 1, 2))
	kt.Expect(t, d.Run(t, kt.Op{Type: "ResourceGatherNd", Attrs: attrs, Outputs: 1}, h.Retain(), kt.I32(kt.S(1, 2), 1, 1)), kt.F32(kt.S(1), 4))
	part := []any{kt.I32(kt.S(2), 1, 0), kt.I32(kt.S(2), 3, 1), kt.I32(kt.S(2), 1, 1), kt.F32(kt.S(2, 1), 30, 50)}
	want := kt.F32(kt.S(3, 2), 1, 2, 30, 4, 50, 6)
	for _, in := range part {
		in.(*tensor.Tensor).Retain()
	}
	d.Run(t, kt.Op{Type: "ResourceStridedSliceAssign", Attrs: attrs}, append([]any{h.Retain()}, part...)...)
	kt.Expect(t, d.Run(t, kt.Op{Type: "ReadVariableOp", Attrs: attrs, Outputs: 1}, h), want)
	v := refVariable(t, d, tensor.Float32, kt.S(3, 2))
	v.Assign(kt.F32(kt.S(3, 2), 1, 2, 3, 4, 5, 6))
	d.Run(t, kt.Op{Type: "StridedSliceAssign", Attrs: attrs, Outputs: 1}, append([]any{v}, part...)...)
	got := v.Read()
	defer got.Release()
	expectSame(t, got, want)
}

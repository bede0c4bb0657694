package all_test

import (
	"math"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestFlow(t *testing.T) {
	x := kt.Iota[float32](tensor.Float32, kt.S(2, 20))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	kt.Check(t,
		kt.Case{Op: "Const", Attrs: kt.Attrs{"dtype": tensor.Float32, "value": x}, Want: out(x)},
		kt.Case{Name: "Const/type", Op: "Const", Attrs: kt.Attrs{"dtype": tensor.Int32, "value": x},
			Code: status.InvalidArgument, Err: "Type mismatch between value (float) and dtype (int32)"},
		kt.Case{Op: "NoOp"},
		kt.Case{Op: "ControlTrigger"},
		kt.Case{Op: "PlaceholderV2", Attrs: kt.Attrs{"dtype": tensor.Int64, "shape": kt.S()}, Code: status.InvalidArgument, Err: "You must feed a value"},
		kt.Case{Op: "Identity", Inputs: in(x), Want: out(x)},
		kt.Case{Op: "IdentityN", Inputs: in(x, kt.Str(kt.S(1), "s")), Want: out(x, kt.Str(kt.S(1), "s"))},
		kt.Case{Op: "Placeholder", Attrs: kt.Attrs{"dtype": tensor.Float32, "shape": kt.S(-1, 2)}, Code: status.InvalidArgument,
			Err: "You must feed a value for placeholder tensor 'n' with dtype float and shape [?,2]"},
		kt.Case{Name: "Placeholder/unknown", Op: "Placeholder", Attrs: kt.Attrs{"dtype": tensor.Int64, "shape": kt.Unknown{}}, Code: status.InvalidArgument,
			Err: "You must feed a value for placeholder tensor 'n' with dtype int64"},
		kt.Case{Name: "Switch/true", Op: "Switch", Inputs: in(x, kt.Bool(nil, true)), Want: out(nil, x)},
		kt.Case{Name: "Switch/false", Op: "Switch", Inputs: in(x, kt.Bool(nil, false)), Want: out(x, nil)},
		kt.Case{Name: "Switch/shape", Op: "Switch", Inputs: in(x, kt.Bool(kt.S(1), false)), Code: status.InvalidArgument,
			Err: "The second input must be a scalar, but it has shape [1]"},
		kt.Case{Name: "_SwitchN/default", Op: "_SwitchN", Inputs: in(x, kt.I32(nil, -1)), Want: out(nil, nil, x)},
		kt.Case{Op: "Merge", Inputs: []any{kernels.Value{}, x}, Want: out(x, kt.I32(nil, 1))},
		kt.Case{Op: "LoopCond", Inputs: in(kt.Bool(nil, true)), Want: out(kt.Bool(nil, true))},
		kt.Case{Op: "Abort", Attrs: kt.Attrs{"error_msg": "bye", "exit_without_error": true}, Code: status.Aborted, Err: "bye"},
		kt.Case{Op: "Assert", Attrs: kt.Attrs{"summarize": 3}, Inputs: in(kt.Bool(nil, true), x)},
		kt.Case{Name: "Assert/fails", Op: "Assert", Attrs: kt.Attrs{"summarize": 3},
			Inputs: in(kt.Bool(nil, false), kt.Str(nil, "x != y\n"), kt.I32(kt.S(4), 1, 2, 3, 4), kt.F32(kt.S(2, 1), 0.1, 1e20), kt.Bool(nil, true)),
			Code:   status.InvalidArgument, Err: `assertion failed: [x != y\n] [1 2 3...] [[0.1][1e+20]] [1]`},
		kt.Case{Name: "Assert/nested", Op: "Assert", Attrs: kt.Attrs{"summarize": 3}, Inputs: in(kt.Bool(nil, false), kt.I32(kt.S(2, 2), 1, 2, 3, 4)),
			Code: status.InvalidArgument, Err: `assertion failed: [[1 2][3...]...]`},
		kt.Case{Op: "CheckNumerics", Attrs: kt.Attrs{"T": tensor.Float32, "message": "m"}, Inputs: in(x), Want: out(x)},
		kt.Case{Name: "CheckNumerics/both", Op: "CheckNumerics", Attrs: kt.Attrs{"T": tensor.Float32, "message": "m"}, Inputs: in(kt.F32(kt.S(3), 1, nan, -inf)),
			Code: status.InvalidArgument, Err: "m : Tensor had Inf and NaN values"},
		kt.Case{Name: "CheckNumerics/half", Op: "CheckNumerics", Attrs: kt.Attrs{"T": tensor.Float16, "message": "m"}, Inputs: in(kt.Of(tensor.Float16, kt.S(2), uint16(0x3c00), uint16(0xfc00))),
			Code: status.InvalidArgument, Err: "m : Tensor had Inf values"},
		kt.Case{Op: "CheckNumericsV2", Attrs: kt.Attrs{"T": tensor.Float32, "message": "m"}, Inputs: in(kt.F32(kt.S(3), inf, nan, -inf)),
			Code: status.InvalidArgument, Err: "m : Tensor had -Inf, +Inf, and NaN values"},
		kt.Case{Op: "PrintV2", Attrs: kt.Attrs{"output_stream": "file:///no/such/folder/x", "end": "\n"}, Inputs: in(kt.Str(nil, "")),
			Code: status.NotFound, Err: "/no/such/folder/x"},
	)
}

func TestTransfer(t *testing.T) {
	d := kt.NewDevice(t)
	x := kt.Iota[float32](tensor.Float32, kt.S(30))
	attrs := kt.Attrs{"T": tensor.Float32, "tensor_type": tensor.Float32, "tensor_name": "edge_1_x", "recv_device": kt.DeviceName, "index": 2}
	step := kt.NewStep()
	io := step.Feeds.(*kt.IO)

	d.Run(t, kt.Op{Type: "_Send", Attrs: attrs, Step: step}, x.Retain())
	kt.Expect(t, d.Run(t, kt.Op{Type: "_Recv", Attrs: attrs, Outputs: 1, Step: step}), x)
	if _, err := d.Try(kt.Op{Type: "_Send", Attrs: kt.Attrs{"tensor_name": "e", "recv_device": "", "client_terminated": true}}, x.Retain()); status.CodeOf(err) != status.Unimplemented {
		t.Errorf("client_terminated: %v", err)
	}

	io.Fed[2] = x.Retain()
	kt.Expect(t, d.Run(t, kt.Op{Type: "_Arg", Attrs: attrs, Outputs: 1, Step: step}), x)
	d.Run(t, kt.Op{Type: "_Retval", Attrs: attrs, Step: step}, x.Retain())
	fetched := d.OnHost(t, io.Fetched[2])
	if diff := kt.Diff(fetched, x, 0); diff != "" {
		t.Error(diff)
	}
	fetched.Release()
	io.Fed[2] = kt.I32(nil, 1)
	if _, err := d.Try(kt.Op{Type: "_Arg", Attrs: attrs, Outputs: 1, Step: step}); err == nil || err.Error() != "Type mismatch: actual int32 vs. expect float" {
		t.Error(err)
	}
	if !x.Exclusive() {
		t.Error("a reference was kept")
	}
}

// in and out are inputs and outputs of a case; a nil *tensor.Tensor is a missing output.
func in(ts ...*tensor.Tensor) []any {
	list := make([]any, len(ts))
	for i, t := range ts {
		list[i] = t
	}
	return list
}

func out(ts ...*tensor.Tensor) []*tensor.Tensor { return ts }

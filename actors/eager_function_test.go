package actors

import (
	"fmt"
	"testing"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/prototext"
)

// functionDef parses a function.
func functionDef(t testing.TB, text string) *functionpb.FunctionDef {
	t.Helper()
	f := &functionpb.FunctionDef{}
	if err := prototext.Unmarshal([]byte(text), f); err != nil {
		t.Fatal(err)
	}
	return f
}

func (c *eagerClient) register(text string) {
	c.t.Helper()
	if err := c.Register(&corepb.RegisterFunctionOp{FunctionDef: functionDef(c.t, text)}); err != nil {
		c.t.Fatal(err)
	}
}

// call returns the call of a function.
func call(id int64, name string, inputs ...string) *corepb.Operation {
	o := op(id, name, attr("config_proto", `s: ""`)+attr("executor_type", `s: ""`), inputs...)
	o.IsFunction = true
	return o
}

// unary is a function of a vector whose body is an op.
func unary(name, op, device string) string {
	return fmt.Sprintf(`
	signature { name: %q input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
	node_def { name: "do" op: %q input: "x" device: %q attr { key: "T" value { type: DT_FLOAT } } }
	ret { key: "y" value: "do:y:0" }
`, name, op, device)
}

// count is a function that adds to a variable, which nothing depends on but the end of the function.
const count = `
	signature { name: "__inference_count_2" input_arg { name: "v" type: DT_RESOURCE } input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT }
		is_stateful: true control_output: "add" }
	node_def { name: "add" op: "AssignAddVariableOp" input: "v" input: "x" device: "/job:worker/replica:0/task:3/device:CPU:0" attr { key: "dtype" value { type: DT_FLOAT } } }
	node_def { name: "twice" op: "AddV2" input: "x" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
	ret { key: "y" value: "twice:z:0" }
	control_ret { key: "add" value: "add" }
`

// loop doubles a vector until its first element is at least 100.
const loop = `
	signature { name: "__inference_loop_5" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
	node_def { name: "while" op: "StatelessWhile" input: "x"
		attr { key: "T" value { list { type: DT_FLOAT } } } attr { key: "cond" value { func { name: "small" } } } attr { key: "body" value { func { name: "double" } } }
		attr { key: "output_shapes" value { list { } } } attr { key: "_lower_using_switch_merge" value { b: true } } }
	ret { key: "y" value: "while:output:0" }
`

const small = `
	signature { name: "small" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_BOOL } }
	node_def { name: "axis" op: "Const" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 0 } } } }
	node_def { name: "max" op: "Max" input: "x" input: "axis:output:0" attr { key: "T" value { type: DT_FLOAT } } attr { key: "Tidx" value { type: DT_INT32 } } }
	node_def { name: "limit" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 100 } } } }
	node_def { name: "less" op: "Less" input: "max:output:0" input: "limit:output:0" attr { key: "T" value { type: DT_FLOAT } } }
	ret { key: "y" value: "less:z:0" }
`

const double = `
	signature { name: "double" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
	node_def { name: "add" op: "AddV2" input: "x" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
	ret { key: "y" value: "add:z:0" }
`

// nested calls another function.
const nested = `
	signature { name: "__inference_nested_4" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
	node_def { name: "inner" op: "PartitionedCall" input: "x" attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } }
		attr { key: "f" value { func { name: "__inference_<lambda>_1" } } } attr { key: "config" value { s: "" } } }
	node_def { name: "again" op: "__inference_<lambda>_1" input: "inner:output:0" }
	ret { key: "y" value: "again:y:0" }
`

func TestEagerFunctions(t *testing.T) {
	net := newNetwork(t, "a")
	c := newEager(t, net.node(taskName("a")), EagerSpec{ID: 1})
	c.send(1, 1, 2)
	lambda := unary("__inference_<lambda>_1", "Neg", eagerCPU)
	for _, f := range []string{lambda, count, nested, small, double, loop} {
		c.register(f)
	}
	if r := c.run(call(10, "__inference_<lambda>_1", "1:0")); len(r.Device) != 1 || r.Device[0] != "" || r.Shape[0].Dim[0].Size != 2 {
		t.Errorf("the response is %v", r)
	}
	c.want("10:0", -1, -2)
	c.run(call(11, "__inference_nested_4", "1:0"))
	c.want("11:0", 1, 2)
	c.run(call(12, "__inference_loop_5", "1:0"))
	c.want("12:0", 64, 128)
	t.Run("effects", func(t *testing.T) {
		c.run(op(20, "VarHandleOp", scalarFloat))
		c.run(op(21, "AssignVariableOp", "", "20:0", "1:0"))
		for i := range int64(3) {
			c.run(call(22+i, "__inference_count_2", "20:0", "1:0"))
			c.want(fmt.Sprintf("%d:0", 22+i), 2, 4)
		}
		c.run(op(30, "ReadVariableOp", attr("dtype", "type: DT_FLOAT"), "20:0"))
		c.want("30:0", 4, 8)
	})
	t.Run("registrations", func(t *testing.T) {
		err := c.Register(&corepb.RegisterFunctionOp{FunctionDef: functionDef(t, unary("__inference_<lambda>_1", "Square", eagerCPU))})
		wantError(t, err, status.InvalidArgument, "Attempting to add a duplicate function with name: __inference_<lambda>_1 where the previous and current definitions differ.")
		c.register(lambda) // the second time
		for range 2 {
			c.run(call(40, "__inference_<lambda>_1", "1:0"))
			if err := c.RemoveFunction("__inference_<lambda>_1"); err != nil {
				t.Fatal(err)
			}
		}
		_, err = c.Run(t.Context(), call(41, "__inference_<lambda>_1", "1:0"))
		wantError(t, err, status.NotFound, "'__inference_<lambda>_1' is neither a type of a primitive operation nor a name of a function registered")
		wantError(t, c.RemoveFunction("__inference_<lambda>_1"), status.InvalidArgument, "Tried to remove non-existent function")
		c.register(unary("__inference_<lambda>_1", "Square", eagerCPU)) // another function of the name
		c.run(call(42, "__inference_<lambda>_1", "1:0"))
		c.want("42:0", 1, 4)
		wantError(t, c.Register(&corepb.RegisterFunctionOp{}), status.InvalidArgument, "without a name")
	})
	t.Run("elsewhere", func(t *testing.T) {
		c.register(unary("spread", "Neg", "/job:worker/replica:0/task:4/device:CPU:0"))
		c.register(unary("unknown", "NoSuchOp", ""))
		_, err := c.Run(t.Context(), call(50, "spread", "1:0"))
		wantError(t, err, status.InvalidArgument, "/job:worker/replica:0/task:4/device:CPU:0 unknown device.")
		_, err = c.Run(t.Context(), call(51, "unknown", "1:0"))
		wantError(t, err, status.NotFound, "NoSuchOp")
	})
	if used := c.memory().Stats().InUse; used == 0 {
		t.Error("the functions do not count as memory")
	}
	c.close()
}

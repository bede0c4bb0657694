package kernelstest

import (
	"strconv"
	"strings"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
)

var typeNames = map[string]tensor.DType{"float": tensor.Float32, "int32": tensor.Int32, "int64": tensor.Int64, "bool": tensor.Bool, "string": tensor.String, "resource": tensor.Resource}

// GraphDef parses a graph written as text, one line per node:
//
//	name = Op(input, input:1, ^control) @job1 attribute=value ...
//
// where @job1 requests CPU 0 of task 1 of a job. A value is a type, a number, true or false, a "string" or &function. The value
// of a Const is an int64 or a bool; with wide=true it is a vector of three, which uses memory from a pool. A missing type T
// defaults to int64; most other attributes that executor tests need have defaults, too.
func GraphDef(t testing.TB, text string) *graphpb.GraphDef {
	t.Helper()
	def := &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: 1395}}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			def.Node = append(def.Node, textNode(t, line))
		}
	}
	return def
}

func textNode(t testing.TB, line string) *nodepb.NodeDef {
	t.Helper()
	name, rest, ok := strings.Cut(line, " = ")
	op, rest, ok2 := strings.Cut(rest, "(")
	inputs, pairs, ok3 := strings.Cut(rest, ")")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("not a node: %s", line)
	}
	n := &nodepb.NodeDef{Name: name, Op: op}
	for in := range strings.SplitSeq(inputs, ",") {
		if in = strings.TrimSpace(in); in != "" {
			n.Input = append(n.Input, in)
		}
	}
	attrs := Attrs{}
	for pair := range strings.FieldsSeq(pairs) {
		if at, ok := strings.CutPrefix(pair, "@"); ok {
			job := strings.TrimRight(at, "0123456789")
			n.Device = "/job:" + job + "/task:" + at[len(job):] + "/device:CPU:0"
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		attrs[key] = textValue(value)
	}
	data := 0
	for _, in := range n.Input {
		if in[0] != '^' {
			data++
		}
	}
	complete(op, data, attrs)
	n.Attr = attrs.Proto()
	if v, ok := attrs["value"].(*tensor.Tensor); ok {
		v.Release()
	}
	return n
}

func textValue(value string) any {
	if d, ok := typeNames[value]; ok {
		return d
	}
	if i, err := strconv.Atoi(value); err == nil {
		return i
	}
	if f, ok := strings.CutPrefix(value, "&"); ok {
		return Func{Name: f}
	}
	if value == "true" || value == "false" {
		return value == "true"
	}
	return strings.Trim(value, `"`)
}

// complete adds attributes that the ops of the tests need and that the text omits.
func complete(op string, inputs int, attrs Attrs) {
	switch op {
	case "Const":
		switch v := attrs["value"].(type) {
		case int:
			attrs["value"], attrs["dtype"] = I64(nil, int64(v)), tensor.Int64
			if attrs["wide"] != nil { // large enough to use memory from the pool
				attrs["value"] = I64(S(3), int64(v), int64(v), int64(v))
				delete(attrs, "wide")
			}
		case bool:
			attrs["value"], attrs["dtype"] = Bool(nil, v), tensor.Bool
		}
		return
	case "FIFOQueueV2", "QueueDequeueV2", "QueueEnqueueV2":
		types := map[string]string{"FIFOQueueV2": "component_types", "QueueDequeueV2": "component_types", "QueueEnqueueV2": "Tcomponents"}[op]
		if attrs[types] == nil {
			attrs[types] = []tensor.DType{tensor.Int64}
		}
		return
	case "VarHandleOp":
		attrs["shape"] = Unknown{}
		fallthrough
	case "Placeholder", "AssignVariableOp", "AssignAddVariableOp", "ReadVariableOp":
		if attrs["dtype"] == nil {
			attrs["dtype"] = tensor.Int64
		}
		return
	case "NoOp", "ControlTrigger", "LoopCond", "LogicalNot", "LogicalAnd":
		return
	case "_Send", "_Recv":
		if attrs["T"] == nil && op == "_Send" {
			attrs["T"] = tensor.Int64
		}
		if attrs["tensor_type"] == nil && op == "_Recv" {
			attrs["tensor_type"] = tensor.Int64
		}
		here := Attrs{"send_device": DeviceName, "recv_device": DeviceName, "send_device_incarnation": 1, "client_terminated": false}
		for key, v := range here {
			if attrs[key] == nil {
				attrs[key] = v
			}
		}
		return
	case "All":
		attrs["Tidx"] = tensor.Int64
		return
	case "Merge":
		attrs["N"] = inputs
	case "Enter":
		if attrs["parallel_iterations"] == nil {
			attrs["parallel_iterations"] = 10
		}
	}
	if attrs["T"] == nil && attrs["Tin"] == nil {
		attrs["T"] = tensor.Int64
	}
}

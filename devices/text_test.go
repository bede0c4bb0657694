package devices

import (
	"strconv"
	"strings"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// Tests write graphs as text, a line a node:
//
//	name = Op(input, input:1, ^control) attribute=value ...
//
// A value is a type, a number, true or false, a "string" or &function. Consts are of int64 unless
// value is true or false. A type attribute T that is not given is int64.

var typeNames = map[string]tensor.DType{"float": tensor.Float32, "int32": tensor.Int32, "int64": tensor.Int64, "bool": tensor.Bool}

// defOf reads the text of a graph.
func defOf(t testing.TB, text string) *graphpb.GraphDef {
	t.Helper()
	def := &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: 1395}}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			def.Node = append(def.Node, nodeOf(t, line))
		}
	}
	return def
}

func nodeOf(t testing.TB, line string) *nodepb.NodeDef {
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
	attrs := kernelstest.Attrs{}
	for pair := range strings.FieldsSeq(pairs) {
		key, value, _ := strings.Cut(pair, "=")
		attrs[key] = attrOf(value)
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

func attrOf(value string) any {
	if d, ok := typeNames[value]; ok {
		return d
	}
	if i, err := strconv.Atoi(value); err == nil {
		return i
	}
	if f, ok := strings.CutPrefix(value, "&"); ok {
		return kernelstest.Func{Name: f}
	}
	if value == "true" || value == "false" {
		return value == "true"
	}
	return strings.Trim(value, `"`)
}

// complete adds the attributes that the ops of the tests need and that the text leaves out.
func complete(op string, inputs int, attrs kernelstest.Attrs) {
	switch op {
	case "Const":
		switch v := attrs["value"].(type) {
		case int:
			attrs["value"], attrs["dtype"] = kernelstest.I64(nil, int64(v)), tensor.Int64
			if attrs["wide"] != nil { // large enough for memory of the pool's
				attrs["value"] = kernelstest.I64(kernelstest.S(3), int64(v), int64(v), int64(v))
				delete(attrs, "wide")
			}
		case bool:
			attrs["value"], attrs["dtype"] = kernelstest.Bool(nil, v), tensor.Bool
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
		here := kernelstest.Attrs{"send_device": testDevice, "recv_device": testDevice, "send_device_incarnation": 1, "client_terminated": false}
		for key, v := range here {
			if attrs[key] == nil {
				attrs[key] = v
			}
		}
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

// graphOf builds a graph from its text.
func graphOf(t testing.TB, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Rebuild(defOf(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

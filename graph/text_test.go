package graph

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/encoding/prototext"
)

// The notation in which tests write graphs, one node per line:
//
//	name = Op[attr=value; attr=value](input, input, ^control) @device
//
// A value is a type (float, int32_ref), true or false, a number with or without a point, a "string", $placeholder, &function, shape(2,-1),
// none, or a list of one kind in [...].

// parseGraph parses nodes. A line "producer N" sets the version, which defaults to the current one; "minconsumer N" and "badconsumer N"
// set those fields.
func parseGraph(t testing.TB, text string) *graphpb.GraphDef {
	t.Helper()
	def := &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: graphVersion}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if key, arg, ok := strings.Cut(line, " "); ok && !strings.Contains(line, "=") {
			n, err := strconv.ParseInt(arg, 10, 32)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			switch key {
			case "producer":
				def.Versions.Producer = int32(n)
			case "minconsumer":
				def.Versions.MinConsumer = int32(n)
			case "badconsumer":
				def.Versions.BadConsumers = append(def.Versions.BadConsumers, int32(n))
			default:
				t.Fatalf("what is %q?", line)
			}
			continue
		}
		def.Node = append(def.Node, parseNode(t, line))
	}
	return def
}

func parseNode(t testing.TB, line string) *nodepb.NodeDef {
	t.Helper()
	name, rest, ok := strings.Cut(line, " = ")
	if !ok {
		t.Fatalf("%q is no node", line)
	}
	n := &nodepb.NodeDef{Name: name}
	if head, device, ok := strings.Cut(rest, " @"); ok {
		rest, n.Device = head, device
	}
	if i := strings.LastIndex(rest, "("); strings.HasSuffix(rest, ")") && i >= strings.LastIndex(rest, "]") {
		for in := range strings.SplitSeq(rest[i+1:len(rest)-1], ", ") {
			n.Input = append(n.Input, in)
		}
		rest = rest[:i]
	}
	op, attrs, ok := strings.Cut(rest, "[")
	n.Op = op
	if ok {
		n.Attr = parseAttrs(t, strings.TrimSuffix(attrs, "]"))
	}
	return n
}

func parseAttrs(t testing.TB, text string) Attrs {
	t.Helper()
	attrs := Attrs{}
	for pair := range strings.SplitSeq(text, "; ") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			t.Fatalf("%q is no attribute", pair)
		}
		attrs[name] = parseValue(t, value)
	}
	return attrs
}

func parseValue(t testing.TB, s string) *attrpb.AttrValue {
	t.Helper()
	v := &attrpb.AttrValue{}
	if strings.HasPrefix(s, "[") {
		l := &attrpb.AttrValue_ListValue{}
		if s != "[]" {
			for e := range strings.SplitSeq(strings.Trim(s, "[]"), ",") {
				switch e := parseValue(t, e).Value.(type) {
				case *attrpb.AttrValue_Type:
					l.Type = append(l.Type, e.Type)
				case *attrpb.AttrValue_I:
					l.I = append(l.I, e.I)
				case *attrpb.AttrValue_S:
					l.S = append(l.S, e.S)
				case *attrpb.AttrValue_Func:
					l.Func = append(l.Func, e.Func)
				}
			}
		}
		v.Value = &attrpb.AttrValue_List{List: l}
		return v
	}
	if dims, ok := strings.CutPrefix(s, "shape("); ok {
		var shape tensor.Shape
		for d := range strings.SplitSeq(strings.TrimSuffix(dims, ")"), ",") {
			n, err := strconv.ParseInt(d, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			shape = append(shape, n)
		}
		v.Value = &attrpb.AttrValue_Shape{Shape: shape.Proto()}
		return v
	}
	switch {
	case s == "none":
	case s == "true", s == "false":
		v.Value = &attrpb.AttrValue_B{B: s == "true"}
	case s[0] == '"':
		v.Value = &attrpb.AttrValue_S{S: []byte(strings.Trim(s, `"`))}
	case s[0] == '$':
		v.Value = &attrpb.AttrValue_Placeholder{Placeholder: s[1:]}
	case s[0] == '&':
		v.Value = &attrpb.AttrValue_Func{Func: &attrpb.NameAttrList{Name: s[1:]}}
	default:
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			v.Value = &attrpb.AttrValue_I{I: i}
		} else if f, err := strconv.ParseFloat(s, 32); err == nil {
			v.Value = &attrpb.AttrValue_F{F: float32(f)}
		} else {
			v.Value = &attrpb.AttrValue_Type{Type: parseType(t, s)}
		}
	}
	return v
}

func parseType(t testing.TB, s string) typespb.DataType {
	t.Helper()
	if n, ok := strings.CutPrefix(s, "dtype"); ok {
		i, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		return typespb.DataType(i)
	}
	for d := tensor.DType(1); d < 200; d++ {
		if d.Valid() && d.String() == s {
			return d.Proto()
		}
	}
	t.Fatalf("%q is no value", s)
	return 0
}

// parseLibrary parses a FunctionDefLibrary in protobuf's text format.
func parseLibrary(t testing.TB, text string) *functionpb.FunctionDefLibrary {
	t.Helper()
	l := &functionpb.FunctionDefLibrary{}
	if err := prototext.Unmarshal([]byte(text), l); err != nil {
		t.Fatal(err)
	}
	return l
}

// show formats a graph in the notation, with the types of each node's inputs and outputs, and the assigned device after the requested one.
func show(g *Graph) string {
	var b strings.Builder
	for _, n := range g.Nodes {
		def := n.Proto()
		fmt.Fprintf(&b, "%s = %s", n.Name, n.Op)
		if len(n.Attrs) > 0 {
			var attrs []string
			for _, name := range slices.Sorted(maps.Keys(n.Attrs)) {
				attrs = append(attrs, name+"="+summarizeAttr(n.Attrs[name]))
			}
			fmt.Fprintf(&b, "[%s]", strings.Join(attrs, "; "))
		}
		if len(def.Input) > 0 {
			fmt.Fprintf(&b, "(%s)", strings.Join(def.Input, ", "))
		}
		if n.Requested != "" {
			b.WriteString(" @" + n.Requested)
		}
		if n.Assigned != "" {
			b.WriteString(" assigned " + n.Assigned)
		}
		fmt.Fprintf(&b, " : (%s) -> (%s)\n", summarizeTypes(n.InTypes), summarizeTypes(n.OutTypes))
	}
	return b.String()
}

// mustBuild builds a graph that is known to be valid.
func mustBuild(t testing.TB, text string) *Graph {
	t.Helper()
	g, err := Build(parseGraph(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

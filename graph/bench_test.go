package graph

import (
	"fmt"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
)

// layered returns a GraphDef of at most n nodes, or a few fewer: rounds of MatMul, Add and Relu with a control edge, as the Python client
// would send it.
func layered(n int, prefix string) *graphpb.GraphDef {
	float := func() *attrpb.AttrValue {
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: typespb.DataType_DT_FLOAT}}
	}
	no := func() *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{}} }
	def := &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: graphVersion}}
	add := func(name, op string, attrs map[string]*attrpb.AttrValue, inputs ...string) string {
		def.Node = append(def.Node, &nodepb.NodeDef{Name: name, Op: op, Attr: attrs, Input: inputs, Device: "/job:worker/task:1"})
		return name
	}
	last := add(prefix+"x", "Placeholder", map[string]*attrpb.AttrValue{"dtype": float()})
	for i := range n / 4 {
		layer := fmt.Sprintf("%slayer_%d/", prefix, i)
		w := add(layer+"w", "Placeholder", map[string]*attrpb.AttrValue{"dtype": float(), "shape": {Value: &attrpb.AttrValue_Shape{}}})
		m := add(layer+"MatMul", "MatMul", map[string]*attrpb.AttrValue{"T": float(), "transpose_a": no(), "transpose_b": no(), "grad_a": no(), "grad_b": no()}, last, w+":0")
		a := add(layer+"add", "AddV2", map[string]*attrpb.AttrValue{"T": float()}, m, w)
		last = add(layer+"Relu", "Relu", map[string]*attrpb.AttrValue{"T": float()}, a, "^"+w)
	}
	return def
}

func BenchmarkBuild10000(b *testing.B) {
	def := layered(10000, "")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Build(def); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExtendByOneOf10000(b *testing.B) {
	g, err := Build(layered(10000, ""))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if g, err = g.Extend(layered(3, fmt.Sprintf("e%d/", i))); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrune10000(b *testing.B) {
	g, err := Build(layered(10000, ""))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Prune(g, Signature{Feeds: []string{"x:0"}, Fetches: []string{"layer_2499/Relu:0"}}, "/job:a/replica:0/task:0/device:CPU:0"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrune4Of10000(b *testing.B) {
	g, err := Build(layered(10000, ""))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Prune(g, Signature{Feeds: []string{"x:0"}, Fetches: []string{"layer_0/Relu:0"}}, "/job:a/replica:0/task:0/device:CPU:0"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDef10000(b *testing.B) {
	g, err := Build(layered(10000, ""))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		g.Def()
	}
}

package shape

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// golden holds what TensorFlow infers; testdata/generate.py writes it and describes its format.
//
//go:embed testdata/tensorflow.pb.gz
var golden []byte

func cases(t testing.TB) []*nodepb.NodeDef {
	z, err := gzip.NewReader(bytes.NewReader(golden))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	g := &graphpb.GraphDef{}
	if err := proto.Unmarshal(raw, g); err != nil {
		t.Fatal(err)
	}
	return g.Node
}

func shapesOf(v *attrpb.AttrValue) []Shape {
	out := make([]Shape, 0, len(v.GetList().GetShape()))
	for _, p := range v.GetList().GetShape() {
		dims, known := tensor.ShapeFromProto(p)
		out = append(out, Shape{dims, known})
	}
	return out
}

// nodeOf returns a case as a Node.
func nodeOf(t testing.TB, def *nodepb.NodeDef) *Node {
	consts := map[int]*tensor.Tensor{}
	handles := map[int][]Handle{}
	in := shapesOf(def.Attr["_in"])
	for i := range in {
		if v, ok := def.Attr[fmt.Sprint("_const_", i)]; ok {
			c, err := tensor.FromTensorProto(v.GetTensor(), tensor.Host)
			if err != nil {
				t.Fatal(err)
			}
			consts[i] = c
		}
		for j, s := range shapesOf(def.Attr[fmt.Sprint("_handle_shapes_", i)]) {
			handles[i] = append(handles[i], Handle{tensor.FromProto(def.Attr[fmt.Sprint("_handle_types_", i)].GetList().Type[j]), s})
		}
	}
	attrs := graph.Attrs{}
	for name, v := range def.Attr {
		if !strings.HasPrefix(name, "_") {
			attrs[name] = v
		}
	}
	return &Node{Op: def.Op, Attrs: attrs, In: in, Out: outputs(t, def),
		Value:   func(i int) *tensor.Tensor { return consts[i] },
		Handles: func(i int) []Handle { return handles[i] }}
}

// outputs returns the types of a node's outputs.
func outputs(t testing.TB, def *nodepb.NodeDef) (types []tensor.DType) {
	decl, err := graph.LookupOp(def.Op)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range decl.OutputArg {
		if a.TypeListAttr != "" {
			for _, d := range def.Attr[a.TypeListAttr].GetList().GetType() {
				types = append(types, tensor.FromProto(d))
			}
			continue
		}
		d, n := a.Type, int64(1)
		if a.TypeAttr != "" {
			d = def.Attr[a.TypeAttr].GetType()
		}
		if a.NumberAttr != "" {
			n = def.Attr[a.NumberAttr].GetI()
		}
		for range n {
			types = append(types, tensor.FromProto(d))
		}
	}
	return types
}

// TestLikeTensorFlow compares each case with what TensorFlow inferred. Two differences are intended: TensorFlow does not check the
// gradient's shape in updates of resources, and it takes an unknown axis of SplitV for the last one.
func TestLikeTensorFlow(t *testing.T) {
	wrong, ops := map[string]int{}, map[string]bool{}
	all := cases(t)
	for _, def := range all {
		ops[def.Op] = true
		want := shapesOf(def.Attr["_out"])
		bad := def.Attr["_error"]
		r, err := Infer(nodeOf(t, def))
		problem := ""
		switch {
		case bad != nil && err == nil:
			problem = fmt.Sprintf("no error, want %s", bad.GetS())
		case bad == nil && err != nil:
			problem = fmt.Sprintf("error %v, want %v", err, want)
		case err == nil && fmt.Sprint(r.Out) != fmt.Sprint(want):
			problem = fmt.Sprintf("%v, want %v", r.Out, want)
		}
		if problem == "" || err != nil && (strings.HasPrefix(def.Op, "ResourceApply") || strings.HasPrefix(def.Op, "ResourceSparseApply")) || err == nil && bad == nil && def.Op == "SplitV" {
			continue
		}
		if wrong[def.Op]++; wrong[def.Op] <= 2 {
			t.Errorf("%s of %v: %s", def.Name, shapesOf(def.Attr["_in"]), problem)
		}
	}
	t.Logf("%d cases of %d ops; %d ops differ", len(all), len(ops), len(wrong))
}

package tensor

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	funcpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	opdefpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

// someGraph returns a graph with as many nodes and functions, the last node with a large constant.
func someGraph(nodes, functions, large int) *graphpb.GraphDef {
	attr := &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte("value")}}
	g := &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: 7, BadConsumers: []int32{1, 2}}, Library: &funcpb.FunctionDefLibrary{}}
	for range nodes {
		g.Node = append(g.Node, &nodepb.NodeDef{Name: "n", Op: "NoOp", Input: []string{"a", "^b"}, Attr: map[string]*attrpb.AttrValue{"x": attr, "y": attr}})
	}
	for range functions {
		g.Library.Function = append(g.Library.Function, &funcpb.FunctionDef{Signature: &opdefpb.OpDef{Name: "f"}, NodeDef: g.Node[:min(nodes, 3)]})
	}
	if large > 0 {
		v := &tensorpb.TensorProto{TensorContent: make([]byte, large)}
		g.Node = append(g.Node, &nodepb.NodeDef{Op: "Const", Attr: map[string]*attrpb.AttrValue{"value": {Value: &attrpb.AttrValue_Tensor{Tensor: v}}}})
	}
	return g
}

// TestUnmarshalUntil checks that a message that is decoded in parts is the same as one that is decoded at once, that errors are too, and that
// decoding ends between the parts.
func TestUnmarshalUntil(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, g := range map[string]*graphpb.GraphDef{
		"nodes":     someGraph(40_000, 0, 0),
		"functions": someGraph(3, 20_000, 0),
		"a large":   someGraph(1, 1, 3*decodedPiece),
		"all":       someGraph(10_000, 10_000, decodedPiece),
	} {
		q := &corepb.CreateSessionRequest{GraphDef: g, Target: "x", Config: &corepb.ConfigProto{IntraOpParallelismThreads: 3}}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		looks := 0
		got := &corepb.CreateSessionRequest{Target: "of an earlier one"}
		if err := UnmarshalUntil(b, got, func() error { looks++; return nil }); err != nil || !proto.Equal(got, q) {
			t.Errorf("%s: the message differs (%v)", name, err)
		}
		if looks < 3 || name != "a large" && looks < len(b)/decodedPiece {
			t.Errorf("%s: %d looks for %d bytes", name, looks, len(b))
		}
		ended := status.New(status.Cancelled, "enough")
		for _, last := range []int{0, looks / 2, looks - 1} {
			n := 0
			err := UnmarshalUntil(b, got, func() error {
				if n++; n > last {
					return ended
				}
				return nil
			})
			if !errors.Is(err, ended) || n != last+1 {
				t.Errorf("%s: %v after %d looks, not %d", name, err, n, last)
			}
		}
		for range 5 { // malformed ones
			bad := bytes.Clone(b)
			switch i := rng.IntN(len(bad)); rng.IntN(3) {
			case 0:
				bad = bad[:i]
			case 1:
				bad[i] ^= byte(1 + rng.IntN(255))
			default:
				copy(bad[i:], bytes.Repeat([]byte{0xff}, 11))
			}
			want := &corepb.CreateSessionRequest{}
			whole, parts := proto.Unmarshal(bad, want), UnmarshalUntil(bad, got, func() error { return nil })
			if (whole == nil) != (parts == nil) || whole == nil && !proto.Equal(got, want) {
				t.Errorf("%s, malformed: %v at once, %v in parts", name, whole, parts)
			}
		}
	}
}

// TestDecodingEnds checks that decoding a tensor of many elements ends when nobody wants it any more, whatever form its elements have.
func TestDecodingEnds(t *testing.T) {
	const n = 8 * looksEach
	texts, err := New(Host, String, Shape{n})
	if err != nil {
		t.Fatal(err)
	}
	variants, err := New(Host, Variant, Shape{n})
	if err != nil {
		t.Fatal(err)
	}
	defer texts.Release()
	defer variants.Release()
	RegisterVariant("ended", func(d VariantData) (any, error) { return string(d.Metadata), nil })
	defer delete(variantTypes, "ended")
	messages := map[string]*tensorpb.TensorProto{}
	for name, v := range map[string]*Tensor{"strings": texts, "variants": variants} {
		if messages[name], err = v.Proto(); err != nil {
			t.Fatal(err)
		}
	}
	messages["variants"].VariantVal = nil
	for range n {
		messages["variants"].VariantVal = append(messages["variants"].VariantVal, &tensorpb.VariantTensorDataProto{TypeName: "ended"})
	}
	packed := proto.CloneOf(messages["strings"])
	packed.StringVal, packed.TensorContent = nil, make([]byte, n)
	messages["packed strings"] = packed
	ended := status.New(status.Cancelled, "enough")
	before := Host.Stats().InUse
	for name, p := range messages {
		wire, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		for how, decode := range map[string]func(ended func() error) (*Tensor, error){
			"message": func(ended func() error) (*Tensor, error) { return FromTensorProtoUntil(p, Host, ended) },
			"wire": func(ended func() error) (*Tensor, error) {
				return ReadWireUntil(NewBytes(wire), len(wire), Host, ended)
			},
		} {
			if how == "message" && name == "strings" {
				continue // they are in memory already
			}
			looks := 0
			v, err := decode(func() error {
				if looks++; looks > 3 {
					return ended
				}
				return nil
			})
			if !errors.Is(err, ended) || looks > 5 {
				t.Errorf("%s, %s: %v after %d looks", name, how, err, looks)
			}
			if v != nil {
				v.Release()
			}
		}
	}
	if now := Host.Stats().InUse; now != before {
		t.Errorf("%d bytes are still in use", now-before)
	}
}

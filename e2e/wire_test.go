//go:build unix

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/internal/extent"
)

// Raw messages that no TensorFlow client sends.

func masterOf(t *testing.T, k *task) *master {
	t.Helper()
	m, err := dial(k.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	return m
}

// refused checks an error's code and text.
func refused(t *testing.T, err error, want codes.Code, texts ...string) {
	t.Helper()
	s := grpcstatus.Convert(err)
	if s.Code() != want {
		t.Errorf("got %v (%s), want %v", s.Code(), s.Message(), want)
	}
	contains(t, "the message", s.Message(), texts...)
}

// step runs a step in a session.
func (m *master) step(ctx context.Context, session string, feeds map[string]*tensorpb.TensorProto, fetch ...string) ([]*tensorpb.TensorProto, error) {
	q := &corepb.RunStepRequest{SessionHandle: session, Fetch: fetch}
	for name, v := range feeds {
		q.Feed = append(q.Feed, &corepb.NamedTensorProto{Name: name, Tensor: v})
	}
	a, err := m.runStep(ctx, q)
	if err != nil {
		return nil, err
	}
	var out []*tensorpb.TensorProto
	for _, v := range a.Tensor {
		out = append(out, v.Tensor)
	}
	return out, nil
}

// bounded returns a context of one second for one call.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(time.Second))
	t.Cleanup(cancel)
	return ctx
}

// works checks that a server runs a step.
func works(t *testing.T, m *master) {
	t.Helper()
	s, err := m.createSession(bounded(t), graphOf(two(), node("four", "AddV2", float, "two", "two")))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.step(bounded(t), s, nil, "four:0"); err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	if err := m.closeSession(bounded(t), s); err != nil {
		t.Fatal(err)
	}
}

// TestMalformedGraphs checks that a malformed graph is refused when the session is created or, at the latest, when it runs.
func TestMalformedGraphs(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	const invalid = codes.InvalidArgument
	deep := func(depth int) *graphpb.GraphDef {
		g := graphOf(two())
		last := "two"
		for i := range depth {
			name := fmt.Sprintf("n%d", i)
			g.Node = append(g.Node, node(name, "Neg", float, last))
			last = name
		}
		g.Node = append(g.Node, node("end", "Missing", float, last))
		return g
	}
	calls := func(name, callee string) *functionpb.FunctionDef { return recursive(name, callee) }
	for _, row := range []struct {
		name  string
		graph *graphpb.GraphDef
		code  codes.Code
		texts []string
	}{
		{"a name twice", graphOf(two(), two()), invalid, []string{"two"}},
		{"an unknown input", graphOf(node("n", "Neg", float, "gone")), invalid, []string{"n", "gone"}},
		{"an output that is not there", graphOf(two(), node("n", "Neg", float, "two:3")), invalid, []string{"n", "two"}},
		{"an output number beyond int32", graphOf(two(), node("n", "Neg", float, "two:99999999999")), invalid, []string{"n"}},
		{"too few inputs", graphOf(two(), node("n", "AddV2", float, "two")), invalid, []string{"n", "AddV2"}},
		{"too many inputs", graphOf(two(), node("n", "Neg", float, "two", "two")), invalid, []string{"n", "Neg"}},
		{"an input of another dtype", graphOf(two(), node("n", "Neg", typespb.DataType_DT_DOUBLE, "two")), invalid, []string{"n", "float", "double"}},
		{"a dtype that the op does not take", graphOf(two(), node("n", "Neg", typespb.DataType_DT_STRING, "two")), invalid, []string{"n", "Neg"}},
		{"a dtype out of range", graphOf(two(), node("n", "Neg", typespb.DataType(9999), "two")), invalid, []string{"n"}},
		{"an attribute missing", graphOf(two(), node("n", "Neg", 0, "two")), invalid, []string{"n", "T"}},
		{"an attribute of another kind", graphOf(two(), with(node("n", "Neg", 0, "two"), "T", &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: 1}})), invalid, []string{"n", "T"}},
		{"an attribute without a value", graphOf(two(), with(node("n", "Neg", 0, "two"), "T", &attrpb.AttrValue{})), invalid, []string{"n", "T"}},
		{"a cycle outside loops", graphOf(node("a", "Neg", float, "b"), node("b", "Neg", float, "a")), invalid, []string{"cycle"}},
		{"a node that needs itself", graphOf(node("a", "Neg", float, "a")), invalid, []string{"a"}},
		{"a cycle of control edges", graphOf(node("a", "NoOp", 0, "^b"), node("b", "NoOp", 0, "^a")), invalid, []string{"cycle"}},
		{"no name", graphOf(node("", "NoOp", 0)), invalid, nil},
		{"a bad name", graphOf(node("a b", "NoOp", 0)), invalid, []string{"a b"}},
		{"no op", graphOf(node("n", "", 0)), invalid, []string{"n"}},
		{"a data input behind a control input", graphOf(two(), node("n", "Neg", float, "^two", "two")), invalid, []string{"n"}},
		{"a device that is none", graphOf(on(two(), "/job:/task:x")), invalid, []string{"two"}},
		{"a constant of another dtype", graphOf(constant("c", typespb.DataType_DT_INT32, floats(nil, 1))), invalid, []string{"c"}},
		{"a constant without a value", graphOf(with(node("c", "Const", 0), "dtype", dtypeAttr(float))), invalid, []string{"c", "value"}},
		{"a negative dimension", graphOf(constant("end", float, floats([]int64{-5}, 1))), invalid, []string{"end"}},
		{"a size beyond int64", graphOf(constant("end", float, floats([]int64{1 << 40, 1 << 40}, 1))), invalid, []string{"end"}},
		{"a size beyond all memory", graphOf(constant("end", float, floats([]int64{1 << 45}, 1))), 0, []string{"end"}},
		{"content of another length", graphOf(constant("end", float, &tensorpb.TensorProto{Dtype: float,
			TensorShape: floats([]int64{3}).TensorShape, TensorContent: []byte{1, 2, 3, 4, 5}})), invalid, []string{"end"}},
		{"a million dimensions", graphOf(constant("end", float, floats(make([]int64, 1_000_000)))), invalid, []string{"end"}},
		{"an unknown op at the end of a deep graph", deep(20_000), 0, []string{"Missing", "end"}},
		{"a function that calls itself", functions(calls("f", "f")), 0, []string{"f"}},
		{"two functions that call each other", functions(calls("f", "g"), calls("g", "f")), 0, []string{"f"}},
		{"a function that is not there", functions(calls("f", "nowhere")), 0, []string{"nowhere"}},
		{"the same function twice", functions(calls("f", "Neg"), calls("f", "Abs")), invalid, []string{"f"}},
		{"a producer from the far future", &graphpb.GraphDef{Node: []*nodepb.NodeDef{two()}, Versions: &versionspb.VersionDef{Producer: 5000, MinConsumer: 5000}}, invalid, []string{"5000"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, k := range []*task{c.task("worker", 0)} {
				m := masterOf(t, k)
				s, err := m.createSession(bounded(t), row.graph)
				if err == nil {
					last := row.graph.Node[len(row.graph.Node)-1]
					q := &corepb.RunStepRequest{SessionHandle: s, Target: []string{last.Name}}
					_, err = m.runStep(bounded(t), q)
					if cerr := m.closeSession(bounded(t), s); cerr != nil {
						t.Error(cerr)
					}
				}
				if row.code != 0 {
					refused(t, err, row.code, row.texts...)
				} else if code := grpcstatus.Code(err); code != invalid && code != codes.ResourceExhausted && code != codes.Unimplemented && code != codes.NotFound {
					t.Errorf("got %v", err)
				} else {
					contains(t, "the message", err.Error(), row.texts...)
				}
				works(t, m)
			}
		})
	}
}

// recursive returns a function of one float that calls another.
func recursive(name, callee string) *functionpb.FunctionDef {
	f := &functionpb.FunctionDef{Signature: signature(name), Ret: map[string]string{"y": "call:y:0"},
		NodeDef: []*nodepb.NodeDef{node("call", callee, 0, "x")}}
	if callee == "Neg" || callee == "Abs" {
		f.NodeDef[0].Attr["T"] = dtypeAttr(float)
	}
	return f
}

// functions returns a graph that calls the first of the functions.
func functions(fs ...*functionpb.FunctionDef) *graphpb.GraphDef {
	g := graphOf(two(), node("end", fs[0].Signature.Name, 0, "two"))
	g.Library = &functionpb.FunctionDefLibrary{Function: fs}
	return g
}

// TestMalformedRequests sends requests that do not fit their session.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	m := masterOf(t, sharedCluster(t).task("worker", 0))
	const invalid = codes.InvalidArgument
	g := graphOf(two(), with(node("x", "Placeholder", 0), "dtype", dtypeAttr(float)), node("sum", "AddV2", float, "two", "x"))
	s, err := m.createSession(bounded(t), g)
	if err != nil {
		t.Fatal(err)
	}
	feed := func(name string, v *tensorpb.TensorProto) map[string]*tensorpb.TensorProto {
		return map[string]*tensorpb.TensorProto{name: v}
	}
	one := floats(nil, 1)
	for _, row := range []struct {
		name  string
		feeds map[string]*tensorpb.TensorProto
		fetch []string
		code  codes.Code
		texts []string
	}{
		{"nothing to do", nil, nil, invalid, []string{"Must specify at least one target to fetch or execute."}},
		{"an unknown fetch", nil, []string{"gone:0"}, codes.NotFound, []string{"gone"}},
		{"an output that is not there", nil, []string{"two:4"}, 0, []string{"two"}},
		{"a fetch that is no name", nil, []string{":::"}, 0, nil},
		{"an unknown feed", feed("gone:0", one), []string{"two:0"}, codes.NotFound, []string{"gone"}},
		{"fed and fetched", feed("x:0", one), []string{"x:0"}, invalid, []string{"x:0"}},
		{"a feed of another dtype", feed("x:0", &tensorpb.TensorProto{Dtype: typespb.DataType_DT_INT32, IntVal: []int32{1}}), []string{"sum:0"}, invalid, []string{"x"}},
		{"a feed without a value", feed("x:0", nil), []string{"sum:0"}, invalid, []string{"x"}},
		{"a feed of no dtype", feed("x:0", &tensorpb.TensorProto{}), []string{"sum:0"}, invalid, []string{"x"}},
		{"a feed with too few bytes", feed("x:0", &tensorpb.TensorProto{Dtype: float, TensorShape: floats([]int64{1000}).TensorShape, TensorContent: make([]byte, 8)}),
			[]string{"sum:0"}, invalid, nil},
		{"a feed beyond all memory", feed("x:0", floats([]int64{1 << 45}, 1)), []string{"sum:0"}, 0, nil},
		{"a feed whose size overflows", feed("x:0", floats([]int64{1 << 40, 1 << 40}, 1)), []string{"sum:0"}, invalid, nil},
		{"a feed of negative size", feed("x:0", floats([]int64{-3}, 1)), []string{"sum:0"}, invalid, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := m.step(bounded(t), s, row.feeds, row.fetch...)
			if row.code != 0 {
				refused(t, err, row.code, row.texts...)
			} else if code := grpcstatus.Code(err); code != invalid && code != codes.NotFound && code != codes.ResourceExhausted {
				t.Errorf("got %v", err)
			}
			if got, err := m.step(bounded(t), s, feed("x:0", one), "sum:0"); err != nil || len(got) != 1 {
				t.Errorf("afterwards: %v, %v", got, err)
			}
		})
	}
	t.Run("an unknown session", func(t *testing.T) {
		_, err := m.step(bounded(t), "no such session", nil, "two:0")
		refused(t, err, codes.Aborted, "no such session", "not found")
		refused(t, m.closeSession(bounded(t), "no such session"), codes.Aborted, "not found")
		_, err = m.listDevices(bounded(t), "no such session")
		refused(t, err, invalid, "no such session")
	})
	t.Run("an unknown method", func(t *testing.T) {
		refused(t, m.call(bounded(t), "Juggle", &corepb.ResetRequest{}, &corepb.ResetResponse{}), codes.Unimplemented, "Juggle")
	})
}

// TestExtendIsIdempotent repeats an ExtendSession, as a client does that did not receive the answer.
func TestExtendIsIdempotent(t *testing.T) {
	t.Parallel()
	m := masterOf(t, sharedCluster(t).task("worker", 0))
	s, err := m.createSession(bounded(t), graphOf(two()))
	if err != nil {
		t.Fatal(err)
	}
	extend := func(version int64, nodes ...*nodepb.NodeDef) (int64, error) {
		a := &corepb.ExtendSessionResponse{}
		err := m.call(bounded(t), "ExtendSession", &corepb.ExtendSessionRequest{SessionHandle: s, GraphDef: graphOf(nodes...), CurrentGraphVersion: version}, a)
		return a.NewGraphVersion, err
	}
	three := constant("three", float, floats(nil, 3))
	for range 2 {
		if v, err := extend(0, three); err != nil || v != 1 {
			t.Fatalf("version %d, %v", v, err)
		}
	}
	_, err = extend(0, constant("other", float, floats(nil, 3)))
	refused(t, err, codes.Aborted, "Current version is 1 but caller expected 0")
	_, err = extend(1, three)
	refused(t, err, codes.InvalidArgument, "three")
	_, err = extend(1, node("bad", "Neg", float, "gone"))
	refused(t, err, codes.InvalidArgument, "bad")
	if v, err := extend(1, node("sum", "AddV2", float, "two", "three")); err != nil || v != 2 {
		t.Fatalf("version %d, %v", v, err)
	}
	if _, err := m.step(bounded(t), s, nil, "sum:0"); err != nil {
		t.Error(err)
	}
}

package component

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/partition"
	"google.golang.org/protobuf/encoding/prototext"
)

// pruned returns what a step of a graph needs, with its feeds as arguments and its fetches as results.
func pruned(t *testing.T, text string, sig graph.Signature) *graph.Graph {
	t.Helper()
	def := &graphpb.GraphDef{}
	if err := prototext.Unmarshal([]byte(text), def); err != nil {
		t.Fatal(err)
	}
	g, err := graph.Build(def)
	if err != nil {
		t.Fatal(err)
	}
	p, err := graph.Prune(g, sig, "/job:a/replica:0/task:0/device:CPU:0")
	if err != nil {
		t.Fatal(err)
	}
	return p.Graph
}

const (
	float       = ` attr { key: "T" value { type: DT_FLOAT } }`
	placeholder = `op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }`
)

func TestDefine(t *testing.T) {
	for _, q := range []struct {
		name, graph string
		sig         graph.Signature
		args, rets  []int
		body        string // name: inputs
		ret         string
		control     string
		stateful    bool
	}{
		{
			name:  "an op",
			graph: `node { name: "x" ` + placeholder + ` } node { name: "neg" op: "Neg" input: "x"` + float + ` attr { key: "_class" value { list { s: "loc:@elsewhere" } } } }`,
			sig:   graph.Signature{Feeds: []string{"x"}, Fetches: []string{"neg"}},
			args:  []int{0}, rets: []int{0}, body: "neg(arg_0)", ret: "ret_0=neg:y:0",
		}, {
			name: "the second output of an op with a list of them, in the order of the indices",
			graph: `node { name: "x" ` + placeholder + ` } node { name: "y" ` + placeholder + ` }
				node { name: "axis" op: "Const" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
				node { name: "split" op: "Split" input: "axis" input: "y" attr { key: "num_split" value { i: 3 } }` + float + ` }
				node { name: "sum" op: "AddV2" input: "split:2" input: "x"` + float + ` }`,
			sig:  graph.Signature{Feeds: []string{"y", "x"}, Fetches: []string{"sum", "split:1"}},
			args: []int{0, 1}, rets: []int{0, 1}, body: "axis() split(axis:output:0,arg_0) sum(split:output:2,arg_1)", ret: "ret_0=sum:z:0 ret_1=split:output:1",
		}, {
			name: "nodes with state, and nodes that nothing depends on",
			graph: `node { name: "x" ` + placeholder + ` }
				node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } } }
				node { name: "assign" op: "AssignVariableOp" input: "v" input: "x" attr { key: "dtype" value { type: DT_FLOAT } } }
				node { name: "read" op: "ReadVariableOp" input: "v" input: "^assign" attr { key: "dtype" value { type: DT_FLOAT } } }
				node { name: "last" op: "NoOp" input: "^read" input: "^x" }`,
			sig:  graph.Signature{Feeds: []string{"x"}, Targets: []string{"last"}},
			args: []int{0}, body: "assign(v:resource:0,arg_0) last(^read,^arg_0) read(v:resource:0,^assign) v()", control: "assign last read v", stateful: true,
		}, {
			name: "outputs of a list of types, and of more than one name",
			graph: `node { name: "x" ` + placeholder + ` } node { name: "y" ` + placeholder + ` }
				node { name: "id" op: "IdentityN" input: "x" input: "y" attr { key: "T" value { list { type: DT_FLOAT type: DT_FLOAT } } } }
				node { name: "u" op: "Unique" input: "id:1"` + float + ` attr { key: "out_idx" value { type: DT_INT32 } } }`,
			sig:  graph.Signature{Feeds: []string{"x", "y"}, Fetches: []string{"u:1", "id:1"}},
			args: []int{0, 1}, rets: []int{0, 1}, body: "id(arg_0,arg_1) u(id:output:1)", ret: "ret_0=u:idx:0 ret_1=id:output:1",
		}, {
			name:  "an argument that is a result, and one that has a node's name",
			graph: `node { name: "x" ` + placeholder + ` } node { name: "arg_0" op: "Neg" input: "x"` + float + ` } node { name: "id" op: "IdentityN" input: "x" attr { key: "T" value { list { type: DT_FLOAT } } } }`,
			sig:   graph.Signature{Feeds: []string{"x"}, Fetches: []string{"id", "arg_0"}},
			args:  []int{0}, rets: []int{0, 1}, body: "arg_0(arg_0_) id(arg_0_)", ret: "ret_0=id:output:0 ret_1=arg_0:y:0",
		},
	} {
		t.Run(q.name, func(t *testing.T) {
			part := pruned(t, q.graph, q.sig)
			c, err := Define("f_partitioned_1_0", part)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(c.Args, q.args) || !slices.Equal(c.Rets, q.rets) {
				t.Errorf("the arguments are %v and the results %v", c.Args, c.Rets)
			}
			var body []string
			for _, n := range c.Def.GetNodeDef() {
				body = append(body, fmt.Sprintf("%s(%s)", n.GetName(), strings.Join(n.GetInput(), ",")))
				if n.GetAttr()["_class"] != nil || n.GetAttr()[graph.EndpointAttr] != nil {
					t.Errorf("%s keeps its attributes %v", n.GetName(), n.GetAttr())
				}
			}
			slices.Sort(body)
			if got := strings.Join(body, " "); got != q.body {
				t.Errorf("the body is %s", got)
			}
			if got := pairs(c.Def.GetRet()); got != q.ret {
				t.Errorf("the results are %s", got)
			}
			control := slices.Sorted(slices.Values(c.Def.GetSignature().GetControlOutput()))
			if got := strings.Join(control, " "); got != q.control || len(c.Def.GetControlRet()) != len(control) {
				t.Errorf("the control outputs are %s", got)
			}
			if got := c.Def.GetSignature().GetIsStateful(); got != q.stateful {
				t.Errorf("stateful is %v", got)
			}
			roundTrip(t, c, part)
		})
	}
}

// TestControlsOfDeadValues checks that what waits for a value of another device does not run if that is dead, which TensorFlow's executor takes from edges
// with values only.
func TestControlsOfDeadValues(t *testing.T) {
	const there = `device: "/job:a/replica:0/task:1/device:CPU:0"`
	for _, q := range []struct{ name, graph string }{
		{"a value that is read, too", `node { name: "neg" op: "Neg" input: "x"` + float + there + ` } node { name: "last" op: "NoOp" input: "^neg" input: "^x"` + there + ` }`},
		{"a signal", `node { name: "one" op: "Const" input: "^x"` + there + ` attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } }
			node { name: "last" op: "NoOp" input: "^one" input: "^x"` + there + ` }`},
	} {
		t.Run(q.name, func(t *testing.T) {
			part := pruned(t, `node { name: "x" `+placeholder+` } `+q.graph, graph.Signature{Feeds: []string{"x"}, Targets: []string{"last"}})
			for _, n := range part.Nodes {
				n.Assigned = n.Requested
				if n.Assigned == "" {
					n.Assigned = "/job:a/replica:0/task:0/device:CPU:0"
				}
			}
			parts, err := partition.Split(part, partition.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := Define("f_partitioned_1_0", parts.ByDevice["/job:a/replica:0/task:1/device:CPU:0"])
			if err != nil {
				t.Fatal(err)
			}
			ops := map[string]*nodepb.NodeDef{}
			for _, n := range c.Def.GetNodeDef() {
				if ops[n.GetName()] != nil {
					t.Errorf("there are two nodes %s", n.GetName())
				}
				ops[n.GetName()] = n
			}
			waits := 0
			for _, n := range ops {
				for _, in := range n.GetInput() {
					before, ok := strings.CutPrefix(in, "^")
					if !ok {
						continue
					}
					of := ops[before]
					if of == nil || of.GetOp() == "_Recv" {
						t.Errorf("%s waits for %s, which is not dead if the value is: %v", n.GetName(), before, of)
					} else if of.GetOp() == "Identity" {
						waits++
						if recv := ops[strings.TrimSuffix(of.GetInput()[0], ":tensor:0")]; recv.GetOp() != "_Recv" || of.GetAttr()["T"].GetType() != recv.GetAttr()["tensor_type"].GetType() {
							t.Errorf("%v is not the value of %v", of, recv)
						}
					}
				}
			}
			if waits == 0 {
				t.Errorf("nothing waits for the value: %v", ops)
			}
		})
	}
}

func pairs(m map[string]string) string {
	var all []string
	for name, v := range m {
		all = append(all, name+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// roundTrip checks that the function's body is the part again.
func roundTrip(t *testing.T, c *Component, part *graph.Graph) {
	t.Helper()
	library, err := (&graph.Library{}).Merge(&functionpb.FunctionDefLibrary{Function: []*functionpb.FunctionDef{c.Def}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := library.Instantiate("f_partitioned_1_0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := edges(f.Graph), edges(part); !slices.Equal(got, want) {
		t.Errorf("the body has the edges\n%s\nbut the part\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// edges returns the edges of a graph. Arguments and results have their numbers in place of names.
func edges(g *graph.Graph) (all []string) {
	name := func(n *graph.Node) string {
		if n.Op == "_Arg" || n.Op == "_Retval" {
			return fmt.Sprintf("%s %d", n.Op, Index(n))
		}
		return n.Name
	}
	for _, n := range g.Nodes {
		all = append(all, name(n))
		for i, in := range n.Inputs {
			all = append(all, fmt.Sprintf("%s:%d -> %s:%d", name(in.Node), in.Index, name(n), i))
		}
		for _, c := range n.Controls {
			all = append(all, fmt.Sprintf("%s -> %s", name(c), name(n)))
		}
	}
	slices.Sort(all)
	return all
}

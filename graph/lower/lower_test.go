package lower_test

import (
	"fmt"
	"strings"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/lower"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
)

const (
	here  = "/job:a/replica:0/task:0/device:CPU:0"
	there = "/job:b/replica:0/task:0/device:CPU:0"
)

// unary returns a function of a float x whose nodes compute its result.
func unary(name, result string, nodes ...string) string {
	return fmt.Sprintf(`---library { function {
		signature { name: %q input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
		%s ret { key: "y" value: %q } } }
---`, name, strings.Join(nodes, "\n"), result)
}

func op(tag, name, op, device string, inputs ...string) string {
	text := fmt.Sprintf(`%s { name: %q op: %q device: %q`, tag, name, op, device)
	for _, in := range inputs {
		text += fmt.Sprintf(` input: %q`, in)
	}
	return text + ` attr { key: "T" value { type: DT_FLOAT } } }
`
}

func function(key, name string) string {
	return fmt.Sprintf(`attr { key: %q value { func { name: %q } } }
`, key, name)
}

const floats = `attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } }
`

func placeholder(name, dtype string) string {
	return fmt.Sprintf(`node { name: %q op: "Placeholder" attr { key: "dtype" value { type: %s } } }
`, name, dtype)
}

func calling(tag, name, fn, input string) string {
	return fmt.Sprintf(`%s { name: %q op: "PartitionedCall" input: %q %s %s }
`, tag, name, input, floats, function("f", fn))
}

func build(t *testing.T, text string) *graph.Graph {
	t.Helper()
	def := &graphpb.GraphDef{}
	for _, part := range strings.Split(text, "---") { // a library is one message; each function is part of it
		more := &graphpb.GraphDef{}
		if err := prototext.Unmarshal([]byte(part), more); err != nil {
			t.Fatal(err)
		}
		proto.Merge(def, more)
	}
	g, err := graph.Build(def)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func run(t *testing.T, text string, devices ...string) (*graph.Graph, error) {
	t.Helper()
	return runWith(t, lower.Options{}, text, devices...)
}

func runWith(t *testing.T, o lower.Options, text string, devices ...string) (*graph.Graph, error) {
	t.Helper()
	for i, name := range devices {
		d, err := place.NewDevice(name, i == 0)
		if err != nil {
			t.Fatal(err)
		}
		o.Devices = append(o.Devices, d)
	}
	return lower.Functions(build(t, text), 0, o)
}

// ops lists the graph's ops and the device that each requests.
func ops(g *graph.Graph) string {
	var out []string
	for _, n := range g.Nodes {
		out = append(out, strings.TrimSuffix(n.Name+":"+n.Op+"@"+strings.TrimSuffix(n.Requested, "/replica:0/task:0/device:CPU:0"), "@"))
	}
	return strings.Join(out, " ")
}

func TestOneDeviceKeepsItsFunctions(t *testing.T) {
	text := placeholder("in", "DT_FLOAT") + calling("node", "c", "f", "in") + unary("f", "twice:z:0", op("node_def", "twice", "AddV2", there, "x", "x"))
	g, err := run(t, text, here)
	if err != nil || len(g.Nodes) != 2 {
		t.Errorf("%v, %v", ops(g), err)
	}
	// Nor is a body lowered that names no device.
	g, err = run(t, strings.ReplaceAll(text, there, ""), here, there)
	if err != nil || len(g.Nodes) != 2 {
		t.Errorf("%v, %v", ops(g), err)
	}
}

func TestACallOverTwoDevicesBecomesItsBody(t *testing.T) {
	g, err := run(t, placeholder("in", "DT_FLOAT")+calling("node", "c", "f", "in")+
		unary("f", "neg:y:0", op("node_def", "twice", "AddV2", there, "x", "x"), op("node_def", "neg", "Neg", "", "twice:z:0")), here, there)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"c/twice:AddV2@/job:b", "c/neg:Neg"} {
		if !strings.Contains(ops(g), want) {
			t.Errorf("no %s in %s", want, ops(g))
		}
	}
	pruned, err := graph.Prune(g, graph.Signature{Feeds: []string{"in:0"}, Fetches: []string{"c:0"}}, here)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range pruned.Nodes {
		if n.Op == "PartitionedCall" {
			t.Errorf("%s is still to be called", n.Name)
		}
	}
}

// A node of a body that is colocated with another one goes where that one requests to be, not to the caller's device.
// Errors name the nodes of the body, also after the graph has been sent to a task, and what the client says of a node's origin holds.
func TestCopiesAreNamedByTheirOrigin(t *testing.T) {
	const given = `experimental_debug_info { original_node_names: "left" original_node_names: "right" original_func_names: "g" }`
	neg := strings.TrimSuffix(strings.TrimSpace(op("node_def", "neg", "Neg", "", "twice:z:0")), "}") + given + "}\n"
	g, err := run(t, placeholder("in", "DT_FLOAT")+calling("node", "c", "f", "in")+
		unary("f", "neg:y:0", op("node_def", "twice", "AddV2", there, "x", "x"), neg), here, there)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := graph.Rebuild(g.Def())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"in":      "[[{{node in}}]]",
		"c/twice": "[[{{function_node f}}{{node twice}}]]",
		"c/neg":   "[[{{function_node g}}{{node left}}, {{node right}}]]",
	} {
		for _, g := range []*graph.Graph{g, sent} {
			if err := graph.AtNode(status.New(status.Internal, "no"), g.Lookup(name)); err.Error() != "no\n\t "+want {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestColocationInABodyIsStrongerThanTheCallersDevice(t *testing.T) {
	beside := strings.Replace(op("node_def", "neg", "Neg", "", "x"), ` attr {`, ` attr { key: "_class" value { list { s: "loc:@twice" } } } attr {`, 1)
	g, err := run(t, placeholder("in", "DT_FLOAT")+strings.Replace(calling("node", "c", "f", "in"), ` op:`, ` device: "`+here+`" op:`, 1)+
		unary("f", "both:z:0", op("node_def", "twice", "AddV2", there, "x", "x"), beside, op("node_def", "both", "AddV2", "", "twice:z:0", "neg:y:0")), here, there)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.Lookup("c/neg").Requested, g.Lookup("c/twice").Requested; got != want {
		t.Errorf("the node asks for %q, the one that it is to be with for %q", got, want)
	}
	if got := g.Lookup("c/both").Requested; got == g.Lookup("c/twice").Requested {
		t.Errorf("the node that is with nobody asks for %q", got)
	}
}

// A conditional of a body that is colocated with its data requests to be colocated with the function's argument. Here the argument is the
// caller's, and may come from any device.
func TestColocationWithAnArgumentIsNotWithWhereItComesFrom(t *testing.T) {
	beside := strings.Replace(op("node_def", "neg", "Neg", "", "twice:z:0"), ` attr {`,
		` attr { key: "_class" value { list { s: "loc:@x" s: "loc:@twice" s: "loc:@y" } } } attr {`, 1)
	g, err := run(t, placeholder("in", "DT_FLOAT")+calling("node", "c", "f", "in")+
		unary("f", "neg:y:0", op("node_def", "twice", "AddV2", there, "x", "x"), beside), here, there)
	if err != nil {
		t.Fatal(err)
	}
	var classes []string
	for _, c := range g.Lookup("c/neg").Attrs["_class"].GetList().GetS() {
		classes = append(classes, string(c))
	}
	if got := strings.Join(classes, " "); got != "loc:@c/twice loc:@c/y" {
		t.Errorf("the body's node is beside %q, not beside the body's only", got)
	}
}

// conditional returns a graph with a conditional that requests or forbids lowering; its first branch computes on a device.
func conditional(lowered bool, device string) string {
	cond := fmt.Sprintf(`node { name: "if" op: "StatelessIf" input: "p" input: "in" %s %s %s
		attr { key: "Tcond" value { type: DT_BOOL } } attr { key: "_lower_using_switch_merge" value { b: %v } } }
`, floats, function("then_branch", "f"), function("else_branch", "g"), lowered)
	return placeholder("p", "DT_BOOL") + placeholder("in", "DT_FLOAT") + cond +
		unary("f", "neg:y:0", op("node_def", "neg", "Neg", device, "x")) + unary("g", "exp:y:0", op("node_def", "exp", "Exp", "", "x"))
}

func TestAConditionalBecomesSwitchAndMerge(t *testing.T) {
	g, err := run(t, conditional(true, ""), here)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{":Switch", ":Merge", ":Neg", ":Exp"} {
		if !strings.Contains(ops(g), want) {
			t.Errorf("no %s in %s", want, ops(g))
		}
	}
}

func TestAConditionalThatDeclinesStaysOne(t *testing.T) {
	g, err := run(t, conditional(false, there), here, there)
	if err != nil {
		t.Fatal(err)
	}
	if got := ops(g); strings.Contains(got, "Switch") || g.Lookup("if").Op != "StatelessIf" || g.Lookup("if").Lowered != nil {
		t.Errorf("it was lowered: %s", got)
	}
}

func TestWhatCannotBeLowered(t *testing.T) {
	itself := placeholder("in", "DT_FLOAT") + calling("node", "c", "f", "in") +
		unary("f", "again:output:0", op("node_def", "twice", "AddV2", there, "x", "x"), calling("node_def", "again", "f", "twice:z:0"))
	if _, err := run(t, itself, here, there); status.CodeOf(err) != status.Unimplemented || !strings.Contains(err.Error(), "c") {
		t.Errorf("a function that calls itself: %v", err)
	}
	// Thirty functions, each of which calls the one before twice: a billion nodes.
	doubling := placeholder("in", "DT_FLOAT") + calling("node", "c", "f30", "in") + unary("f0", "twice:z:0", op("node_def", "twice", "AddV2", there, "x", "x"))
	for i := 1; i <= 30; i++ {
		before := fmt.Sprintf("f%d", i-1)
		doubling += unary(fmt.Sprintf("f%d", i), "second:output:0", calling("node_def", "first", before, "x"), calling("node_def", "second", before, "first:output:0"))
	}
	if _, err := run(t, doubling, here, there); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("a billion nodes: %v", err)
	}
}

// A call that declares other results than its function has is INTERNAL, whether it is lowered or a kernel calls the function.
func TestResultsThatAreNotDeclared(t *testing.T) {
	f := unary("f", "neg:y:0", op("node_def", "sq", "Square", there, "x"), op("node_def", "neg", "Neg", here, "sq:y:0"))
	for declared, want := range map[string]string{
		"type: DT_INT32":                "Output 0 of type float does not match declared output type int32 for node {{node c}}",
		"type: DT_FLOAT type: DT_FLOAT": "Expect to produce 2 tensors, but get 1 from the functions of {{node c}}",
	} {
		types := strings.Replace(floats, `"Tout" value { list { type: DT_FLOAT }`, `"Tout" value { list { `+declared+` }`, 1)
		_, err := run(t, placeholder("in", "DT_FLOAT")+fmt.Sprintf(`node { name: "c" op: "PartitionedCall" input: "in" %s %s }
`, types, function("f", "f"))+f, here, there)
		if status.CodeOf(err) != status.Internal || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", declared, err)
		}
	}
}

const gpu = "/job:a/replica:0/task:0/device:GPU:0"

// gpus has GPU kernels for all ops but StringJoin and Exp, and calls functions only on CPUs.
var gpus = lower.Options{Supports: func(n *graph.Node, kind string) bool {
	switch n.Op {
	case "StringJoin", "Exp", "StatelessIf", "PartitionedCall":
		return kind == "CPU"
	}
	return true
}}

// TestFunctionsForGPUs: floating-point computations are lowered if a GPU may run their nodes, whatever requested it.
func TestFunctionsForGPUs(t *testing.T) {
	neg := op("node_def", "neg", "Neg", "", "x")
	exp := op("node_def", "exp", "Exp", "", "neg:y:0")
	call := placeholder("in", "DT_FLOAT") + calling("node", "c", "f", "in")
	on := func(device, text string) string {
		return strings.Replace(text, ` op: "PartitionedCall"`, ` device: "`+device+`" op: "PartitionedCall"`, 1)
	}
	for _, c := range []struct {
		name, text string
		devices    []string
		want, not  []string
	}{
		{"a GPU that it may run on", call + unary("f", "neg:y:0", neg), []string{here, gpu}, []string{"c/neg:Neg"}, []string{":PartitionedCall"}},
		{"no GPU", call + unary("f", "neg:y:0", neg), []string{here, there}, []string{"c:PartitionedCall"}, []string{"c/neg"}},
		{"a device that is no GPU", on(there, call) + unary("f", "neg:y:0", neg), []string{here, gpu, there}, []string{"c:PartitionedCall"}, []string{"c/neg"}},
		{"nothing that a GPU computes", call + unary("f", "exp:y:0", op("node_def", "exp", "Exp", "", "x")), []string{here, gpu}, []string{"c:PartitionedCall"}, []string{"c/exp"}},
		{"integers", call + strings.ReplaceAll(unary("f", "x", neg), `type: DT_FLOAT } } }`, `type: DT_INT32 } } }`), []string{here, gpu}, []string{"c:PartitionedCall"}, []string{"c/neg"}},
		{"a GPU that is asked for", on(gpu, call) + unary("f", "exp:y:0", neg, exp), []string{here, gpu},
			[]string{"c/neg:Neg@" + gpu, "c/exp:Exp@/job:a/replica:0/task:0 "}, []string{":PartitionedCall"}},
		{"a body that asks for a GPU", call + unary("f", "exp:y:0", neg, strings.ReplaceAll(exp, `device: ""`, `device: "/gpu:0"`)), []string{here, gpu},
			[]string{"c/neg:Neg ", "c/exp:Exp@/device:GPU:0"}, []string{":PartitionedCall"}},
		{"a function of a function", call + unary("f", "again:output:0", calling("node_def", "again", "g", "x")) + unary("g", "neg:y:0", neg), []string{here, gpu},
			[]string{"c/again/neg:Neg"}, []string{":PartitionedCall"}},
		{"one that calls itself", call + unary("f", "again:output:0", neg, calling("node_def", "again", "f", "neg:y:0")), []string{here, gpu},
			[]string{"c/neg:Neg", "c/again:PartitionedCall "}, []string{"c/again/neg"}},
		{"a conditional", conditional(true, ""), []string{here, gpu}, []string{":Switch", ":Merge", ":Neg"}, []string{":StatelessIf"}},
		{"one that declines", conditional(false, ""), []string{here, gpu}, []string{"if:StatelessIf"}, []string{":Switch"}},
		{"one that declines on a GPU", strings.Replace(conditional(false, ""), ` op: "StatelessIf"`, ` device: "`+gpu+`" op: "StatelessIf"`, 1), []string{here, gpu},
			[]string{":Switch", "neg:Neg@" + gpu, "exp:Exp@/job:a/replica:0/task:0 "}, []string{":StatelessIf"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := runWith(t, gpus, c.text, c.devices...)
			if err != nil {
				t.Fatal(err)
			}
			got := ops(g) + " "
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in %s", want, got)
				}
			}
			for _, not := range c.not {
				if strings.Contains(got, not) {
					t.Errorf("there is %q in %s", not, got)
				}
			}
		})
	}
}

func TestAConditionalIsKeptForAnExecutorWithoutSwitch(t *testing.T) {
	g, err := runWith(t, lower.Options{KeepConditionals: true}, conditional(true, ""), here)
	if err != nil {
		t.Fatal(err)
	}
	if got := ops(g); strings.Contains(got, "Switch") || g.Lookup("if").Op != "StatelessIf" {
		t.Errorf("it was lowered: %s", got)
	}
	// Devices that its branches name require lowering all the same.
	if g, err = runWith(t, lower.Options{KeepConditionals: true}, conditional(true, there), here, there); err != nil {
		t.Fatal(err)
	}
	if got := ops(g); !strings.Contains(got, "Switch") {
		t.Errorf("it was not lowered: %s", got)
	}
}

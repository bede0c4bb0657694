package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"strings"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
)

// Form is how a program is drawn. All forms of a program compute the same.
type Form struct {
	Names      string   // prefix of the names of resources
	Devices    []string // the devices of the places
	Lower      Lowering
	FeedConsts bool   // constants at the top are placeholders
	Shuffle    uint64 // seed of the nodes' order; 0: as they were drawn
}

// Lowering is which functional conditionals and loops the client asks to lower.
type Lowering uint8

// The ways to lower.
const (
	LowerSome Lowering = iota
	LowerAll
	LowerNone
)

// Graph is a program as a GraphDef.
type Graph struct {
	form  Form
	stmts []drawn
	// inits are the targets that initialize resources, by statement.
	inits map[int]string
}

// drawn is the part of a graph that belongs to a top-level statement.
type drawn struct {
	id        int
	nodes     []*nodepb.NodeDef
	functions []*functionpb.FunctionDef
}

// Def returns the part of the graph for the statements after one and up to another.
func (g *Graph) Def(after, upto int) *graphpb.GraphDef {
	def := &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: 1882}, Library: &functionpb.FunctionDefLibrary{}}
	for _, s := range g.stmts {
		if s.id > after && s.id <= upto {
			def.Node = append(def.Node, s.nodes...)
			def.Library.Function = append(def.Library.Function, s.functions...)
		}
	}
	if g.form.Shuffle != 0 {
		scramble(g.form.Shuffle, 11).Shuffle(len(def.Node), func(i, j int) { def.Node[i], def.Node[j] = def.Node[j], def.Node[i] })
	}
	return def
}

// Inits returns the targets that initialize the resources of the statements after one and up to another.
func (g *Graph) Inits(after, upto int) []string {
	var out []string
	for _, s := range g.stmts {
		if name := g.inits[s.id]; name != "" && s.id > after && s.id <= upto {
			out = append(out, name)
		}
	}
	return out
}

func nodeName(id int) string { return fmt.Sprintf("s%d", id) }

func tensorName(id int) string { return nodeName(id) + ":0" }

// guardName returns the tensor that makes a check fail when it is fed with false.
func guardName(id int) string { return nodeName(id) + "/ok:0" }

// drawer draws a program.
type drawer struct {
	f     *facts
	form  Form
	graph *Graph
	alias map[string]int  // tensors that are read from a reference where they are used
	refs  map[string]bool // tensors of a reference type
	count map[string]int  // of nodes of a statement
}

// Draw draws a program.
func Draw(p *Program, form Form) *Graph {
	d := &drawer{learn(p), form, &Graph{form: form, inits: map[int]string{}}, map[string]int{}, map[string]bool{}, map[string]int{}}
	top := &scope{drawer: d, values: map[int]string{}, lates: map[int]string{}, wait: d.f.sequence(p.Stmts).wait}
	top.nodes = &nodes{}
	for _, s := range p.Stmts {
		d.graph.stmts = append(d.graph.stmts, drawn{id: s.ID})
		top.draw(s)
		d.current().nodes = top.nodes.list
		top.nodes.list = nil
	}
	return d.graph
}

func (d *drawer) current() *drawn { return &d.graph.stmts[len(d.graph.stmts)-1] }

func (d *drawer) device(place int) string {
	if place < 0 {
		return ""
	}
	return d.form.Devices[place%len(d.form.Devices)]
}

// nodes is the list of nodes of the graph or of a function.
type nodes struct{ list []*nodepb.NodeDef }

// scope is the context of statements: the top level, a branch, a loop's body, or a function.
type scope struct {
	*drawer
	outer  *scope
	nodes  *nodes
	values map[int]string // the tensors of statements, parameters and imported values
	lates  map[int]string // reads of references that are passed on
	wait   map[int][]int
	pivot  string // the node that nodes without inputs wait for
	// bring imports a value from the outer scope; it is nil at the top level and in functions.
	bring func(d *drawing, id int) string
}

// known reports whether a value is available in the scope.
func (sc *scope) known(id int) bool {
	if _, ok := sc.values[id]; ok {
		return true
	}
	return sc.bring != nil && sc.outer.known(id)
}

// drawing draws one statement in a scope.
type drawing struct {
	*scope
	s        *Stmt
	controls []string // control inputs of nodes that touch a resource
	last     *nodepb.NodeDef
	random   *rand.Rand
	unpinned bool           // the nodes have no place
	copies   map[int]string // of values that are read late
}

func (sc *scope) drawing(s *Stmt) *drawing {
	d := &drawing{scope: sc, s: s, random: scramble(uint64(s.Spread), uint64(s.ID))}
	for _, id := range sc.wait[s.ID] {
		d.controls = append(d.controls, "^"+nodeName(id))
	}
	if len(d.controls) == 0 && sc.pivot != "" {
		d.controls = []string{"^" + sc.pivot}
	}
	return d
}

// draw draws a statement. Its last node gets the statement's name.
func (sc *scope) draw(s *Stmt) {
	d := sc.drawing(s)
	var out string
	switch o, p := touchers[s.Op], pures[s.Op]; {
	case p != nil:
		out = p.draw(d, d.arguments(p))
	case o != nil:
		out = d.toucher(o)
	case s.Op == "check":
		out = d.check()
	case s.functional():
		out = d.functional()
	case s.Op == "cond":
		out = d.conditional()
	case s.Op == "loop":
		out = d.loop()
	default:
		out = d.resource()
	}
	if len(s.After) > 0 && (s.Op == "loop" || s.Op == "cond") {
		out = d.op("Identity", Matrix, out)
	}
	late := sc.alias[out]
	isLate := sc.f.late(s.ID) && late > 0
	d.last.Name = nodeName(s.ID)
	for _, id := range s.After {
		if sc.local(id) {
			d.last.Input = append(d.last.Input, "^"+nodeName(id))
		}
	}
	if isLate {
		sc.alias[d.last.Name] = late
		if sc.refs[out] {
			sc.refs[d.last.Name] = true
		}
	}
	sc.values[s.ID] = d.last.Name
}

// local reports whether a statement has already been drawn in this scope.
func (sc *scope) local(id int) bool { return sc.values[id] == nodeName(id) }

// node adds a node. A node that reads from a reference is colocated with it and waits for those that touched it before.
func (d *drawing) node(op string, a attrs, inputs ...string) string {
	place := d.s.Place
	if d.s.Spread != 0 {
		place = d.random.IntN(Places+1) - 1
	}
	if d.unpinned {
		place = -1
	}
	return d.place(place, op, a, inputs...)
}

func (d *drawing) place(place int, op string, a attrs, inputs ...string) string {
	beside := 0
	for _, in := range inputs {
		if r := d.alias[in]; r > 0 {
			beside = r
		}
	}
	if beside > 0 {
		inputs = d.after(inputs)
		return d.add(d.device(d.f.stmts[beside].Place), op, colocated(a, beside), inputs...)
	}
	return d.add(d.device(place), op, a, inputs...)
}

// after returns inputs with the control inputs added.
func (d *drawing) after(inputs []string) []string {
	return append(inputs[:len(inputs):len(inputs)], d.controls...)
}

func colocated(a attrs, resource int) attrs {
	out := attrs{"_class": stringList("loc:@" + nodeName(resource))}
	for k, v := range a {
		out[k] = v
	}
	return out
}

func (d *drawing) add(device, op string, a attrs, inputs ...string) string {
	if d.pivot != "" && len(inputs) == 0 {
		inputs = []string{"^" + d.pivot}
	}
	base := nodeName(d.s.ID)
	d.count[base]++
	d.last = &nodepb.NodeDef{Name: fmt.Sprintf("%s/%d_%s", base, d.count[base], op), Op: op, Device: device, Input: inputs, Attr: a}
	d.nodes.list = append(d.nodes.list, d.last)
	return d.last.Name
}

// op adds an op with the attribute T.
func (d *drawing) op(op string, t Type, inputs ...string) string {
	a := attrs{"T": dtype(t)}
	switch op {
	case "Sum", "Mean", "Max":
		a["Tidx"], a["keep_dims"] = dtype(Int), flag(false)
	}
	return d.node(op, a, inputs...)
}

func (d *drawing) constant(v Value) string { return d.node("Const", tensorAttr(v.message())) }

// ints adds a constant vector.
func (d *drawing) ints(values ...int32) string {
	return d.node("Const", tensorAttr(&tensorpb.TensorProto{Dtype: Int.proto(), IntVal: values, TensorShape: dims(int64(len(values)))}))
}

// rows adds the indices of the rows that a scatter changes.
func (d *drawing) rows() string {
	var rows []int32
	for _, r := range rowsOf(d.s.Num) {
		rows = append(rows, int32(r))
	}
	return d.ints(rows...)
}

// source draws a statement without arguments: a fed value or a constant.
func (d *drawing) source(t Type) string {
	if d.s.Op == "input" || d.form.FeedConsts && d.outer == nil {
		return d.node("Placeholder", attrs{"dtype": dtype(t), "shape": shapeAttr(t)})
	}
	return d.constant(plainValue(t, d.s.Num))
}

// value returns an argument's tensor, which may be read late.
func (d *drawing) value(id int, t Type) string {
	if d.f.types[id] != t || !d.known(id) {
		return d.constant(missing(t))
	}
	return d.get(id)
}

// get returns the tensor of a known value.
func (d *drawing) get(id int) string {
	if v, ok := d.values[id]; ok {
		return v
	}
	v := d.bring(d, id)
	d.values[id] = v
	return v
}

// settled returns a tensor with an argument's current value.
func (d *drawing) settled(id int, t Type) string {
	v := d.value(id, t)
	if d.alias[v] == 0 {
		return v
	}
	if d.copies[id] == "" {
		if d.copies == nil {
			d.copies = map[int]string{}
		}
		d.copies[id] = d.copied(v, t)
	}
	return d.copies[id]
}

// reads reports whether an argument is read from a reference.
func (d *drawing) reads(id int) bool { return d.known(id) && d.alias[d.get(id)] > 0 }

func (d *drawing) copied(v string, t Type) string {
	if d.alias[v] == 0 {
		return v
	}
	low := scalarOf(least)
	if t == Int {
		low = intOf(-1 << 31)
	}
	return d.op("Maximum", t, v, d.constant(low))
}

// arguments returns the arguments of a pure op. An op can be colocated with only one reference: others are copied.
func (d *drawing) arguments(o *pure) []string {
	args := make([]string, len(d.s.Args))
	beside := 0
	for i, id := range d.s.Args {
		args[i] = d.value(id, o.args[i])
		r := d.alias[args[i]]
		if r > 0 && (o.shares || beside > 0 && r != beside) {
			args[i] = d.copied(args[i], o.args[i])
		} else if r > 0 {
			beside = r
		}
		if d.f.narrow[d.s.ID] && o.args[i] != Int {
			args[i] = d.squashed(args[i], o.args[i])
		}
	}
	return args
}

func (d *drawing) squashed(v string, t Type) string {
	m := d.op("FloorMod", t, v, d.constant(scalarOf(modulus)))
	return d.op("Sub", t, m, d.constant(scalarOf(modulus/2)))
}

// base returns the node in a tensor's name.
func base(tensor string) string {
	name, _, _ := strings.Cut(tensor, ":")
	return name
}

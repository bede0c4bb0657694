package lower

import (
	"maps"
	"slices"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/partition"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// site is a node being lowered.
type site struct {
	*lowerer
	node   *graph.Node
	calls  *stack
	inputs []graph.Output // the node's original inputs

	results []graph.Output
	// done are nodes that complete when all effects of the functions are done.
	done []*graph.Node
}

// readReferences makes the functions read a variable's value once, since an argument is a value.
func (s *site) readReferences() error {
	n := s.node
	s.inputs = n.Inputs
	for i, in := range n.Inputs {
		t := in.Node.OutTypes[in.Index]
		if !t.IsRef() || n.InTypes[i].IsRef() {
			continue
		}
		if len(n.Inputs) > 0 && &n.Inputs[0] == &s.inputs[0] {
			n.Inputs = slices.Clone(n.Inputs)
		}
		read, err := s.add("read", "Identity", in.Node.Requested, n.Controls, in)
		if err != nil {
			return err
		}
		n.Inputs[i] = graph.Output{Node: read}
	}
	return nil
}

// replace makes the node forward the results of its functions' nodes. A node that declares other results is INTERNAL, as when a kernel
// calls the functions.
func (s *site) replace() error {
	n := s.node
	if len(s.results) != len(n.OutTypes) {
		return status.Internalf("Expect to produce %d tensors, but get %d from the functions of {{node %s}} (%s)", len(n.OutTypes), len(s.results), n.Name, n.Op)
	}
	types := &attrpb.AttrValue_ListValue{}
	in := make([]tensor.DType, len(s.results))
	for i, r := range s.results {
		if have := r.Node.OutTypes[r.Index].Base(); have != n.OutTypes[i].Base() {
			return status.Internalf("Output %d of type %v does not match declared output type %v for node {{node %s}} (%s)", i, have, n.OutTypes[i].Base(), n.Name, n.Op)
		}
		in[i] = n.OutTypes[i].Base()
		types.Type = append(types.Type, in[i].Proto())
	}
	op, attrs := "IdentityN", graph.Attrs{"T": {Value: &attrpb.AttrValue_List{List: types}}}
	if len(s.results) == 0 {
		op, attrs = "NoOp", graph.Attrs{}
	}
	def, err := graph.LookupOp(op)
	if err != nil {
		return err
	}
	// Whatever waits for the node also waits for everything that the node waits for, even if no result depends on it.
	controls := append(slices.Clone(s.done), n.Controls...)
	n.Op, n.Def, n.Attrs = op, def, attrs
	n.Inputs, n.InTypes, n.Controls = s.results, in, controls
	n.Requested = onTask(n.Requested)
	return nil
}

// add adds a node that routes values. Its attribute T is the type of the first input.
func (s *site) add(name, op, device string, controls []*graph.Node, inputs ...graph.Output) (*graph.Node, error) {
	def, err := graph.LookupOp(op)
	if err != nil {
		return nil, err
	}
	n := &graph.Node{Name: s.name(s.node.Name + "/" + name), Op: op, Def: def, Attrs: graph.Attrs{}, Requested: onTask(device),
		Inputs: inputs, Controls: controls}
	if len(inputs) > 0 {
		t := inputs[0].Node.OutTypes[inputs[0].Index].Base()
		for _, a := range def.GetAttr() {
			switch a.GetName() {
			case "T":
				n.Attrs["T"] = typeAttr(t)
			case "N":
				n.Attrs["N"] = intAttr(int64(len(inputs)))
			}
		}
		for _, in := range inputs {
			n.InTypes = append(n.InTypes, in.Node.OutTypes[in.Index].Base())
		}
		switch op {
		case "ToBool", "LoopCond":
			n.OutTypes = []tensor.DType{tensor.Bool}
		case "Switch":
			n.OutTypes = []tensor.DType{t, t}
		case "Merge":
			n.OutTypes = []tensor.DType{t, tensor.Int32}
		case "NoOp":
		default:
			n.OutTypes = []tensor.DType{t}
		}
	}
	return n, s.append(n)
}

// append adds a node to the graph.
func (s *site) append(n *graph.Node) error {
	if len(s.added) >= maxNodes {
		return status.Errorf(status.ResourceExhausted, "The functions that the graph's nodes call have more than %d nodes", maxNodes)
	}
	s.added = append(s.added, n)
	return s.spend(1 + len(n.Inputs) + len(n.OutTypes) + len(n.Controls))
}

// truth converts a condition to a bool.
func (s *site) truth(name string, cond graph.Output) (graph.Output, error) {
	if cond.Node.OutTypes[cond.Index].Base() == tensor.Bool {
		return cond, nil
	}
	n, err := s.add(name, "ToBool", s.node.Requested, nil, cond)
	return graph.Output{Node: n}, err
}

// start is what nodes of a body wait for.
type start struct {
	nodes []*graph.Node
	// all makes every node wait that has no predecessor in the body; otherwise only nodes with no input, or with an effect, wait.
	// Successors of a waiting node wait implicitly.
	all bool
}

// inline adds the nodes of a function's body to the graph. It returns the body's results and the nodes that run for their effect.
func (s *site) inline(name string, ref *graph.FunctionRef, args []graph.Output, device string, begin start) ([]graph.Output, []*graph.Node, error) {
	fg, err := s.body(ref)
	if err != nil {
		return nil, nil, err
	}
	if len(args) != len(fg.Args) {
		return nil, nil, status.InvalidArgumentf("Function %s takes %d arguments, not %d", ref.Name, len(fg.Args), len(args))
	}
	for i, a := range args {
		if have, want := a.Node.OutTypes[a.Index].Base(), fg.Args[i].OutTypes[0]; have != want {
			return nil, nil, status.InvalidArgumentf("The argument %d of function %s is %v, not %v", i, ref.Name, want, have)
		}
	}
	if err := s.spend(len(fg.Nodes)); err != nil {
		return nil, nil, err
	}
	c := &copier{site: s, fg: fg, args: args, prefix: within(s.node.Name + name), begin: begin, nodes: make([]*graph.Node, len(fg.Nodes))}
	if c.calls, err = s.calling(s.calls, ref.Name); err != nil {
		return nil, nil, err
	}
	if c.frames, err = partition.Frames(fg.Graph); err != nil {
		return nil, nil, err
	}
	if c.device, err = newMerger(device); err != nil {
		return nil, nil, err
	}
	for _, pass := range []func() error{c.copy, c.connect} {
		if err := pass(); err != nil {
			return nil, nil, err
		}
	}
	results := make([]graph.Output, len(fg.Rets))
	for i, ret := range fg.Rets {
		results[i] = c.of(ret.Inputs[0])
	}
	done, err := c.effects()
	return results, done, err
}

// copier copies a function's body.
type copier struct {
	*site
	fg     *graph.FunctionGraph
	args   []graph.Output
	prefix string
	device *merger
	begin  start
	calls  *stack
	frames *partition.FrameInfo
	nodes  []*graph.Node // by ID in the body; nil for its _Arg and _Retval nodes
	index  map[*graph.Node]int
}

// copy creates the nodes, without inputs.
func (c *copier) copy() error {
	c.index = make(map[*graph.Node]int, len(c.args))
	for i, a := range c.fg.Args {
		c.index[a] = i
	}
	requested := colocated(c.fg)
	for id, n := range c.fg.Nodes {
		if n.Op == "_Arg" || n.Op == "_Retval" {
			continue
		}
		m := *n
		m.Name = c.name(c.prefix + "/" + n.Name)
		m.CopiedFrom(c.calls.function, n.Name)
		device, err := c.device.merge(requested[id])
		if err != nil {
			return status.AtNode(err, m.Name)
		}
		m.Requested, m.Assigned = device, ""
		c.rename(&m)
		if err := c.append(&m); err != nil {
			return err
		}
		if c.supports != nil && c.device.inherits(requested[id], device) {
			c.inherited = append(c.inherited, &m)
		}
		c.owner[&m] = c.calls
		c.nodes[id] = &m
	}
	return nil
}

// rename replaces the body's names in a node's attributes with those of the copies.
func (c *copier) rename(n *graph.Node) {
	class, frame := n.Attrs["_class"], n.Attrs["frame_name"]
	if class == nil && frame == nil {
		return
	}
	n.Attrs = maps.Clone(n.Attrs)
	if frame != nil {
		n.Attrs["frame_name"] = stringAttr(c.prefix + "/" + string(frame.GetS()))
	}
	if class == nil {
		return
	}
	list := &attrpb.AttrValue_ListValue{}
	for _, v := range class.GetList().GetS() {
		with, is := strings.CutPrefix(string(v), "loc:@")
		if is {
			// Names that do not exist in the body stay within it, too: a client may have written the name of a captured node, whose value
			// is sent to the caller's device.
			if i, ok := c.index[c.fg.Lookup(with)]; !ok {
				v = []byte("loc:@" + c.prefix + "/" + with)
			} else if a := c.args[i]; isHandle(a.Node.OutTypes[a.Index]) {
				v = []byte("loc:@" + a.Node.Name)
			} else {
				continue // A value is sent to the caller's device, wherever it comes from.
			}
		}
		list.S = append(list.S, v)
	}
	if len(list.S) == 0 {
		delete(n.Attrs, "_class")
		return
	}
	n.Attrs["_class"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: list}}
}

// connect sets the copies' inputs, and makes those wait for the call that must.
func (c *copier) connect() error {
	for id, n := range c.fg.Nodes {
		m := c.nodes[id]
		if m == nil {
			continue
		}
		m.Inputs = make([]graph.Output, len(n.Inputs))
		for i, in := range n.Inputs {
			m.Inputs[i] = c.of(in)
		}
		m.Controls = make([]*graph.Node, 0, len(n.Controls)+len(c.begin.nodes))
		for _, before := range n.Controls {
			m.Controls = append(m.Controls, c.of(graph.Output{Node: before}).Node)
		}
	}
	waits := make([]bool, len(c.fg.Nodes)) // for begin, directly or through a predecessor
	for _, id := range c.frames.Order {
		n, m := c.fg.Nodes[id], c.nodes[id]
		if m == nil {
			continue
		}
		inner := false // whether it has a predecessor in the body
		for _, in := range n.Inputs {
			inner = inner || in.Node.Op != "_Arg"
			waits[id] = waits[id] || waits[in.Node.ID]
		}
		for _, before := range n.Controls {
			inner = inner || before.Op != "_Arg"
			waits[id] = waits[id] || waits[before.ID]
		}
		// In a loop of the body, everything follows its Enters. A node that calls functions waits itself, so that everything it is lowered
		// to waits, too.
		calls := c.callsFunctions(n)
		if waits[id] && !calls || c.frames.In(int(id)) != 0 {
			continue
		}
		if calls || graph.HasEffect(n) || len(n.Inputs) == 0 && !inner || c.begin.all && !inner {
			waits[id] = true
			for _, s := range c.begin.nodes {
				if !slices.Contains(m.Controls, s) {
					m.Controls = append(m.Controls, s)
				}
			}
		}
	}
	return nil
}

// of returns the copy of an output of the body.
func (c *copier) of(o graph.Output) graph.Output {
	if o.Node.Op == "_Arg" {
		if i, ok := c.index[o.Node]; ok {
			return c.args[i]
		}
	}
	return graph.Output{Node: c.nodes[o.Node.ID], Index: o.Index}
}

// effects returns what the caller must wait for: the copies of the nodes that the function names, and of those that run for their effect.
// Those in loops of the body have ended when the loop has.
func (c *copier) effects() ([]*graph.Node, error) {
	var out []*graph.Node
	seen := map[*graph.Node]bool{}
	take := func(n *graph.Node) {
		if m := c.nodes[n.ID]; m != nil && !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	}
	for _, n := range c.fg.ControlRets {
		if n.Op != "_Arg" {
			take(n)
		}
	}
	branches := false
	for id, n := range c.fg.Nodes {
		if c.frames.In(id) != 0 || c.frames.Out(id) != 0 {
			continue
		}
		branches = branches || c.frames.Kinds[id] == partition.Switch
		switch n.Op {
		case "ReadVariableOp", "VarHandleOp":
			continue
		}
		if c.frames.Kinds[id] == partition.Plain && graph.HasEffect(n) {
			take(n)
		}
	}
	if !branches || len(out) == 0 {
		return out, nil
	}
	// Nodes in a branch of the body that is not taken are dead, and count as done.
	n, err := c.add("done", "ControlTrigger", c.node.Requested, out)
	return []*graph.Node{n}, err
}

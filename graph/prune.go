package graph

import (
	"slices"
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Signature is the feeds, fetches and targets of one kind of step.
type Signature struct {
	// Feeds and Fetches are tensors, as "name:index" or "name"; Targets are nodes.
	Feeds, Fetches, Targets []string
	// Connections replace tensors with other tensors of the graph.
	Connections []Connection
}

// Connection makes the consumers of tensor To read tensor From instead.
type Connection struct{ From, To string }

// Pruned is the part of a graph that a step runs.
type Pruned struct {
	*Graph
	Signature Signature
	// Feeds are the _Arg nodes and Fetches the _Retval nodes, in the order of the Signature. Their attribute index is that position, T the
	// type (never a reference) and EndpointAttr the tensor's name.
	Feeds, Fetches []*Node
	// Targets are the nodes that run for their effect, without duplicates.
	Targets []*Node
}

// EndpointAttr is the attribute of a pruned graph's _Arg and _Retval nodes that holds the name under which the client feeds or fetches the
// tensor.
const EndpointAttr = "_endpoint"

// UserNodeAttr is the attribute of nodes inserted by package partition: the name of the user's node on whose behalf the node was inserted.
const UserNodeAttr = "_user_node"

// IsInserted reports whether a node was inserted by Prune or by package partition. Clients' nodes cannot claim to be (see checkOwn).
func IsInserted(n *Node) bool { return n.Attrs[EndpointAttr] != nil || n.Attrs[UserNodeAttr] != nil }

// checkOwn rejects a client's node that claims to be one of the runtime's own.
func checkOwn(name string, attrs map[string]*attrpb.AttrValue) error {
	for _, attr := range []string{EndpointAttr, UserNodeAttr} {
		if attrs[attr] != nil {
			return status.AtNode(status.InvalidArgumentf("The attribute %s is the runtime's own, and no client's node has it", attr), name)
		}
	}
	return nil
}

// Prune returns what a step with signature sig needs of g: copies of the nodes that the fetches and targets depend on through data and
// control inputs, with an _Arg node in place of each fed tensor and a _Retval node for each fetched one, both assigned to clientDevice. A
// fed tensor's node is kept only if something else needs it: another of its outputs, or a control edge from it, unless it is a
// placeholder. The cost depends on the nodes that are kept. g does not change.
//
// INVALID_ARGUMENT: nothing to run, a tensor that is fed twice or both fed and fetched, an output that the node does not have. NOT_FOUND:
// no such node.
func Prune(g *Graph, sig Signature, clientDevice string) (*Pruned, error) {
	return PruneChecked(g, sig, clientDevice, nil)
}

// PruneChecked is like Prune, but calls check from time to time and stops if it returns an error.
func PruneChecked(g *Graph, sig Signature, clientDevice string, check func() error) (*Pruned, error) {
	p := &pruner{goOn: Now(check), passed: map[Output]Output{}, graph: g, sig: sig, device: clientDevice, out: &Pruned{Signature: sig},
		copies: map[*Node]*Node{}, fed: map[Output]*Node{}, stands: map[*Node][]*Node{}, joins: map[*Node]Output{}}
	for _, pass := range []func() error{p.check, p.feed, p.join, p.fetch, p.target, p.checkRefs} {
		if err := pass(); err != nil {
			return nil, err
		}
	}
	p.finish()
	return p.out, nil
}

type pruner struct {
	graph  *Graph
	sig    Signature
	device string
	out    *Pruned

	// copies maps nodes to their copies, fed maps fed outputs to their _Arg nodes, and stands maps fed placeholders to the _Arg nodes that
	// take over their control edges.
	copies map[*Node]*Node
	fed    map[Output]*Node
	stands map[*Node][]*Node
	// joins maps the Identity nodes that connections put into fed to the outputs they read.
	joins map[*Node]Output

	kept  []*Node // originals of copies
	slab  []Node
	queue []*Node // originals whose copies lack their inputs
	used  []*Node // the keys of joins that something needs
	// passed caches what read found behind longer chains of lowered nodes.
	passed map[Output]Output
	goOn   func() error
}

func (p *pruner) check() error {
	if len(p.sig.Fetches)+len(p.sig.Targets) == 0 {
		return status.InvalidArgumentf("Must specify at least one target to fetch or execute.")
	}
	return nil
}

// feed makes the _Arg nodes.
func (p *pruner) feed() error {
	p.out.Feeds = make([]*Node, len(p.sig.Feeds))
	for i, name := range p.sig.Feeds {
		src, err := p.replaced(name)
		if err != nil {
			return err
		}
		t := src.Node.OutTypes[src.Index].Base()
		arg := p.boundary("_Arg", "_arg_", src, i, t, name)
		arg.OutTypes = []tensor.DType{t}
		if wire := src.Node.Attrs[WireType]; wire != nil && t == tensor.Float32 {
			arg.Attrs[WireType] = wire
		}
		p.out.Feeds[i] = arg
		p.replace(src, arg)
	}
	return nil
}

// replaced finds the output that is to be replaced.
func (p *pruner) replaced(name string) (Output, error) {
	src, err := p.endpoint(name, "FeedInputs: unable to find feed output %s")
	if err != nil {
		return src, err
	}
	if n := len(src.Node.OutTypes); src.Index >= n {
		return src, status.InvalidArgumentf("FeedInputs: %s should have output index < %d", name, n)
	}
	if p.fed[src] != nil {
		return src, status.InvalidArgumentf("Endpoint \"%s\" fed more than once.", name)
	}
	return src, nil
}

// replace makes by stand for src.
func (p *pruner) replace(src Output, by *Node) {
	clear(p.passed)
	p.fed[src] = by
	if src.Node.Op == "Placeholder" || src.Node.Op == "PlaceholderV2" {
		p.stands[src.Node] = append(p.stands[src.Node], by)
	}
}

// fetch makes the _Retval nodes and keeps what they need.
func (p *pruner) fetch() error {
	p.out.Fetches = make([]*Node, len(p.sig.Fetches))
	for i, name := range p.sig.Fetches {
		src, err := p.endpoint(name, "FetchOutputs node %s: not found")
		if err != nil {
			return err
		}
		n := src.Node
		switch {
		case p.fed[src] != nil:
			return status.InvalidArgumentf("%s is both fed and fetched.", name)
		case len(n.OutTypes) == 0:
			return status.InvalidArgumentf("Tried to fetch data for '%s', which produces no output.  To run to a node but not fetch any data, "+
				"pass '%s' as an argument to the 'target_node_names' argument of the Session::Run API.", name, name)
		case src.Index >= len(n.OutTypes):
			return status.InvalidArgumentf("FetchOutputs %s: output index too large, must be < %d", name, len(n.OutTypes))
		}
		t := n.OutTypes[src.Index].Base()
		ret := p.boundary("_Retval", "_retval_", src, i, t, name)
		ret.InTypes = []tensor.DType{t}
		ret.Inputs = []Output{p.read(src)}
		p.out.Fetches[i] = ret
	}
	return nil
}

// target keeps what the targets need, and everything that the kept nodes need.
func (p *pruner) target() error {
	var missing []string
	seen := map[*Node]bool{}
	for _, name := range p.sig.Targets {
		src, err := p.endpoint(name, "%s")
		if err != nil {
			missing = append(missing, name)
			continue
		}
		if n := p.keep(src.Node); !seen[n] {
			seen[n] = true
			p.out.Targets = append(p.out.Targets, n)
		}
	}
	if missing != nil {
		return status.Errorf(status.NotFound, "PruneForTargets: Some target nodes not found: %s ", strings.Join(missing, " "))
	}
	for len(p.queue) > 0 {
		if err := p.goOn(); err != nil {
			return err
		}
		n := p.queue[len(p.queue)-1]
		p.queue = p.queue[:len(p.queue)-1]
		p.connect(n, p.copies[n])
	}
	return nil
}

// endpoint finds the output that a feed or fetch names.
func (p *pruner) endpoint(name, notFound string) (Output, error) {
	node, index, err := ParseTensorName(name)
	if err != nil {
		return Output{}, err
	}
	n := p.graph.Lookup(node)
	if n == nil {
		return Output{}, status.Errorf(status.NotFound, notFound, name)
	}
	return Output{n, index}, nil
}

// boundary makes an _Arg or _Retval node.
func (p *pruner) boundary(op, prefix string, src Output, index int, t tensor.DType, endpoint string) *Node {
	return &Node{
		Name: prefix + src.Node.Name + "_" + strconv.Itoa(src.Index) + "_" + strconv.Itoa(index),
		Op:   op,
		Def:  mustOp(op),
		Attrs: Attrs{
			"T":          {Value: &attrpb.AttrValue_Type{Type: t.Proto()}},
			"index":      {Value: &attrpb.AttrValue_I{I: int64(index)}},
			EndpointAttr: {Value: &attrpb.AttrValue_S{S: []byte(endpoint)}},
		},
		Assigned: p.device,
	}
}

// mustOp returns the declaration of an op that the runtime itself uses.
func mustOp(name string) *OpDef {
	def, err := LookupOp(name)
	if err != nil {
		panic(err) // missing from the embedded list of ops
	}
	return def
}

// keep returns the copy of a node; its inputs are set later.
func (p *pruner) keep(n *Node) *Node {
	if c := p.copies[n]; c != nil {
		return c
	}
	if len(p.slab) == 0 {
		p.slab = make([]Node, max(8, min(len(p.kept), 1024)))
	}
	c := &p.slab[0]
	p.slab = p.slab[1:]
	*c = *n
	p.copies[n] = c
	p.kept = append(p.kept, n)
	p.queue = append(p.queue, n)
	return c
}

// connect sets the inputs of n's copy c.
func (p *pruner) connect(n, c *Node) {
	if len(n.Inputs) > 0 {
		c.Inputs = make([]Output, len(n.Inputs))
	}
	for i, in := range n.Inputs {
		c.Inputs[i] = p.read(in)
	}
	if len(n.Controls) > 0 {
		c.Controls = make([]*Node, 0, len(n.Controls))
	}
	if n.Lowered != nil {
		wait(c)
	}
	for _, before := range n.Controls {
		if by := p.stands[before]; by != nil {
			for _, n := range by {
				c.Controls = append(c.Controls, p.use(n))
			}
			continue
		}
		c.Controls = append(c.Controls, p.keep(before))
	}
}

// read returns the copy of an output for its reader: the replacement if the output is fed, and what a lowered node forwards.
func (p *pruner) read(in Output) Output {
	const short = 4
	var long []Output // the outputs along a long chain
	for hops := 0; in.Node.Lowered != nil && p.fed[in] == nil; hops++ {
		if hops >= short {
			if end, ok := p.passed[in]; ok {
				in = end
				continue
			}
			long = append(long, in)
		}
		in = in.Node.Inputs[in.Index]
	}
	for _, o := range long {
		p.passed[o] = in
	}
	if by := p.fed[in]; by != nil {
		return Output{p.use(by), 0}
	}
	return Output{p.keep(in.Node), in.Index}
}

// wait turns a lowered node into one that only waits. It is for lowered nodes that are kept because something waits for them, not for the
// outputs that they forward: their inputs need not be sent to their device.
func wait(c *Node) {
	before := make(map[*Node]bool, len(c.Inputs)+len(c.Controls))
	for _, n := range c.Controls {
		before[n] = true
	}
	for _, in := range c.Inputs {
		if !before[in.Node] {
			before[in.Node] = true
			c.Controls = append(c.Controls, in.Node)
		}
	}
	c.Op, c.Def, c.Attrs = "NoOp", mustOp("NoOp"), Attrs{}
	c.Inputs, c.InTypes, c.OutTypes = nil, nil, nil
}

// checkRefs rejects fed tensors where a node needs a reference to a variable.
func (p *pruner) checkRefs() error {
	if len(p.fed) == 0 { // only the graph's own edges, which were checked when it was built
		return nil
	}
	for _, n := range p.kept {
		c := p.copies[n]
		for i, in := range c.Inputs {
			if have := in.Node.OutTypes[in.Index]; !compatible(c.InTypes[i], have) {
				return status.AtNode(wrongType(c, i, in.Node.Name, in.Index, have), c.Name)
			}
		}
	}
	return nil
}

// finish assembles the graph: feeds first, then the kept nodes in their old order, then the fetches.
func (p *pruner) finish() {
	slices.SortFunc(p.kept, func(a, b *Node) int { return a.ID - b.ID })
	nodes := make([]*Node, 0, len(p.kept)+len(p.out.Feeds)+len(p.used)+len(p.out.Fetches))
	nodes = append(nodes, p.out.Feeds...)
	nodes = append(nodes, p.used...)
	for _, n := range p.kept {
		nodes = append(nodes, p.copies[n])
	}
	nodes = append(nodes, p.out.Fetches...)
	p.out.Graph = New(nodes, p.graph.Library, p.graph.Producer)
}

// Missing returns the first of fetches (positions) that depends on a feed that is not fed yet, or -1. It takes time linear in the size of
// the graph, whatever the number of fetches.
func (p *Pruned) Missing(fetches []int, fed func(feed int) bool) int {
	feed := make(map[*Node]int, len(p.Feeds))
	for i, n := range p.Feeds {
		feed[n] = i
	}
	seen := make([]bool, len(p.Nodes))
	var queue []*Node
	for _, fetch := range fetches {
		queue = append(queue[:0], p.Fetches[fetch])
		for len(queue) > 0 {
			n := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			if i, ok := feed[n]; ok && !fed(i) {
				return fetch
			}
			for i := range len(n.Inputs) + len(n.Controls) {
				if src := n.before(i); !seen[src.ID] {
					seen[src.ID] = true
					queue = append(queue, src)
				}
			}
		}
	}
	return -1
}

// FeedsOf returns the positions of the feeds that a fetch depends on, in ascending order: what must be fed before it can be computed.
func (p *Pruned) FeedsOf(fetch int) []int {
	feed := make(map[*Node]int, len(p.Feeds))
	for i, n := range p.Feeds {
		feed[n] = i
	}
	var out []int
	seen := make([]bool, len(p.Nodes))
	queue := []*Node{p.Fetches[fetch]}
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if i, ok := feed[n]; ok {
			out = append(out, i)
		}
		for i := range len(n.Inputs) + len(n.Controls) {
			if src := n.before(i); !seen[src.ID] {
				seen[src.ID] = true
				queue = append(queue, src)
			}
		}
	}
	slices.Sort(out)
	return out
}

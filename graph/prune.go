package graph

import (
	"slices"
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Signature is what one kind of step is given and asked for.
type Signature struct {
	// Feeds and Fetches are tensors, as "name:index" or "name"; Targets are nodes.
	Feeds, Fetches, Targets []string
	// Connections replace tensors by others of the graph.
	Connections []Connection
}

// Connection has the consumers of tensor To take tensor From instead.
type Connection struct{ From, To string }

// Pruned is the part of a graph that a step runs.
type Pruned struct {
	*Graph
	Signature Signature
	// Feeds are the _Arg nodes and Fetches the _Retval nodes, as the Signature lists them. Attribute
	// index is the position there, T the type (never a reference), EndpointAttr the tensor's name.
	Feeds, Fetches []*Node
	// Targets are the nodes that run for their effect, each once.
	Targets []*Node
}

// EndpointAttr is the attribute of a pruned graph's _Arg and _Retval nodes that holds the name
// under which the client feeds or fetches the tensor.
const EndpointAttr = "_endpoint"

// Prune returns what a step of that signature needs of g: copies of the nodes that the fetches and targets
// depend on through data and control inputs, with an _Arg node in place of each fed tensor and a _Retval node
// for each fetched one, both assigned to clientDevice. A fed tensor's node is kept if something else needs it:
// another output of it, or a control edge from it, unless it is a placeholder. The cost depends on the nodes
// that are kept; g stays as it is.
//
// INVALID_ARGUMENT: nothing to run, a tensor that is fed twice or both fed and fetched, an output that the node
// does not have. NOT_FOUND: no such node.
func Prune(g *Graph, sig Signature, clientDevice string) (*Pruned, error) {
	return PruneChecked(g, sig, clientDevice, nil)
}

// PruneChecked is Prune with a check that is called now and then, whose error ends it.
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

	// copies maps nodes to the ones that stand for them, fed outputs to the _Arg nodes, and
	// placeholders that are fed to the _Arg nodes that their control edges leave from.
	copies map[*Node]*Node
	fed    map[Output]*Node
	stands map[*Node][]*Node
	// joins maps the Identity nodes that connections put into fed to what they are to read.
	joins map[*Node]Output

	kept  []*Node // originals of copies
	slab  []Node
	queue []*Node // originals whose copies lack their inputs
	used  []*Node // the keys of joins that something needs
	// passed is what read found behind lowered nodes, on longer ways.
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

// replaced finds the output that something else is to stand for.
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

// replace has by stand for src.
func (p *pruner) replace(src Output, by *Node) {
	clear(p.passed)
	p.fed[src] = by
	if src.Node.Op == "Placeholder" || src.Node.Op == "PlaceholderV2" {
		p.stands[src.Node] = append(p.stands[src.Node], by)
	}
}

// fetch makes the _Retval nodes and takes in what they need.
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

// target takes in what the targets need, and all that was found to be needed needs.
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

// mustOp is the declaration of an op that the runtime itself uses.
func mustOp(name string) *OpDef {
	def, err := LookupOp(name)
	if err != nil {
		panic(err) // the embedded list of ops lacks it
	}
	return def
}

// keep gives the copy of a node, whose inputs are set later.
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

// read is the copy of an output that something reads: the one that stands for it where it is fed, and
// what a lowered node passes on.
func (p *pruner) read(in Output) Output {
	const short = 4
	var long []Output // the outputs on a long way
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

// wait makes of a lowered node, which is kept since something waits for it and not for what it passes
// on, one that only waits: its inputs need not come to where it is.
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

// checkRefs refuses fed tensors where a node needs a reference to a variable.
func (p *pruner) checkRefs() error {
	if len(p.fed) == 0 { // else the graph's own edges, which were checked when it was built
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

// finish puts the graph together: feeds first, then the kept nodes in their old order, then
// the fetches.
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

// Missing gives the first of fetches, by their positions, that depends on a feed which is not there yet; -1 for none.
// It takes time in proportion to the graph, whatever the number of fetches.
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

// FeedsOf gives the positions of the feeds that a fetch, by position, depends on, in
// ascending order: what must be fed before it can be computed.
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

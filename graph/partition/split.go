package partition

import (
	"slices"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// UserNode is the attribute of nodes added by Split: the name of the user's node on whose behalf the node was added. Errors use that name,
// since the client knows no other.
const UserNode = graph.UserNodeAttr

// Options provide what Split cannot know from the graph.
type Options struct {
	// Incarnation returns the incarnation number of a device's process. Transfers carry it, so that those of an earlier incarnation are
	// not mistaken for current ones. nil means 0.
	Incarnation func(device string) uint64
	// MemoryTypes returns which inputs and outputs of a node are in host memory although its device, of the given type, has its own; nil
	// means none. It is only called for nodes on devices other than CPUs.
	MemoryTypes func(n *graph.Node, deviceType string) (hostIn, hostOut []bool)
	// Supports reports whether a node may run on another type of device than the one assigned. nil means that all may.
	Supports func(n *graph.Node, deviceType string) bool
	// Narrow sends all float32 values between tasks as bfloat16. Without it, only those of nodes with the attribute graph.WireType are.
	Narrow bool
	// Check, if not nil, is called from time to time. If it returns an error, Split stops.
	Check func() error
}

// Transfer is a tensor that goes from one device to another: once, or once per iteration of the loop that it is in.
type Transfer struct {
	// Edge is the transfer's name within the graph: tensor_name of its _Send and _Recv.
	Edge string
	// Src and Dst are the full names of the devices.
	Src, Dst string
	// DType is the type sent, never a reference type.
	DType tensor.DType
	// Control is whether the tensor is empty and only its arrival matters.
	Control bool
	// Frame names the loop. It is "" outside of all loops, where exactly one tensor is sent per step.
	Frame string
}

// Parts is the result of Split.
type Parts struct {
	// Devices are the devices that have nodes, sorted.
	Devices []string
	// ByDevice is the graph of each device, with its own nodes, inputs and IDs. Attributes, declarations and the library are shared with
	// the original graph. All nodes of a part have the part's device as Assigned.
	ByDevice map[string]*graph.Graph
	// Transfers lists everything sent between the devices, in an order that depends only on the graph.
	Transfers []Transfer
}

// Split cuts g, all of whose nodes have an Assigned device, into one graph per device. g does not change. Control flow nodes may end up on
// another device than their Assigned one, next to the nodes that they read or feed. The result depends only on g and opts.
//
// INVALID_ARGUMENT means that g's loops are invalid (see Frames) or cannot be cut, such as a loop over several devices without a LoopCond,
// or that an op on another device wants to write to a reference.
func Split(g *graph.Graph, opts Options) (*Parts, error) {
	check := graph.Now(opts.Check)
	info, err := frames(g, check)
	if err != nil {
		return nil, err
	}
	s := &splitter{g: g, opts: opts, info: info, check: check}
	if err := s.place(); err != nil {
		return nil, err
	}
	s.copyNodes()
	if len(info.Frames) > 1 {
		s.findPhases()
		s.duplicateEdges()
		if err := s.addLoops(); err != nil {
			return nil, err
		}
	}
	if err := s.cut(); err != nil {
		return nil, err
	}
	if s.unknown != nil {
		return nil, s.unknown
	}
	return s.parts(), nil
}

// splitter is a graph being cut. Its nodes are copies whose ID is their index, until parts gives them the ID in their part.
type splitter struct {
	g    *graph.Graph
	opts Options
	// info covers the nodes of g.
	info *FrameInfo
	// devices are the device names indexed by dev, sorted. types are their types, and own is whether each has its own memory.
	devices []string
	types   []string
	own     []bool
	// memories caches the memory types of nodes on such devices.
	memories []nodeMemory
	nodes    []*graph.Node
	slab     []graph.Node // for future nodes
	places   []placed
	namer    namer

	// entered is the set of iterations of its parent in which each frame runs. irregular is whether a frame has iterations that not all of
	// its NextIterations reach.
	entered   []phase
	irregular []bool
	loops     map[loopKey]*loop

	// unknown is set when an op that Split needs has no declaration.
	unknown error
	check   func() error

	transfers []Transfer
	routes    map[routeKey]*route
	arrivals
	// user is the node for which the last node was added, userAttr its name as an attribute.
	user     *graph.Node
	userAttr *attrpb.AttrValue
}

// placed is what a splitter knows about a node.
type placed struct {
	// dev is the node's device; in and out are the frames of its inputs and of its outputs.
	dev, in, out int32
	kind         Kind
	// phase is the set of iterations of the frame out in which the outputs are produced.
	phase phase
}

// copyNodes copies the nodes, so that later passes can change them.
func (s *splitter) copyNodes() {
	n := len(s.g.Nodes)
	inputs, controls := 0, 0
	for _, node := range s.g.Nodes {
		inputs += len(node.Inputs)
		controls += len(node.Controls)
	}
	slab := make([]graph.Node, n)
	inputSlab, controlSlab := make([]graph.Output, inputs), make([]*graph.Node, controls)
	s.nodes = make([]*graph.Node, n, n+n/2)
	for id, node := range s.g.Nodes {
		slab[id] = *node
		s.nodes[id] = &slab[id]
	}
	for id, node := range s.g.Nodes {
		c := s.nodes[id]
		c.Inputs, inputSlab = inputSlab[:len(node.Inputs):len(node.Inputs)], inputSlab[len(node.Inputs):]
		for i, in := range node.Inputs {
			c.Inputs[i] = graph.Output{Node: s.nodes[in.Node.ID], Index: in.Index}
		}
		c.Controls, controlSlab = controlSlab[:len(node.Controls):len(node.Controls)], controlSlab[len(node.Controls):]
		for i, from := range node.Controls {
			c.Controls[i] = s.nodes[from.ID]
		}
	}
	s.namer.avoid(s.g)
}

// add adds a new node to the graph, on behalf of user.
func (s *splitter) add(user *graph.Node, node graph.Node, p placed) *graph.Node {
	if def, err := graph.LookupOp(node.Op); err == nil {
		node.Def = def
	} else {
		s.unknown = err
	}
	if len(s.slab) == 0 {
		s.slab = make([]graph.Node, 64)
	}
	n := &s.slab[0]
	s.slab = s.slab[1:]
	if user != s.user {
		s.user, s.userAttr = user, user.Attrs[UserNode]
		if s.userAttr == nil {
			name := user.Name
			if v, ok := user.Attrs[graph.EndpointAttr]; ok { // a feed or fetch added by Prune
				name, _, _ = strings.Cut(string(v.GetS()), ":")
			}
			s.userAttr = stringAttr(name)
		}
	}
	if node.Attrs == nil {
		node.Attrs = graph.Attrs{}
	}
	node.Attrs[UserNode] = s.userAttr
	node.ID = len(s.nodes)
	*n = node
	s.nodes = append(s.nodes, n)
	s.places = append(s.places, p)
	return n
}

// parts distributes the nodes to their devices.
func (s *splitter) parts() *Parts {
	counts := make([]int, len(s.devices))
	for _, p := range s.places {
		counts[p.dev]++
	}
	p := &Parts{ByDevice: make(map[string]*graph.Graph, len(s.devices)), Transfers: s.transfers}
	lists := make([][]*graph.Node, len(s.devices))
	for d, count := range counts {
		lists[d] = make([]*graph.Node, 0, count)
	}
	for id, node := range s.nodes {
		d := s.places[id].dev
		node.Assigned = s.devices[d]
		lists[d] = append(lists[d], node)
	}
	for d, device := range s.devices {
		if counts[d] > 0 {
			p.Devices = append(p.Devices, device)
			p.ByDevice[device] = graph.New(lists[d], s.g.Library, s.g.Producer)
		}
	}
	return p
}

// TaskParts are the parts of one task.
type TaskParts struct {
	// Task is the prefix of the task's devices, such as /job:worker/replica:0/task:1.
	Task string
	// Devices are the task's devices that have nodes, sorted.
	Devices []string
	// Receives are from other tasks, Sends to them. Transfers between two devices of the task are in neither.
	Receives, Sends []Transfer
}

// Tasks groups the parts by task, sorted by name.
func (p *Parts) Tasks() []TaskParts {
	var tasks []TaskParts
	index := map[string]int{}
	for _, device := range p.Devices {
		task := taskOf(device)
		if _, ok := index[task]; !ok {
			index[task] = len(tasks)
			tasks = append(tasks, TaskParts{Task: task})
		}
		t := &tasks[index[task]]
		t.Devices = append(t.Devices, device)
	}
	for _, tr := range p.Transfers {
		src, dst := index[taskOf(tr.Src)], index[taskOf(tr.Dst)]
		if src != dst {
			tasks[src].Sends = append(tasks[src].Sends, tr)
			tasks[dst].Receives = append(tasks[dst].Receives, tr)
		}
	}
	slices.SortFunc(tasks, func(a, b TaskParts) int { return strings.Compare(a.Task, b.Task) })
	return tasks
}

// taskOf returns the part of a full device name before the device itself.
func taskOf(device string) string {
	task, _, _ := strings.Cut(device, "/device:")
	return task
}

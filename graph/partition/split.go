package partition

import (
	"slices"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// UserNode is the attribute of nodes that Split adds: the name of the node of the user's graph on
// whose behalf the node is there. Errors name that one, since the client knows no other.
const UserNode = "_user_node"

// Options say what Split cannot know from the graph.
type Options struct {
	// Incarnation is the number of the present life of a device's process. The transfers
	// carry it, so that those of an earlier life are not taken for it. nil stands for 0.
	Incarnation func(device string) uint64
	// MemoryTypes tells which inputs and outputs of a node lie in host memory though its device, of the
	// given type, has memory of its own; nil for none. It is asked of nodes on devices other than CPUs.
	MemoryTypes func(n *graph.Node, deviceType string) (hostIn, hostOut []bool)
	// Supports tells whether a node may run on another type of device than that which it is assigned
	// to. nil: it may.
	Supports func(n *graph.Node, deviceType string) bool
	// Narrow has all float32 values cross from task to task as bfloat16, which without it only
	// those of nodes with the attribute graph.WireType do.
	Narrow bool
	// Check, if not nil, is called now and then. Its error ends Split.
	Check func() error
}

// Transfer is a tensor that goes from one device to another: once, or once in each iteration of
// the loop it lies in.
type Transfer struct {
	// Edge is the transfer's name within the graph: tensor_name of its _Send and _Recv.
	Edge string
	// Src and Dst are the full names of the devices.
	Src, Dst string
	// DType is what is sent, never a reference type.
	DType tensor.DType
	// Control tells that the tensor is empty, and only its arrival matters.
	Control bool
	// Frame names the loop; "" outside of all loops, where there is exactly one tensor in a step.
	Frame string
}

// Parts are a graph that was cut.
type Parts struct {
	// Devices are the devices that have nodes, sorted.
	Devices []string
	// ByDevice is the graph of each of them, with nodes, inputs and IDs of its own. Attributes,
	// declarations and the library are shared with the graph that was cut. All nodes of a part
	// have the part's device as Assigned.
	ByDevice map[string]*graph.Graph
	// Transfers are all that passes between the devices, in an order that depends on the graph alone.
	Transfers []Transfer
}

// Split cuts g, all of whose nodes have an Assigned device, into one graph for each device. g is
// left as it is. Control flow nodes may end up on another device than their Assigned one: next
// to what they read or feed. The result depends on g and opts alone.
//
// INVALID_ARGUMENT tells that g's loops make no sense (see Frames) or cannot be cut, such as
// one over several devices without a LoopCond, or a reference that an op on another device
// wants to write to.
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

// splitter is the graph while it is being cut: the nodes are copies, whose ID is their index
// until parts gives them the one in their part.
type splitter struct {
	g    *graph.Graph
	opts Options
	// info covers the nodes of g.
	info *FrameInfo
	// devices are the names that dev stands for, sorted, types their types, and own tells which have
	// memory of their own.
	devices []string
	types   []string
	own     []bool
	// memories are those of nodes on such devices, as far as they were asked for.
	memories []nodeMemory
	nodes    []*graph.Node
	slab     []graph.Node // for the nodes to come
	places   []placed
	namer    namer

	// entered tells in which iterations of its parent each frame runs, irregular which frames
	// have iterations that not all of their NextIterations lead to.
	entered   []phase
	irregular []bool
	loops     map[loopKey]*loop

	// unknown is set when an op that Split needs has no declaration.
	unknown error
	check   func() error

	transfers []Transfer
	routes    map[routeKey]*route
	arrivals
	// user is the node that the last added one is for, userAttr its name as an attribute.
	user     *graph.Node
	userAttr *attrpb.AttrValue
}

// placed is what a splitter knows of a node.
type placed struct {
	// dev is the node's device, in and out are the frames of its inputs and of its outputs.
	dev, in, out int32
	kind         Kind
	// phase tells in which iterations of the frame out the outputs come.
	phase phase
}

// copyNodes makes the nodes that the passes after it may change.
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

// add puts a new node into the graph, on behalf of user.
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
			if v, ok := user.Attrs[graph.EndpointAttr]; ok { // a feed or fetch, which Prune put in
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

// parts deals the nodes out to their devices.
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
	// Task is the name that the task's devices begin with, such as /job:worker/replica:0/task:1.
	Task string
	// Devices are the task's devices that have nodes, sorted.
	Devices []string
	// Receives come from other tasks, Sends go to them. Transfers between two devices of the
	// task are in neither.
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

// taskOf is the part of a full device name before the device itself.
func taskOf(device string) string {
	task, _, _ := strings.Cut(device, "/device:")
	return task
}

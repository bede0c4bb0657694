package partition

import (
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// Kind is how the execution of a node differs from that of a plain kernel.
type Kind uint8

// The kinds of nodes that an executor treats specially.
const (
	Plain Kind = iota
	Switch
	Merge
	Enter
	Exit
	NextIteration
	LoopCond
	// ControlTrigger runs even if its inputs are dead, and is never dead itself.
	ControlTrigger
	// Send and Recv run even if their inputs are dead, to pass that on.
	Send
	Recv
)

// KindOf returns the kind of an op type.
func KindOf(op string) Kind {
	switch op {
	case "Switch", "RefSwitch", "_SwitchN":
		return Switch
	case "Merge", "RefMerge":
		return Merge
	case "Enter", "RefEnter":
		return Enter
	case "Exit", "RefExit":
		return Exit
	case "NextIteration", "RefNextIteration":
		return NextIteration
	case "LoopCond":
		return LoopCond
	case "ControlTrigger":
		return ControlTrigger
	case "_Send", "_HostSend":
		return Send
	case "_Recv", "_HostRecv":
		return Recv
	}
	return Plain
}

// minInputs returns the minimum number of data inputs of a node of a kind.
func (k Kind) minInputs() int {
	switch k {
	case Switch:
		return 2
	case Merge, Enter, Exit, NextIteration, LoopCond, Send:
		return 1
	}
	return 0
}

// Frame is a loop. Executions in it are distinguished by iteration.
type Frame struct {
	// Name is the frame_name of its Enters; "" for the root.
	Name string
	// Parent is the index of the enclosing frame. It is less than the loop's own index, except for the root, which is its own parent.
	Parent int32
	// ParallelIterations is the number of iterations that may be in progress at once.
	ParallelIterations int
	// Enters are the nodes that lead into the loop. LoopCond is the node that decides whether there is another iteration, or nil.
	Enters   []*graph.Node
	LoopCond *graph.Node
}

// FrameInfo is the loop structure of a graph.
type FrameInfo struct {
	// Frames holds all loops, the root first.
	Frames []Frame
	// Of is the frame of each node by its ID: for an Enter, the frame that it leads into; for an Exit, the one that it leads out of.
	Of []int32
	// Kinds is KindOf for each node.
	Kinds []Kind
	// Order holds the IDs of all nodes, each one after its inputs, ignoring the edges from a NextIteration to a Merge, which close the
	// loops.
	Order []int32
}

// In returns the frame that contains a node's inputs and in which it executes.
func (f *FrameInfo) In(node int) int32 {
	if f.Kinds[node] == Enter {
		return f.Frames[f.Of[node]].Parent
	}
	return f.Of[node]
}

// Out returns the frame that contains a node's outputs and the control edges from it.
func (f *FrameInfo) Out(node int) int32 {
	if f.Kinds[node] == Exit {
		return f.Frames[f.Of[node]].Parent
	}
	return f.Of[node]
}

// Frames finds the loops of g and checks that they are valid. INVALID_ARGUMENT: cycles that are not loops, nodes with inputs from
// different frames, and Exits and NextIterations outside of loops. It takes time linear in the size of g.
func Frames(g *graph.Graph) (*FrameInfo, error) { return frames(g, graph.Now(nil)) }

func frames(g *graph.Graph, check func() error) (*FrameInfo, error) {
	s, err := newFrameSearch(g)
	if err != nil {
		return nil, err
	}
	for id := range g.Nodes {
		if s.pending[id] == 0 {
			s.info.Order = append(s.info.Order, int32(id))
		}
	}
	for next := 0; next < len(s.info.Order); next++ {
		if err := check(); err != nil {
			return nil, err
		}
		id := s.info.Order[next]
		if err := s.visit(g.Nodes[id]); err != nil {
			return nil, err
		}
		for _, to := range s.successors[s.start[id]:s.start[id+1]] {
			if s.pending[to]--; s.pending[to] == 0 {
				s.info.Order = append(s.info.Order, to)
			}
		}
	}
	if left := len(g.Nodes) - len(s.info.Order); left > 0 {
		return nil, s.cycle(left)
	}
	return s.info, s.closeLoops()
}

// frameSearch walks a graph in topological order.
type frameSearch struct {
	g      *graph.Graph
	info   *FrameInfo
	byName map[string]int32
	// successors[start[n]:start[n+1]] are the nodes with an input or control from n, one entry per edge. pending counts the edges of a
	// node that have not been visited.
	start, successors, pending []int32
}

func newFrameSearch(g *graph.Graph) (*frameSearch, error) {
	n := len(g.Nodes)
	s := &frameSearch{
		g: g, byName: map[string]int32{"": 0}, start: make([]int32, n+1), pending: make([]int32, n),
		info: &FrameInfo{
			Frames: []Frame{{ParallelIterations: 1}},
			Of:     make([]int32, n), Kinds: make([]Kind, n), Order: make([]int32, 0, n),
		},
	}
	for id, node := range g.Nodes {
		if node == nil || node.ID != id {
			return nil, status.Internalf("Node %d of a graph is not in its place", id)
		}
		s.info.Kinds[id] = KindOf(node.Op)
	}
	edges := 0
	for _, node := range g.Nodes {
		if err := s.check(node); err != nil {
			return nil, err
		}
		forward := s.forward(node, func(from *graph.Node) { s.start[from.ID+1]++ })
		if forward == 0 && s.info.Kinds[node.ID] == Merge {
			return nil, status.InvalidArgumentf("{{node %s}} can never run: all of its inputs come from NextIterations", node.Name)
		}
		s.pending[node.ID] = int32(forward)
		edges += forward
	}
	for id := range n {
		s.start[id+1] += s.start[id]
	}
	s.successors = make([]int32, edges)
	at := append([]int32(nil), s.start[:n]...)
	for id, node := range g.Nodes {
		s.forward(node, func(from *graph.Node) {
			s.successors[at[from.ID]] = int32(id)
			at[from.ID]++
		})
	}
	return s, nil
}

// check rejects what would make a later step access a slice out of bounds.
func (s *frameSearch) check(node *graph.Node) error {
	if len(node.InTypes) != len(node.Inputs) {
		return status.Internalf("{{node %s}} has %d inputs and %d input types", node.Name, len(node.Inputs), len(node.InTypes))
	}
	if k := s.info.Kinds[node.ID]; len(node.Inputs) < k.minInputs() {
		return status.InvalidArgumentf("{{node %s}} of type %s needs %d inputs, and has %d", node.Name, node.Op, k.minInputs(), len(node.Inputs))
	}
	for i, in := range node.Inputs {
		if !s.holds(in.Node) || in.Index < 0 || in.Index >= len(in.Node.OutTypes) {
			return status.InvalidArgumentf("Input %d of {{node %s}} is not an output of a node of the graph", i, node.Name)
		}
	}
	for _, c := range node.Controls {
		if !s.holds(c) {
			return status.InvalidArgumentf("A control input of {{node %s}} is not a node of the graph", node.Name)
		}
	}
	return nil
}

func (s *frameSearch) holds(n *graph.Node) bool {
	return n != nil && n.ID >= 0 && n.ID < len(s.g.Nodes) && s.g.Nodes[n.ID] == n
}

// forward calls f for the source of each edge to node, except those that close a loop, and returns the number of calls.
func (s *frameSearch) forward(node *graph.Node, f func(from *graph.Node)) int {
	n := len(node.Controls)
	merge := s.info.Kinds[node.ID] == Merge
	for _, in := range node.Inputs {
		if !merge || s.info.Kinds[in.Node.ID] != NextIteration {
			f(in.Node)
			n++
		}
	}
	for _, c := range node.Controls {
		f(c)
	}
	return n
}

// visit determines the frame of a node, all of whose inputs have been visited.
func (s *frameSearch) visit(node *graph.Node) error {
	kind := s.info.Kinds[node.ID]
	var first *graph.Node
	var frame int32
	var err error
	s.forward(node, func(from *graph.Node) {
		switch f := s.info.Out(from.ID); {
		case first == nil:
			first, frame = from, f
		case f != frame && err == nil:
			err = s.different(node, from, first)
		}
	})
	if err != nil {
		return err
	}
	s.info.Of[node.ID] = frame
	switch {
	case kind == Enter:
		return s.enter(node, frame)
	case kind == Exit && frame == 0:
		return status.InvalidArgumentf("Invalid Exit op: Cannot find a corresponding Enter op.\n\t [[{{node %s}}]]", node.Name)
	case kind == NextIteration && frame == 0:
		return status.InvalidArgumentf("Invalid NextIteration op: Cannot find a corresponding Enter op.\n\t [[{{node %s}}]]", node.Name)
	case kind == LoopCond && frame != 0:
		return s.loopCond(node, &s.info.Frames[frame])
	}
	return nil
}

func (s *frameSearch) different(node, a, b *graph.Node) error {
	return status.InvalidArgumentf("{{node %s}} has inputs from different frames. The input {{node %s}} is in frame '%s'. The input {{node %s}} is in frame '%s'.",
		node.Name, a.Name, s.info.Frames[s.info.Out(a.ID)].Name, b.Name, s.info.Frames[s.info.Out(b.ID)].Name)
}

// enter puts an Enter, whose inputs are in the frame parent, into the frame that it names.
func (s *frameSearch) enter(node *graph.Node, parent int32) error {
	name, err := node.Attrs.Str("frame_name")
	if err != nil {
		return status.AtNode(err, node.Name)
	}
	if name == "" {
		return status.InvalidArgumentf("The Enter {{node %s}} must have a frame name.", node.Name)
	}
	parallel, err := node.Attrs.Int("parallel_iterations")
	if err != nil {
		return status.AtNode(err, node.Name)
	}
	if parallel < 1 || parallel > 1<<30 {
		return status.InvalidArgumentf("The Enter {{node %s}} asks for %d parallel iterations", node.Name, parallel)
	}
	frame, ok := s.byName[name]
	if !ok {
		frame = int32(len(s.info.Frames))
		s.byName[name] = frame
		s.info.Frames = append(s.info.Frames, Frame{Name: name, Parent: parent, ParallelIterations: int(parallel)})
	}
	f := &s.info.Frames[frame]
	if f.Parent != parent {
		return status.InvalidArgumentf("Invalid loop structure: Mismatched parent frames for \"%s\": \"%s\" vs \"%s\". The node giving this error: {{node %s}}",
			name, s.info.Frames[parent].Name, s.info.Frames[f.Parent].Name, node.Name)
	}
	f.Enters = append(f.Enters, node)
	s.info.Of[node.ID] = frame
	return nil
}

// loopCond records which node controls a loop. A counter that TensorFlow's gradients add to a loop has its own LoopCond, recognized by its
// name; it does not control the loop.
func (s *frameSearch) loopCond(node *graph.Node, f *Frame) error {
	counter := func(n *graph.Node) bool { return strings.Contains(n.Name, "LoopCounter") }
	switch {
	case f.LoopCond == nil || counter(f.LoopCond):
		f.LoopCond = node
	case !counter(node):
		return status.InvalidArgumentf("Invalid loop structure: Loop \"%s\" has more than one LoopCond node: {{node %s}} and {{node %s}}.",
			f.Name, node.Name, f.LoopCond.Name)
	}
	return nil
}

// closeLoops checks the edges that the walk skipped.
func (s *frameSearch) closeLoops() error {
	for id, node := range s.g.Nodes {
		if s.info.Kinds[id] != Merge {
			continue
		}
		for _, in := range node.Inputs {
			if s.info.Kinds[in.Node.ID] != NextIteration || s.info.Of[in.Node.ID] == s.info.Of[id] {
				continue
			}
			err := error(nil)
			s.forward(node, func(from *graph.Node) {
				if err == nil {
					err = s.different(node, in.Node, from)
				}
			})
			return err
		}
	}
	return nil
}

func (s *frameSearch) cycle(left int) error {
	var names []string
	for id, node := range s.g.Nodes {
		if s.pending[id] > 0 && len(names) < 3 {
			names = append(names, "{{node "+node.Name+"}}")
		}
	}
	return status.InvalidArgumentf("Graph is invalid, contains a cycle with %d nodes, including: %s", left, strings.Join(names, ", "))
}

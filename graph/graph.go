// Package graph is the pure part of Troupe's master: graphs and the passes over them.
//
// A client's GraphDef becomes a Graph (Build, Extend). Functions that cannot run on one device are inlined (package lower), nodes are
// placed on the cluster's devices (package place), and the graph is pruned to what a step needs (Prune) and split into one part per device
// (package partition). Nothing here does I/O or starts a goroutine, so every pass can be tested as a function.
package graph

import (
	"slices"
	"sync"
	"sync/atomic"

	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Node is one operation of a graph. Once its graph is built, only the fields that passes fill in (Assigned) change.
type Node struct {
	// ID is the node's index in Graph.Nodes.
	ID   int
	Name string
	// Op is the op's type, such as MatMul, or the name of a function of the graph's library.
	Op string
	// Def is the op's declaration: arguments, attributes, statefulness.
	Def *oppb.OpDef
	// Attrs are the node's attributes, including the op's defaults.
	Attrs Attrs
	// Requested is the device that the client asked for, possibly partial or empty. Assigned is the full name of the device that placement
	// chose.
	Requested, Assigned string
	// Inputs are the data inputs in order. Controls are the nodes that must run first.
	Inputs   []Output
	Controls []*Node
	// InTypes are the declared types of the inputs, OutTypes those of the outputs. They are reference types where the op takes or yields a
	// reference.
	InTypes, OutTypes []tensor.DType
	// Lowered is the node as the client wrote it, if package lower has replaced it with the nodes of its functions. The node itself then
	// forwards their results, which are its inputs: a reader of output i reads input i instead (Prune), and whatever waits for the node
	// waits for all its inputs and its Controls.
	Lowered *Node
	// Origin names the nodes that errors name in place of this one, and their functions: NodeDef.experimental_debug_info, which TensorFlow calls by the
	// same rule. Package lower sets it, and clients may. It is nil for most nodes, and describes only.
	Origin *nodepb.NodeDef_ExperimentalDebugInfo
}

// Output is one output of a node, the tensor that TensorFlow writes as "name:index".
type Output struct {
	Node  *Node
	Index int
}

// Passed returns the output that readers of o actually read: o itself, or the input that a lowered node forwards as o. known caches the
// results of longer chains, so that many readers of deeply nested calls do not each follow the whole chain.
func (o Output) Passed(known map[Output]Output) Output {
	const short = 4
	from := o
	for hops := 0; o.Node.Lowered != nil; hops++ {
		o = o.Node.Inputs[o.Index]
		if hops < short {
			continue
		}
		if end, ok := known[o]; ok {
			o = end
			break
		}
	}
	for at := from; at != o; at = at.Node.Inputs[at.Index] {
		if _, ok := known[at]; ok {
			break
		}
		if next := at.Node.Inputs[at.Index]; next != o {
			known[at] = o
		}
	}
	return o
}

// Graph is a set of nodes whose inputs are all in the set, with the functions that they may call. It is immutable except for the fields
// that passes fill in: extending a graph (Extend) returns a new one that shares the nodes of the old one. It may be read concurrently.
type Graph struct {
	Nodes []*Node
	// Library holds the functions that nodes may call. It is never nil in a graph made by this package.
	Library *Library
	// Producer is GraphDef.versions.producer.
	Producer int32

	versioned bool // whether a GraphDef specified the version
	index     func() *names
	tail      *tail
}

// tail records how much of an array of nodes is used by the graphs that share it, so that the first of them to grow can grow in place.
type tail struct{ used atomic.Int64 }

// claim reports whether the caller, which uses the first from elements, may use the elements up to to.
func (t *tail) claim(from, to int) bool {
	return t != nil && t.used.CompareAndSwap(int64(from), int64(to))
}

// New returns a graph of complete nodes: their inputs are among them and their types are known. It numbers them and checks nothing. It is
// for passes that split or change a valid graph.
func New(nodes []*Node, library *Library, producer int32) *Graph {
	if library == nil {
		library = &Library{}
	}
	for i, n := range nodes {
		n.ID = i
	}
	g := &Graph{Nodes: nodes, Library: library, Producer: producer, versioned: true}
	g.index = sync.OnceValue(func() *names {
		byName := make(map[string]*Node, len(nodes))
		for _, n := range nodes {
			byName[n.Name] = n
		}
		return (*names)(nil).with(byName)
	})
	return g
}

// With returns g with additional nodes, which are complete as for New and have unused names. g does not change.
func (g *Graph) With(nodes []*Node) *Graph {
	if len(nodes) == 0 {
		return g
	}
	byName := make(map[string]*Node, len(nodes))
	all := append(make([]*Node, 0, len(g.Nodes)+len(nodes)), g.Nodes...)
	for _, n := range nodes {
		n.ID = len(all)
		all = append(all, n)
		byName[n.Name] = n
	}
	out := *g
	out.Nodes, out.tail = all, nil
	var index *names
	if g.index != nil {
		index = g.index()
	}
	index = index.with(byName)
	out.index = func() *names { return index }
	return &out
}

// Copy returns a copy of g with its own nodes, none of them placed yet. The copy can be placed again while steps run nodes of g.
func (g *Graph) Copy() *Graph {
	copies := make(map[*Node]*Node, len(g.Nodes))
	for _, n := range g.Nodes {
		m := *n
		m.Assigned = ""
		copies[n] = &m
	}
	connect := func(n *Node) {
		n.Inputs = slices.Clone(n.Inputs)
		for i, in := range n.Inputs {
			n.Inputs[i].Node = copies[in.Node]
		}
		n.Controls = slices.Clone(n.Controls)
		for i, c := range n.Controls {
			n.Controls[i] = copies[c]
		}
	}
	nodes := make([]*Node, len(g.Nodes))
	for i, n := range g.Nodes {
		nodes[i] = copies[n]
		connect(nodes[i])
		if n.Lowered != nil {
			lowered := *n.Lowered
			connect(&lowered)
			nodes[i].Lowered = &lowered
		}
	}
	out := New(nodes, g.Library, g.Producer)
	out.versioned = g.versioned
	return out
}

// Lookup returns the node with the given name, or nil.
func (g *Graph) Lookup(name string) *Node {
	if g.index == nil {
		return nil
	}
	return g.index().get(name)
}

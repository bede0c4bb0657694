// Package graph holds the pure part of Troupe's master: graphs and the passes over them.
//
// A client's GraphDef becomes a Graph (Build, Extend). Functions that cannot run on one device are inlined
// (package lower), nodes are placed on the cluster's devices (package place), the graph is pruned to what a
// step needs (Prune) and divided into one part for each device (package partition). Nothing here does I/O or
// starts a goroutine, so that every pass can be tested as a function.
package graph

import (
	"slices"
	"sync"
	"sync/atomic"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Node is one operation of a graph. After its graph is built, only fields that passes fill in (Assigned)
// change.
type Node struct {
	// ID is the node's index in Graph.Nodes.
	ID   int
	Name string
	// Op is the op's type, such as MatMul, or the name of a function of the graph's library.
	Op string
	// Def is the op's declaration: arguments, attributes, statefulness.
	Def *oppb.OpDef
	// Attrs are the node's attributes, the op's defaults filled in.
	Attrs Attrs
	// Requested is the device that the client asked for (possibly partial or empty), Assigned
	// the full name of the device that placement chose.
	Requested, Assigned string
	// Inputs are the data inputs in order, Controls the nodes that must run before.
	Inputs   []Output
	Controls []*Node
	// InTypes are the declared types of the inputs, OutTypes those of the outputs; reference
	// types where the op takes or yields a reference.
	InTypes, OutTypes []tensor.DType
	// Lowered is the node as the client wrote it, if package lower has replaced it by the nodes of its functions.
	// The node itself then passes on their results, which are its inputs: a reader of one of its outputs reads the
	// input of that number (Prune), and what waits for the node waits for all of them and its Controls.
	Lowered *Node
}

// Output is one output of a node: the tensor that TensorFlow writes "name:index".
type Output struct {
	Node  *Node
	Index int
}

// Passed is the output that readers of o read: o itself, or the input that a lowered node passes on as o. known keeps
// what it finds on longer ways, so that many readers of calls that are nested deeply do not each go all the way.
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

// Graph is a set of nodes whose inputs all lie in the set, with the functions that they may call. It is
// immutable, except for fields that passes fill in: a graph that grows is a new one that shares the nodes of
// the old one (Extend). It may be read concurrently.
type Graph struct {
	Nodes []*Node
	// Library are the functions that nodes may call; never nil in a graph that this package made.
	Library *Library
	// Producer is GraphDef.versions.producer.
	Producer int32

	versioned bool // whether a GraphDef said which version it is
	index     func() *names
	tail      *tail
}

// tail tells which part of an array of nodes is in use by any of the graphs that share it, so
// that the first one to grow may do so in place.
type tail struct{ used atomic.Int64 }

// claim tells whether the caller, who uses the first from elements, may have those up to to.
func (t *tail) claim(from, to int) bool {
	return t != nil && t.used.CompareAndSwap(int64(from), int64(to))
}

// New makes a graph of complete nodes: their inputs lie among them, and their types are known. It numbers them.
// Passes that divide or change a valid graph use it; nothing is checked.
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

// With is g with additional nodes that are complete, as for New, and have names of their own. g stays as it is.
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

// Copy is g with nodes of its own, none of which is placed yet, so that a graph can be placed anew while steps
// run nodes of g.
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

// Lookup finds a node by name; nil if there is none.
func (g *Graph) Lookup(name string) *Node {
	if g.index == nil {
		return nil
	}
	return g.index().get(name)
}

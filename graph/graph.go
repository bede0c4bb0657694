// Package graph holds the pure part of Troupe's master: graphs and the passes over them.
//
// A client's GraphDef becomes a Graph (Build, Extend), which is pruned to what a step needs
// (Prune), placed on the cluster's devices (package place) and cut into one part for each
// device (package partition). Nothing here does I/O or starts a goroutine, so that every pass
// can be tested as a function.
package graph

import (
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Node is one operation of a graph. After its graph is built only the fields that a pass is
// there to fill (Assigned) change.
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
}

// Output is one output of a node: the tensor that TensorFlow writes "name:index".
type Output struct {
	Node  *Node
	Index int
}

// Graph is a set of nodes whose inputs all lie in the set, with the functions they may call.
// It is not safe for concurrent change.
type Graph struct {
	Nodes []*Node
	// Library are the functions that nodes may call.
	Library *Library
	// Producer is GraphDef.versions.producer.
	Producer int32
	byName   map[string]*Node
}

// Lookup finds a node by name; nil if there is none.
func (g *Graph) Lookup(name string) *Node { return g.byName[name] }

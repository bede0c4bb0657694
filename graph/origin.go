package graph

import (
	"strings"

	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

// UserName returns the name of the node that the client wrote. For a node that a pass inserted, it is the node that it stands for.
func (n *Node) UserName() string {
	if v, ok := n.Attrs[UserNodeAttr]; ok {
		return string(v.GetS())
	}
	if v, ok := n.Attrs[EndpointAttr]; ok {
		name, _, _ := strings.Cut(string(v.GetS()), ":")
		return name
	}
	return n.Name
}

// AtNode appends the node that failed to an error: its origin, if it has one, else its user name (status.AtNode).
func AtNode(err error, n *Node) error {
	if n.Origin == nil {
		return status.AtNode(err, n.UserName())
	}
	return status.AtOrigin(err, n.Origin.GetOriginalNodeNames(), n.Origin.GetOriginalFuncNames())
}

// AtCaller is AtNode for a node whose functions or datasets may have failed (status.AtCaller).
func AtCaller(err error, n *Node) error {
	if status.NamesNode(err) {
		return status.AtCaller(err, n.UserName())
	}
	return AtNode(err, n)
}

// originOf returns the origin that a node is declared with, or nil.
func originOf(def *nodepb.NodeDef) *nodepb.NodeDef_ExperimentalDebugInfo {
	if o := def.GetExperimentalDebugInfo(); len(o.GetOriginalNodeNames()) > 0 {
		return o
	}
	return nil
}

// CopiedFrom sets the origin of a copy of a function's node, if the node has none of its own.
func (n *Node) CopiedFrom(function, node string) {
	if n.Origin == nil {
		n.Origin = &nodepb.NodeDef_ExperimentalDebugInfo{OriginalNodeNames: []string{node}, OriginalFuncNames: []string{function}}
	}
}

package graph

import (
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// join prepares the nodes of the signature's connections.
func (p *pruner) join() error {
	for _, c := range p.sig.Connections {
		from, err := p.endpoint(c.From, "Requested tensor connection from unknown node: \"%s\".")
		if err != nil {
			return status.InvalidArgumentf("%v", err)
		}
		if n := len(from.Node.OutTypes); from.Index >= n {
			return status.InvalidArgumentf("Requested tensor connection from unknown edge: \"%s\" (actual number of outputs = %d).", c.From, n)
		}
		to, err := p.replaced(c.To)
		if err != nil {
			return err
		}
		if p.dependsOn(from, to.Node) {
			return status.InvalidArgumentf("Requested Tensor connection between nodes \"%s\" and \"%s\" would create a cycle.", to.Node.Name, from.Node.Name)
		}
		t := from.Node.OutTypes[from.Index].Base()
		n := &Node{
			Name:     "_identity_" + to.Node.Name + "_" + strconv.Itoa(to.Index),
			Op:       "Identity",
			Def:      mustOp("Identity"),
			Attrs:    Attrs{"T": {Value: &attrpb.AttrValue_Type{Type: t.Proto()}}},
			Assigned: hostOf(to.Node.Assigned),
			InTypes:  []tensor.DType{t},
			OutTypes: []tensor.DType{t},
		}
		p.joins[n] = from
		p.replace(to, n)
	}
	return nil
}

// hostOf returns a device that uses host memory and has an Identity kernel for every type: the device itself, or the first CPU of its
// task.
func hostOf(device string) string {
	task, kind, full := strings.Cut(device, "/device:")
	if !full || strings.HasPrefix(kind, "CPU:") {
		return device
	}
	return task + "/device:CPU:0"
}

// use returns n. If n stands for a fed output and is used for the first time, use connects its input.
func (p *pruner) use(n *Node) *Node {
	from, ok := p.joins[n]
	if !ok || n.Inputs != nil {
		return n
	}
	p.used = append(p.used, n)
	if by := p.fed[from]; by != nil && by.Op == "_Arg" {
		n.Inputs = []Output{{by, 0}}
		return n
	}
	n.Inputs = []Output{{p.keep(from.Node), from.Index}}
	return n
}

// dependsOn reports whether computing an output requires n, given what has been replaced so far.
func (p *pruner) dependsOn(from Output, n *Node) bool {
	seen := map[*Node]bool{}
	queue := []*Node{from.Node}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if at == n {
			return true
		}
		if seen[at] {
			continue
		}
		seen[at] = true
		for _, in := range at.Inputs {
			by := p.fed[in]
			if by == nil {
				queue = append(queue, in.Node)
			} else if src, ok := p.joins[by]; ok {
				queue = append(queue, src.Node)
			}
		}
		for _, before := range at.Controls {
			if by := p.stands[before]; by == nil {
				queue = append(queue, before)
			} else {
				for _, b := range by {
					if src, ok := p.joins[b]; ok {
						queue = append(queue, src.Node)
					}
				}
			}
		}
	}
	return false
}

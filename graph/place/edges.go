package place

import (
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

func isResource(t tensor.DType) bool { return t == tensor.Resource || t.IsRef() }

// joinEdges puts each user of a reference or resource handle on the device of the node that made it, even if a lowered node forwards it.
func (p *placer) joinEdges() error {
	passed := map[graph.Output]graph.Output{}
	for i, n := range p.nodes {
		if err := p.check(); err != nil {
			return err
		}
		for k, in := range n.Inputs {
			in = in.Passed(passed)
			if isResource(n.InTypes[k]) && p.runsFunctions(n) {
				if err := p.joinTypes(in.Node, int32(i)); err != nil {
					return err
				}
			}
			if !binds(in.Node, n, n.InTypes[k]) {
				continue
			}
			src, err := p.member(in.Node)
			if err != nil {
				return err
			}
			p.terse = p.callsFunction(n) // a mere warning need not list the groups' members
			err = p.joinEdge(src, int32(i))
			p.terse = false
			if err != nil && !p.callsFunction(n) {
				return err
			}
			if err != nil {
				p.warn(err.Error())
			}
		}
	}
	return nil
}

// joinTypes restricts a resource to the device types for which the function call that it is passed to has kernels. A function's body runs
// on the device of its caller and cannot access memory that only another type of device can read.
func (p *placer) joinTypes(resource *graph.Node, caller int32) error {
	src, err := p.member(resource)
	if err != nil {
		return err
	}
	from, of := &p.members[p.root(src)], p.members[caller].own
	if from.types == 0 || of == 0 {
		return nil
	}
	if from.types&of == 0 {
		n := p.members[caller].node
		return attach(status.InvalidArgumentf("Cannot pass the resource of {{node %s}} (%s), which is for %s devices, to the function that "+
			"{{node %s}} (%s) calls: it runs on %s devices. Place the resource there.", resource.Name, resource.Op,
			strings.Join(p.devices.typeNames(from.types), " and "), n.Name, n.Op, strings.Join(p.devices.typeNames(of), " and ")), n)
	}
	from.types &= of
	return nil
}

// joinEdge joins the groups at both ends of an edge. Where requests conflict, that of the source's group wins.
func (p *placer) joinEdge(src, dst int32) error {
	from, to := &p.members[p.root(src)], &p.members[p.root(dst)]
	a, b := p.members[src].node, p.members[dst].node
	conflict := func(kind string, x, y *Spec) error {
		return status.InvalidArgumentf("Cannot place the graph because a reference or resource edge connects colocation "+
			"groups with incompatible %s devices: %s vs %s. The edge src node is name='%s' (op='%s'), and the dst node is "+
			"name='%s' (op='%s').", kind, x, y, a.Name, a.Op, b.Name, b.Op)
	}
	if !from.assigned.Compatible(*to.assigned) {
		return conflict("assigned", from.assigned, to.assigned)
	}
	if !from.resource.Compatible(*to.resource) {
		return conflict("resource", from.resource, to.resource)
	}
	asked := to.requested
	if !from.requested.Compatible(*asked) {
		p.warn("Ignoring device specification " + asked.String() + " for node '" + b.Name + "' because the input edge from '" +
			a.Name + "' is a reference connection and already has a device field set to " + from.requested.String())
		to.requested = overrideSpec(overrideSpec(from.requested, to.resource), to.assigned)
	}
	if err := p.join(src, dst); err != nil {
		to.requested = asked
		return attach(status.InvalidArgumentf("Nodes were connected by a reference or resource connection (requiring them to "+
			"be on the same device), but the two nodes were assigned two different devices: %s", err), b)
	}
	return nil
}

// binds reports whether an edge of type t keeps both its ends on one device.
func binds(src, dst *graph.Node, t tensor.DType) bool {
	if t == tensor.Variant {
		return isDataset(src) && isDataset(dst)
	}
	return isResource(t) && !forwards(dst.Op)
}

// forwards reports whether an op passes its handles on, to nodes placed independently, rather than using them: TensorFlow's
// InputColocationExemptionRegistry.
func forwards(op string) bool {
	switch op {
	case "PartitionedCall", "StatefulPartitionedCall", "IdentityN", "DeleteMultiDeviceIterator", "RpcServerRegister":
		return true
	}
	family, found := strings.CutSuffix(strings.TrimRight(op, "0123456789"), "DatasetV")
	if !found {
		if family, found = strings.CutSuffix(op, "Dataset"); !found {
			return false
		}
	}
	switch strings.TrimPrefix(strings.TrimPrefix(family, "Experimental"), "Legacy") {
	case "Filter", "FlatMap", "Generator", "GroupByReducer", "GroupByWindow", "Interleave", "Map", "MapAndBatch",
		"ParallelFilter", "ParallelInterleave", "ParallelMap", "Reduce", "Scan", "TakeWhile":
		return true
	}
	return false
}

// callsFunction reports whether n runs library functions. Such a node joins the devices of its handles where it can, but these need not
// all be on one device, since the functions' bodies may be placed node by node.
func (p *placer) callsFunction(n *graph.Node) bool {
	switch n.Op {
	case "If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "For", "SymbolicGradient", "RemoteCall":
		return true
	}
	return p.graph.Library != nil && p.graph.Library.Functions[n.Op] != nil
}

// runsFunctions reports whether library functions run on behalf of n, in whatever form it names them.
func (p *placer) runsFunctions(n *graph.Node) bool {
	return forwards(n.Op) && n.Op != "IdentityN" || p.callsFunction(n)
}

// isDataset reports whether n makes a tf.data dataset. Datasets are passed as variants that are meaningless on another device.
func isDataset(n *graph.Node) bool {
	if len(n.OutTypes) != 1 || n.OutTypes[0] != tensor.Variant {
		return false
	}
	version := strings.TrimRight(n.Op, "0123456789")
	return n.Op == "DatasetFromGraph" || strings.HasSuffix(n.Op, "Dataset") ||
		version != n.Op && strings.HasSuffix(version, "DatasetV")
}

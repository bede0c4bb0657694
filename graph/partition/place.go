package partition

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// place numbers the devices and moves control flow to where its tensors are, which saves transfers: a Switch and an Exit to their input,
// an Enter and a NextIteration to the first node that reads them. Nodes that pass a reference on stay with it.
func (s *splitter) place() error {
	nodes, kinds := s.g.Nodes, s.info.Kinds
	index := map[string]int32{}
	s.places = make([]placed, len(nodes), len(nodes)+len(nodes)/2)
	for id, node := range nodes {
		if kinds[id] == Send || kinds[id] == Recv {
			return status.InvalidArgumentf("{{node %s}} is of type %s, which only the runtime may use", node.Name, node.Op)
		}
		if node.Assigned == "" {
			return status.Internalf("{{node %s}} was not placed on a device", node.Name)
		}
		if _, ok := index[node.Assigned]; !ok {
			index[node.Assigned] = 0
			s.devices = append(s.devices, node.Assigned)
		}
		s.places[id] = placed{in: s.info.In(id), out: s.info.Out(id), kind: kinds[id], phase: always}
	}
	slices.Sort(s.devices)
	for d, device := range s.devices {
		index[device] = int32(d)
		s.types = append(s.types, typeOf(device))
		s.own = append(s.own, s.types[d] != "CPU")
	}
	for id, node := range nodes {
		s.places[id].dev = index[node.Assigned]
	}
	reader := s.firstReaders()
	for _, id := range slices.Backward(s.info.Order) {
		if k := kinds[id]; (k == Enter || k == NextIteration) && reader[id] >= 0 && !nodes[id].InTypes[0].IsRef() {
			s.move(id, s.places[reader[id]].dev)
		}
	}
	for _, id := range s.info.Order {
		if kinds[id] == Switch || kinds[id] == Exit {
			s.move(id, s.places[nodes[id].Inputs[0].Node.ID].dev)
		}
	}
	return nil
}

// move moves a node to another device if it can run there.
func (s *splitter) move(id int32, dev int32) {
	if p := &s.places[id]; s.runs(s.g.Nodes[id], p.dev, dev) {
		p.dev = dev
	}
}

// runs reports whether a node that is placed on one device has a kernel for another.
func (s *splitter) runs(n *graph.Node, placed, dev int32) bool {
	return s.opts.Supports == nil || s.types[placed] == s.types[dev] || s.opts.Supports(n, s.types[dev])
}

// firstReaders returns, for each node, the reader of its output with the lowest ID, or -1.
func (s *splitter) firstReaders() []int32 {
	reader := make([]int32, len(s.g.Nodes))
	for id := range reader {
		reader[id] = -1
	}
	for id, node := range s.g.Nodes {
		for _, in := range node.Inputs {
			if from := in.Node.ID; reader[from] < 0 {
				reader[from] = int32(id)
			}
		}
	}
	return reader
}

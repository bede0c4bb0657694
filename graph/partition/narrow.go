package partition

import (
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// narrows reports whether an output is transferred to a memory of device dev as bfloat16.
func (s *splitter) narrows(out graph.Output, dev int32, to memory) bool {
	n := out.Node
	if n.OutTypes[out.Index].Base() != tensor.Float32 || !s.opts.Narrow && n.Attrs[graph.WireType] == nil {
		return false
	}
	if s.hosted(s.places[n.ID].dev, s.outputMemory(out)) || s.hosted(dev, to) {
		return false // the device's Cast would copy it from host memory and back
	}
	return taskOf(s.devices[s.places[n.ID].dev]) != taskOf(s.devices[dev])
}

// cast adds a node that converts a value. It rounds to nearest. TensorFlow truncates the fraction, which would make every value sent a
// little smaller.
func (s *splitter) cast(user *graph.Node, value graph.Output, from, to tensor.DType, at placed) *graph.Node {
	return s.add(user, graph.Node{
		Name: s.namer.name(user, "cast"), Op: "Cast", Attrs: graph.Attrs{"SrcT": typeAttr(from), "DstT": typeAttr(to), "Truncate": no},
		Inputs: []graph.Output{value}, InTypes: []tensor.DType{from}, OutTypes: []tensor.DType{to},
	}, at)
}

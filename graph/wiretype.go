package graph

import (
	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// WireType is the attribute that makes a node's float32 outputs travel between tasks as another type. The only one is DT_BFLOAT16, which
// halves the bytes and keeps 8 of the 24 bits of precision.
const WireType = "_wire_dtype"

// checkWireType rejects a WireType that cannot be honoured.
func checkWireType(n *Node) error {
	v, ok := n.Attrs[WireType]
	if !ok {
		return nil
	}
	t, ok := v.GetValue().(*attrpb.AttrValue_Type)
	switch {
	case !ok || tensor.FromProto(t.Type) != tensor.BFloat16:
		return status.InvalidArgumentf("Attr '%s' of {{node %s}} must be DT_BFLOAT16, not %s", WireType, n.Name, summarizeAttr(v))
	case !hasFloat32(n.OutTypes):
		return status.InvalidArgumentf("Attr '%s' of {{node %s}} says how its float outputs are sent, but it has none", WireType, n.Name)
	}
	return nil
}

func hasFloat32(types []tensor.DType) bool {
	for _, t := range types {
		if t.Base() == tensor.Float32 {
			return true
		}
	}
	return false
}

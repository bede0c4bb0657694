package devices

import (
	"maps"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// products are the ops that can take a transposed matrix, with the attributes for each of their inputs.
var products = map[string][2]string{
	"MatMul":        {"transpose_a", "transpose_b"},
	"BatchMatMulV2": {"adj_x", "adj_y"},
	"BatchMatMulV3": {"adj_x", "adj_y"},
}

// transposeProducts makes products read the original of a matrix that is only transposed for them.
func (w *wiring) transposeProducts() {
	for i := range w.nodes {
		n := &w.program.nodes[i]
		attrs, ok := products[n.graph.Op]
		if !ok || !w.pure(n) {
			continue
		}
		for slot, attr := range attrs {
			if t := w.of(n).inputs[slot].node; t != nil && w.transposes(t, n) {
				w.takeTransposed(n, slot, attr, t)
			}
		}
	}
}

// transposes reports whether a node exchanges the last two dimensions of a product's input. Batched products also conjugate complex
// matrices, so these are excluded.
func (w *wiring) transposes(t, product *node) bool {
	if t.graph.Op != "Transpose" || !w.pure(t) || t.frame != product.frame || len(w.controls(t)) > 0 ||
		product.graph.Op != "MatMul" && t.graph.OutTypes[0].IsComplex() {
		return false
	}
	perm := w.of(t).inputs[1].value
	if perm == nil || perm.Rank() != 1 || perm.Len() < 2 || product.graph.Op == "MatMul" && perm.Len() != 2 {
		return false
	}
	axes := make([]int64, perm.Len())
	switch perm.DType() {
	case tensor.Int32:
		for i, v := range tensor.Of[int32](perm) {
			axes[i] = int64(v)
		}
	case tensor.Int64:
		copy(axes, tensor.Of[int64](perm))
	}
	last := len(axes) - 1
	axes[last], axes[last-1] = axes[last-1], axes[last]
	for i, v := range axes {
		if v != int64(i) {
			return false
		}
	}
	return true
}

// takeTransposed connects an input slot of a product to the input of t. A product that cannot be changed so stays.
func (w *wiring) takeTransposed(n *node, slot int, attr string, t *node) {
	already, err := n.graph.Attrs.Bool(attr)
	if err != nil {
		return
	}
	changed := *n.graph
	changed.Attrs = maps.Clone(n.graph.Attrs)
	changed.Attrs[attr] = &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: !already}}
	def, err := kernels.Find(&changed, w.program.device.Type())
	if err != nil {
		return
	}
	k, err := def.New(&kernels.Construction{Node: &changed, Device: w.program.device})
	if err != nil {
		return
	}
	product, ok := k.(kernels.Kernel)
	if !ok {
		return
	}
	w.replace(n, &changed, product)
	w.connect(user{n, slot}, w.of(t).inputs[0])
	w.drop(t)
}

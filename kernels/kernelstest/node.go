package kernelstest

import (
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// node makes the op's node. The types of the outputs are not known here; kernels that depend
// on them need the attributes that tell.
func (o Op) node(inputs []any) (*graph.Node, error) {
	n := &graph.Node{Name: o.Name, Op: o.Type, Attrs: o.Attrs.Proto(), OutTypes: make([]tensor.DType, o.Outputs)}
	if n.Name == "" {
		n.Name = "n"
	}
	for _, in := range inputs {
		switch in := in.(type) {
		case *tensor.Tensor:
			n.InTypes = append(n.InTypes, in.DType())
		case *containers.Variable:
			n.InTypes = append(n.InTypes, in.DType().Ref())
		}
	}
	return n, nil
}

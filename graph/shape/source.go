package shape

import "github.com/troupe-run/troupe/graph/tensor"

func init() {
	table["Const"] = func(n *Node, r *Result) error {
		v, err := n.Attrs.Tensor("value")
		if err != nil {
			return err
		}
		dims, known := tensor.ShapeFromProto(v.GetTensorShape())
		r.Out[0] = Shape{dims, known}
		return nil
	}
	table["Placeholder"] = func(n *Node, r *Result) error {
		dims, known, err := n.Attrs.Shape("shape")
		if err != nil {
			return err
		}
		r.Out[0] = Shape{dims, known}
		return nil
	}
	table["Identity"] = func(n *Node, r *Result) error {
		r.Out[0] = n.In[0]
		return nil
	}
}

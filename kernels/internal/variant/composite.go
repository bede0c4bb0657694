package variant

import (
	"sync/atomic"

	protos "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Composite is what a variant scalar holds for a composite tensor: its components, and the class
// of the type that a client's type specification tells. It is not changed after it was made.
type Composite struct {
	Refs       atomic.Int32
	Class      protos.TypeSpecProto_TypeSpecClass
	Metadata   string // the specification that the class is of
	Components []*tensor.Tensor
	Depth      int // see TensorList
}

// Retain adds a reference.
func (c *Composite) Retain() { c.Refs.Add(1) }

// Release drops a reference, after the last one the components'.
func (c *Composite) Release() {
	if c.Refs.Add(-1) == 0 {
		kernels.ReleaseTensors(c.Components)
		c.Components = nil
	}
}

// nested is how deep the components go.
func (c *Composite) nested() int { return c.Depth }

package variant

import (
	"sync/atomic"

	protos "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Composite is the variant element for a composite tensor: its components, and the class of the client's type specification. It is
// immutable.
type Composite struct {
	Refs       atomic.Int32
	Class      protos.TypeSpecProto_TypeSpecClass
	Metadata   string // the specification that has the class
	Components []*tensor.Tensor
	Depth      int // see TensorList
}

// Retain adds a reference.
func (c *Composite) Retain() { c.Refs.Add(1) }

// Release releases a reference; the last one releases the components.
func (c *Composite) Release() {
	if c.Refs.Add(-1) == 0 {
		kernels.ReleaseTensors(c.Components)
		c.Components = nil
	}
}

// Nested returns the nesting depth of the components.
func (c *Composite) Nested() int { return c.Depth }

package variant

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Optional is what a variant scalar holds for TensorFlow's optional values: a tuple of tensors or
// nothing. It is not changed after it was made.
type Optional struct {
	refs  atomic.Int32
	Has   bool
	List  []*tensor.Tensor
	depth int // see TensorList
}

// Retain adds a reference.
func (o *Optional) Retain() { o.refs.Add(1) }

// Release drops a reference, after the last one the tensors'.
func (o *Optional) Release() {
	if o.refs.Add(-1) == 0 {
		kernels.ReleaseTensors(o.List)
		o.List = nil
	}
}

// nested is how deep the tensors go.
func (o *Optional) nested() int { return o.depth }

// NewOptional takes over references to the tensors.
func NewOptional(has bool, list []*tensor.Tensor) *Optional {
	o := &Optional{Has: has, List: list}
	for _, t := range list {
		o.depth = max(o.depth, Nesting(t))
	}
	o.refs.Store(1)
	return o
}

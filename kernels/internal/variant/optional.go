package variant

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Optional is the variant element of TensorFlow's optional values: a tuple of tensors or nothing. It is immutable.
type Optional struct {
	refs  atomic.Int32
	Has   bool
	List  []*tensor.Tensor
	depth int // see TensorList
}

// Retain adds a reference.
func (o *Optional) Retain() { o.refs.Add(1) }

// Release releases a reference; the last one releases the tensors.
func (o *Optional) Release() {
	if o.refs.Add(-1) == 0 {
		kernels.ReleaseTensors(o.List)
		o.List = nil
	}
}

// Nested returns the nesting depth of the tensors.
func (o *Optional) Nested() int { return o.depth }

// NewOptional returns an Optional and takes over the references to the tensors.
func NewOptional(has bool, list []*tensor.Tensor) *Optional {
	o := &Optional{Has: has, List: list}
	for _, t := range list {
		o.depth = max(o.depth, Nesting(t))
	}
	o.refs.Store(1)
	return o
}

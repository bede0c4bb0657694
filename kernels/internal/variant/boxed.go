package variant

import (
	"github.com/troupe-run/troupe/graph/tensor"
)

// Boxed is a variant element that holds a tensor.
type Boxed struct {
	T     *tensor.Tensor
	depth int // see TensorList
}

// NewBoxed returns a Boxed and takes over the reference to the tensor.
func NewBoxed(t *tensor.Tensor) Boxed { return Boxed{t, Nesting(t)} }

// Retain adds a reference to the tensor.
func (b Boxed) Retain() { b.T.Retain() }

// Release releases a reference to the tensor.
func (b Boxed) Release() { b.T.Release() }

// Nested returns the nesting depth of the tensor.
func (b Boxed) Nested() int { return b.depth }

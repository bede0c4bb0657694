package variant

import (
	"github.com/troupe-run/troupe/graph/tensor"
)

// Boxed is a variant that holds a tensor.
type Boxed struct{ T *tensor.Tensor }

// Retain adds a reference to the tensor.
func (b Boxed) Retain() { b.T.Retain() }

// Release drops a reference to the tensor.
func (b Boxed) Release() { b.T.Release() }

func (b Boxed) nested() int { return Nesting(b.T) }

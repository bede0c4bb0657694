// Package shape infers the shapes of the outputs of operations before anything runs.
//
// A shape may be known fully, partly or not at all. Infer looks an op up in a table of functions, one for each op, which check the shapes
// of the op's inputs and derive those of its outputs. A graph builder uses it to report a mistake at the line that made it. The rules are
// those of TensorFlow's ops.
package shape

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Shape is what is known about a tensor's shape. The zero Shape is fully unknown.
type Shape struct {
	dims  tensor.Shape // sizes; -1 is unknown
	known bool         // whether the rank is known
}

// Of returns a shape of known rank. A size of -1 is unknown.
func Of(dims ...int64) Shape { return Shape{dims, true} }

// Scalar returns the shape of a tensor with one element and no dimensions.
func Scalar() Shape { return Shape{known: true} }

// Unknown returns a shape of unknown rank.
func Unknown() Shape { return Shape{} }

// UnknownOf returns a shape of which only the rank is known.
func UnknownOf(rank int) Shape {
	dims := make(tensor.Shape, rank)
	for i := range dims {
		dims[i] = -1
	}
	return Shape{dims, true}
}

// HasRank reports whether the number of dimensions is known.
func (s Shape) HasRank() bool { return s.known }

// Rank returns the number of dimensions, or -1 if it is unknown.
func (s Shape) Rank() int {
	if !s.known {
		return -1
	}
	return len(s.dims)
}

// Dim returns the size of a dimension, or -1 if it is unknown. A negative i counts from the end.
func (s Shape) Dim(i int) int64 {
	if !s.known {
		return -1
	}
	if i < 0 {
		i += len(s.dims)
	}
	return s.dims[i]
}

// Dims returns the sizes, with -1 for unknown ones, and whether the rank is known.
func (s Shape) Dims() (dims tensor.Shape, known bool) { return s.dims.Clone(), s.known }

// Full reports whether the rank and all sizes are known.
func (s Shape) Full() bool {
	for _, d := range s.dims {
		if d < 0 {
			return false
		}
	}
	return s.known
}

// String returns, for example, [2,?] for a partly known shape, and <unknown> for one of unknown rank.
func (s Shape) String() string {
	if !s.known {
		return "<unknown>"
	}
	return s.dims.String()
}

// Merge combines what two shapes say about the same tensor. It is INVALID_ARGUMENT if they contradict each other.
func (s Shape) Merge(t Shape) (Shape, error) {
	if !s.known {
		return t, nil
	}
	if !t.known {
		return s, nil
	}
	if len(s.dims) != len(t.dims) {
		return Shape{}, status.InvalidArgumentf("Shapes must be equal rank, but are %d and %d: %v and %v", len(s.dims), len(t.dims), s, t)
	}
	out := s.dims.Clone()
	for i, d := range t.dims {
		switch {
		case out[i] < 0:
			out[i] = d
		case d >= 0 && d != out[i]:
			return Shape{}, status.InvalidArgumentf("Dimension %d in both shapes must be equal, but are %d and %d. Shapes are %v and %v.", i, out[i], d, s, t)
		}
	}
	return Shape{out, true}, nil
}

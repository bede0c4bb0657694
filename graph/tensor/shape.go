package tensor

import (
	"math"
	"slices"
	"strconv"
	"strings"

	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

// MaxRank is the maximum number of dimensions of a tensor (TensorShape::MaxDimensions).
const MaxRank = 254

// Shape lists the sizes of a tensor's dimensions, outermost first. A tensor's own shape is fully known; in a node's attributes, -1 stands
// for an unknown size.
type Shape []int64

// NumElements returns the product of the dimensions, or an INVALID_ARGUMENT error if one is negative or the product does not fit into 63
// bits. A scalar has one element.
func (s Shape) NumElements() (int64, error) {
	if len(s) > MaxRank {
		return 0, status.InvalidArgumentf("Shape has %d dimensions, the limit is %d", len(s), MaxRank)
	}
	n := int64(1)
	for _, d := range s {
		if d < 0 {
			return 0, status.InvalidArgumentf("Shape %v has a negative dimension", s)
		}
		if d != 0 && n > math.MaxInt64/d {
			return 0, status.InvalidArgumentf("Encountered overflow when multiplying %d with %d: shape %v would have more than 2**63 - 1 elements", n, d, s)
		}
		n *= d
	}
	return n, nil
}

// Elements is NumElements for a shape that is known to be valid, such as a tensor's.
func (s Shape) Elements() int {
	n := 1
	for _, d := range s {
		n *= int(d)
	}
	return n
}

// Equal reports whether both shapes have the same rank and sizes.
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }

// Clone returns a copy that shares nothing with s.
func (s Shape) Clone() Shape { return slices.Clone(s) }

// String formats the shape as TensorFlow's messages do: [2,3], [] for a scalar, ? for unknown sizes.
func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		if d < 0 {
			b.WriteByte('?')
		} else {
			b.WriteString(strconv.FormatInt(d, 10))
		}
	}
	b.WriteByte(']')
	return b.String()
}

// Proto returns the shape as a tensorflow.TensorShapeProto.
func (s Shape) Proto() *shapepb.TensorShapeProto {
	p := &shapepb.TensorShapeProto{Dim: make([]*shapepb.TensorShapeProto_Dim, len(s))}
	for i, d := range s {
		p.Dim[i] = &shapepb.TensorShapeProto_Dim{Size: d}
	}
	return p
}

// ShapeFromProto decodes a shape. known is false for unknown rank and for a nil p.
func ShapeFromProto(p *shapepb.TensorShapeProto) (s Shape, known bool) {
	if p == nil || p.UnknownRank {
		return nil, false
	}
	return dimsOf(p), true
}

// dimsOf returns the sizes in a shape's message.
func dimsOf(p *shapepb.TensorShapeProto) Shape {
	s := make(Shape, len(p.GetDim()))
	for i, d := range p.GetDim() {
		s[i] = d.Size
	}
	return s
}

// Compatible reports whether a tensor of shape s fits the partly known shape want: the ranks are equal, and each size is equal unless
// want's is negative.
func (s Shape) Compatible(want Shape) bool {
	if len(s) != len(want) {
		return false
	}
	for i, d := range want {
		if d >= 0 && d != s[i] {
			return false
		}
	}
	return true
}

package shape

import (
	"github.com/troupe-run/troupe/graph/tensor"
)

// value returns an input's value if it is known.
func (c *call) value(i int) *tensor.Tensor {
	if i < 0 {
		i += len(c.In)
	}
	if i < 0 || i >= len(c.In) {
		return nil
	}
	if c.asked == nil {
		c.asked = make([]bool, len(c.In))
	}
	c.asked[i] = true
	if c.Value == nil {
		return nil
	}
	return c.Value(i)
}

// ints returns an input's value as integers, if it is known and they are integers.
func (c *call) ints(i int) ([]int64, bool) {
	if i < 0 {
		i += len(c.In)
	}
	c.value(i) // record that the value was used
	return c.known(i)
}

func (c *call) known(i int) ([]int64, bool) {
	if i < 0 || i >= len(c.In) {
		return nil, false
	}
	if c.Value != nil {
		if t := c.Value(i); t != nil {
			return integers(t)
		}
	}
	p := c.partial(i)
	return p.dims, p.Full()
}

// partial is Partial for any input.
func (c *call) partial(i int) Shape {
	if c.Partial == nil || i < 0 || i >= len(c.In) {
		return Shape{}
	}
	return c.Partial(i)
}

// scalarInt returns the value of a scalar input; ok is false if it is unknown. A non-scalar is an error.
func (c *call) scalarInt(i int) (v int64, ok bool) {
	if c.scalarError(i) {
		return 0, false
	}
	v64, ok := c.ints(i)
	if !ok || len(v64) != 1 {
		return 0, false
	}
	return v64[0], true
}

func (c *call) scalarError(i int) bool {
	s := c.in(i)
	if t := c.value(i); t != nil {
		s = Shape{t.Shape(), true}
	}
	if s.known && len(s.dims) != 0 {
		if _, ok := c.ints(i); ok {
			c.fail("Input must be scalar but has rank %d", len(s.dims))
			return true
		}
	}
	return false
}

// dimOf returns a size given by a scalar input, or -1 if it is unknown.
func (c *call) dimOf(i int) int64 {
	v, ok := c.scalarInt(i)
	if !ok {
		return -1
	}
	if v < 0 {
		c.fail("Dimension size, given by scalar input %d, must be non-negative but is %d", i, v)
		return -1
	}
	return v
}

// axisOf returns a dimension's index given by a scalar input, or -1 if it is unknown.
func (c *call) axisOf(i, rank int) int64 {
	v, ok := c.scalarInt(i)
	switch {
	case !ok, v < 0 && rank < 0:
		return -1
	case rank >= 0 && (v < -int64(rank) || v >= int64(rank)):
		c.fail("Dimension size, given by scalar input %d must be in range [-%d, %d)", v, rank, rank)
		return -1
	case v < 0:
		v += int64(rank)
	}
	return v
}

// shapeOf returns the shape that is an input's value. It is fully known if the value is, otherwise as far as it follows from how the value
// was computed, otherwise only its rank, from the number of elements.
func (c *call) shapeOf(i int) Shape {
	return c.spelled(i, c.vector(i))
}

// shapeOrUnknown is shapeOf for ops that accept the scalar -1 as a fully unknown shape.
func (c *call) shapeOrUnknown(i int) Shape {
	return c.spelled(i, c.atMost(c.in(i), 1))
}

func (c *call) spelled(i int, s Shape) Shape {
	t := c.value(i)
	v, ok := c.known(i)
	switch {
	case t != nil && !ok:
		c.fail("Input tensor must be int32 or int64, but was %v", t.DType())
		return Shape{}
	case ok && (t != nil && t.Rank() == 0 || t == nil && s.known && len(s.dims) == 0):
		if len(v) != 1 || v[0] != -1 {
			c.fail("Input tensor must be rank 1, or if its rank 0 it must have value -1 (representing an unknown shape).  Saw value: %v", v)
		}
		return Shape{}
	case t != nil && t.Rank() != 1:
		c.fail("Input tensor must be rank 1, but was rank %d. Saw tensor shape %v", t.Rank(), t.Shape())
		return Shape{}
	case ok:
		if len(v) > tensor.MaxRank {
			return c.unknownOf(int64(len(v)))
		}
		dims := make(tensor.Shape, len(v))
		for j, d := range v {
			if d < -1 {
				c.fail("Invalid value in tensor used for shape: %d", d)
				d = -1
			}
			dims[j] = d
		}
		return Shape{dims, true}
	}
	if s.known && len(s.dims) == 0 {
		return Shape{}
	}
	if p := c.partial(i); p.known {
		return p
	}
	return c.unknownOf(s.at(0))
}

// sizes returns what is known about the value of an input that is a vector of sizes or one size.
func (c *call) sizes(i int) Shape {
	if v, ok := c.ints(i); ok && len(v) <= tensor.MaxRank {
		dims := make(tensor.Shape, len(v))
		for j, d := range v {
			dims[j] = max(d, -1)
		}
		return Shape{dims, true}
	}
	return c.partial(i)
}

// integers returns the elements of a tensor of integers.
func integers(t *tensor.Tensor) ([]int64, bool) {
	switch t.DType() {
	case tensor.Int64:
		return tensor.Of[int64](t), true
	case tensor.Int32:
		return widen(tensor.Of[int32](t)), true
	case tensor.Int16:
		return widen(tensor.Of[int16](t)), true
	case tensor.Int8:
		return widen(tensor.Of[int8](t)), true
	case tensor.Uint8:
		return widen(tensor.Of[uint8](t)), true
	case tensor.Uint16:
		return widen(tensor.Of[uint16](t)), true
	case tensor.Uint32:
		return widen(tensor.Of[uint32](t)), true
	}
	return nil, false
}

func widen[T int8 | int16 | int32 | uint8 | uint16 | uint32](v []T) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

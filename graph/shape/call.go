package shape

import (
	"math"
	"math/bits"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// call is one run of a rule. Its AttrReader keeps the first error, of attributes and of shapes. After an error, methods still return values
// of the form that the rule expects, so rules need no checks of their own and cannot fail on missing inputs.
type call struct {
	*Node
	graph.AttrReader
	r     *Result
	asked []bool // inputs whose values the rule asked for
}

func newCall(n *Node, r *Result) *call { return &call{Node: n, AttrReader: n.Attrs.Reader(), r: r} }

// fail is Failf, under the name that the rules use.
func (c *call) fail(format string, args ...any) { c.Failf(format, args...) }

// in returns the shape of an input; a negative i counts from the end.
func (c *call) in(i int) Shape {
	if i < 0 {
		i += len(c.In)
	}
	if i < 0 || i >= len(c.In) {
		c.fail("%s has %d inputs, more are needed", c.Op, len(c.In))
		return Shape{}
	}
	return c.In[i]
}

// set sets the shape of an output. Outputs that the node does not have are ignored, because an op on references and its variant for
// resources share a rule.
func (c *call) set(i int, s Shape) {
	if i >= 0 && i < len(c.r.Out) {
		c.r.Out[i] = s
	}
}

// setAll sets the shape of all outputs.
func (c *call) setAll(s Shape) {
	for i := range c.r.Out {
		c.r.Out[i] = s
	}
}

// handles returns what an input's handle refers to, or nil if that is unknown.
func (c *call) handles(i int) []Handle {
	if c.Handles == nil || i < 0 || i >= len(c.In) {
		return nil
	}
	return c.Handles(i)
}

func (c *call) setHandles(i int, h []Handle) {
	if len(h) == 0 || i >= len(c.r.Out) {
		return
	}
	if c.r.Handles == nil {
		c.r.Handles = map[int][]Handle{}
	}
	c.r.Handles[i] = h
}

func (c *call) setValue(i int, s Shape) {
	if !s.known || len(s.dims) > tensor.MaxRank {
		return
	}
	if c.r.Values == nil {
		c.r.Values = map[int]Shape{}
	}
	c.r.Values[i] = s
}

// at returns the size of a dimension, or -1 if it is unknown; a negative i counts from the end.
func (s Shape) at(i int) int64 {
	if i < 0 {
		i += len(s.dims)
	}
	if !s.known || i < 0 || i >= len(s.dims) {
		return -1
	}
	return s.dims[i]
}

// is checks that a shape has the given rank.
func (c *call) is(s Shape, rank int) Shape {
	switch {
	case !s.known:
		return c.unknownOf(int64(rank))
	case len(s.dims) != rank:
		c.fail("Shape must be rank %d but is rank %d", rank, len(s.dims))
		return c.unknownOf(int64(rank))
	}
	return s
}

func (c *call) atLeast(s Shape, rank int) Shape {
	if s.known && len(s.dims) < rank {
		c.fail("Shape must be at least rank %d but is rank %d", rank, len(s.dims))
		return c.unknownOf(int64(rank))
	}
	return s
}

func (c *call) atMost(s Shape, rank int) Shape {
	if s.known && len(s.dims) > rank {
		c.fail("Shape must be at most rank %d but is rank %d", rank, len(s.dims))
		return Shape{}
	}
	return s
}

func (c *call) scalar(i int) Shape { return c.is(c.in(i), 0) }
func (c *call) vector(i int) Shape { return c.is(c.in(i), 1) }
func (c *call) matrix(i int) Shape { return c.is(c.in(i), 2) }

// unknownOf is UnknownOf for a rank given by a node; a rank above the limit is an error.
func (c *call) unknownOf(rank int64) Shape {
	if rank > tensor.MaxRank || rank < -1 {
		c.fail("A tensor cannot have %d dimensions, the limit is %d", rank, tensor.MaxRank)
		return Shape{}
	}
	if rank < 0 {
		return Shape{}
	}
	return UnknownOf(int(rank))
}

// merge is Merge, with the error recorded.
func (c *call) merge(s, t Shape) Shape {
	m, err := s.Merge(t)
	if err != nil {
		c.Fail(err)
		return s
	}
	return m
}

// mergePrefix merges prefix with the first dimensions of s, and returns both.
func (c *call) mergePrefix(s, prefix Shape) (Shape, Shape) {
	if !s.known || !prefix.known {
		return s, prefix
	}
	rank := len(prefix.dims)
	s = c.atLeast(s, rank)
	if len(s.dims) < rank {
		return s, prefix
	}
	dims := s.dims.Clone()
	for i := range prefix.dims {
		dims[i] = c.equal(dims[i], prefix.dims[i])
	}
	return Shape{dims, true}, Shape{dims[:rank:rank], true}
}

// equal checks that two sizes are equal, and returns the common size as far as it is known.
func (c *call) equal(a, b int64) int64 {
	switch {
	case b < 0:
		return a
	case a < 0 || a == b:
		return b
	}
	c.fail("Dimensions must be equal, but are %d and %d", a, b)
	return a
}

// size checks that d is want.
func (c *call) size(d, want int64) int64 {
	if d >= 0 && d != want {
		c.fail("Dimension must be %d but is %d", want, d)
	}
	return want
}

// sub returns the dimensions from start to end; negative values count from the end. An end beyond the rank means the rank.
func (c *call) sub(s Shape, start, end int) Shape {
	if !s.known {
		if start == 0 && end == math.MaxInt {
			return s
		}
		return Shape{}
	}
	rank := len(s.dims)
	from, to := min(start, rank), min(end, rank)
	if from < 0 {
		from += rank
	}
	if to < 0 {
		to += rank
	}
	switch {
	case from < 0:
		c.fail("Subshape start out of bounds: %d, for shape with rank %d", start, rank)
	case to < 0:
		c.fail("Subshape end out of bounds: %d, for shape with rank %d", end, rank)
	case from > to:
		c.fail("Subshape must have computed start <= end, but is %d and %d (computed from start %d and end %d over shape with rank %d)", from, to, start, end, rank)
	default:
		return Shape{s.dims[from:to:to], true}
	}
	return Shape{}
}

// from returns the dimensions from start on.
func (c *call) from(s Shape, start int) Shape { return c.sub(s, start, math.MaxInt) }

// join returns the concatenation of the dimensions of all shapes, unknown if one is.
func join(all ...Shape) Shape {
	var dims tensor.Shape
	for _, s := range all {
		if !s.known {
			return Shape{}
		}
		dims = append(dims, s.dims...)
	}
	return Shape{dims, true}
}

// with replaces a dimension; a negative i counts from the end.
func (c *call) with(s Shape, i int, d int64) Shape {
	if !s.known {
		return s
	}
	at := i
	if at < 0 {
		at += len(s.dims)
	}
	if at < 0 || at >= len(s.dims) {
		c.fail("Out of range dim_index %d for shape with %d dimensions", i, len(s.dims))
		return s
	}
	dims := s.dims.Clone()
	dims[at] = d
	return Shape{dims, true}
}

// elements returns the number of elements, or -1 if it is unknown.
func (c *call) elements(s Shape) int64 {
	if !s.known {
		return -1
	}
	n, unknown := int64(1), false
	for _, d := range s.dims {
		switch {
		case d == 0:
			return 0
		case d < 0:
			unknown = true
		default:
			n = c.mul(n, d)
		}
	}
	if unknown {
		return -1
	}
	return n
}

func (c *call) add(a, b int64) int64 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	case a < 0 || b < 0:
		return -1
	case a > math.MaxInt64-b:
		c.fail("Dimension size overflow from adding %d and %d", a, b)
		return -1
	}
	return a + b
}

func (c *call) minus(a, b int64) int64 {
	switch {
	case b == 0:
		return a
	case a < 0 || b < 0:
		return -1
	case a < b:
		c.fail("Negative dimension size caused by subtracting %d from %d", b, a)
		return -1
	}
	return a - b
}

func (c *call) mul(a, b int64) int64 {
	switch {
	case a == 0 || b == 0:
		return 0
	case a == 1:
		return b
	case b == 1:
		return a
	case a < 0 || b < 0:
		return -1
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		c.fail("Negative dimension size caused by overflow when multiplying %d and %d", a, b)
		return -1
	}
	return int64(lo)
}

// div returns a/b. If evenly is set, the division must leave no remainder.
func (c *call) div(a, b int64, evenly bool) int64 {
	switch {
	case b == 1:
		return a
	case a < 0:
		return -1
	case b <= 0:
		c.fail("Divisor must be positive but is %d", b)
		return -1
	case evenly && a%b != 0:
		c.fail("Dimension size must be evenly divisible by %d but is %d", b, a)
	}
	return a / b
}

// least returns the smaller of two sizes.
func least(a, b int64) int64 {
	switch {
	case a == 0 || b == 0:
		return 0
	case a < 0 || b < 0:
		return -1
	}
	return min(a, b)
}

// broadcast returns the shape to which both are broadcast, by numpy's rules.
func (c *call) broadcast(x, y Shape) Shape {
	if !x.known || !y.known {
		return Shape{}
	}
	rank := max(len(x.dims), len(y.dims))
	dims := make(tensor.Shape, rank)
	for i := range dims {
		a, b := int64(1), int64(1)
		if j := i - rank + len(x.dims); j >= 0 {
			a = x.dims[j]
		}
		if j := i - rank + len(y.dims); j >= 0 {
			b = y.dims[j]
		}
		switch {
		case a == 1:
			dims[i] = b
		case b == 1:
			dims[i] = a
		default:
			// An unknown size can only be 1 or equal to the other one; next to 0 it stays unknown.
			if (a < 0 && b == 0) || (b < 0 && a == 0) {
				dims[i] = -1
			} else {
				dims[i] = c.equal(a, b)
			}
		}
	}
	return Shape{dims, true}
}

package shape

import "github.com/troupe-run/troupe/graph/tensor"

var sliceOps = []row{
	{"Slice", slice},
	{"StridedSlice", stridedSlice},
	{"StridedSliceAssign TensorStridedSliceUpdate", unchanged},
	{"ResourceStridedSliceAssign", noOutputs},
	{"Split", split},
	{"SplitV", splitV},
	{"Reverse", func(c *call) {
		in := c.in(0)
		if n := c.vector(1).at(0); n >= 0 {
			if n > tensor.MaxRank {
				c.unknownOf(n)
				return
			}
			in = c.is(in, int(n))
		}
		c.set(0, c.reversible(in))
	}},
	{"ReverseV2", reverseV2},
	{"ReverseSequence", reverseSequence},
}

func slice(c *call) {
	in := c.in(0)
	n := c.merge(c.vector(1), c.vector(2)).at(0)
	if n >= 0 {
		if n > tensor.MaxRank {
			c.unknownOf(n)
			return
		}
		in = c.is(in, int(n))
	}
	sizes, ok := c.ints(2)
	if !ok {
		begin, partial := c.beginOf(1), c.shapeOf(2)
		switch {
		case partial.known:
			c.is(begin, len(partial.dims))
			c.set(0, partial)
		case in.known:
			c.set(0, UnknownOf(len(in.dims)))
		}
		return
	}
	begin := c.beginOf(1)
	if len(sizes) > tensor.MaxRank {
		c.unknownOf(int64(len(sizes)))
		return
	}
	begin = c.is(begin, len(sizes))
	dims := make(tensor.Shape, len(sizes))
	for i, d := range sizes {
		switch {
		case d < -1:
			c.fail("Out of bounds slicing on dimension %d of length %d: sizes vector cannot be < -1, but was %d", i, in.at(i), d)
		case d == -1:
			dims[i] = c.minus(in.at(i), begin.at(i))
		default:
			dims[i] = d
		}
	}
	c.set(0, Shape{dims, true})
	if v := c.sizes(0); v.known && len(dims) == 1 && begin.at(0) >= 0 && begin.at(0) <= int64(len(v.dims)) && dims[0] >= 0 && dims[0] <= int64(len(v.dims))-begin.at(0) {
		c.setValue(0, Shape{v.dims[begin.at(0) : begin.at(0)+dims[0]], true})
	}
}

// beginOf returns the start of a slice, which TensorFlow reads like a shape.
func (c *call) beginOf(i int) Shape { return c.shapeOf(i) }

func split(c *call) {
	in := c.in(1)
	axis := c.axisOf(0, in.Rank())
	if axis < 0 {
		c.setAll(c.unknownOf(int64(in.Rank())))
		return
	}
	if axis >= tensor.MaxRank {
		c.unknownOf(axis + 1)
		return
	}
	in = c.atLeast(in, int(axis)+1)
	d := in.at(int(axis))
	if n := int64(len(c.Out)); n > 0 && d >= 0 && d%n != 0 {
		c.fail("Number of ways to split should evenly divide the split dimension: Dimension size must be evenly divisible by %d but is %d", n, d)
		return
	}
	c.setAll(c.with(in, int(axis), c.div(d, int64(len(c.Out)), true)))
}

func splitV(c *call) {
	in := c.in(0)
	axis := c.axisOf(2, in.Rank())
	sizes, ok := c.ints(1)
	switch {
	case !in.known:
		return
	case len(in.dims) == 0:
		c.fail("Can't split scalars")
		return
	case axis < 0:
		c.setAll(UnknownOf(len(in.dims)))
		return
	case !ok:
		c.setAll(c.with(in, int(axis), -1))
		return
	case len(sizes) != len(c.Out):
		c.fail("Length of size_splits should be equal to num_outputs, but they are %d and %d", len(sizes), len(c.Out))
		return
	}
	whole := in.at(int(axis))
	total, rest := int64(0), false
	for _, n := range sizes {
		switch {
		case n == -1 && rest:
			c.fail("size_splits can only have one -1")
		case n == -1:
			rest = true
		case n < 0:
		default:
			total = c.add(total, n)
		}
	}
	for i, n := range sizes {
		if n == -1 && whole >= 0 {
			n = whole - total
		}
		if n < -1 || n == -1 && whole >= 0 {
			c.fail("Split size at index %d must be >= 0. Got: %d", i, n)
			return
		}
		c.set(i, c.with(in, int(axis), n))
	}
	if whole >= 0 && (rest && total > whole || !rest && total != whole) {
		c.fail("can't split axis of size %d into pieces of size %v", whole, sizes)
	}
}

// reversible checks that s has at most 8 dimensions.
func (c *call) reversible(s Shape) Shape {
	if len(s.dims) > 8 {
		c.fail("reverse does not work on tensors with more than 8 dimensions")
	}
	return s
}

func reverseV2(c *call) {
	in := c.reversible(c.in(0))
	c.vector(1)
	if axes, ok := c.ints(1); ok && in.known {
		rank := int64(len(in.dims))
		seen := make([]bool, rank)
		for i, a := range axes {
			if a < -rank || a >= rank {
				c.fail("'axis'[%d] = %d is out of valid range [0, %d]", i, a, rank-1)
				return
			}
			at := (a + rank) % rank
			if seen[at] {
				c.fail("axis %d specified more than once.", at)
			}
			seen[at] = true
		}
	}
	c.set(0, in)
}

func reverseSequence(c *call) {
	in, lens := c.in(0), c.vector(1)
	seq, batch := c.Int("seq_dim"), c.Int("batch_dim")
	if !in.known {
		return
	}
	rank := int64(len(in.dims))
	switch {
	case batch >= rank:
		c.fail("batch_dim must be < input rank: %d vs. %d", batch, rank)
	case seq >= rank:
		c.fail("seq_dim must be < input rank: %d vs. %d", seq, rank)
	case batch < 0:
		c.fail("batch_dim must be >=0, got %d", batch)
	default:
		c.set(0, c.with(in, int(batch), c.equal(in.at(int(batch)), lens.at(0))))
	}
}

package shape

import "github.com/troupe-run/troupe/graph/tensor"

var reduceOps = []row{
	{"All Any EuclideanNorm Max Mean Min Sum", reduction},
	{"Prod", product},
	{"ArgMax ArgMin", argument},
	{"Bincount", func(c *call) {
		c.scalar(1)
		c.set(0, Of(c.bins(1)))
	}},
	{"DenseBincount", func(c *call) {
		in := c.atMost(c.in(0), 2)
		c.scalar(1)
		n := c.bins(1)
		switch {
		case n < 0:
			c.set(0, c.unknownOf(int64(in.Rank())))
		case len(in.dims) == 2:
			c.set(0, Of(in.at(0), n))
		case in.known:
			c.set(0, Of(n))
		}
	}},
	{"SparseBincount", func(c *call) {
		n := c.bins(3)
		shape, ok := c.ints(2)
		switch {
		case n < 0 || !ok:
		case len(shape) == 1:
			c.set(0, Of(n))
		case len(shape) == 2:
			c.set(0, Of(max(shape[0], -1), n))
		default:
			c.fail("Input must be less than rank 2, its shape has %d sizes", len(shape))
		}
	}},
	{"RaggedBincount", unknown},
	{"L2Loss", scalarOut},
}

// reduction is for ops that reduce the dimensions given by the second input.
func reduction(c *call) {
	in := c.in(0)
	c.atMost(c.in(1), 1)
	keep := c.Bool("keep_dims")
	axes, ok := c.ints(1)
	if !in.known || !ok {
		if keep && in.known {
			c.set(0, UnknownOf(len(in.dims)))
		}
		return
	}
	rank := int64(len(in.dims))
	gone := make([]bool, rank)
	for _, a := range axes {
		if a < -rank || a >= rank {
			c.fail("Invalid reduction dimension %d for input with %d dimensions.", a, rank)
			return
		}
		gone[(a+rank)%max(rank, 1)] = true
	}
	dims := tensor.Shape{}
	for i, d := range in.dims {
		switch {
		case !gone[i]:
			dims = append(dims, d)
		case keep:
			dims = append(dims, 1)
		}
	}
	c.set(0, Shape{dims, true})
}

// product is the reduction with which programs compute numbers of elements.
func product(c *call) {
	reduction(c)
	t := outType(c)
	if s := c.sizes(0); s.known && c.in(0).Rank() == 1 && len(c.r.Out) > 0 && c.r.Out[0].Rank() == 0 && (t == tensor.Int32 || t == tensor.Int64) {
		probe := newCall(c.Node, &Result{})
		if n := probe.elements(s); probe.Err() == nil && (t == tensor.Int64 || n == int64(int32(n))) {
			c.setValue(0, Of(n))
		}
	}
}

func argument(c *call) {
	c.scalar(1)
	in := c.in(0)
	rank := int64(len(in.dims))
	switch {
	case !in.known:
		return
	case rank <= 1:
		c.set(0, Scalar())
		return
	}
	axis, ok := c.scalarInt(1)
	if !ok {
		c.set(0, UnknownOf(int(rank-1)))
		return
	}
	if axis < -rank || axis >= rank {
		c.fail("Dimension (%d) must be in the range [-%d, %d), where %d is the number of dimensions in the input.", axis, rank, rank, rank)
		return
	}
	i := int((axis + rank) % rank)
	c.set(0, join(c.sub(in, 0, i), c.from(in, i+1)))
}

// bins returns the number of bins given by an input, or -1 if it is unknown.
func (c *call) bins(i int) int64 {
	t := c.value(i)
	if t != nil && t.Rank() != 0 {
		c.fail("Shape must be rank 0 but is rank %d", t.Rank())
		return -1
	}
	n, ok := c.scalarInt(i)
	if ok && n < 0 {
		c.fail("size (%d) must be non-negative", n)
		return -1
	}
	return orUnknown(n, ok)
}

package shape

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// joiningOps combine tensors and split them.
var joiningOps = []row{
	{"Pack", pack},
	{"Unpack", unpack},
	{"Concat", func(c *call) { c.concat(1, len(c.In), 0) }},
	{"ConcatV2", func(c *call) { c.concat(0, len(c.In)-1, len(c.In)-1) }},
	{"ConcatOffset", func(c *call) {
		for i := 1; i < len(c.In); i++ {
			c.set(i-1, c.in(i))
		}
	}},
	{"ParallelConcat", parallelConcat},
}

// packAxis returns the axis attribute, for a shape of the given rank after packing.
func (c *call) packAxis(rank int) int {
	axis := c.Int("axis")
	if axis < -int64(rank) || axis >= int64(rank) {
		c.fail("Invalid axis: %d; must be in [%d,%d)", axis, -rank, rank)
		return 0
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis)
}

// mergeAll merges the shapes of all inputs; ok is false if they are incompatible.
func (c *call) mergeAll() (all Shape, ok bool) {
	all = c.in(-1)
	for i := len(c.In) - 2; i >= 0; i-- {
		m, err := c.In[i].Merge(all)
		if err != nil {
			c.fail("From merging shape %d with other shapes: %v", i, err)
			return all, false
		}
		all = m
	}
	return all, true
}

func pack(c *call) {
	cur, ok := c.mergeAll()
	if !ok {
		return
	}
	if cur.known {
		axis := c.packAxis(len(cur.dims) + 1)
		c.set(0, join(c.sub(cur, 0, axis), Of(int64(len(c.In))), c.from(cur, axis)))
	}
	c.packHandles()
	if cur.known && len(cur.dims) == 0 && len(c.In) <= tensor.MaxRank {
		dims := make(tensor.Shape, len(c.In))
		for i := range dims {
			dims[i] = -1
			if v := c.sizes(i); len(v.dims) == 1 {
				dims[i] = v.dims[0]
			}
		}
		c.setValue(0, Shape{dims, true})
	}
}

// packHandles sets what all handles have in common.
func (c *call) packHandles() {
	var all []Handle
	for i := range c.In {
		h := c.handles(i)
		switch {
		case len(h) == 0:
			continue
		case all == nil:
			all = slices.Clone(h)
			continue
		case len(all) != len(h):
			return
		}
		for j := range all {
			if all[j].DType != h[j].DType {
				return
			}
			all[j].Shape = relax(all[j].Shape, h[j].Shape)
		}
	}
	c.setHandles(0, all)
}

// relax returns the shape that holds for both.
func relax(s, t Shape) Shape {
	if !s.known || !t.known || len(s.dims) != len(t.dims) {
		return Shape{}
	}
	dims := s.dims.Clone()
	for i, d := range t.dims {
		if dims[i] != d {
			dims[i] = -1
		}
	}
	return Shape{dims, true}
}

func unpack(c *call) {
	in := c.in(0)
	if !in.known {
		return
	}
	axis := c.packAxis(len(in.dims))
	c.size(in.at(axis), int64(len(c.Out)))
	if c.Err() == nil {
		c.setAll(join(c.sub(in, 0, axis), c.from(in, axis+1)))
	}
	if v := c.sizes(0); v.known && len(in.dims) == 1 && len(v.dims) == len(c.Out) {
		for i, d := range v.dims {
			c.setValue(i, Of(d))
		}
	}
}

// concat concatenates the inputs from first to end along the dimension given by input axis.
func (c *call) concat(first, end, axis int) {
	c.scalar(axis)
	if first >= end {
		c.fail("%s needs values to concatenate", c.Op)
		return
	}
	at, ok := c.ints(axis)
	if !ok || len(at) == 0 {
		for i := first; i < end; i++ {
			if s := c.in(i); s.known {
				if len(s.dims) == 0 {
					c.fail("Can't concatenate scalars (use tf.stack instead)")
				}
				for j := first; j < end; j++ {
					c.is(c.in(j), len(s.dims))
				}
				c.set(0, UnknownOf(len(s.dims)))
				return
			}
		}
		return
	}
	d := at[0]
	least := d + 1
	if d < 0 {
		least = -d
	}
	if least > tensor.MaxRank || least < 0 {
		c.fail("Cannot concatenate along dimension %d", d)
		return
	}
	var before, after Shape
	middle := int64(0)
	for i := end - 1; i >= first; i-- {
		s := c.atLeast(c.in(i), int(least))
		var rest Shape
		if d == -1 {
			rest = Scalar()
		} else {
			rest = c.from(s, int(d)+1)
		}
		b := c.sub(s, 0, int(d))
		if i == end-1 {
			before, middle, after = b, s.at(int(d)), rest
			continue
		}
		before, middle, after = c.merge(b, before), c.add(middle, s.at(int(d))), c.merge(rest, after)
	}
	c.set(0, join(before, Of(middle), after))
	c.concatValues(first, end)
}

// concatValues concatenates what is known about vectors of sizes.
func (c *call) concatValues(first, end int) {
	all := Scalar()
	for i := first; i < end; i++ {
		if c.in(i).Rank() != 1 {
			return
		}
		v := c.sizes(i)
		if !v.known {
			if c.in(i).at(0) < 0 || c.in(i).at(0) > tensor.MaxRank {
				return
			}
			v = UnknownOf(int(c.in(i).at(0)))
		}
		if all = join(all, v); len(all.dims) > tensor.MaxRank {
			return
		}
	}
	c.setValue(0, all)
}

func parallelConcat(c *call) {
	s := c.attrShape("shape")
	if !s.Full() {
		c.fail("shape attr must be fully defined.")
		return
	}
	cur := c.with(s, 0, 1)
	for i, in := range c.In {
		switch {
		case !in.Full():
			c.fail("All input shapes must be fully defined.")
		case len(in.dims) < 1:
			c.fail("The rank of all input shapes must be greater than 0, but input %d had rank 0.", i)
		case in.at(0) != 1:
			c.fail("Size of first dimension must be 1.")
		default:
			cur = c.merge(in, cur)
		}
	}
	c.set(0, s)
}

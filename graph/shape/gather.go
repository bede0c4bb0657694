package shape

import "github.com/troupe-run/troupe/graph/tensor"

var gatherOps = []row{
	{"Gather", func(c *call) {
		params := c.atLeast(c.in(0), 1)
		c.set(0, join(c.in(1), c.from(params, 1)))
	}},
	{"GatherV2", gatherV2},
	{"GatherNd ResourceGatherNd", gatherNd},
	{"ScatterNd", func(c *call) {
		indices, updates := c.atLeast(c.in(0), 1), c.atLeast(c.in(1), 1)
		c.scatterNd(indices, updates, c.shapeOf(2))
	}},
	{"ScatterNdNonAliasingAdd TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate", func(c *call) {
		out := c.atLeast(c.in(0), 1)
		c.scatterNd(c.atLeast(c.in(1), 1), c.in(2), out)
	}},
}

func gatherV2(c *call) {
	params, indices := c.atLeast(c.in(0), 1), c.in(1)
	c.scalar(2)
	batch := int(c.Int32("batch_dims"))
	axis, ok := c.scalarInt(2)
	if !ok {
		if params.known && indices.known {
			rank := int64(len(params.dims)+len(indices.dims)) - 1 - int64(batch)
			if rank < 0 {
				c.fail("batch_dims %d is more than the dimensions of params %v and indices %v", batch, params, indices)
				return
			}
			c.set(0, c.unknownOf(rank))
		}
		return
	}
	least := axis + 1
	if axis < 0 {
		least = -axis
	}
	if least < 0 || least > tensor.MaxRank {
		c.fail("axis %d is not one of a tensor of shape %v", axis, params)
		return
	}
	params = c.atLeast(params, int(least))
	if batch < -tensor.MaxRank || batch > tensor.MaxRank {
		c.fail("batch_dims %d is out of range", batch)
		return
	}
	indices = c.atLeast(indices, max(batch, -batch))
	if batch < 0 {
		batch += indices.Rank()
	}
	params = c.atLeast(params, batch+1)
	out := join(c.sub(params, 0, int(axis)), c.from(indices, batch))
	if axis != -1 {
		out = join(out, c.from(params, int(axis)+1))
	}
	c.set(0, out)
	if v := c.sizes(0); v.known && params.Rank() == 1 && indices.Rank() <= 1 {
		if at, ok := c.ints(1); ok {
			c.gatherValue(v, at)
		}
	}
}

// gatherValue sets what is known about sizes that are gathered from a vector.
func (c *call) gatherValue(v Shape, at []int64) {
	dims := tensor.Shape{}
	for _, i := range at {
		if i < 0 || i >= int64(len(v.dims)) || len(dims) == tensor.MaxRank {
			return // the op itself reports it
		}
		dims = append(dims, v.dims[i])
	}
	c.setValue(0, Shape{dims, true})
}

func gatherNd(c *call) {
	params := c.in(0)
	if h := c.variable(); h != nil {
		params = h[0].Shape
	}
	indices := c.atLeast(c.in(1), 1)
	n := indices.at(-1)
	if !params.known || n < 0 {
		return
	}
	if n > int64(len(params.dims)) {
		c.fail("indices.shape[-1] must be <= params.rank, but saw indices shape: %v and params shape: %v", indices, params)
		return
	}
	c.set(0, join(c.sub(indices, 0, -1), c.from(params, int(n))))
}

// scatterNd checks that updates fit the slices of a tensor that indices select, and sets the output to the tensor's shape.
func (c *call) scatterNd(indices, updates, of Shape) {
	n, u, o := newCall(c.Node, nil).count(indices), newCall(c.Node, nil).count(updates), newCall(c.Node, nil).count(of)
	if o == 0 && (n > 0 || u > 0) {
		c.fail("Indices and updates specified for empty input: indices %v, updates %v, input %v", indices, updates, of)
		return
	}
	if ix := indices.at(-1); indices.known && updates.known && len(updates.dims) != 0 && ix >= 0 {
		outer := len(indices.dims) - 1
		a, b := c.sub(indices, 0, outer), c.sub(updates, 0, outer)
		if _, err := a.Merge(b); err != nil {
			c.fail("Dimensions [0,%d) of indices[shape=%v] = %v must match dimensions [0,%d) of updates[shape=%v] = %v: %v", outer, indices, a, outer, updates, b, err)
		}
		if ix > tensor.MaxRank {
			ix = tensor.MaxRank
		}
		a, b = c.from(of, int(ix)), c.from(updates, outer)
		if _, err := a.Merge(b); err != nil {
			c.fail("Dimensions [%d,%d) of input[shape=%v] = %v must match dimensions [%d,%d) of updates[shape=%v] = %v: %v", ix, of.Rank(), of, a, outer, len(updates.dims), updates, b, err)
		}
	}
	c.set(0, of)
}

// count is like elements, but returns -1 if the number overflows.
func (c *call) count(s Shape) int64 {
	n := c.elements(s)
	if c.Err() != nil {
		return -1
	}
	return n
}

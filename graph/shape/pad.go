package shape

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
)

var padOps = []row{
	{"Pad PadV2 MirrorPad", pad},
	{"MirrorPadGrad", mirrorPadGrad},
	{"SpaceToBatchND", func(c *call) {
		block, ok := c.ints(1)
		c.spaceToBatch(c.in(0), c.in(1), block, ok, 2)
	}},
	{"SpaceToBatch", func(c *call) {
		b := c.Int("block_size")
		c.spaceToBatch(c.is(c.in(0), 4), Of(2), []int64{b, b}, true, 1)
	}},
	{"BatchToSpaceND", func(c *call) {
		block, ok := c.ints(1)
		c.batchToSpace(c.in(0), c.in(1), block, ok, 2)
	}},
	{"BatchToSpace", func(c *call) {
		b := c.Int("block_size")
		c.batchToSpace(c.is(c.in(0), 4), Of(2), []int64{b, b}, true, 1)
	}},
	{"SpaceToDepth", depthToSpace(func(c *call, h, w, d, block int64) (int64, int64, int64) {
		return c.div(h, block, true), c.div(w, block, true), c.mul(d, c.mul(block, block))
	})},
	{"DepthToSpace", depthToSpace(func(c *call, h, w, d, block int64) (int64, int64, int64) {
		return c.mul(h, block), c.mul(w, block), c.div(d, c.mul(block, block), true)
	})},
}

func pad(c *call) {
	in := c.in(0)
	paddings := c.matrix(1)
	c.size(paddings.at(1), 2)
	n := paddings.at(0)
	if n > tensor.MaxRank {
		c.unknownOf(n)
		return
	}
	if n >= 0 {
		in = c.is(in, int(n))
	} else if in.known {
		n = int64(len(in.dims))
	}
	by, ok := c.ints(1)
	if !ok {
		c.set(0, c.unknownOf(n))
		return
	}
	if len(by)%2 != 0 || len(by)/2 > tensor.MaxRank || n >= 0 && int64(len(by)) != 2*n {
		c.fail("paddings has %d elements for an input of shape %v", len(by), in)
		return
	}
	in = c.is(in, len(by)/2)
	dims := make(tensor.Shape, len(by)/2)
	for i := range dims {
		dims[i] = c.add(in.at(i), c.margin(by[2*i], by[2*i+1]))
	}
	c.set(0, Shape{dims, true})
}

// margin returns what padding adds to a dimension.
func (c *call) margin(before, after int64) int64 {
	if before < 0 || after < 0 {
		c.fail("Paddings must be non-negative, but are %d and %d", before, after)
		return 0
	}
	return c.add(before, after)
}

func mirrorPadGrad(c *call) {
	paddings := c.matrix(1)
	n := paddings.at(0)
	if n < 0 {
		return
	}
	out := c.unknownOf(n)
	in := c.is(c.in(0), len(out.dims))
	c.merge(paddings, Of(n, 2))
	if by, ok := c.ints(1); ok && int64(len(by)) == 2*n && out.known {
		for i := range out.dims {
			out.dims[i] = c.minus(in.at(i), c.margin(by[2*i], by[2*i+1]))
		}
	}
	c.set(0, out)
}

// blocks checks that block is a vector of known size, that the rank of in exceeds that size, and that margins has a pair for each of
// block's elements.
func (c *call) blocks(in, block Shape, margins int) (Shape, int) {
	n := block.at(0)
	switch {
	case block.Rank() != 1:
		c.fail("block_shape must have rank 1.")
		n = -1
	case n < 0:
		c.fail("block_shape must have known size.")
	case n >= tensor.MaxRank:
		c.unknownOf(n + 1)
		n = -1
	}
	if n < 0 {
		return in, 0
	}
	in = c.atLeast(in, int(n)+1)
	c.merge(c.in(margins), Of(n, 2))
	return in, int(n)
}

func (c *call) spaceToBatch(in, blockShape Shape, block []int64, known bool, margins int) {
	c.rearrange(in, blockShape, block, known, margins, "paddings cannot be negative", c.mul,
		func(d, before, after, block int64) int64 { return c.div(c.add(c.add(d, before), after), block, true) })
}

func (c *call) batchToSpace(in, blockShape Shape, block []int64, known bool, margins int) {
	c.rearrange(in, blockShape, block, known, margins, "crops cannot be negative",
		func(batch, b int64) int64 { return c.div(batch, b, true) },
		func(d, before, after, block int64) int64 { return c.minus(c.minus(c.mul(d, block), before), after) })
}

func (c *call) rearrange(in, blockShape Shape, block []int64, known bool, margins int, negative string,
	batchOf func(batch, block int64) int64, sizeOf func(d, before, after, block int64) int64) {
	in, n := c.blocks(in, blockShape, margins)
	if c.Err() != nil {
		return
	}
	known = known && len(block) == n
	batch := in.at(0)
	for i := range n {
		switch {
		case !known:
			batch = -1
		case block[i] < 1:
			c.fail("block_shape must be positive")
			return
		case batch >= 0:
			batch = batchOf(batch, block[i])
		}
	}
	out := UnknownOf(n + 1)
	out.dims[0] = batch
	if by, ok := c.ints(margins); ok && len(by) == 2*n {
		for i := range n {
			before, after := by[2*i], by[2*i+1]
			if before < 0 || after < 0 {
				c.fail("%s", negative)
				return
			}
			if known {
				out.dims[i+1] = sizeOf(in.at(i+1), before, after, block[i])
			}
		}
	}
	c.set(0, join(out, c.from(in, n+1)))
}

func depthToSpace(sizes func(c *call, h, w, d, block int64) (int64, int64, int64)) rule {
	return func(c *call) {
		l := c.layoutOf(2)
		block := c.Int("block_size")
		in := c.is(c.in(0), l.rank)
		if block < 0 || block > math.MaxInt32 {
			c.fail("block_size must be positive, but is %d", block)
			return
		}
		h, w, d := sizes(c, in.at(l.spatial), in.at(l.spatial+1), in.at(l.channel), block)
		c.set(0, l.shape(in.at(0), d, h, w))
	}
}

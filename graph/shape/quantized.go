package shape

var quantizedOps = []row{
	{"Dequantize", func(c *call) { c.set(0, c.ranged(0, false)) }},
	{"QuantizeV2", func(c *call) {
		c.set(0, c.ranged(0, false))
		c.set(1, c.in(2))
		c.set(2, c.in(2))
	}},
	{"QuantizeAndDequantize", unchanged},
	{"QuantizeAndDequantizeV2 QuantizeAndDequantizeV4", func(c *call) { c.set(0, c.ranged(0, true)) }},
	{"QuantizeAndDequantizeV3", func(c *call) {
		in := c.ranged(0, true)
		c.scalar(3)
		c.set(0, in)
	}},
	{"QuantizeAndDequantizeV4Grad", func(c *call) {
		c.ranged(1, true)
		ends := c.merge(c.in(3), c.in(2))
		c.setAll(ends)
		c.set(0, c.merge(c.in(0), c.in(1)))
	}},
	{"FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient", unchanged},
	{"FakeQuantWithMinMaxVars", func(c *call) {
		c.set(0, c.in(0))
		c.scalar(1)
		c.scalar(2)
	}},
	{"FakeQuantWithMinMaxVarsGradient", func(c *call) {
		in := c.merge(c.in(0), c.in(1))
		c.setAll(c.merge(c.scalar(2), c.in(3)))
		c.set(0, in)
	}},
	{"FakeQuantWithMinMaxVarsPerChannel", func(c *call) {
		in, low, high := c.atLeast(c.in(0), 1), c.vector(1), c.vector(2)
		c.equal(in.at(-1), low.at(0))
		c.equal(in.at(-1), high.at(0))
		c.equal(low.at(0), high.at(0))
		c.set(0, in)
	}},
	{"FakeQuantWithMinMaxVarsPerChannelGradient", func(c *call) {
		in := c.merge(c.atMost(c.atLeast(c.in(0), 1), 4), c.in(1))
		ends := c.merge(c.in(3), c.merge(c.vector(2), Of(in.at(-1))))
		c.setAll(ends)
		c.set(0, in)
	}},
}

// ranged is the shape of an input whose range is in the next two, for all of it or, with the attribute axis, for each
// slice. like tells that the ends of the range must have one shape.
func (c *call) ranged(input int, like bool) Shape {
	in, axis := c.in(input), c.attrInt32("axis")
	if axis < -1 {
		c.fail("axis should be at least -1, got %d", axis)
		return in
	}
	rank := 1
	if axis == -1 {
		rank = 0
	}
	ends := c.is(c.in(input+1), rank)
	if like {
		ends = c.merge(c.in(input+2), ends)
	} else {
		ends = c.is(c.in(input+2), rank)
	}
	if axis != -1 {
		c.equal(ends.at(0), c.atLeast(in, axis+1).at(axis))
	}
	return in
}

package shape

var quantizedOps = []row{
	{"Dequantize", func(c *call) {
		in, _ := c.ranged(0, false)
		c.set(0, in)
	}},
	{"QuantizeDownAndShrinkRange QuantizedRelu QuantizedRelu6", alsoRanged(unchanged, 1, 3)},
	{"Requantize", alsoRanged(unchanged, 1, 5)},
	{"RequantizationRange", gives(ranks(-1, 0, 0), Scalar(), Scalar())},
	{"RequantizePerChannel", func(c *call) {
		c.vector(1)
		c.vector(2)
		alsoRanged(unchanged, 3, 5)(c)
	}},
	{"RequantizationRangePerChannel", gives(ranks(-1, 1, 1), Scalar(), Scalar())},
	{"UniformQuantize UniformDequantize UniformRequantize UniformQuantizedClipByValue", unchanged},
	{"UniformQuantizedAdd", broadcastBoth},
	{"UniformQuantizedDot", func(c *call) {
		out := c.uniformDot()
		c.scalar(2)
		c.scalar(3)
		c.channelScales(4, out)
		c.channelScales(6, out)
	}},
	{"UniformQuantizedDotHybrid", func(c *call) { c.channelScales(2, c.uniformDot()) }},
	{"UniformQuantizedConvolution UniformQuantizedConvolutionHybrid", func(c *call) {
		lhs, rhs := c.atLeast(c.in(0), 2), c.atLeast(c.in(1), 2)
		switch {
		case lhs.HasRank() && rhs.HasRank() && lhs.Rank() != rhs.Rank():
			c.fail("lhs and rhs must have same rank.")
		case lhs.HasRank():
			c.set(0, c.unknownOf(int64(lhs.Rank())))
		case rhs.HasRank():
			c.set(0, c.unknownOf(int64(rhs.Rank())))
		}
	}},
	{"QuantizedAdd", alsoRanged(broadcastBoth, 2, 6)},
	{"QuantizedMul", alsoRanged(broadcastBoth, 2, 2)},
	{"QuantizedBiasAdd", alsoRanged(biasAdd, 2, 6)},
	{"QuantizedMatMul", alsoRanged(matMul, 2, 6)},
	{"QuantizedConv2D", alsoRanged(conv2D, 2, 6)},
	{"QuantizedMaxPool", alsoRanged(func(c *call) { c.pool2D(true, true) }, 1, 3)},
	{"QuantizedAvgPool", alsoRanged(func(c *call) { c.pool2D(false, true) }, 1, 3)},
	{"QuantizedReshape", alsoRanged(reshape, 2, 4)},
	{"QuantizedConcat", func(c *call) {
		n := (len(c.In) - 1) / 3
		alsoRanged(func(c *call) { c.concat(1, n+1, 0) }, n+1, len(c.In))(c)
	}},
	{"QuantizedInstanceNorm", alsoRanged(unchangedOf(4), 1, 3)},
	{"QuantizedBatchNormWithGlobalNormalization", func(c *call) {
		x := c.is(c.in(0), 4)
		channels := x.at(3)
		for i := 3; i <= 12; i += 3 {
			channels = c.equal(channels, c.vector(i).at(0))
		}
		c.setAll(Scalar())
		c.set(0, c.with(x, 3, channels))
	}},
	{"QuantizeV2", func(c *call) {
		in, ends := c.ranged(0, false)
		c.setAll(ends)
		c.set(0, in)
	}},
	{"QuantizeAndDequantize", unchanged},
	{"QuantizeAndDequantizeV2 QuantizeAndDequantizeV4", func(c *call) {
		in, _ := c.ranged(0, true)
		c.set(0, in)
	}},
	{"QuantizeAndDequantizeV3", func(c *call) {
		in, _ := c.ranged(0, true)
		c.scalar(3)
		c.set(0, in)
	}},
	{"QuantizeAndDequantizeV4Grad", func(c *call) {
		_, ends := c.ranged(1, true)
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

// alsoRanged is a rule for quantized numbers: inputs from (inclusive) to to (exclusive) are scalars, and so are the outputs after the
// first, which are the ends of ranges.
func alsoRanged(inner rule, from, to int) rule {
	return func(c *call) {
		inner(c)
		for i := from; i < to; i++ {
			c.scalar(i)
		}
		c.set(1, Scalar())
		c.set(2, Scalar())
	}
}

// ranged returns the shape of an input, and that of the ends of its range, which are the next two inputs: one range for the whole input
// or, with the attribute axis, one for each slice. like means that both ends must have the same shape.
func (c *call) ranged(input int, like bool) (in, ends Shape) {
	in, axis := c.in(input), int(c.Int32("axis"))
	if axis < -1 {
		c.fail("axis should be at least -1, got %d", axis)
		return in, ends
	}
	rank := 1
	if axis == -1 {
		rank = 0
	}
	ends = c.is(c.in(input+1), rank)
	if like {
		ends = c.merge(c.in(input+2), ends)
	} else {
		ends = c.is(c.in(input+2), rank)
	}
	if axis != -1 {
		c.equal(ends.at(0), c.atLeast(in, axis+1).at(axis))
	}
	return in, ends
}

// uniformDot returns the shape of the product of two matrices.
func (c *call) uniformDot() Shape {
	lhs, rhs := c.matrix(0), c.matrix(1)
	c.equal(lhs.at(1), rhs.at(0))
	out := Of(lhs.at(0), rhs.at(1))
	c.set(0, out)
	return out
}

// channelScales checks the scales at input i and the zero points after them: scalars, or one for each column of the output.
func (c *call) channelScales(i int, out Shape) {
	scales, zeros := c.atMost(c.in(i), 1), c.atMost(c.in(i+1), 1)
	if !scales.known || !zeros.known {
		return
	}
	if len(scales.dims) != len(zeros.dims) {
		c.fail("scales and zero_points must have same rank.")
		return
	}
	if len(scales.dims) == 1 {
		c.equal(scales.dims[0], out.at(1))
		c.equal(zeros.dims[0], out.at(1))
	}
}

package shape

// tensorArrayOps are the ops on arrays of tensors behind a handle of two elements. The first two versions of the ops set few shapes.
var tensorArrayOps = []row{
	{"TensorArrayV3", func(c *call) {
		c.scalar(0)
		c.set(0, Of(2))
		c.set(1, Scalar())
		if s := c.attrShape("element_shape"); s.Full() || c.Bool("identical_element_shapes") {
			c.setHandles(0, []Handle{{c.Type("dtype"), s}})
		}
	}},
	{"TensorArrayGradV3", func(c *call) {
		c.pair(0)
		c.set(0, Of(2))
		c.set(1, Scalar())
		c.setHandles(0, c.handles(0))
	}},
	{"TensorArrayGradWithShape", func(c *call) {
		c.pair(0)
		c.set(0, Of(2))
		c.set(1, Scalar())
		if h := c.handles(0); len(h) > 0 {
			prefix := Shape{}
			if n := c.in(2).at(0); n >= 0 {
				prefix = c.unknownOf(n)
			}
			c.setHandles(0, []Handle{{h[0].DType, join(prefix, h[0].Shape)}})
		}
	}},
	{"TensorArrayWriteV3", func(c *call) {
		c.pair(0)
		c.scalar(1)
		c.scalar(3)
		if h := c.handles(0); len(h) > 0 {
			c.merge(h[0].Shape, c.in(2))
		}
		c.set(0, Scalar())
	}},
	{"TensorArrayReadV3", func(c *call) {
		c.pair(0)
		c.scalar(1)
		c.scalar(2)
		c.set(0, c.element())
	}},
	{"TensorArrayGatherV3", func(c *call) {
		c.pair(0)
		indices := c.vector(1)
		c.scalar(2)
		element := c.attrShape("element_shape")
		if len(c.handles(0)) > 0 {
			element = c.element()
		}
		c.set(0, join(indices, element))
	}},
	{"TensorArrayScatterV3", func(c *call) {
		c.pair(0)
		indices := c.vector(1)
		c.scalar(3)
		value, _ := c.mergePrefix(c.in(2), indices)
		if len(c.handles(0)) > 0 {
			c.merge(c.element(), c.from(value, 1))
		}
		c.set(0, Scalar())
	}},
	{"TensorArrayConcatV3", func(c *call) {
		c.pair(0)
		c.scalar(1)
		c.set(1, Of(-1))
	}},
	{"TensorArraySplitV3", func(c *call) {
		c.pair(0)
		c.vector(2)
		c.scalar(3)
		c.set(0, Scalar())
	}},
	{"TensorArraySizeV3", func(c *call) {
		c.pair(0)
		c.set(0, Scalar())
	}},
	{"TensorArray TensorArrayV2 TensorArrayGrad TensorArrayGradV2", pairOut},
	{`TensorArrayConcat TensorArrayConcatV2 TensorArrayGather TensorArrayGatherV2 TensorArrayPack TensorArrayRead
		TensorArrayReadV2`, unknown},
	{`TensorArrayScatter TensorArrayScatterV2 TensorArraySize TensorArraySizeV2 TensorArraySplit TensorArraySplitV2
		TensorArrayUnpack TensorArrayWrite TensorArrayWriteV2`, scalarOut},
	{"TensorArrayClose TensorArrayCloseV2", noOutputs},
	{"TensorArrayCloseV3", func(c *call) { c.pair(0) }},
}

// element returns the shape of the elements behind the first input's handle.
func (c *call) element() Shape {
	if h := c.handles(0); len(h) > 0 {
		return h[0].Shape
	}
	return Shape{}
}

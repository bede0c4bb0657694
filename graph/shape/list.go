package shape

// listOps are the ops on lists of tensors, which are variants.
var listOps = []row{
	{"EmptyTensorList TensorListReserve", func(c *call) { c.setList(c.shapeOrUnknown(0)) }},
	{"TensorListFromTensor", func(c *call) {
		s := c.shapeOrUnknown(1)
		c.merge(c.from(c.in(0), 1), s)
		c.setList(s)
	}},
	{"TensorListScatter TensorListScatterV2", func(c *call) { c.setList(c.shapeOrUnknown(2)) }},
	{"TensorListSplit", func(c *call) {
		in := c.atLeast(c.in(0), 1)
		c.vector(2)
		s := c.shapeOrUnknown(1)
		c.merge(join(Of(-1), c.from(in, 1)), s)
		c.setList(s)
	}},
	{"TensorListPushBack", func(c *call) { c.setList(c.listElement()) }},
	{"TensorListPushBackBatch", func(c *call) {
		_, lists := c.mergePrefix(c.atLeast(c.in(1), 1), c.vector(0))
		s := c.listElement()
		c.setList(s)
		c.set(0, lists)
	}},
	{"TensorListPopBack", func(c *call) {
		s := c.listElement()
		c.set(0, Scalar())
		c.set(1, s)
		c.setHandles(0, c.handles(0))
	}},
	{"TensorListSetItem", func(c *call) {
		s := c.listElement()
		c.merge(c.in(2), s)
		c.setList(s)
	}},
	{"TensorListGetItem", func(c *call) { c.set(0, c.merge(c.listElement(), c.shapeOrUnknown(2))) }},
	{"TensorListGather", func(c *call) { c.set(0, join(c.in(1), c.merge(c.listElement(), c.shapeOrUnknown(2)))) }},
	{"TensorListStack", func(c *call) {
		s := c.merge(c.listElement(), c.shapeOrUnknown(1))
		n := c.Int("num_elements")
		if n < -1 {
			c.fail("num_elements must be at least -1, but is %d", n)
		}
		c.set(0, join(Of(n), s))
	}},
	{"TensorListConcat", func(c *call) { c.listConcat(c.attrShape("element_shape")) }},
	{"TensorListConcatV2", func(c *call) { c.listConcat(c.shapeOrUnknown(1)) }},
	{"TensorListConcatLists", func(c *call) {
		out := c.merge(c.in(0), c.in(1))
		a, b := c.listHandle(0), c.listHandle(1)
		c.setList(c.merge(a, b))
		c.set(0, out)
	}},
	{"TensorListScatterIntoExistingList", func(c *call) {
		c.atLeast(c.in(1), 1)
		c.vector(2)
		s := c.listElement()
		c.setList(s)
	}},
	{"TensorListResize", func(c *call) {
		c.scalar(1)
		c.set(0, Scalar())
		c.setHandles(0, c.handles(0))
	}},
	{"TensorListElementShape", func(c *call) {
		if h := c.handles(0); len(h) == 1 && h[0].Shape.known {
			c.set(0, Of(int64(len(h[0].Shape.dims))))
			c.setValue(0, h[0].Shape)
		}
	}},
	{"TensorListLength", scalarOut},
}

// setList sets the output to a list of elements of the given shape.
func (c *call) setList(element Shape) {
	c.set(0, Scalar())
	c.setHandles(0, []Handle{{c.Type("element_dtype"), element}})
}

// listElement returns the element shape of the list in the first input, and checks the element type.
func (c *call) listElement() Shape { return c.listHandle(0) }

func (c *call) listHandle(i int) Shape {
	h := c.handles(i)
	if len(h) > 1 {
		c.fail("Trying to read from list with wrong variant data.")
	}
	if len(h) != 1 {
		return Shape{}
	}
	if t := c.Type("element_dtype"); t != h[0].DType {
		c.fail("Expected list with element dtype %v but got list with element dtype %v", t, h[0].DType)
	}
	return h[0].Shape
}

func (c *call) listConcat(element Shape) {
	element = c.merge(element, c.listElement())
	if element.known {
		c.set(0, join(Of(-1), c.from(element, 1)))
	}
	c.set(1, Of(-1))
}

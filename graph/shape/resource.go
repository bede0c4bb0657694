package shape

import "github.com/troupe-run/troupe/graph/tensor"

// resourceOps are the ops on variables behind handles, and on other resources that hold no tensors.
var resourceOps = []row{
	{"VarHandleOp", func(c *call) {
		c.set(0, Scalar())
		c.setHandles(0, []Handle{{c.Type("dtype"), c.attrShape("shape")}})
	}},
	{"ReadVariableOp", readVariable},
	{"_ReadVariablesOp", unknown},
	{"AssignVariableOp AssignAddVariableOp AssignSubVariableOp", assignVariable},
	{"VarIsInitializedOp MutexLock MutexV2", scalarOut},
	{"DestroyResourceOp DisableCopyOnRead ConsumeMutexLock", noOutputs},
	{"VariableShape", func(c *call) {
		h := c.handles(0)
		if len(h) == 0 {
			c.set(0, Of(-1))
			return
		}
		c.set(0, Of(int64(h[0].Shape.Rank())))
		c.setValue(0, h[0].Shape)
	}},
	{"ResourceGather", resourceGather},
	{`ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterSub
		ResourceScatterUpdate`, func(c *call) {
		if h := c.variable(); h != nil {
			c.scatterRows(h[0].Shape)
			c.sameVariants(h, 2)
		}
	}},
	{"ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate", scatterNdUpdate},
	{"ResourceCountUpTo", func(c *call) {
		h := c.handles(0)
		if len(h) == 0 {
			c.fail("Handle has no shape/type information.")
			return
		}
		if t := c.Type("T"); t != h[0].DType {
			c.fail("Data types do not match: %v and %v", t, h[0].DType)
		}
		c.set(0, c.is(h[0].Shape, 0))
	}},
}

// variable returns what the variable's handle at input 0 refers to, or nil if that is unknown. It checks the type against dtype.
func (c *call) variable() []Handle {
	h := c.handles(0)
	if len(h) == 0 {
		return nil
	}
	if t := c.Type("dtype"); t != h[0].DType {
		c.fail("Trying to read variable with wrong dtype. Expected %v got %v", h[0].DType, t)
	}
	return h
}

func readVariable(c *call) {
	if c.Has("_shape") {
		c.set(0, c.attrShape("_shape"))
		return
	}
	if h := c.variable(); h != nil {
		c.set(0, h[0].Shape)
		c.setVariants(h)
	}
}

// setVariants passes on what the variants in a variable refer to.
func (c *call) setVariants(h []Handle) {
	if h[0].DType == tensor.Variant && len(h) > 1 {
		c.setHandles(0, h[1:])
	}
}

// sameVariants checks that a value has as many tensors behind its handle as the variable.
func (c *call) sameVariants(h []Handle, value int) {
	if v := c.handles(value); h[0].DType == tensor.Variant && len(h) > 1 && len(v) > 0 && len(v) != len(h)-1 {
		c.fail("Incompatible handle variant shape_and_type size and input shape_and_type size: %d vs. %d", len(h)-1, len(v))
	}
}

func assignVariable(c *call) {
	value := c.in(1)
	if h := c.variable(); h != nil {
		c.merge(h[0].Shape, value)
		c.sameVariants(h, 1)
	}
}

func resourceGather(c *call) {
	var params Shape
	h := c.variable()
	if h != nil {
		params = h[0].Shape
	}
	batch := int(c.Int32("batch_dims"))
	if batch < 0 || batch > tensor.MaxRank {
		c.fail("batch_dims is negative (%d)", batch)
		return
	}
	params = c.atLeast(params, batch+1)
	indices := c.atLeast(c.in(1), batch)
	c.set(0, join(c.sub(params, 0, batch), c.from(indices, batch), c.from(params, batch+1)))
	if h != nil {
		c.setVariants(h)
	}
}

package shape

import "github.com/troupe-run/troupe/graph/tensor"

// controlOps are the ops of control flow and of functions.
var controlOps = []row{
	{`NoOp Abort ControlTrigger Assert _Retval _DeviceRetval DestroyResource`, noOutputs},
	{"Enter", func(c *call) {
		c.setHandles(0, c.handles(0))
		if c.Bool("is_constant") {
			c.set(0, c.in(0))
			c.setValue(0, c.sizes(0))
		}
	}},
	{"Exit NextIteration RefEnter RefExit RefNextIteration", unchanged},
	{"LoopCond", unchangedOf(0)},
	{"Switch RefSwitch _SwitchN", func(c *call) {
		c.scalar(1)
		c.setAll(c.in(0))
		for i := range c.Out {
			c.setHandles(i, c.handles(0))
			c.setValue(i, c.sizes(0))
		}
	}},
	{"Merge RefMerge", func(c *call) {
		out := c.in(0)
		for _, s := range c.In {
			out = relax(out, s)
		}
		c.set(0, out)
		c.set(1, Scalar())
	}},
	{"RefSelect", func(c *call) {
		c.scalar(0)
		first := c.in(1)
		for i := 1; i < len(c.In); i++ {
			if !c.In[i].Full() || !c.In[i].dims.Equal(first.dims) {
				return
			}
		}
		c.set(0, first)
	}},
	{"If StatelessIf Case StatelessCase", listed("output_shapes")},
	{"While StatelessWhile", func(c *call) {
		if !c.Has("output_shapes") || len(c.attrShapes("output_shapes")) == 0 {
			c.each()
			return
		}
		listed("output_shapes")(c)
	}},
	{"_While", func(c *call) { c.each() }},
	{"DeviceIndex ToBool", scalarOut},
	{"_Arg _DeviceArg", argumentOf},
	{`For PartitionedCall RemoteCall StatefulPartitionedCall _If _ListToArray _ArrayToList
		_HostRecv _HostSend _Recv _Send BatchFunction`, unknown},
	{"SymbolicGradient", symbolicGradient},
	{"Batch", func(c *call) {
		n := len(c.In)
		for i := range c.In {
			c.set(i, c.with(c.in(i), 0, -1))
		}
		c.set(n, Of(-1, 3))
		c.set(n+1, Scalar())
	}},
	{"Unbatch", func(c *call) { c.set(0, c.with(c.in(0), 0, -1)) }},
	{"UnbatchGrad", func(c *call) { c.set(0, c.unknownOf(int64(c.in(2).Rank()))) }},
}

// each sets the shape of each output to that of the corresponding input.
func (c *call) each() {
	for i := range c.Out {
		c.set(i, c.in(i))
		c.setHandles(i, c.handles(i))
	}
}

// argumentOf is the rule of a function's argument, whose shape the caller may have recorded.
func argumentOf(c *call) {
	if c.Has("_output_shapes") {
		listed("_output_shapes")(c)
		return
	}
	if t := outType(c); c.Has("_handle_shapes") && (t == tensor.Resource || t == tensor.Variant) {
		c.set(0, Scalar())
		shapes := c.TypeList("_handle_dtypes")
		var h []Handle
		for i, s := range c.attrShapes("_handle_shapes") {
			if i < len(shapes) {
				h = append(h, Handle{shapes[i], s})
			}
		}
		c.setHandles(0, h)
	}
}

func symbolicGradient(c *call) {
	if len(c.In) < len(c.Out) {
		c.fail("len(inputs) < len(outputs): %d and %d", len(c.In), len(c.Out))
		return
	}
	types := c.TypeList("Tin")
	for i := range c.Out {
		switch h := c.handles(i); {
		case i >= len(types) || types[i] != tensor.Resource:
			c.set(i, c.in(i))
		case len(h) > 0:
			c.set(i, h[0].Shape)
		}
	}
}

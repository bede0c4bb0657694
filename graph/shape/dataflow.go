package shape

var flowOps = []row{
	{"DynamicPartition", func(c *call) {
		data, partitions := c.in(0), c.in(1)
		if !partitions.known {
			return
		}
		data, partitions = c.mergePrefix(data, partitions)
		c.setAll(join(Of(-1), c.from(data, len(partitions.dims))))
	}},
	{"DynamicStitch ParallelDynamicStitch", dynamicStitch},
	{"CompositeTensorVariantFromComponents OptionalHasValue OptionalNone", scalarOut},
	{"CompositeTensorVariantToComponents", unknown},
	{"OptionalFromValue", func(c *call) {
		types := c.TypeList("Toutput_types")
		c.set(0, Scalar())
		h := make([]Handle, 0, len(c.In))
		for i, s := range c.In {
			if i < len(types) {
				h = append(h, Handle{types[i], s})
			}
		}
		c.setHandles(0, h)
	}},
	{"OptionalGetValue", func(c *call) {
		c.scalar(0)
		if len(c.attrShapes("output_shapes")) != len(c.Out) {
			c.fail("`output_shapes` must be the same length as `output_types` (%d vs. %d)", len(c.attrShapes("output_shapes")), len(c.Out))
			return
		}
		listed("output_shapes")(c)
	}},
	{"EmptyTensorMap TensorMapErase TensorMapInsert TensorMapHasKey TensorMapSize", scalarOut},
	{"TensorMapLookup TensorMapStackKeys", unknown},
	{"KMC2ChainInitialization", scalarOut},
	{"KmeansPlusPlusInitialization NearestNeighbors", unknown},
}

func dynamicStitch(c *call) {
	n := len(c.In) / 2
	all, rows, rest := true, int64(0), Shape{}
	for i := range n {
		at, ok := c.ints(i)
		all = all && ok
		indices, data := c.in(i), c.in(i+n)
		if !indices.known {
			continue
		}
		c.mergePrefix(data, indices)
		rest = c.merge(rest, c.from(data, len(indices.dims)))
		for _, j := range at {
			if j >= 0 {
				rows = max(rows, c.add(j, 1))
			}
		}
	}
	c.set(0, join(Of(orUnknown(rows, all)), rest))
}

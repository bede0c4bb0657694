package shape

// sparseOps are the ops of sparse tensors: indices [n,rank], values [n], and the shape [rank].
var sparseOps = []row{
	{"AddManySparseToTensorsMap", gives(ranks(2, 1, 1), Of(-1))},
	{"AddSparseToTensorsMap", gives(ranks(2, 1, 1), Scalar())},
	{"TakeManySparseFromTensorsMap", gives(ranks(1), Of(-1, -1), Of(-1), Of(-1))},
	{"SerializeManySparse", gives(ranks(2, 1, 1), Of(-1, 3))},
	{"SerializeSparse", gives(ranks(2, 1, 1), Of(3))},
	{"DeserializeManySparse", func(c *call) {
		c.size(c.matrix(0).at(1), 3)
		c.sparse(-1, -1)
	}},
	{"DeserializeSparse", func(c *call) {
		c.size(c.atLeast(c.in(0), 1).at(-1), 3)
		c.sparse(-1, -1)
	}},
	{"SparseConcat", sparseConcat},
	{"SparseFillEmptyRows", sparseFillEmptyRows},
	{"SparseFillEmptyRowsGrad", func(c *call) {
		c.set(0, c.vector(0))
		c.vector(1)
		c.set(1, Scalar())
	}},
	{"SparseReorder", func(c *call) {
		c.set(0, c.matrix(0))
		c.set(1, c.vector(1))
		c.vector(2)
	}},
	{"SparseReshape", func(c *call) {
		indices, shape := c.matrix(0), c.vector(2)
		c.vector(1)
		c.set(0, Of(indices.at(0), shape.at(0)))
		c.set(1, shape)
	}},
	{"SparseSlice", func(c *call) {
		c.set(0, Of(-1, c.elements(c.in(2))))
		c.set(1, Of(-1))
		c.set(2, c.in(2))
	}},
	{"SparseSliceGrad", func(c *call) { c.set(0, Of(c.matrix(1).at(0))) }},
	{"SparseSplit", func(c *call) {
		shape, n := c.in(3), len(c.Out)/3
		for i := range n {
			c.set(i, Of(-1, c.elements(shape)))
			c.set(n+i, Of(-1))
			c.set(2*n+i, shape)
		}
	}},
	{"SparseToDense", func(c *call) { c.set(0, c.shapeOf(1)) }},
}

// sparse states a sparse tensor's three outputs.
func (c *call) sparse(n, rank int64) {
	c.set(0, Of(n, rank))
	c.set(1, Of(n))
	c.set(2, Of(rank))
}

func sparseFillEmptyRows(c *call) {
	indices, values, shape := c.matrix(0), c.vector(1), c.vector(2)
	c.scalar(3)
	n := c.equal(indices.at(0), values.at(0))
	c.equal(indices.at(1), shape.at(0))
	if c.elements(shape) == 0 {
		c.fail("dense_shape must not be empty")
	}
	c.set(0, Of(-1, c.elements(shape)))
	c.set(1, Of(-1))
	c.set(2, Of(c.shapeOf(2).at(0)))
	c.set(3, Of(n))
}

func sparseConcat(c *call) {
	rows, cols, shape := int64(0), int64(-1), Shape{}
	n := len(c.In) / 3
	for i := range n {
		indices, values := c.matrix(i), c.vector(i+n)
		rows = c.add(rows, c.equal(indices.at(0), values.at(0)))
		cols = c.equal(cols, indices.at(1))
		shape = c.merge(shape, c.vector(i+2*n))
	}
	c.set(0, Of(rows, cols))
	c.set(1, Of(rows))
	c.set(2, shape)
}

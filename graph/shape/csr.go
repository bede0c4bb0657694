package shape

// csrOps are the ops on sparse matrices in compressed rows. These are variants, whose handles have the dense shape.
var csrOps = []row{
	{"DenseToCSRSparseMatrix", func(c *call) {
		dense, indices := c.between(c.in(0), 2, 3), c.matrix(1)
		if dense.known {
			c.size(indices.at(1), int64(len(dense.dims)))
		}
		c.setMatrix(dense, "T")
	}},
	{"SparseTensorToCSRSparseMatrix", func(c *call) {
		indices := c.matrix(0)
		c.equal(indices.at(0), c.vector(1).at(0))
		c.equal(indices.at(1), c.vector(2).at(0))
		c.setMatrix(c.between(c.shapeOf(2), 2, 3), "T")
	}},
	{"CSRSparseMatrixToDense", func(c *call) { c.set(0, c.sparseMatrix(0)) }},
	{"CSRSparseMatrixToSparseTensor", func(c *call) { c.sparse(-1, int64(c.sparseMatrix(0).Rank())) }},
	{"CSRSparseMatrixComponents", func(c *call) {
		c.scalar(1)
		c.setAll(Of(-1))
		c.set(0, Of(c.add(c.sparseMatrix(0).at(-2), 1)))
	}},
	{"SparseMatrixNNZ", func(c *call) { c.set(0, c.sub(c.sparseMatrix(0), 0, -2)) }},
	{"SparseMatrixTranspose", func(c *call) {
		m := c.sparseMatrix(0)
		if m.known {
			m = join(c.sub(m, 0, -2), Of(m.at(-1), m.at(-2)))
		}
		c.setMatrix(m, "type")
	}},
	{"SparseMatrixMatMul", func(c *call) {
		a, b := c.sparseMatrix(0), c.between(c.in(1), 2, 3)
		batch := c.merge(c.sub(a, 0, -2), c.sub(b, 0, -2))
		rows, columns := c.adjointProduct(a, b)
		if c.Bool("transpose_output") {
			rows, columns = columns, rows
		}
		c.set(0, join(batch, Of(rows, columns)))
	}},
	{"SparseMatrixSparseMatMul", func(c *call) {
		a, b := c.sparseMatrix(0), c.sparseMatrix(1)
		batch := c.broadcast(c.sub(a, 0, -2), c.sub(b, 0, -2))
		rows, columns := c.adjointProduct(a, b)
		c.setMatrix(join(batch, Of(rows, columns)), "type")
	}},
	{"SparseMatrixOrderingAMD", func(c *call) { c.set(0, c.sub(c.square(c.sparseMatrix(0)), 0, -1)) }},
	{"SparseMatrixSparseCholesky", func(c *call) {
		m := c.square(c.sparseMatrix(0))
		c.equal(m.at(-1), c.between(c.in(1), 1, 2).at(-1))
		c.setMatrix(m, "type")
	}},
}

// between checks that the rank is from least to most.
func (c *call) between(s Shape, least, most int) Shape { return c.atMost(c.atLeast(s, least), most) }

// sparseMatrix returns the shape of the matrix behind an input, as far as it is known.
func (c *call) sparseMatrix(i int) Shape {
	c.scalar(i)
	if h := c.handles(i); len(h) == 1 {
		return c.between(h[0].Shape, 2, 3)
	}
	return Shape{}
}

// setMatrix sets the shape of the matrix behind output 0. The attribute attr names its type.
func (c *call) setMatrix(s Shape, attr string) {
	c.set(0, Scalar())
	c.setHandles(0, []Handle{{c.Type(attr), s}})
}

// adjointProduct returns the size of the product of two matrices, which attributes may transpose.
func (c *call) adjointProduct(a, b Shape) (rows, columns int64) {
	turn := func(name string) bool {
		transpose, adjoint := c.Bool("transpose_"+name), c.Bool("adjoint_"+name)
		if transpose && adjoint {
			c.fail("Only one of adjoint_%s and transpose_%s may be true.", name, name)
		}
		return transpose || adjoint
	}
	rows, inner := a.at(-2), a.at(-1)
	if turn("a") {
		rows, inner = inner, rows
	}
	other, columns := b.at(-2), b.at(-1)
	if turn("b") {
		other, columns = columns, other
	}
	c.equal(inner, other)
	return rows, columns
}

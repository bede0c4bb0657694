package shape

import "github.com/troupe-run/troupe/graph/tensor"

// sparseOps are the ops on sparse tensors: indices [n,rank], values [n], and the shape [rank].
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
	{"DenseToDenseSetOperation", denseSets},
	{"DenseToSparseSetOperation", denseAndSparseSets},
	{"SparseToSparseSetOperation", sparseSets},
	{"SetSize", func(*call) {}},
	{"SparseAdd", func(c *call) {
		shape := c.vector(2)
		c.set(0, Of(-1, shape.at(0)))
		c.set(1, Of(-1))
		c.set(2, shape)
	}},
	{"SparseAddGrad", func(c *call) {
		c.set(0, Of(c.matrix(1).at(0)))
		c.set(1, Of(c.matrix(2).at(0)))
	}},
	{"SparseConcat", sparseConcat},
	{"SparseDenseCwiseAdd", func(c *call) { c.set(0, Of(c.matrix(0).at(0))) }},
	{"SparseDenseCwiseDiv", func(c *call) { c.set(0, Of(c.matrix(0).at(0))) }},
	{"SparseDenseCwiseMul", func(c *call) { c.set(0, Of(c.matrix(0).at(0))) }},
	{"SparseReduceMax", sparseReduce},
	{"SparseReduceSum", sparseReduce},
	{"SparseReduceMaxSparse", func(*call) {}},
	{"SparseReduceSumSparse", func(*call) {}},
	{"SparseSoftmax", func(c *call) {
		c.matrix(0)
		c.vector(2)
		c.set(0, c.vector(1))
	}},
	{"SparseSparseMaximum", gives(ranks(2, 1, 1, 2, 1, 1), Of(-1, -1), Of(-1))},
	{"SparseSparseMinimum", gives(ranks(2, 1, 1, 2, 1, 1), Of(-1, -1), Of(-1))},
	{"SparseTensorDenseAdd", func(c *call) { c.set(0, c.in(3)) }},
	{"SparseTensorDenseMatMul", func(c *call) {
		c.matrix(0)
		c.vector(1)
		a, b := c.is(c.shapeOf(2), 2), c.matrix(3)
		outer, inner := a.at(0), a.at(1)
		if c.Bool("adjoint_a") {
			outer, inner = inner, outer
		}
		rows, columns := b.at(0), b.at(1)
		if c.Bool("adjoint_b") {
			rows, columns = columns, rows
		}
		c.equal(inner, rows)
		c.set(0, Of(outer, columns))
	}},
	{"DenseCountSparseOutput", func(c *call) {
		out := c.in(0)
		if weights := c.in(1); c.elements(weights) != 0 {
			out = c.merge(weights, out)
		}
		c.sparse(-1, int64(out.Rank()))
	}},
	{"SparseCountSparseOutput", func(c *call) { c.sparse(-1, c.matrix(0).at(1)) }},
	{"RaggedCountSparseOutput", func(c *call) {
		rank := c.in(1).Rank()
		if rank >= 0 {
			rank++
		}
		c.sparse(-1, int64(rank))
	}},
	{"SparseCross SparseCrossHashed SparseCrossV2", gives(nil, Of(-1, 2), Of(-1), Of(2))},
	{"RaggedCross", raggedCross},
	{"EditDistance", editDistance},
	{"SparseFillEmptyRows", sparseFillEmptyRows},
	{"RaggedFillEmptyRows", func(c *call) {
		rows, values := c.vector(0), c.vector(1)
		c.scalar(2)
		c.scalar(3)
		c.setAll(Of(-1))
		c.set(3, Of(c.equal(rows.at(0), values.at(0))))
	}},
	{"RaggedFillEmptyRowsGrad SparseFillEmptyRowsGrad", func(c *call) {
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

// sparse sets the three outputs of a sparse tensor.
func (c *call) sparse(n, rank int64) {
	c.set(0, Of(n, rank))
	c.set(1, Of(n))
	c.set(2, Of(rank))
}

// raggedCross takes the number of rows from the row splits of ragged tensors, which are one more, and from dense tensors.
func raggedCross(c *call) {
	values, splits, sparse := len(c.TypeList("ragged_values_types")), len(c.TypeList("ragged_splits_types")), len(c.TypeList("sparse_values_types"))
	n := int(c.Int32("Nsparse"))
	if values != splits {
		c.fail("ragged values and splits must have the same length.")
	}
	if n != sparse {
		c.fail("sparse indices and values must have the same length")
	}
	ends := c.unknownOf(1)
	same := func(s Shape) {
		merged, err := ends.Merge(s)
		if err != nil {
			c.fail("inputs must all have the same batch dimension size.")
			return
		}
		ends = merged
	}
	for i := range splits {
		same(c.in(values + i))
	}
	for i := values + splits + 2*n + sparse; i < len(c.In); i++ {
		switch s := c.in(i); {
		case !s.known:
		case len(s.dims) != 2:
			c.fail("tf.ragged.cross only supports inputs with rank=2")
		case s.dims[0] >= 0:
			same(Of(c.add(s.dims[0], 1)))
		}
	}
	c.set(0, Of(-1))
	c.set(1, ends)
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

// denseSets is for ops on the rows of two dense tensors.
func denseSets(c *call) {
	a, b := c.atLeast(c.in(0), 2), c.in(1)
	rank := int64(-1)
	switch {
	case a.known:
		rank = int64(a.Rank())
		if b = c.is(b, a.Rank()); b.known {
			c.merge(c.sub(a, 0, a.Rank()-1), c.sub(b, 0, a.Rank()-1))
		}
	default:
		if b = c.atLeast(b, 2); b.known {
			rank = int64(b.Rank())
		}
	}
	c.sparse(-1, rank)
}

// sparseRank checks the inputs of a sparse tensor, from i on, and returns the rank, or -1 if it is unknown.
func (c *call) sparseRank(i int) int64 {
	indices, values, shape := c.matrix(i), c.vector(i+1), c.vector(i+2)
	if n, m := indices.at(0), values.at(0); n >= 0 && m >= 0 && n != m {
		c.fail("Number of elements in index (%d) and values (%d) do not match.", n, m)
	}
	if n, m := indices.at(1), shape.at(0); n >= 0 && m >= 0 && n != m {
		c.fail("Index rank (%d) and shape rank (%d) do not match.", n, m)
	}
	return shape.at(0)
}

func denseAndSparseSets(c *call) {
	rank := c.sparseRank(1)
	if a := c.atLeast(c.in(0), 2); a.known {
		rank = c.size(rank, int64(a.Rank()))
	}
	c.sparse(-1, rank)
}

func sparseSets(c *call) {
	a, b := c.sparseRank(0), c.sparseRank(3)
	for i, rank := range []int64{a, b} {
		if rank >= 0 && rank < 2 {
			c.fail("Input %d, expected rank >= 2, got %d.", i, rank)
			return
		}
	}
	c.sparse(-1, c.equal(a, b))
}

// sparseReduce sets the dense result of a reduction if both the shape and the axes are known.
func sparseReduce(c *call) {
	sizes, known := c.ints(2)
	axes, alsoKnown := c.ints(3)
	if !known || !alsoKnown {
		return
	}
	rank := int64(len(sizes))
	if rank > tensor.MaxRank {
		return // the kernel rejects it
	}
	if rank == 0 {
		c.fail("Number of dims in shape tensor must not be 0")
		return
	}
	reduced := make([]bool, rank)
	for _, axis := range axes {
		// As in TensorFlow, the kernel rejects axes that are out of range.
		reduced[((axis+rank)%rank+rank)%rank] = true
	}
	keep, out := c.Bool("keep_dims"), []int64{}
	for d, size := range sizes {
		switch {
		case size < -1:
			c.fail("Dimension %d of the sparse tensor must be non-negative but is %d", d, size)
			return
		case !reduced[d]:
			out = append(out, size)
		case keep:
			out = append(out, 1)
		}
	}
	c.set(0, Of(out...))
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

func editDistance(c *call) {
	for i := 0; i < 6; i += 3 {
		indices, values, shape := c.matrix(i), c.vector(i+1), c.vector(i+2)
		c.equal(indices.at(0), values.at(0))
		c.equal(indices.at(1), shape.at(0))
	}
	hypothesis, known := c.ints(2)
	truth, known2 := c.ints(5)
	if !known || !known2 {
		return
	}
	switch {
	case len(hypothesis) != len(truth):
		c.fail("Num elements of hypothesis_shape does not match truth_shape: %d vs. %d", len(hypothesis), len(truth))
		return
	case len(hypothesis) < 2:
		c.fail("Input Hypothesis SparseTensors must have rank at least 2, but hypothesis_shape rank is: %d", len(hypothesis))
		return
	}
	dims := make([]int64, len(truth)-1)
	for d := range dims {
		dims[d] = max(hypothesis[d], truth[d])
	}
	c.set(0, Of(dims...))
}

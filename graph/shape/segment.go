package shape

var segmentOps = []row{
	{"SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum", func(c *call) {
		data := c.atLeast(c.in(0), 1)
		c.vector(1)
		c.set(0, join(Of(-1), c.from(data, 1)))
	}},
	{"UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum", unsortedSegment},
	{"SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum", func(c *call) {
		data := c.atLeast(c.in(0), 1)
		c.merge(c.vector(1), c.vector(2))
		c.set(0, join(Of(-1), c.from(data, 1)))
	}},
	{"SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGrad", func(c *call) {
		data := c.atLeast(c.in(0), 1)
		c.merge(c.in(2), c.vector(1))
		c.scalar(3)
		n, ok := c.scalarInt(3)
		if ok && n < 0 {
			c.fail("Cannot specify a negative value for output_dim0: %d", n)
		}
		c.set(0, join(Of(orUnknown(n, ok)), c.from(data, 1)))
	}},
	{"SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2", func(c *call) {
		data := c.atLeast(c.in(0), 1)
		c.merge(c.in(2), c.vector(1))
		c.scalar(3)
		c.set(0, join(Of(-1), c.from(data, 1)))
		c.set(1, Of(-1))
	}},
	{"SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments SparseSegmentSumWithNumSegments", func(c *call) {
		data := c.atLeast(c.in(0), 1)
		ids, segments := c.vector(1), c.vector(2)
		c.scalar(3)
		c.merge(ids, segments)
		n, ok := c.scalarInt(3)
		if ok && n < 0 {
			c.fail("Cannot specify a negative value for num_segments: %d", n)
		}
		c.set(0, join(Of(orUnknown(n, ok)), c.from(data, 1)))
	}},
}

func unsortedSegment(c *call) {
	data, ids := c.in(0), c.in(1)
	c.scalar(2)
	if !ids.known {
		return
	}
	data, ids = c.mergePrefix(data, ids)
	c.set(0, join(Of(c.dimOf(2)), c.from(data, len(ids.dims))))
}

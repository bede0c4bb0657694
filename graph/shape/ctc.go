package shape

var ctcOps = []row{
	{"CTCLoss", func(c *call) {
		in, indices, values := c.is(c.in(0), 3), c.matrix(1), c.vector(2)
		lengths := c.vector(3)
		c.equal(indices.at(0), values.at(0))
		batch := c.equal(in.at(1), lengths.at(0))
		c.set(0, Of(batch))
		c.set(1, c.with(in, 1, batch))
	}},
	{"CTCGreedyDecoder", func(c *call) { c.decoded(1) }},
	{"CTCBeamSearchDecoder", func(c *call) { c.decoded(int(c.Int32("top_paths"))) }},
}

// decoded sets the outputs of decoders: a number of sparse tensors of labels, and the scores.
func (c *call) decoded(paths int) {
	batch := c.equal(c.is(c.in(0), 3).at(1), c.vector(1).at(0))
	for i := range (len(c.r.Out) - 1) / 3 {
		c.set(i, Of(-1, 2))
		c.set(paths+i, Of(-1))
		c.set(2*paths+i, Of(2))
	}
	c.set(3*paths, Of(batch, int64(paths)))
}

package shape

var rnnOps = []row{
	{"BlockLSTM BlockLSTMV2", func(c *call) {
		x, b := c.is(c.in(1), 3), c.is(c.in(-1), 1)
		c.setAll(Of(x.at(0), x.at(1), c.div(b.at(0), 4, true)))
	}},
	{"BlockLSTMGrad BlockLSTMGradV2", func(c *call) {
		for i, rank := range []int{3, 2, 2, 2, 1, 1, 1, 1} {
			c.set(i, c.is(c.in(i+1), rank))
		}
	}},
	{"GRUBlockCell", func(c *call) { c.setAll(Of(c.matrix(0).at(0), c.matrix(1).at(1))) }},
	{"GRUBlockCellGrad", func(c *call) {
		x, h, w := c.matrix(0), c.matrix(1), c.matrix(2)
		c.setAll(Of(x.at(0), h.at(1)))
		c.set(0, x)
		c.set(3, Of(x.at(0), w.at(1)))
	}},
	{"LSTMBlockCell", func(c *call) { c.setAll(Of(c.matrix(0).at(0), c.matrix(1).at(1))) }},
	{"LSTMBlockCellGrad", func(c *call) {
		batch, cell := c.matrix(0).at(0), c.matrix(1).at(1)
		c.setAll(Of(cell))
		c.set(0, Of(batch, cell))
		c.set(1, Of(batch, c.mul(cell, 4)))
	}},
}

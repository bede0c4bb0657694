package shape

// Rules that many ops share.

// unchanged gives the first output the shape of the first input, and what its handle stands for.
func unchanged(c *call) {
	c.set(0, c.in(0))
	c.setHandles(0, c.handles(0))
}

// same is unchanged for ops whose output has the input's value too.
func same(c *call) {
	unchanged(c)
	c.setValue(0, c.sizes(0))
}

// unchangedOf is unchanged for inputs of one rank, unchangedFrom for those of a least rank.
func unchangedOf(rank int) rule   { return func(c *call) { c.set(0, c.is(c.in(0), rank)) } }
func unchangedFrom(rank int) rule { return func(c *call) { c.set(0, c.atLeast(c.in(0), rank)) } }

// unknown is the rule of ops whose outputs depend on data or on functions.
func unknown(*call) {}

// noOutputs is the rule of ops without outputs that take whatever comes.
func noOutputs(*call) {}

// scalarOut is the rule of ops with one scalar.
func scalarOut(c *call) { c.set(0, Scalar()) }

// pairOut is the rule of references to queues, readers and tables: a string of two elements.
func pairOut(c *call) { c.set(0, Of(2)) }

// mergeBoth is for ops whose two inputs and output have one shape.
func mergeBoth(c *call) { c.set(0, c.merge(c.in(0), c.in(1))) }

// broadcastBoth is for elementwise ops of two inputs.
func broadcastBoth(c *call) { c.set(0, c.broadcast(c.in(0), c.in(1))) }

// scalarsToScalars is for ops all of whose inputs and outputs are scalars.
func scalarsToScalars(c *call) {
	for i := range c.In {
		c.scalar(i)
	}
	c.setAll(Scalar())
}

// pair demands that an input is the string of two elements that stands for a resource.
func (c *call) pair(i int) { c.size(c.vector(i).at(0), 2) }

// pairsToScalars is for ops on such strings with scalar outputs.
func pairsToScalars(c *call) {
	for i := range c.In {
		c.pair(i)
	}
	c.setAll(Scalar())
}

// takes demands ranks of the inputs, in order (-1 for any), and states nothing of outputs.
func takes(ranks ...int) rule {
	return func(c *call) { c.demand(ranks) }
}

func (c *call) demand(ranks []int) {
	for i, r := range ranks {
		if s := c.in(i); r >= 0 {
			c.is(s, r)
		}
	}
}

// explicit is for ops whose attribute states the shape.
func explicit(c *call) { c.set(0, c.attrShape("shape")) }

// filled is for ops whose first input spells the shape.
func filled(c *call) { c.set(0, c.shapeOf(0)) }

// gives demands ranks of the inputs and states the shapes of outputs.
func gives(ranks []int, out ...Shape) rule {
	return func(c *call) {
		c.demand(ranks)
		for i, s := range out {
			c.set(i, s)
		}
	}
}

func ranks(r ...int) []int { return r }

// listed is for functions as ops, whose attribute states the shapes where the caller knew them.
func listed(attr string) rule {
	return func(c *call) {
		shapes := c.attrShapes(attr)
		if len(shapes) == 0 {
			return
		}
		if len(shapes) != len(c.Out) {
			c.fail("`%s` must be the same length as num outputs (%d vs. %d)", attr, len(shapes), len(c.Out))
			return
		}
		for i, s := range shapes {
			c.set(i, s)
		}
	}
}

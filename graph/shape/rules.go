package shape

// Rules that many ops share.

// unchanged sets the first output to the shape and handle of the first input.
func unchanged(c *call) {
	c.set(0, c.in(0))
	c.setHandles(0, c.handles(0))
}

// same is unchanged for ops whose output also has the input's value.
func same(c *call) {
	unchanged(c)
	c.setValue(0, c.sizes(0))
}

// unchangedOf is unchanged for inputs of a given rank, unchangedFrom for inputs of at least that rank.
func unchangedOf(rank int) rule   { return func(c *call) { c.set(0, c.is(c.in(0), rank)) } }
func unchangedFrom(rank int) rule { return func(c *call) { c.set(0, c.atLeast(c.in(0), rank)) } }

// unknown is the rule of ops whose outputs depend on data or on functions.
func unknown(*call) {}

// noOutputs is the rule of ops without outputs that accept any inputs.
func noOutputs(*call) {}

// scalarOut is the rule of ops whose output is a scalar.
func scalarOut(c *call) { c.set(0, Scalar()) }

// pairOut is the rule of references to queues, readers and tables, which are vectors of two strings.
func pairOut(c *call) { c.set(0, Of(2)) }

// mergeBoth is for ops whose two inputs and output have the same shape.
func mergeBoth(c *call) { c.set(0, c.merge(c.in(0), c.in(1))) }

// broadcastBoth is for elementwise ops with two inputs.
func broadcastBoth(c *call) { c.set(0, c.broadcast(c.in(0), c.in(1))) }

// scalarsToScalars is for ops whose inputs and outputs are all scalars.
func scalarsToScalars(c *call) {
	for i := range c.In {
		c.scalar(i)
	}
	c.setAll(Scalar())
}

// pair checks that an input is the vector of two strings that stands for a resource.
func (c *call) pair(i int) { c.size(c.vector(i).at(0), 2) }

// pairsToScalars is for ops on such vectors with scalar outputs.
func pairsToScalars(c *call) {
	for i := range c.In {
		c.pair(i)
	}
	c.setAll(Scalar())
}

// takes checks the ranks of the inputs, in order (-1 for any), and leaves the outputs unknown.
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

// explicit is for ops with a shape attribute.
func explicit(c *call) { c.set(0, c.attrShape("shape")) }

// filled is for ops whose first input is the shape.
func filled(c *call) { c.set(0, c.shapeOf(0)) }

// gives checks the ranks of the inputs and sets the shapes of outputs.
func gives(ranks []int, out ...Shape) rule {
	return func(c *call) {
		c.demand(ranks)
		for i, s := range out {
			c.set(i, s)
		}
	}
}

func ranks(r ...int) []int { return r }

// listed is for functions used as ops, which have an attribute with the shapes if the caller knew them.
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

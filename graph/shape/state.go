package shape

// stateOps are the ops on variables that are references.
var stateOps = []row{
	{"VariableV2 TemporaryVariable", explicit},
	{"Variable", func(c *call) {
		if s := c.attrShape("shape"); s.Rank() > 0 {
			c.set(0, s)
		}
	}},
	{"Assign", func(c *call) {
		if !c.Has("validate_shape") || c.Bool("validate_shape") {
			mergeBoth(c)
		} else {
			c.set(0, c.in(1))
		}
	}},
	{"AssignAdd AssignSub", mergeBoth},
	{"CountUpTo", unchangedOf(0)},
	{"DestroyTemporaryVariable", unchanged},
	{"IsVariableInitialized", scalarOut},
	{"ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterSub ScatterUpdate", func(c *call) {
		c.scatterRows(c.in(0))
		c.set(0, c.in(0))
	}},
	{"ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdUpdate", scatterNdUpdate},
}

// scatterRows checks that updates are rows of a variable, one for each index, or a scalar.
func (c *call) scatterRows(variable Shape) {
	updates := c.in(2)
	rows := join(c.in(1), c.from(variable, 1))
	if updates.Rank() != 0 {
		c.merge(updates, rows)
	}
}

func scatterNdUpdate(c *call) {
	of := c.in(0)
	if h := c.handles(0); len(h) > 0 {
		of = h[0].Shape
	}
	c.scatterNd(c.atLeast(c.in(1), 1), c.atLeast(c.in(2), 1), of)
}

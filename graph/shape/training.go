package shape

import "strings"

// trainingOps are the optimizers' updates. Their inputs are, in order: the variable and its slots, which have the same shape; scalars; the
// gradient (of the variable's shape, or for a sparse one, rows of it with indices); scalars.
var trainingOps = []row{
	{"SdcaFprint", func(c *call) { c.set(0, join(c.vector(0), Of(2))) }},
	{"SdcaOptimizer SdcaOptimizerV2", func(c *call) {
		// The deltas have the shapes of the weights, which are the inputs just before the last one, the state of the examples.
		c.set(0, Of(-1, 4))
		for i := 1; i < len(c.Out); i++ {
			c.set(i, c.in(i-1-len(c.Out)))
		}
	}},
	{"SdcaShrinkL1", noOutputs},
	{"ApplyGradientDescent ResourceApplyGradientDescent", func(c *call) {
		s := c.slot(0)
		c.scalar(1)
		c.set(0, c.merge(s, c.in(2)))
	}},
	{"ApplyProximalGradientDescent ResourceApplyProximalGradientDescent", update{1, 3, 0, false}.rule},
	{"SparseApplyProximalGradientDescent ResourceSparseApplyProximalGradientDescent", update{1, 3, 0, true}.rule},
	{"ApplyAdadelta ResourceApplyAdadelta", update{3, 3, 0, false}.rule},
	{"SparseApplyAdadelta ResourceSparseApplyAdadelta", update{3, 3, 0, true}.rule},
	{"ApplyAdagrad ResourceApplyAdagrad", update{2, 1, 0, false}.rule},
	{"SparseApplyAdagrad ResourceSparseApplyAdagrad", update{2, 1, 0, true}.rule},
	{"ApplyAdagradV2 ResourceApplyAdagradV2", update{2, 2, 0, false}.rule},
	{"SparseApplyAdagradV2 ResourceSparseApplyAdagradV2", update{2, 2, 0, true}.rule},
	{"ApplyProximalAdagrad ResourceApplyProximalAdagrad", update{2, 3, 0, false}.rule},
	{"SparseApplyProximalAdagrad ResourceSparseApplyProximalAdagrad", update{2, 3, 0, true}.rule},
	{"ApplyAdagradDA ResourceApplyAdagradDA ApplyFtrl ApplyFtrlV2 ResourceApplyFtrl ResourceApplyFtrlV2", update{3, 0, 4, false}.rule},
	{`SparseApplyAdagradDA ResourceSparseApplyAdagradDA SparseApplyFtrl SparseApplyFtrlV2 ResourceSparseApplyFtrl
		ResourceSparseApplyFtrlV2`, update{3, 0, 4, true}.rule},
	{"ApplyMomentum ResourceApplyMomentum ResourceApplyKerasMomentum", update{2, 1, 1, false}.rule},
	{"SparseApplyMomentum ResourceSparseApplyMomentum ResourceSparseApplyKerasMomentum", update{2, 1, 1, true}.rule},
	{"ApplyAdam ResourceApplyAdam", update{3, 6, 0, false}.rule},
	{"ResourceApplyAdamWithAmsgrad", update{4, 6, 0, false}.rule},
	{"ApplyAdaMax ResourceApplyAdaMax", update{3, 5, 0, false}.rule},
	{"ApplyRMSProp ResourceApplyRMSProp", update{3, 4, 0, false}.rule},
	{"SparseApplyRMSProp ResourceSparseApplyRMSProp", update{3, 4, 0, true}.rule},
	{"ApplyCenteredRMSProp ResourceApplyCenteredRMSProp", update{4, 4, 0, false}.rule},
	{"SparseApplyCenteredRMSProp ResourceSparseApplyCenteredRMSProp", update{4, 4, 0, true}.rule},
	{"ApplyAddSign ResourceApplyAddSign ApplyPowerSign ResourceApplyPowerSign", update{2, 4, 0, false}.rule},
}

// update is the number of inputs of each kind in an optimizer's update.
type update struct {
	slots, before, after int // the variable and its slots, scalars before and after the gradient
	sparse               bool
}

func (u update) rule(c *call) {
	s := c.slot(0)
	for i := 1; i < u.slots; i++ {
		s = c.merge(s, c.slot(i))
	}
	at := u.slots
	for range u.before {
		c.scalar(at)
		at++
	}
	grad := c.in(at)
	at++
	if u.sparse {
		n := c.vector(at).at(0)
		at++
		if grad.Rank() == 0 {
			c.fail("Argument grad must not be a scalar. Got grad with rank 0")
			return
		}
		c.equal(n, grad.at(0))
		grad = c.with(grad, 0, -1)
	}
	s = c.merge(s, grad)
	for range u.after {
		c.scalar(at)
		at++
	}
	c.set(0, s)
}

// slot returns the shape of a variable, which is a reference or behind a handle.
func (c *call) slot(i int) Shape {
	if h := c.handles(i); len(h) > 0 {
		return h[0].Shape
	}
	if strings.HasPrefix(c.Op, "Resource") {
		return Shape{} // its shape is unknown
	}
	return c.in(i)
}

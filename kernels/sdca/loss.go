package sdca

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
)

// loss is a loss function of a linear model. wx is the prediction from the features of an example.
type loss struct {
	// label converts a label to one that the loss is defined for.
	label func(label float32) (float32, error)
	// ascend returns the new value of the dual variable, which maximizes the dual objective, at least nearly.
	ascend func(s situation) float64
	// primal is the loss, dual the negated dual loss, and slope the derivative of primal.
	primal, slope func(wx, label, weight float64) float64
	dual          func(dual, label, weight float64) float64
	// smoothness is the inverse of the Lipschitz constant of slope, or zero if there is none.
	smoothness float64
}

// situation is the state of an example at a step. curvature is the change of the prediction per change of the dual variable: the squared
// norm of the features over the regularization, times the weight and the number of concurrent partitions.
type situation struct {
	label, dual, wx, curvature float64
}

// losses maps names to loss functions.
var losses = map[string]loss{
	"logistic_loss":     {signed, logisticAscent, logisticLoss, logisticSlope, logisticDual, 4},
	"squared_loss":      {anyLabel, squaredAscent, squaredLoss, squaredSlope, squaredDual, 1},
	"hinge_loss":        {signed, hingeAscent, hingeLoss, hingeSlope, hingeDual, 0},
	"smooth_hinge_loss": {signed, smoothAscent, smoothLoss, smoothSlope, smoothDual, 1},
	"poisson_loss":      {count, poissonAscent, poissonLoss, poissonSlope, poissonDual, 1},
}

// newtonSteps suffices to find a root to the last bit, since each step doubles the number of correct bits.
const newtonSteps = 10

// signed maps the labels 0 and 1 to -1 and 1.
func signed(label float32) (float32, error) {
	switch label {
	case 0:
		return -1, nil
	case 1:
		return 1, nil
	}
	return 0, status.InvalidArgumentf("Only labels of 0.0 or 1.0 are supported right now. Found example with label: %.6g", label)
}

func anyLabel(label float32) (float32, error) { return label, nil }

func count(label float32) (float32, error) {
	if label < 0 {
		return 0, status.InvalidArgumentf("Only non-negative labels can be used with the Poisson log loss. Found example with label: %.6g", label)
	}
	return label, nil
}

// logisticAscent writes the dual variable as (1+tanh(x))/2y and solves for x.
func logisticAscent(s situation) float64 {
	x := 0.
	for range newtonSteps {
		t := math.Tanh(x)
		value := -2*s.label*x - s.wx - s.curvature*(0.5*(1+t)/s.label-s.dual)
		slope := -2*s.label - s.curvature*(1-t*t)*0.5/s.label
		x -= value / slope
	}
	return 0.5 * (1 + math.Tanh(x)) / s.label
}

func logisticLoss(wx, label, weight float64) float64 {
	// log(1+exp(-y)), written to avoid overflow.
	y := label * wx
	if y > 0 {
		return math.Log1p(math.Exp(-y)) * weight
	}
	return (math.Log1p(math.Exp(y)) - y) * weight
}

func logisticSlope(wx, label, weight float64) float64 {
	y := label * wx
	part := 1 / (1 + math.Exp(y))
	if y > 0 {
		part = math.Exp(-y) / (1 + math.Exp(-y))
	}
	return -part * label * weight
}

func logisticDual(dual, label, weight float64) float64 {
	entropy := func(p float64) float64 {
		if p > 0 {
			return p * math.Log(p)
		}
		return 0
	}
	p := dual * label
	return (entropy(p) + entropy(1-p)) * weight
}

func squaredAscent(s situation) float64 { return s.dual + (s.label-s.dual-s.wx)/(1+s.curvature) }

func squaredLoss(wx, label, weight float64) float64 {
	return (wx - label) * (wx - label) * weight * 0.5
}

func squaredSlope(wx, label, weight float64) float64 { return (wx - label) * weight }

func squaredDual(dual, label, weight float64) float64 { return dual * (0.5*dual - label) * weight }

// bounded limits a dual variable of a hinge to values whose product with the label is between 0 and 1.
func bounded(dual, label float64) float64 {
	switch {
	case label*dual < 0:
		return 0
	case label*dual > 1:
		return label
	}
	return dual
}

func hingeAscent(s situation) float64 {
	return bounded(s.dual+(s.label-s.wx)/s.curvature, s.label)
}

func hingeLoss(wx, label, weight float64) float64 { return max(0, 1-label*wx) * weight }

func hingeSlope(wx, label, weight float64) float64 {
	if label*wx < 1 {
		return -label * weight
	}
	return 0
}

func hingeDual(dual, label, weight float64) float64 {
	if y := dual * label; y >= 0 && y <= 1 {
		return -y * weight
	}
	return math.MaxFloat64
}

// The smooth hinge is a parabola over the last unit of its slope.

func smoothAscent(s situation) float64 {
	return bounded(s.dual+(s.label-s.wx-s.dual)/(s.curvature+1), s.label)
}

func smoothLoss(wx, label, weight float64) float64 {
	switch y := label * wx; {
	case y >= 1:
		return 0
	case y <= 0:
		return (1 - y - 0.5) * weight
	default:
		return (1 - y) * (1 - y) * weight * 0.5
	}
}

// smoothSlope omits the weight, as TensorFlow does.
func smoothSlope(wx, label, _ float64) float64 {
	switch y := label * wx; {
	case y >= 1:
		return 0
	case y <= 0:
		return -label
	default:
		return wx - label
	}
}

func smoothDual(dual, label, weight float64) float64 {
	if y := dual * label; y >= 0 && y <= 1 {
		return (-y + 0.5*dual*dual) * weight
	}
	return math.MaxFloat64
}

// poissonAscent writes the dual variable as y-exp(x) and solves for x.
func poissonAscent(s situation) float64 {
	x := 0.
	if rest := s.label - s.dual; rest > 0 {
		x = math.Log(rest)
	}
	for range newtonSteps {
		e := math.Exp(x)
		x -= (x - s.wx - s.curvature*(s.label-s.dual-e)) / (1 + s.curvature*e)
	}
	return s.label - math.Exp(x)
}

func poissonLoss(wx, label, weight float64) float64 { return (math.Exp(wx) - wx*label) * weight }

func poissonSlope(wx, label, weight float64) float64 { return (math.Exp(wx) - label) * weight }

func poissonDual(dual, label, weight float64) float64 {
	switch rest := label - dual; {
	case rest == 0:
		return 0
	case rest < 0:
		return math.MaxFloat64
	default:
		return rest * (math.Log(rest) - 1) * weight
	}
}

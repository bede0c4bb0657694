package training

import (
	"sync"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// optimizer is an op that updates variables by a gradient, in all its forms: by reference or by handle, for whole variables or for some of
// their rows.
type optimizer struct {
	// name is the op's name without its Apply prefix.
	name string
	// inputs lists the op's inputs in order: slots (the variable and its companions), the gradient (grad or delta) and scalars. The sparse
	// form also has indices after the gradient.
	inputs []string
	slots  int
	// flag is the boolean attribute that the update depends on, or "".
	flag string
	// limits returns the limits of scalars by name. It is nil if there are none.
	limits func(in form, flag bool) map[string]limit
	// types returns the rows of a form, one for each element type.
	types []func(form) kernels.Def
}

// form identifies one of the ops of an optimizer: whether it refers to variables by handle or by reference, and whether its gradient is for
// rows that indices name.
type form struct{ resource, sparse bool }

var (
	byRef          = form{}
	byHandle       = form{resource: true}
	sparseByRef    = form{sparse: true}
	sparseByHandle = form{resource: true, sparse: true}
)

// update updates a range of the slots with a range of the gradient. h holds the scalars in the order of the inputs.
type update[T any] func(slots [][]T, grad, h []T, flag bool)

// optimizerKernel is a form of an optimizer for one element type.
type optimizerKernel[T any] struct {
	*optimizer
	form
	dtype    tensor.DType
	update   update[T]
	flag     bool
	gradAt   int   // the gradient's input
	scalars  []int // the inputs that are scalars; names holds their names
	names    []string
	bounds   map[string]limit // limits of scalars, by name
	scalarOf func(*tensor.Tensor) T
	idle     sync.Pool // of *application[T]
}

func (k *optimizerKernel[T]) Compute(ctx *kernels.Context) error {
	if err := k.apply(ctx); err != nil {
		return err
	}
	if !k.resource {
		ctx.Pass(0, 0)
	}
	return nil
}

// variable returns the variable at input i.
func (k *optimizerKernel[T]) variable(ctx *kernels.Context, i int) (*containers.Variable, error) {
	v := ctx.Ref(i)
	if k.resource {
		var err error
		if v, err = ctx.Variable(i); err != nil {
			return nil, err
		}
	} else if v == nil {
		return nil, status.InvalidArgumentf("Input %d of %s must be a reference to a variable", i, ctx.Node.Op)
	}
	if v.DType() != k.dtype {
		return nil, status.InvalidArgumentf("Trying to update variable %s of type %v with %s of type %v", v.Name, v.DType(), ctx.Node.Op, k.dtype)
	}
	if !v.Initialized() {
		name := v.Name
		if i < len(ctx.Node.Inputs) {
			name = ctx.Node.Inputs[i].Node.Name
		}
		return nil, status.Errorf(status.FailedPrecondition, "Attempting to use uninitialized variables: %s", name)
	}
	return v, nil
}

// checkInputs checks the types, that scalars are scalars, and that they are within the optimizer's limits.
func (k *optimizerKernel[T]) checkInputs(ctx *kernels.Context) error {
	if err := args.CheckType(ctx, k.gradAt, k.dtype); err != nil {
		return err
	}
	for i, at := range k.scalars {
		t := ctx.Input(at)
		if t.Rank() != 0 {
			return status.InvalidArgumentf("%s is not a scalar: %v", k.scalarName(i), t.Shape())
		}
		want := k.dtype
		if k.names[i] == "global_step" {
			want = tensor.Int64
		}
		if err := args.CheckType(ctx, at, want); err != nil {
			return err
		}
		if k.scalarOf == nil { // scalars in a GPU's memory cannot be read
			continue
		}
		if limit, ok := k.bounds[k.names[i]]; ok && !limit.holds(number(t)) {
			return status.InvalidArgumentf("%s is not a %s scalar: %v", k.scalarName(i), limit.name, number(t))
		}
	}
	return nil
}

// scalarName returns the name of a scalar in error texts.
func (k *optimizerKernel[T]) scalarName(i int) string {
	switch name := k.names[i]; name {
	case "l1", "l2":
		return name + " regularization strength"
	case "l2_shrinkage":
		return "l2 shrinkage regularization strength"
	default:
		return name
	}
}

// number returns the value of a scalar that may have a limit. Complex scalars have none.
func number(t *tensor.Tensor) float64 {
	switch t.DType() {
	case tensor.Float64:
		return tensor.Of[float64](t)[0]
	case tensor.Float16:
		return float64(tensor.Of[element.Float16](t)[0].Float())
	case tensor.BFloat16:
		return float64(tensor.Of[element.BFloat16](t)[0].Float())
	}
	return float64(scalar32(t))
}

// limit is a condition on a scalar. NaN never satisfies it.
type limit struct {
	name  string
	holds func(v float64) bool
}

var (
	positive    = limit{"positive", func(v float64) bool { return v > 0 }}
	nonNegative = limit{"non-negative", func(v float64) bool { return v >= 0 }}
	nonPositive = limit{"non-positive", func(v float64) bool { return v <= 0 }}
)

// proximalLimits returns the limits of all forms of ProximalAdagrad.
func proximalLimits(form, bool) map[string]limit {
	return map[string]limit{"lr": positive, "l1": nonNegative, "l2": nonNegative}
}

// ftrlLimits returns the limits of the sparse forms of Ftrl. Whole variables accept any scalars. A rate of 0 is valid if the linear slot is
// kept multiplied by the rate.
func ftrlLimits(in form, byRate bool) map[string]limit {
	if !in.sparse {
		return nil
	}
	rate := positive
	if byRate {
		rate = nonNegative
	}
	return map[string]limit{"lr": rate, "l1": nonNegative, "l2": nonNegative, "l2_shrinkage": nonNegative, "lr_power": nonPositive}
}

// emptyRows lists the optimizers whose sparse forms accept rows without elements. For the others, TensorFlow rejects such rows.
var emptyRows = map[string]bool{"Momentum": true, "KerasMomentum": true, "Adadelta": true, "RMSProp": true, "CenteredRMSProp": true}

// checkShapes checks that the shapes of the slots and the gradient match, and those of the indices of a sparse update.
func (k *optimizerKernel[T]) checkShapes(ctx *kernels.Context, slots []*tensor.Tensor) error {
	shape, grad := slots[0].Shape(), ctx.Input(k.gradAt).Shape()
	for i, s := range slots {
		if !s.Shape().Equal(shape) {
			return status.InvalidArgumentf("var and %s do not have the same shape%v %v", k.inputs[i], shape, s.Shape())
		}
	}
	if !k.sparse {
		if !grad.Equal(shape) {
			return status.InvalidArgumentf("var and %s do not have the same shape%v %v", k.inputs[k.gradAt], shape, grad)
		}
		return nil
	}
	indices := ctx.Input(k.gradAt + 1)
	if len(shape) == 0 {
		return status.InvalidArgumentf("var must be at least 1 dimensional")
	}
	if indices.Rank() != 1 {
		return status.InvalidArgumentf("indices must be one-dimensional")
	}
	if len(grad) != len(shape) {
		return status.InvalidArgumentf("var and grad must have the same rank: %v vs. %v", shape, grad)
	}
	for d := 1; d < len(shape); d++ {
		if shape[d] != grad[d] {
			return status.InvalidArgumentf("var and grad must match in dimension %d", d)
		}
		if grad[d] == 0 && !emptyRows[k.name] {
			return status.InvalidArgumentf("Inner dimension should be greater than zero.")
		}
	}
	if grad[0] != int64(indices.Len()) {
		return status.InvalidArgumentf("grad must be the same size as indices in the first dimension.")
	}
	return nil
}

// configure reads the attributes and locates the inputs.
func (k *optimizerKernel[T]) configure(c *kernels.Construction) error {
	if k.optimizer.flag != "" {
		flag, err := c.Attrs().Bool(k.optimizer.flag)
		if err != nil {
			return err
		}
		k.flag = flag
	}
	if k.limits != nil {
		k.bounds = k.limits(k.form, k.flag)
	}
	shift := 0 // the sparse form has indices after the gradient
	for i, name := range k.inputs {
		switch {
		case i < k.slots:
		case name == "grad" || name == "delta":
			k.gradAt = i
			if k.sparse {
				shift = 1
			}
		default:
			k.scalars = append(k.scalars, i+shift)
			k.names = append(k.names, name)
		}
	}
	return nil
}

package training

import (
	"sync"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// optimizer is an op that updates variables for a gradient, in all its forms: by reference or by
// handle, for whole variables or for some of their rows.
type optimizer struct {
	// name is the op's without Apply before it.
	name string
	// inputs are the op's in order: slots (the variable and what goes with it), the gradient
	// (grad or delta) and scalars. The sparse form has indices after the gradient.
	inputs []string
	slots  int
	// flag is the boolean attribute that the update depends on, if there is one.
	flag string
	// types make the rows of one form, by element type.
	types []func(form) kernels.Def
}

// form tells which of the ops of an optimizer one is: whether variables are named by handles or by references, and whether
// the gradient is of rows that indices name.
type form struct{ resource, sparse bool }

var (
	byRef          = form{}
	byHandle       = form{resource: true}
	sparseByRef    = form{sparse: true}
	sparseByHandle = form{resource: true, sparse: true}
)

// update changes a range of the slots for a range of the gradient. h are the scalars in the order
// of the inputs.
type update[T any] func(slots [][]T, grad, h []T, flag bool)

// optimizerKernel is a form of an optimizer for one element type.
type optimizerKernel[T any] struct {
	*optimizer
	form
	dtype    tensor.DType
	update   update[T]
	flag     bool
	gradAt   int   // which input the gradient is
	scalars  []int // which the scalars are, with their names
	names    []string
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

// variable is the variable at input i.
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

// checkInputs checks the types, and that scalars are scalars.
func (k *optimizerKernel[T]) checkInputs(ctx *kernels.Context) error {
	if err := args.CheckType(ctx, k.gradAt, k.dtype); err != nil {
		return err
	}
	for i, at := range k.scalars {
		t := ctx.Input(at)
		if t.Rank() != 0 {
			name := k.names[i]
			if name == "l1" || name == "l2" {
				name += " regularization strength"
			}
			return status.InvalidArgumentf("%s is not a scalar: %v", name, t.Shape())
		}
		want := k.dtype
		if k.names[i] == "global_step" {
			want = tensor.Int64
		}
		if err := args.CheckType(ctx, at, want); err != nil {
			return err
		}
	}
	return nil
}

// emptyRows are the optimizers whose sparse forms take rows without elements. TensorFlow refuses them in the others.
var emptyRows = map[string]bool{"Momentum": true, "KerasMomentum": true, "Adadelta": true, "RMSProp": true, "CenteredRMSProp": true}

// checkShapes checks that the slots and the gradient go together, and the indices of a sparse update.
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

// configure reads the attributes and finds the inputs.
func (k *optimizerKernel[T]) configure(c *kernels.Construction) error {
	if k.optimizer.flag != "" {
		flag, err := c.Attrs().Bool(k.optimizer.flag)
		if err != nil {
			return err
		}
		k.flag = flag
	}
	shift := 0 // by the indices of the sparse form
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

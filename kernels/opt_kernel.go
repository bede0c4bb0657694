package kernels

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
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
	// forms are the forms that TensorFlow has.
	forms optimizerForms
}

// optimizerForms tells which forms of an op there are.
type optimizerForms struct{ ref, resource, sparseRef, sparseResource bool }

var (
	allForms   = optimizerForms{true, true, true, true}
	denseForms = optimizerForms{ref: true, resource: true}
)

// update changes a range of the slots for a range of the gradient. h are the scalars in the order
// of the inputs.
type update[T any] func(slots [][]T, grad, h []T, flag bool)

// optimizerKernel is a form of an optimizer for one element type.
type optimizerKernel[T any] struct {
	*optimizer
	dtype            tensor.DType
	update           update[T]
	flag             bool
	resource, sparse bool
	gradAt           int   // which input the gradient is
	scalars          []int // which the scalars are, with their names
	names            []string
	scalarOf         func(*tensor.Tensor) T
}

const maxSlots = 4

// lockedVariable is a variable of a running update: where it stands among the inputs, and its
// value while it is locked.
type lockedVariable struct {
	variable *containers.Variable
	at       int
}

func (k *optimizerKernel[T]) Compute(ctx *Context) error {
	var memory [maxSlots]lockedVariable
	vars := memory[:k.slots]
	for i := range vars {
		v, err := k.variable(ctx, i)
		if err != nil {
			return err
		}
		vars[i] = lockedVariable{v, i}
	}
	if err := k.checkInputs(ctx); err != nil {
		return err
	}
	// All updates lock in the order of addresses, so that none waits for another in a ring.
	slices.SortFunc(vars, func(a, b lockedVariable) int {
		return cmp.Compare(uintptr(unsafe.Pointer(a.variable)), uintptr(unsafe.Pointer(b.variable)))
	})
	for i := range vars[1:] {
		if vars[i].variable == vars[i+1].variable {
			return status.InvalidArgumentf("Inputs %d and %d of %s are the same variable %s", vars[i].at, vars[i+1].at, ctx.Node.Op, vars[i].variable.Name)
		}
	}
	values := make([]*tensor.Tensor, k.slots)
	if err := k.locked(ctx, vars, values); err != nil {
		return err
	}
	if !k.resource {
		ctx.Pass(0, 0)
	}
	return nil
}

// variable is the variable at input i.
func (k *optimizerKernel[T]) variable(ctx *Context, i int) (*containers.Variable, error) {
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
func (k *optimizerKernel[T]) checkInputs(ctx *Context) error {
	if err := checkType(ctx, k.gradAt, k.dtype); err != nil {
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
		if err := checkType(ctx, at, want); err != nil {
			return err
		}
	}
	return nil
}

// locked locks the variables one after the other and updates when all are.
func (k *optimizerKernel[T]) locked(ctx *Context, vars []lockedVariable, values []*tensor.Tensor) error {
	if len(vars) == 0 {
		return k.run(ctx, values)
	}
	return vars[0].variable.Update(ctx.Device.Pool(), func(t *tensor.Tensor) error {
		values[vars[0].at] = t
		return k.locked(ctx, vars[1:], values)
	})
}

// run updates the values in place.
func (k *optimizerKernel[T]) run(ctx *Context, values []*tensor.Tensor) error {
	v, grad := values[0], ctx.Input(k.gradAt)
	slots := make([][]T, len(values))
	for i, s := range values {
		if !s.Shape().Equal(v.Shape()) {
			return status.InvalidArgumentf("var and %s do not have the same shape%v %v", k.inputs[i], v.Shape(), s.Shape())
		}
		slots[i] = viewOf[T](s)
	}
	h := make([]T, len(k.scalars))
	for i, at := range k.scalars {
		h[i] = k.scalarOf(ctx.Input(at))
	}
	g := viewOf[T](grad)
	if k.sparse {
		return k.rows(ctx, v.Shape(), slots, grad.Shape(), g, h)
	}
	if !grad.Shape().Equal(v.Shape()) {
		return status.InvalidArgumentf("var and %s do not have the same shape%v %v", k.inputs[k.gradAt], v.Shape(), grad.Shape())
	}
	if len(g) <= costlyGrain {
		k.update(slots, g, h, k.flag)
		return nil
	}
	ctx.Device.Parallel(len(g), costlyGrain, func(lo, hi int) {
		part := make([][]T, len(slots))
		// Blocks that fit the cache, since an update may go over its slots more than once.
		for ; lo < hi; lo += costlyGrain {
			end := min(lo+costlyGrain, hi)
			for i, s := range slots {
				part[i] = s[lo:end]
			}
			k.update(part, g[lo:end], h, k.flag)
		}
	})
	return nil
}

// rows updates the rows that the indices name, one after the other: an index may come twice.
func (k *optimizerKernel[T]) rows(ctx *Context, shape tensor.Shape, slots [][]T, gradShape tensor.Shape, grad, h []T) error {
	indices := ctx.Input(k.gradAt + 1)
	if len(shape) == 0 {
		return status.InvalidArgumentf("var must be at least 1 dimensional")
	}
	if indices.Rank() != 1 {
		return status.InvalidArgumentf("indices must be one-dimensional")
	}
	if len(gradShape) != len(shape) {
		return status.InvalidArgumentf("var and grad must have the same rank: %v vs. %v", shape, gradShape)
	}
	for d := 1; d < len(shape); d++ {
		if shape[d] != gradShape[d] {
			return status.InvalidArgumentf("var and grad must match in dimension %d", d)
		}
	}
	if gradShape[0] != int64(indices.Len()) {
		return status.InvalidArgumentf("grad must be the same size as indices in the first dimension.")
	}
	inner := shape[1:].Elements()
	for i := range indices.Len() {
		if row, err := intAt(indices, i); err != nil {
			return err
		} else if row < 0 || row >= shape[0] {
			return status.InvalidArgumentf("Index %d at offset %d in indices is out of range", row, i)
		}
	}
	part := make([][]T, len(slots))
	for i := range indices.Len() {
		row, err := intAt(indices, i)
		if err != nil {
			return err
		}
		for j, s := range slots {
			part[j] = s[int(row)*inner : int(row+1)*inner]
		}
		k.update(part, grad[i*inner:(i+1)*inner], h, k.flag)
	}
	return nil
}

// register makes the rows of all forms for one element type.
func registerOptimizer[T any](o *optimizer, f update[T], scalarOf func(*tensor.Tensor) T) {
	dtype := dtypeOf[T]()
	form := func(there, resource, sparse bool, prefix string) {
		if !there {
			return
		}
		types := map[string][]tensor.DType{"T": {dtype}}
		Register(Def{Op: prefix + "Apply" + o.name, Types: types, New: func(c *Construction) (any, error) {
			k := &optimizerKernel[T]{optimizer: o, dtype: dtype, update: f, resource: resource, sparse: sparse, scalarOf: scalarOf}
			return k, k.configure(c)
		}})
	}
	form(o.forms.ref, false, false, "")
	form(o.forms.resource, true, false, "Resource")
	form(o.forms.sparseRef, false, true, "Sparse")
	form(o.forms.sparseResource, true, true, "ResourceSparse")
}

// configure reads the attributes and finds the inputs.
func (k *optimizerKernel[T]) configure(c *Construction) error {
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

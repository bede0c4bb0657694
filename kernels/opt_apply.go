package kernels

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

const (
	maxSlots   = 4
	maxScalars = 6
	// updateBlock is how many elements are updated at a time: of all slots they fit the second-level
	// cache, so that moving a slot's elements and updating them is one pass over memory.
	updateBlock = 1 << 12
)

// application is one execution of an optimizer's kernel. Executions are reused, with the function
// that they lock by, so that a small update allocates nothing.
type application[T any] struct {
	*optimizerKernel[T]
	ctx     *Context
	vars    [maxSlots]lockedVariable
	locked  int // how many of vars are
	rewrite func(next, old *tensor.Tensor) error

	// The slots in the order of the inputs: what they were and what they become, which is the same
	// memory where the update is in place.
	old, next [maxSlots]*tensor.Tensor
	from, to  [maxSlots][]T
	part      [maxSlots][]T
	grad      []T
	h         [maxScalars]T
}

// lockedVariable is a variable of an update and where it stands among the inputs.
type lockedVariable struct {
	variable *containers.Variable
	at       int
}

// apply locks the variables and updates them.
func (k *optimizerKernel[T]) apply(ctx *Context) error {
	a, _ := k.idle.Get().(*application[T])
	if a == nil {
		a = &application[T]{optimizerKernel: k}
		a.rewrite = a.take
	}
	a.ctx = ctx
	err := a.begin()
	*a = application[T]{optimizerKernel: k, rewrite: a.rewrite}
	k.idle.Put(a)
	return err
}

// begin finds the variables and checks the inputs. All updates lock in the order of addresses, so
// that none waits for another in a ring.
func (a *application[T]) begin() error {
	vars := a.vars[:a.slots]
	for i := range vars {
		v, err := a.variable(a.ctx, i)
		if err != nil {
			return err
		}
		vars[i] = lockedVariable{v, i}
	}
	if err := a.checkInputs(a.ctx); err != nil {
		return err
	}
	slices.SortFunc(vars, func(x, y lockedVariable) int {
		return cmp.Compare(uintptr(unsafe.Pointer(x.variable)), uintptr(unsafe.Pointer(y.variable)))
	})
	for i := range vars[1:] {
		if vars[i].variable == vars[i+1].variable {
			return status.InvalidArgumentf("Inputs %d and %d of %s are the same variable %s", vars[i].at, vars[i+1].at, a.ctx.Node.Op, vars[i].variable.Name)
		}
	}
	return a.lock()
}

// lock locks the next variable, and updates once all are.
func (a *application[T]) lock() error {
	if a.locked == a.slots {
		return a.run()
	}
	return a.vars[a.locked].variable.Rewrite(a.ctx.Device.Pool(), nil, a.rewrite)
}

// take takes in the variable that was locked last.
func (a *application[T]) take(next, old *tensor.Tensor) error {
	at := a.vars[a.locked].at
	a.next[at], a.old[at] = next, old
	a.locked++
	return a.lock()
}

// run updates the locked variables.
func (a *application[T]) run() error {
	v, grad := a.old[0], a.ctx.Input(a.gradAt)
	for i, s := range a.old[:a.slots] {
		if !s.Shape().Equal(v.Shape()) {
			return status.InvalidArgumentf("var and %s do not have the same shape%v %v", a.inputs[i], v.Shape(), s.Shape())
		}
		a.from[i], a.to[i] = viewOf[T](s), viewOf[T](a.next[i])
	}
	for i, at := range a.scalars {
		a.h[i] = a.scalarOf(a.ctx.Input(at))
	}
	a.grad = viewOf[T](grad)
	if a.sparse {
		return a.rows(v.Shape(), grad.Shape())
	}
	if !grad.Shape().Equal(v.Shape()) {
		return status.InvalidArgumentf("var and %s do not have the same shape%v %v", a.inputs[a.gradAt], v.Shape(), grad.Shape())
	}
	grain := cheapGrain / a.slots
	if len(a.grad) < 2*grain {
		a.span(a.part[:a.slots], 0, len(a.grad))
		return nil
	}
	a.ctx.Device.Parallel(len(a.grad), grain, func(lo, hi int) { a.span(make([][]T, a.slots), lo, hi) })
	return nil
}

// span updates elements lo to hi. part has room for the slots.
func (a *application[T]) span(part [][]T, lo, hi int) {
	for ; lo < hi; lo += updateBlock {
		end := min(lo+updateBlock, hi)
		for i := range part {
			part[i] = a.to[i][lo:end]
			if a.next[i] != a.old[i] {
				copy(part[i], a.from[i][lo:end])
			}
		}
		a.update(part, a.grad[lo:end], a.h[:len(a.scalars)], a.flag)
	}
}

// rows updates the rows that the indices name, one after the other: an index may come twice.
func (a *application[T]) rows(shape, gradShape tensor.Shape) error {
	indices := a.ctx.Input(a.gradAt + 1)
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
	at, err := readIndices(indices)
	if err != nil {
		return err
	}
	defer at.free()
	for i, row := range at.v {
		if row < 0 || row >= shape[0] {
			return status.InvalidArgumentf("Index %d at offset %d in indices is out of range", row, i)
		}
	}
	for i := range a.slots {
		if a.next[i] != a.old[i] {
			copy(a.to[i], a.from[i]) // most rows stay as they are
		}
	}
	inner := shape[1:].Elements()
	part := a.part[:a.slots]
	for i, row := range at.v {
		for j, s := range a.to[:a.slots] {
			part[j] = s[int(row)*inner : int(row+1)*inner]
		}
		a.update(part, a.grad[i*inner:(i+1)*inner], a.h[:len(a.scalars)], a.flag)
	}
	return nil
}

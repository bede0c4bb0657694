package training

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

const (
	maxSlots   = 4
	maxScalars = 6
	// updateBlock is the number of elements updated at once. Those of all slots fit the second-level cache, so copying and updating them
	// takes a single pass over memory.
	updateBlock = 1 << 12
)

// application is one execution of an optimizer's kernel. Executions are reused, together with their lock callbacks, so that a small update
// does not allocate.
type application[T any] struct {
	*optimizerKernel[T]
	slotLocks
	from, to [maxSlots][]T
	part     [maxSlots][]T
	grad     []T
	h        [maxScalars]T
}

// apply locks the variables and updates them.
func (k *optimizerKernel[T]) apply(ctx *kernels.Context) error {
	a, _ := k.idle.Get().(*application[T])
	if a == nil {
		a = &application[T]{optimizerKernel: k}
		a.prepare(a.run)
	}
	err := k.lock(ctx, &a.slotLocks)
	*a = application[T]{optimizerKernel: k, slotLocks: a.unused()}
	k.idle.Put(a)
	return err
}

// lock finds the variables, checks the inputs, and runs the update with the variables locked.
func (k *optimizerKernel[T]) lock(ctx *kernels.Context, l *slotLocks) error {
	for i := range k.slots {
		v, err := k.variable(ctx, i)
		if err != nil {
			return err
		}
		l.vars[i] = lockedVariable{v, i}
	}
	if err := k.checkInputs(ctx); err != nil {
		return err
	}
	return l.lockAll(ctx, k.slots)
}

// run updates the locked variables.
func (a *application[T]) run() error {
	if err := a.checkShapes(a.ctx, a.old[:a.slots]); err != nil {
		return err
	}
	v, grad := a.old[0], a.ctx.Input(a.gradAt)
	for i, s := range a.old[:a.slots] {
		a.from[i], a.to[i] = element.ViewOf[T](s), element.ViewOf[T](a.next[i])
	}
	for i, at := range a.scalars {
		a.h[i] = a.scalarOf(a.ctx.Input(at))
	}
	a.grad = element.ViewOf[T](grad)
	if a.sparse {
		return a.rows(v.Shape())
	}
	grain := element.CheapGrain / a.slots
	if len(a.grad) < 2*grain {
		a.span(a.part[:a.slots], 0, len(a.grad))
		return nil
	}
	a.ctx.Device.Parallel(len(a.grad), grain, func(lo, hi int) { a.span(make([][]T, a.slots), lo, hi) })
	return nil
}

// span updates elements lo to hi. part is scratch space for the slots.
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

// rows updates the rows that the indices name, one by one, since an index may occur twice.
func (a *application[T]) rows(shape tensor.Shape) error {
	at, err := args.ReadIndices(a.ctx.Input(a.gradAt + 1))
	if err != nil {
		return err
	}
	defer at.Free()
	for i, row := range at.V {
		if row < 0 || row >= shape[0] {
			return status.InvalidArgumentf("Index %d at offset %d in indices is out of range", row, i)
		}
	}
	for i := range a.slots {
		if a.next[i] != a.old[i] {
			copy(a.to[i], a.from[i]) // most rows do not change
		}
	}
	inner := shape[1:].Elements()
	part := a.part[:a.slots]
	for i, row := range at.V {
		for j, s := range a.to[:a.slots] {
			part[j] = s[int(row)*inner : int(row+1)*inner]
		}
		a.update(part, a.grad[i*inner:(i+1)*inner], a.h[:len(a.scalars)], a.flag)
	}
	return nil
}

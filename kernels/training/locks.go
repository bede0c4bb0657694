package training

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// slotLocks holds the variables of an update, all locked at once. Every update locks in the order of addresses, which prevents deadlock.
type slotLocks struct {
	ctx    *kernels.Context
	vars   [maxSlots]lockedVariable
	slots  int
	locked int // the number of vars that are locked
	// The slots in the order of the inputs, before and after the update. Both share memory if the update is in place.
	old, next [maxSlots]*tensor.Tensor

	rewrite func(next, old *tensor.Tensor) error
	then    func() error // runs with all variables locked
}

// lockedVariable is a variable of an update and its index among the inputs.
type lockedVariable struct {
	variable *containers.Variable
	at       int
}

// prepare sets the function to run with all variables locked.
func (l *slotLocks) prepare(then func() error) { l.then, l.rewrite = then, l.take }

// unused returns l without variables, for reuse at the same address.
func (l *slotLocks) unused() slotLocks { return slotLocks{then: l.then, rewrite: l.rewrite} }

// lockAll locks the first slots of vars and runs the prepared function.
func (l *slotLocks) lockAll(ctx *kernels.Context, slots int) error {
	l.ctx, l.slots = ctx, slots
	vars := l.vars[:slots]
	slices.SortFunc(vars, func(x, y lockedVariable) int {
		return cmp.Compare(uintptr(unsafe.Pointer(x.variable)), uintptr(unsafe.Pointer(y.variable)))
	})
	for i := range vars[1:] {
		if vars[i].variable == vars[i+1].variable {
			return status.InvalidArgumentf("Inputs %d and %d of %s are the same variable %s", vars[i].at, vars[i+1].at, ctx.Node.Op, vars[i].variable.Name)
		}
	}
	return l.lockNext()
}

// lockNext locks the next variable. Once all are locked, it runs the prepared function, which is finished even if the step ends.
func (l *slotLocks) lockNext() error {
	if l.locked == l.slots {
		return l.ctx.Finish(l.then)
	}
	return l.vars[l.locked].variable.Rewrite(l.ctx.Changes(), l.ctx.Device.Memory(), nil, l.rewrite)
}

// take records the variable that was just locked, and continues with the next.
func (l *slotLocks) take(next, old *tensor.Tensor) error {
	at := l.vars[l.locked].at
	l.next[at], l.old[at] = next, old
	l.locked++
	return l.lockNext()
}

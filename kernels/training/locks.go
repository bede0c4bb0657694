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

// slotLocks holds the variables of an update, all locked at the same time. All updates lock in the
// order of addresses, so that none waits for another in a ring.
type slotLocks struct {
	ctx    *kernels.Context
	vars   [maxSlots]lockedVariable
	slots  int
	locked int // how many of vars are
	// The slots in the order of the inputs: what they were and what they become, which is the same
	// memory where the update is in place.
	old, next [maxSlots]*tensor.Tensor

	rewrite func(next, old *tensor.Tensor) error
	then    func() error // what runs under the locks
}

// lockedVariable is a variable of an update and where it stands among the inputs.
type lockedVariable struct {
	variable *containers.Variable
	at       int
}

// prepare sets what runs under the locks.
func (l *slotLocks) prepare(then func() error) { l.then, l.rewrite = then, l.take }

// unused is l without variables, to be locked again at the same address.
func (l *slotLocks) unused() slotLocks { return slotLocks{then: l.then, rewrite: l.rewrite} }

// lockAll runs what it was prepared for with the first slots of vars locked.
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

// lockNext locks the next variable, and updates once all are.
func (l *slotLocks) lockNext() error {
	if l.locked == l.slots {
		return l.then()
	}
	return l.vars[l.locked].variable.Rewrite(l.ctx.Device.Memory(), nil, l.rewrite)
}

// take takes in the variable that was locked last.
func (l *slotLocks) take(next, old *tensor.Tensor) error {
	at := l.vars[l.locked].at
	l.next[at], l.old[at] = next, old
	l.locked++
	return l.lockNext()
}

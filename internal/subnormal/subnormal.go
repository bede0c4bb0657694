// Package subnormal makes goroutines treat subnormal numbers as zeros: operations read subnormal operands as zeros and return zeros for
// subnormal results. TensorFlow's threads compute like this.
//
// The processor's control register belongs to the thread, but a goroutine moves between threads. So a scope locks its goroutine to the
// thread until it ends. Go does not start threads from a locked one, since they would inherit its state, so no other goroutine ever
// computes in this mode. Waiting while locked is slow, since the thread sleeps with the goroutine: Pause leaves the scope meanwhile.
package subnormal

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Scope is a part of a goroutine's work that treats subnormal numbers as zeros. The zero value is no scope.
type Scope struct{ place *place }

// A goroutine that is preempted or waits in a scope keeps its thread, and a process can have only so many threads. So at most maxScopes
// exist at once. They are counted in separate groups, so that processors do not write to the same memory. A goroutine finds its group by
// the address of its stack.
const (
	groups    = 64
	inGroup   = 16
	maxScopes = groups * inGroup
)

type place struct {
	taken atomic.Int32
	_     [60]byte // each group has its own cache line
}

var places [groups]place

// enter takes a place, or returns nil if all are taken.
func enter() *place {
	var here byte
	first := uintptr(unsafe.Pointer(&here)) >> 11
	for i := range uintptr(groups) {
		p := &places[(first+i)%groups]
		if p.taken.Add(1) <= inGroup {
			return p
		}
		p.taken.Add(-1)
	}
	return nil
}

// Flush begins a scope. It has no effect within a scope, on a processor without such a mode, and while there are maxScopes.
func Flush() Scope {
	if bits == 0 || Flushing() {
		return Scope{}
	}
	p := enter()
	if p == nil {
		return Scope{}
	}
	runtime.LockOSThread()
	setControl(control() | bits)
	return Scope{p}
}

// Begun reports whether Flush has begun a scope.
func (s Scope) Begun() bool { return s.place != nil }

// End ends a scope begun by Flush. It must be called on the same goroutine.
func (s Scope) End() {
	if s.place != nil {
		endScope()
		s.place.taken.Add(-1)
	}
}

func endScope() {
	setControl(control() &^ bits)
	runtime.UnlockOSThread()
}

// Flushing reports whether the goroutine is in a scope. Outside of scopes, no thread that runs goroutines has the mode.
func Flushing() bool { return bits != 0 && control()&bits == bits }

// Pause leaves the goroutine's scope, if any, until the returned function is called. The scope keeps its place.
func Pause() (resume func()) {
	if !Flushing() {
		return func() {}
	}
	endScope()
	return func() {
		runtime.LockOSThread()
		setControl(control() | bits)
	}
}

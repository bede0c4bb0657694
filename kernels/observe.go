package kernels

import (
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/internal/rights"
)

// Execution describes a completed kernel.
type Execution struct {
	// Step is the number of the step.
	Step int64
	Node *graph.Node
	// Device is where the kernel ran. On an accelerator, Began and Ended are the times at which the host queued the work.
	Device       string
	Began, Ended time.Time
	// Rights are those of the session that the kernel ran for; nil if that may do everything.
	Rights *rights.Session
	// Tag is the loop iteration that the kernel ran in.
	Tag Tag
	// Bytes is the size of the outputs or, for a send, of the tensor sent.
	Bytes int64
}

// Observation holds the function that is notified of kernels that run. The zero value has none. All methods may be called concurrently.
type Observation struct {
	told atomic.Pointer[func(Execution)]
}

// Tell sets the function that is called for each kernel from now on, or removes it if f is nil. The function is called on the goroutines
// that run steps and must not wait.
func (o *Observation) Tell(f func(Execution)) {
	if f == nil {
		o.told.Store(nil)
		return
	}
	o.told.Store(&f)
}

// Told returns the current function, or nil if there is none. A nil Observation has none.
func (o *Observation) Told() func(Execution) {
	if o == nil {
		return nil
	}
	if f := o.told.Load(); f != nil {
		return *f
	}
	return nil
}

var made atomic.Pointer[func(*Construction)]

// TellMade sets the function that is called with what each kernel of this process is made of once it has been made, or removes it if f is
// nil. A test judges with it, by what it knows of a policy, whether the registry's rows admit what they must not. The function is called on
// the goroutines that compile programs and must not wait.
func TellMade(f func(*Construction)) {
	if f == nil {
		made.Store(nil)
		return
	}
	made.Store(&f)
}

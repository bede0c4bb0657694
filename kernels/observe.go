package kernels

import (
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph"
)

// Execution is a kernel that has run.
type Execution struct {
	// Step is the number of the step.
	Step int64
	Node *graph.Node
	// Device is where it ran. On an accelerator the times are those at which the host gave it the work.
	Device       string
	Began, Ended time.Time
	// Tag is the iteration of the loop that the kernel ran in.
	Tag Tag
	// Bytes is the size of what it put out, of a send that of the tensor sent.
	Bytes int64
}

// Observation is who is told of kernels that run. The zero value is nobody. All methods may be called concurrently.
type Observation struct {
	told atomic.Pointer[func(Execution)]
}

// Tell sets the function that is told of each kernel from now on; nil for none. It is called on the goroutines that run
// steps, and must not wait.
func (o *Observation) Tell(f func(Execution)) {
	if f == nil {
		o.told.Store(nil)
		return
	}
	o.told.Store(&f)
}

// Told is the function that is told now, nil for none. A nil Observation has none.
func (o *Observation) Told() func(Execution) {
	if o == nil {
		return nil
	}
	if f := o.told.Load(); f != nil {
		return *f
	}
	return nil
}

package gpu

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// end decides which comes first: the end of some work, or the cancellation of the step that waits for it.
type end struct {
	mu       sync.Mutex
	over     bool
	withdraw func() bool
	timer    *time.Timer
}

// watch calls cancelled with the step's error when the step has been cancelled for grace, unless the work ends first.
func watch(step *kernels.Step, grace time.Duration, cancelled func(error)) *end {
	e := &end{}
	if step == nil {
		return e
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	stop := func(err error) {
		if e.first() {
			cancelled(err)
		}
	}
	note := func(err error) {
		if grace == 0 {
			stop(err)
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if !e.over {
			e.timer = time.AfterFunc(grace, contain.Func(nil, "A step's end", func() { stop(err) }, nil))
		}
	}
	withdraw, ok := step.Cancellation.OnCancel(note)
	if ok {
		e.withdraw = withdraw
	} else {
		contain.Go(nil, "A step's end", func() { note(step.Cancellation.Err()) }, nil)
	}
	return e
}

// first reports whether the caller is the first to ask.
func (e *end) first() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return false
	}
	e.over = true
	if e.withdraw != nil {
		e.withdraw()
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	return true
}

package gpu

import (
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// work is a device's record of a step, from the first command given for it until it is settled.
type work struct {
	device *core
	step   *kernels.Step
	failed atomic.Bool
	mu     sync.Mutex
	err    error
}

// workOf finds or makes the work of a step. It returns nil for a nil step.
func (d *core) workOf(step *kernels.Step) *work {
	if step == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.works[step]
	if w == nil {
		w = &work{device: d, step: step}
		d.works[step] = w
	}
	return w
}

// fail makes the step fail with err; only the first error counts. The step is cancelled on another goroutine, since cancelling calls all
// waiting callbacks.
func (w *work) fail(err error, node *graph.Node) {
	if node != nil {
		err = graph.AtNode(err, node)
	}
	w.mu.Lock()
	first := w.err == nil
	w.err = status.Worse(w.err, err)
	w.mu.Unlock()
	if first {
		w.failed.Store(true)
		contain.Go(w.device.opts.Log, "A step's end", func() { w.step.Cancellation.Cancel(status.Derive(err)) }, nil)
	}
}

// problem returns the error that the step failed with, or nil.
func (w *work) problem() error {
	if !w.failed.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

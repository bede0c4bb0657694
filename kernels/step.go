package kernels

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/processors"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/queues"
)

// Step is one run of a graph on one task, as its kernels see it.
type Step struct {
	// ID is the same on all tasks of the run.
	ID int64
	// Feeds are the values of the part's _Arg nodes; Fetches receives those of its _Retval nodes.
	Feeds   Feeds
	Fetches Fetches
	// Rendezvous is where the step's parts exchange tensors.
	Rendezvous Rendezvous
	// Foreign is whether the step exchanges tensors with TensorFlow's own executors: loops then have their numbers.
	Foreign bool
	// Cancellation fires when the step fails or is cancelled.
	Cancellation *Cancellation
	// Container names the container for everything that ends with the step (TensorArrays, stacks, temporary variables). The task clears it
	// after the step.
	Container string
	// Tracer, if not nil, records the kernels of the step, which then runs without optimizations.
	Tracer Tracer
	// Observed, if not nil, holds the function that is notified of the kernels that run from now on, as the optimized program runs them.
	Observed *Observation
	// Receiver, if not nil, is notified of the tensors that the step receives.
	Receiver Receiver
	// Runner, if not nil, runs the step. Without one, a step keeps the goroutine that began it until it waits, and sends whenever it can.
	Runner Runner
	// Quota, if not nil, limits the host memory that the step's kernels use on CPU devices.
	Quota *tensor.Quota
	// Work, if not nil, waits for a processor when other clients' steps also need one.
	Work *processors.Work
	// Log is the logger for kernels, such as for a PrintV2 to a log; if nil, their messages are discarded.
	Log *slog.Logger
	// Files is the source of the step's files; kernels use Context.Files. nil gives access to none.
	Files *files.Door
	// Depth is the number of function calls that this step is nested in.
	Depth int
	// Origin identifies the step's source, for inspecting what the step has left behind.
	Origin Origin
	// Notes, if not nil, records what operators should learn of the step's session. It outlives the step.
	Notes queues.Notes
	// Changes, if not nil, collects what the step does to durable resources of the task.
	Changes *durable.Tx
	// Runs, if not nil, lists the runs of the step's parts and functions that wait or compute for long.
	Runs *Runs
}

// Tracer records what a step does. Its method is called on the goroutines that run the step, and must not wait.
type Tracer interface {
	// Ran is called for every kernel that has run, with its device, its outputs and its begin and end times. The outputs are borrowed for
	// the call; those of a failed kernel may be missing.
	Ran(n *graph.Node, device string, outputs []Value, begun, ended time.Time)
}

// Receiver is notified of what a step receives. Its method is called on the goroutines that run the step, and must not wait.
type Receiver interface {
	// Received is called for each completed receive, with its error and its tensor. The tensor is borrowed for the call and nil if none
	// arrived.
	Received(x Execution, t *tensor.Tensor, err error)
}

// Runner is what runs a part of a step: its task. Its methods are called on the goroutines that run the step, and must not wait.
type Runner interface {
	// Flush is called when the run has started everything that was ready and must wait. It should send what the kernels have queued
	// meanwhile.
	Flush()
	// Continue runs work on a goroutine other than the caller's: the run continues there once a kernel that it waited for has completed.
	Continue(work func())
	// Yield is called before a kernel that may take long. If it returns true, the caller gives up its goroutine and the run continues
	// through Continue.
	Yield() bool
	// Room reports whether size bytes may be sent to a device now. If not, ready is called once, on another goroutine, when there may be
	// room, and the caller asks again.
	Room(device string, size int, ready func()) bool
}

// Continue runs work of the step, which what names in the log, on a goroutine other than the caller's.
func (s *Step) Continue(what string, work func()) {
	if s.Runner != nil {
		s.Runner.Continue(work)
		return
	}
	contain.Go(s.Log, what, work, nil)
}

// Yield reports whether the caller must give up its goroutine, and go on through Continue.
func (s *Step) Yield() bool { return s.Runner != nil && s.Runner.Yield() }

// Flush sends what the step's kernels have queued.
func (s *Step) Flush() {
	if s.Runner != nil {
		s.Runner.Flush()
	}
}

// Origin identifies where a step comes from; a queue remembers it for its last user.
type Origin = queues.Origin

// Runs lists the runs of a step that wait or compute for long, for inspection of the step. The zero value is an empty list; all methods may
// be called concurrently. Only the executor knows what a run is.
type Runs struct {
	mu   sync.Mutex
	list []ListedRun
}

// ListedRun is a run and its number. The run's memory may be reused for other runs.
type ListedRun struct {
	Run    any
	Number uint64
}

// Add adds a run to the list.
func (l *Runs) Add(run ListedRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, run)
}

// Remove removes a run from the list.
func (l *Runs) Remove(run ListedRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.list, run); i >= 0 {
		last := len(l.list) - 1
		l.list[i], l.list[last] = l.list[last], ListedRun{}
		l.list = l.list[:last]
	}
}

// All returns the runs that are listed now.
func (l *Runs) All() []ListedRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// Feeds provides the fed tensors by index.
type Feeds interface {
	// Feed calls done with the tensor of _Arg node index, at once or when it is fed. The receiver owns a reference.
	Feed(index int, done func(*tensor.Tensor, error))
}

// Fetches receives the fetched tensors by index.
type Fetches interface {
	// Fetch hands over the value of _Retval node index; dead reports that its branch was not taken.
	Fetch(index int, t *tensor.Tensor, dead bool)
}

// Key names a transfer within a step: an edge and the loop iteration that it belongs to.
type Key = transfer.Key

// Rendezvous is where a step's parts exchange tensors.
type Rendezvous interface {
	// Send hands over t, which is nil if dead, to the receiver of key on the device dst. It does not wait.
	Send(key Key, dst string, t *tensor.Tensor, dead bool) error
	// Recv calls done once with the tensor sent under key, or with the error that ended the step.
	// The receiver owns a reference to the tensor.
	Recv(key Key, done func(t *tensor.Tensor, dead bool, err error))
}

// Cancellation notifies the kernels of a step that the step is over. The zero value is ready for use; all methods may be called
// concurrently.
type Cancellation struct {
	fired atomic.Bool
	mu    sync.Mutex
	err   error
	first func(error)
	next  int64
	calls map[int64]func(error)
}

// Bind sets the function that runs first when the Cancellation fires, for this step and all later ones that use the Cancellation. It must
// be called before any of them begins.
func (c *Cancellation) Bind(f func(error)) { c.first = f }

// Cancel fires with err: it refuses later registrations and runs the registered functions on the caller's goroutine. Only the first call
// has an effect.
func (c *Cancellation) Cancel(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	c.fired.Store(true)
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	if c.first != nil {
		c.first(err)
	}
	for _, f := range calls {
		f(err)
	}
}

// Err returns the error that the Cancellation fired with, or nil if it has not fired.
func (c *Cancellation) Err() error {
	if !c.fired.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// OnCancel registers f to run when the step is cancelled. If the step has already been cancelled, ok is false and f does not run. withdraw
// removes the registration and reports whether f can no longer run.
func (c *Cancellation) OnCancel(f func(error)) (withdraw func() bool, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, false
	}
	if c.calls == nil {
		c.calls = map[int64]func(error){}
	}
	id := c.next
	c.next++
	c.calls[id] = f
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, there := c.calls[id]
		delete(c.calls, id)
		return there
	}, true
}

// ErrStepCancelled is the error of waiting kernels when the cause of the cancellation is unknown.
var ErrStepCancelled = &status.Error{Code: status.Cancelled, Message: "Step was cancelled", Derived: true}

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
	"github.com/troupe-run/troupe/internal/processors"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/queues"
)

// Step is one run of a graph on one task, as its kernels see it.
type Step struct {
	// ID is the same on all tasks of the run.
	ID int64
	// Feeds are the values of the part's _Arg nodes and Fetches takes those of its _Retval nodes.
	Feeds   Feeds
	Fetches Fetches
	// Rendezvous is where the step's parts meet.
	Rendezvous Rendezvous
	// Cancellation fires when the step fails or is cancelled.
	Cancellation *Cancellation
	// Container is the name of the container for what ends with the step (TensorArrays, stacks,
	// temporary variables). The task clears it after the step.
	Container string
	// Trace, if not nil, is told of every kernel that ran: where, what it put out, and when it began and
	// ended. The outputs are borrowed for the call; those of a kernel that failed may be missing.
	Trace func(n *graph.Node, device string, outputs []Value, begun, ended time.Time)
	// Observed, if not nil, says who is told of the kernels that run from now on, as the optimized program runs them: unlike
	// Trace, it changes nothing of how the step runs.
	Observed *Observation
	// Received, if not nil, is told of each receive that has ended: of the tensor, which is borrowed for the call and nil where none
	// came, and of the error. It is called on the goroutines that run the step and must not wait.
	Received func(x Execution, t *tensor.Tensor, err error)
	// Flush, if not nil, is called when the run has fired all that was ready and has to wait: what
	// its kernels have sent meanwhile should be on its way.
	Flush func()
	// Continue, if not nil, runs work on a goroutine other than the caller's: the run goes on there
	// after a kernel that it waited for has reported. nil starts a goroutine.
	Continue func(work func())
	// Yield, if not nil, is called before a kernel that may take long. When it gives true, the caller
	// gives its goroutine back, and the run goes on by Continue.
	Yield func() bool
	// Room, if not nil, is asked before size bytes are sent to a device. Where it tells that they have to
	// wait, ready is called once when they may have room, on another goroutine, and the caller asks again.
	Room func(device string, size int, ready func()) bool
	// Quota, if not nil, bounds the host memory that the step's kernels take on CPU devices.
	Quota *tensor.Quota
	// Work, if not nil, waits for a processor where other clients' steps want them, too.
	Work *processors.Work
	// Log is where kernels log, such as a PrintV2 to a log; nil discards what they log.
	Log *slog.Logger
	// Files are those that the step's ops may use; kernels get them from Context.Files.
	Files files.FS
	// Depth is how many function calls this step is nested in.
	Depth int
	// Origin says whose step it is, to those who look at what it has left behind.
	Origin Origin
	// Runs, if not nil, lists the runs of the step's parts and functions that wait or compute for long.
	Runs *Runs
}

// Origin tells where a step comes from: it is what a queue remembers of who used it last.
type Origin = queues.Origin

// Runs lists the runs of a step that wait or compute for long, for those who look at the step. The zero value is an empty
// list; all methods may be called concurrently. What a run is only the executor knows.
type Runs struct {
	mu   sync.Mutex
	list []ListedRun
}

// ListedRun is a run, whose memory is used again for others, with its number.
type ListedRun struct {
	Run    any
	Number uint64
}

// Add lists a run.
func (l *Runs) Add(run ListedRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, run)
}

// Remove takes a run off the list.
func (l *Runs) Remove(run ListedRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.list, run); i >= 0 {
		last := len(l.list) - 1
		l.list[i], l.list[last] = l.list[last], ListedRun{}
		l.list = l.list[:last]
	}
}

// All are the runs that are listed now.
func (l *Runs) All() []ListedRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// Feeds gives the fed tensors by index.
type Feeds interface {
	// Feed calls done with the tensor of _Arg node index, at once or when it is fed. The
	// receiver owns a reference.
	Feed(index int, done func(*tensor.Tensor, error))
}

// Fetches takes the fetched tensors by index.
type Fetches interface {
	// Fetch hands over the value of _Retval node index; dead tells that its branch was not taken.
	Fetch(index int, t *tensor.Tensor, dead bool)
}

// Key names a transfer within a step: an edge, and the iteration of the loop it lies in.
type Key struct {
	Edge string
	Tag  Tag
}

// Rendezvous is where a step's parts exchange tensors.
type Rendezvous interface {
	// Send hands over t (nil when dead) to whoever receives key on the device dst; it does not wait.
	Send(key Key, dst string, t *tensor.Tensor, dead bool) error
	// Recv calls done once with the tensor sent under key, or with the error that ended the step.
	// The receiver owns a reference to the tensor.
	Recv(key Key, done func(t *tensor.Tensor, dead bool, err error))
}

// Cancellation tells the kernels of a step that it is over. The zero value is ready for use;
// all methods may be called concurrently.
type Cancellation struct {
	fired atomic.Bool
	mu    sync.Mutex
	err   error
	first func(error)
	next  int64
	calls map[int64]func(error)
}

// Bind sets the function that runs first when it fires, for this step and all later ones that the
// Cancellation is used for. It is called before any of them begins.
func (c *Cancellation) Bind(f func(error)) { c.first = f }

// Cancel fires with err: later registrations are refused and the registered functions run, on
// the caller's goroutine. Only the first call has an effect.
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

// Err is the error that it fired with, nil before.
func (c *Cancellation) Err() error {
	if !c.fired.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// OnCancel registers f to run when the step is cancelled. ok is false when it has been
// already: f will not run. The returned function withdraws the registration; it tells whether
// f can no longer run.
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

// ErrStepCancelled is what waiting kernels end with where the cause is not known.
var ErrStepCancelled = &status.Error{Code: status.Cancelled, Message: "Step was cancelled", Derived: true}

package reader

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/queues"
)

// Source produces records from units of work. Its methods are never called concurrently. Names of units of work and of readers have
// TensorFlow's meaning in errors and keys.
type Source interface {
	// Open begins a unit of work. Close must have ended the previous one.
	Open(fsys files.FS, work string) error
	// Admit returns why a session may not continue reading the unit of work, if its files differ from those of the session that opened it.
	Admit(fsys files.FS) error
	// Next returns the next record; last reports whether it is the unit's last one. At the end it returns io.EOF.
	Next() (record Record, last bool, err error)
	// Close ends the unit of work at any point. It may be called without one.
	Close()
	// Whole reports whether a unit of work is one record, so that the counts alone are the reader's state.
	Whole() bool
}

// Record is what a reader produces.
type Record struct{ Key, Value string }

// Work requests the name of the next unit of work. done is called once with it, on any goroutine, and must not block. The returned function
// cancels the wait; done then gets CANCELLED.
type Work func(done func(name string, err error)) (cancel func(error))

// Reader is a reader of one kind. All methods may be called concurrently; none waits. Operations run one after the other, in the order of
// the calls. Their done functions are called exactly once, on any goroutine. The function that an operation returns ends it with CANCELLED
// if it is still waiting; so does the end of its step.
type Reader struct {
	kind, name string
	source     Source

	started, finished, produced atomic.Int64
	opener                      files.FS // of the session that opened the unit of work, or was last admitted to it

	mu      sync.Mutex
	work    string       // the unit of work, even after its end; only changed by the operation whose turn it is
	busy    *operation   // the operation whose turn it is
	waiting []*operation // for their turn
	deleted bool
	ended   chan struct{}
}

// operation is an action that runs when its turn comes.
type operation struct {
	run  func()      // on its own goroutine; ends with leave
	fail func(error) // called instead of run
	by   queues.Origin
	step queues.Step
	asks bool // it waits for a unit of work
	// cancelled is why the operation must end, or nil; wait cancels what it waits for, if anything.
	cancelled error
	wait      func(error)
	waits     int
}

// New returns a reader; kind is the op that it belongs to, name the node.
func New(kind, name string, source Source) *Reader {
	return &Reader{kind: kind, name: name, source: source, ended: make(chan struct{})}
}

// title returns the reader's name in errors.
func (r *Reader) title() string { return r.kind + " '" + r.name + "'" }

// enter queues an operation for its turn. The returned function cancels it.
func (r *Reader) enter(o *operation) (cancel func(error)) {
	r.mu.Lock()
	deleted := r.deleted
	switch {
	case deleted:
	case r.busy == nil:
		r.busy = o
		r.start(o, o.run)
	default:
		r.waiting = append(r.waiting, o)
	}
	r.mu.Unlock()
	if deleted {
		o.fail(r.gone())
		return func(error) {}
	}
	return func(cause error) { r.cancel(o, Cancelled(cause)) }
}

func (r *Reader) gone() error { return status.Errorf(status.Aborted, "%s was deleted.", r.title()) }

// Cancelled returns the error of a cancelled operation.
func Cancelled(cause error) error {
	if cause == nil {
		return status.Derive(status.New(status.Cancelled, "Step was cancelled"))
	}
	return status.Derive(status.Errorf(status.Cancelled, "Step was cancelled: %v", cause))
}

func (r *Reader) cancel(o *operation, err error) {
	r.mu.Lock()
	if i := slices.Index(r.waiting, o); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		r.mu.Unlock()
		o.fail(err)
		return
	}
	if o.cancelled == nil {
		o.cancelled = err
	}
	wait := o.wait
	r.mu.Unlock()
	if wait != nil {
		wait(err)
	}
}

// start runs f on a goroutine, for an operation whose turn it is. A panic of f ends both.
func (r *Reader) start(o *operation, f func()) {
	disk.Go(contain.Func(nil, r.title(), f, func(err error) {
		r.mu.Lock()
		left := r.busy != o
		r.mu.Unlock()
		if !left {
			r.endTurn()
			o.fail(err)
		}
	}))
}

// endTurn ends the turn of the operation that has it.
func (r *Reader) endTurn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = nil
	switch {
	case r.deleted:
		r.end()
	case len(r.waiting) > 0:
		r.busy, r.waiting = r.waiting[0], r.waiting[1:]
		r.start(r.busy, r.busy.run)
	}
}

// end finishes a deleted reader after its last operation.
func (r *Reader) end() {
	r.source.Close()
	close(r.ended)
}

// Close deletes the reader. Waiting and later operations end with ABORTED. A file being read may remain open until Done is closed.
func (r *Reader) Close() {
	r.mu.Lock()
	if r.deleted {
		r.mu.Unlock()
		return
	}
	r.deleted = true
	waiting, busy := r.waiting, r.busy
	r.waiting = nil
	if busy == nil {
		r.end()
	}
	r.mu.Unlock()
	for _, o := range waiting {
		o.fail(r.gone())
	}
	if busy != nil {
		r.cancel(busy, r.gone())
	}
}

// Deleted reports whether Close was called.
func (r *Reader) Deleted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deleted
}

// Done returns a channel that is closed when the reader is deleted and all its work has ended.
func (r *Reader) Done() <-chan struct{} { return r.ended }

// begins records the unit of work.
func (r *Reader) begins(work string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.work = work
}

// Show adds the reader's state to a listing.
func (r *Reader) Show(v *view.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.Reader = &view.Reader{Kind: r.kind, Work: view.Line(r.work), Started: r.started.Load(), Finished: r.finished.Load(), Produced: r.produced.Load(), Waiting: int64(len(r.waiting))}
	if o := r.busy; o != nil {
		v.Reader.Asks, v.Reader.Turn = o.asks, o.by.Proto()
	}
}

// Describe describes the reader for listings.
func (r *Reader) Describe() string { return r.kind }

// Produced returns the number of records produced.
func (r *Reader) Produced() int64 { return r.produced.Load() }

// Finished returns the number of units of work read to the end.
func (r *Reader) Finished() int64 { return r.finished.Load() }

// gaveUp returns why an operation must end, or nil.
func (r *Reader) gaveUp(o *operation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := o.step.Err(); err != nil && o.cancelled == nil {
		o.cancelled = Cancelled(err)
	}
	return o.cancelled
}

// now runs a short action for a step when its turn has come.
func (r *Reader) now(step queues.Step, by queues.Origin, action func() error, done func(error)) (cancel func(error)) {
	o := &operation{by: by, step: step, fail: done}
	o.run = func() {
		err := r.gaveUp(o)
		if err == nil {
			err = action()
		}
		r.endTurn()
		done(err)
	}
	return r.enter(o)
}

// Reset returns the reader to its initial state, for the step that by identifies.
func (r *Reader) Reset(step queues.Step, by queues.Origin, done func(error)) (cancel func(error)) {
	return r.now(step, by, func() error {
		r.reset()
		return nil
	}, done)
}

func (r *Reader) reset() {
	r.source.Close()
	r.started.Store(0)
	r.finished.Store(0)
	r.produced.Store(0)
	r.begins("")
}

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

// Source makes records of units of work. Its methods are called one at a time. What the names of a unit of work and of
// a reader mean in errors and keys is TensorFlow's.
type Source interface {
	// Open begins a unit of work, after Close where there was one before.
	Open(fsys files.FS, work string) error
	// Admit tells why somebody may not read on in the unit of work, who has other files than the one who opened it.
	Admit(fsys files.FS) error
	// Next gives the next record; last tells that it is the unit's last one. io.EOF where there is no more.
	Next() (record Record, last bool, err error)
	// Close ends the unit of work, wherever it is. It may be called without one.
	Close()
	// Whole tells that a unit of work is one record, so that the counts alone are the reader's state.
	Whole() bool
}

// Record is what a reader produces.
type Record struct{ Key, Value string }

// Work asks for the name of the next unit of work: done is called once with it, on any goroutine, and must not block.
// The function that it returns gives up waiting; done then gets CANCELLED.
type Work func(done func(name string, err error)) (cancel func(error))

// Reader is a reader of one kind. All methods may be called concurrently; none waits. Operations are done one after
// the other, in the order in which they were asked for. Their functions done are called exactly once, on any
// goroutine; the function that an operation returns makes it end with CANCELLED where it still waits.
type Reader struct {
	kind, name string
	source     Source

	started, finished, produced atomic.Int64
	opener                      files.FS // of the one who began the unit of work, or was admitted to it last

	mu      sync.Mutex
	work    string       // the unit of work, also when it has ended; only whose turn it is changes it
	busy    *operation   // whose turn it is
	waiting []*operation // for their turn
	deleted bool
	ended   chan struct{}
}

// operation is something that takes its turn.
type operation struct {
	run  func()      // on a goroutine of its own; ends with leave
	fail func(error) // instead of run
	by   queues.Origin
	asks bool // it waits for a unit of work
	// cancelled is why the operation is to end, once it is; wait gives up what it waits for, if it does.
	cancelled error
	wait      func(error)
	waits     int
}

// New makes a reader; kind is the op that it belongs to, name the node.
func New(kind, name string, source Source) *Reader {
	return &Reader{kind: kind, name: name, source: source, ended: make(chan struct{})}
}

// title is what errors call the reader.
func (r *Reader) title() string { return r.kind + " '" + r.name + "'" }

// enter lets an operation have its turn. The function that it returns cancels it.
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

// Cancelled is the error of an operation that was given up.
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
			r.leave()
			o.fail(err)
		}
	}))
}

// leave ends the turn of the operation that has it.
func (r *Reader) leave() {
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

// end is what comes after the last operation of a reader that is deleted.
func (r *Reader) end() {
	r.source.Close()
	close(r.ended)
}

// Close deletes the reader: what waits ends with ABORTED, and so does what comes later. Done tells when a file that is
// being read has been closed, too.
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

// Deleted tells whether Close was called.
func (r *Reader) Deleted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deleted
}

// Done is closed when the reader was deleted and does nothing any more.
func (r *Reader) Done() <-chan struct{} { return r.ended }

// begins notes the unit of work.
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

// Describe is the reader for listings.
func (r *Reader) Describe() string { return r.kind }

// Produced is the number of records that the reader has given.
func (r *Reader) Produced() int64 { return r.produced.Load() }

// Finished is the number of units of work that it has come to the end of.
func (r *Reader) Finished() int64 { return r.finished.Load() }

// now runs a short action for a step when its turn has come.
func (r *Reader) now(by queues.Origin, action func() error, done func(error)) (cancel func(error)) {
	return r.enter(&operation{
		by: by,
		run: func() {
			err := action()
			r.leave()
			done(err)
		},
		fail: done,
	})
}

// Reset makes the reader what it was at first, for a step.
func (r *Reader) Reset(by queues.Origin, done func(error)) (cancel func(error)) {
	return r.now(by, func() error {
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

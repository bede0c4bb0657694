package iterator

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// kindIterator is the kind of iterators as resources.
const kindIterator = "tensorflow::data::IteratorResource"

// Resource is an iterator in a container, which sessions can share. All methods may be called concurrently.
type Resource struct {
	name  string
	spec  dataset.Spec
	token uint64 // must be in a string handle, so that handles cannot be guessed

	mu      sync.Mutex
	now     *pipeline
	open    map[*pipeline]bool // the present pipeline, and earlier ones whose iterators are still in use
	deleted bool
	given   atomic.Int64  // elements returned
	waited  atomic.Int64  // nanoseconds that steps waited for elements
	done    chan struct{} // closed when the resource is deleted and no pipeline is open
}

// pipeline is a dataset that is being iterated over.
type pipeline struct {
	*dataset.Env
	dataset *dataset.Dataset
	dataset.Iterator
	turn dataset.Turn // to use the iterator

	// Guarded by the resource's lock:
	ended view.Act        // the step that reached the end first
	late  view.Latecomers // sessions that were opened after that
}

func newResource(name string, spec dataset.Spec) *Resource {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return &Resource{name: name, spec: spec, token: binary.LittleEndian.Uint64(b[:]), open: map[*pipeline]bool{}, done: make(chan struct{})}
}

// Close deletes the iterator, and ends its work.
func (r *Resource) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleted {
		return
	}
	r.deleted = true
	for p := range r.open {
		p.Abort()
	}
	r.replace(nil)
	if len(r.open) == 0 {
		close(r.done)
	}
}

// Deleted reports whether Close was called.
func (r *Resource) Deleted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deleted
}

// Done returns a channel that is closed when the iterator has been deleted and none of its work runs any more.
func (r *Resource) Done() <-chan struct{} { return r.done }

// Describe describes the iterator for listings.
func (r *Resource) Describe() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil {
		return "iterator, without a dataset"
	}
	return "iterator over a " + r.now.dataset.Op + ", " + dataset.CountText(r.given.Load()) + " given"
}

// replace installs p as the pipeline, and ends the previous one when it is no longer in use. The caller holds mu.
func (r *Resource) replace(p *pipeline) {
	old := r.now
	r.now = p
	if old == nil {
		return
	}
	contain.Go(old.Log, "The end of an iterator", func() {
		old.turn <- struct{}{} // waiters have been cancelled, or get their turn eventually
		old.close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, old)
		if len(r.open) == 0 && r.deleted {
			close(r.done)
		}
	}, nil)
}

// close ends a pipeline. The caller must have its turn.
func (p *pipeline) close() {
	p.Abort()
	p.Close()
	p.Shutdown()
	p.dataset.Release()
}

// set makes the iterator start at a dataset's first element. Its elements count as memory of the device and of
// the owning session, not of the step.
func (r *Resource) set(ctx *kernels.Context, device kernels.Device, d *dataset.Dataset) error {
	return r.setNoting(ctx, device, d, func(*pipeline) {})
}

// setNoting is set with a function that is called with the lock when the new pipeline becomes the present one.
func (r *Resource) setNoting(ctx *kernels.Context, device kernels.Device, d *dataset.Dataset, begins func(*pipeline)) error {
	return r.setRestored(dataset.NewEnv(ctx, device), d, func(dataset.Iterator) error { return nil }, begins)
}

// setRestored is setNoting with a function that is applied to the new iterator before it becomes visible. It takes over the Env.
func (r *Resource) setRestored(env *dataset.Env, d *dataset.Dataset, restore func(dataset.Iterator) error, begins func(*pipeline)) error {
	if err := r.spec.Check(d.Spec); err != nil {
		env.Shutdown()
		return err
	}
	d.Retain()
	it, err := d.Open(env)
	if err != nil {
		env.Shutdown()
		d.Release()
		return err
	}
	p := &pipeline{Env: env, dataset: d, Iterator: it, turn: dataset.NewTurn()}
	if err := restore(it); err != nil {
		p.close()
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleted {
		p.close()
		return dataset.ErrClosed
	}
	r.open[p] = true
	r.replace(p)
	begins(p)
	return nil
}

// use calls f with the pipeline when it is the caller's turn. what names the operation in the error for a missing pipeline.
func (r *Resource) use(ctx *kernels.Context, what, before string, f func(c *dataset.Call, p *pipeline) error) error {
	r.mu.Lock()
	p := r.now
	r.mu.Unlock()
	if p == nil {
		return status.Errorf(status.FailedPrecondition, "%s failed because the iterator has not been initialized. Ensure that you have run the initializer operation for this iterator before %s.", what, before)
	}
	c, end := p.NewCall(ctx.Step.Depth, ctx.Step.Cancellation)
	defer end()
	if err := p.turn.Take(c); err != nil {
		return err
	}
	defer p.turn.Leave()
	if err := c.Err(); err != nil {
		return err
	}
	return contain.Run(p.Log, "An input pipeline", func() error { return f(c, p) })
}

// atEnd reports whether a step has reached the end of the pipeline, and records the first one that has.
func (r *Resource) atEnd(err error, p *pipeline, by kernels.Origin) bool {
	if !dataset.AtEnd(err) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.ended.At.IsZero() {
		p.ended = view.Act{By: by, At: time.Now()}
	}
	return true
}

// endOfSequence returns the error of a step that gets no element. If another session reached the end before, the error says so:
// the step's session may have expected a fresh start. If that session was opened after the end, operators learn of it, too.
func (r *Resource) endOfSequence(step *kernels.Step) error {
	text, missed := r.end(step.Origin)
	if missed != "" && step.Notes != nil {
		step.Notes.Missed("iterator", r.name, missed)
	}
	return status.New(status.OutOfRange, text)
}

// end returns the text of the error of a step that gets no element, and what is recorded of its session.
func (r *Resource) end(by kernels.Origin) (text, missed string) {
	const again = "the iterator's initializer, or a reset of its container, begins anew"
	r.mu.Lock()
	defer r.mu.Unlock()
	text = "End of sequence"
	if r.now == nil || r.now.ended.At.IsZero() {
		return text, ""
	}
	now, ended := time.Now(), r.now.ended
	if before := ended.Before(by); before != "" {
		text += fmt.Sprintf(". It was reached %s%s: %s", ended.When(now), before, again)
	}
	if ended.Precedes(by) && r.now.late.Miss(view.Act{By: by, At: now}) {
		missed = fmt.Sprintf("session %s of %s has got the end of iterator '%s' and no element, because it was opened after the end was reached, %s: %s",
			by.Session, by.Master, r.name, ended.When(now), again)
	}
	return text, missed
}

// next returns the next element, or io.EOF after the last.
func (r *Resource) next(ctx *kernels.Context) (e dataset.Element, err error) {
	err = r.use(ctx, "GetNext()", "getting the next element", func(c *dataset.Call, p *pipeline) (err error) {
		door := ctx.Step.Files
		if err := p.Admit(door); err != nil {
			return err
		}
		begun := time.Now()
		e, err = p.Next(c)
		r.waited.Add(int64(time.Since(begun)))
		if r.atEnd(err, p, ctx.Step.Origin) || err != nil {
			return err
		}
		if err = p.Admit(door); err != nil { // it has opened another file
			e.Release()
		}
		return err
	})
	if err == nil {
		r.given.Add(1)
	}
	return e, err
}

// save returns the iterator's state.
func (r *Resource) save(ctx *kernels.Context, check func(*dataset.Dataset) error) (s *dataset.State, err error) {
	err = r.use(ctx, "Save()", "saving it", func(c *dataset.Call, p *pipeline) (err error) {
		if err := check(p.dataset); err != nil {
			return err
		}
		s, err = dataset.SaveState(c, p)
		return err
	})
	return s, err
}

// restore moves the iterator to the saved position of one over the same dataset.
func (r *Resource) restore(ctx *kernels.Context, s *dataset.State) error {
	var d *dataset.Dataset
	var device kernels.Device
	err := r.use(ctx, "Restore()", "restoring it", func(_ *dataset.Call, p *pipeline) error {
		d, device = p.dataset, p.Device
		d.Retain()
		return nil
	})
	if err != nil {
		return err
	}
	defer d.Release()
	env := dataset.NewEnv(ctx, device)
	return r.setRestored(env, d, func(it dataset.Iterator) error {
		c, end := env.NewCall(ctx.Step.Depth, ctx.Step.Cancellation)
		defer end()
		return contain.Run(env.Log, "An input pipeline", func() error { return dataset.RestoreState(c, it, s) })
	}, func(*pipeline) {})
}

// Stages returns the stages of the iterator's pipeline, the last one first and each after its Parent; nil if the iterator has no dataset.
// It may be called at any time, even while a step waits for an element. It reads counters, and locks each buffer while it adds up its
// elements' sizes. Pipelines always count, which costs one addition per element and stage.
func (r *Resource) Stages() []dataset.StageStats {
	r.mu.Lock()
	p := r.now
	r.mu.Unlock()
	if p == nil {
		return nil
	}
	list := p.Stages()
	if len(list) > 0 {
		list[0].ConsumerWait += time.Duration(r.waited.Load())
	}
	return list
}

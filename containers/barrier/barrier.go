// Package barrier holds TensorFlow's barriers: tuples whose components are inserted one by one, by key. Complete tuples can be taken,
// several in one call.
package barrier

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/containers/internal/waiting"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/view"
)

// Options configure a barrier. They are the attributes of its op.
type Options struct {
	// Name is the barrier's name in error messages.
	Name string
	// DTypes and Shapes are the types and shapes of a tuple's components, fully known and equal in number.
	DTypes []tensor.DType
	Shapes []tensor.Shape
	// Pool is the memory for the tensors that leave.
	Pool *tensor.Pool
}

// Barrier is a barrier. All methods may be called concurrently; none waits.
type Barrier struct {
	waiting.Users
	options Options
	room    waiting.Room
	takes   *waiting.Line

	// Guarded by room.
	incomplete map[string]*element
	ready      []*element // ordered by index, then by when they became complete
	index      int64      // index for new keys
	elements   int64      // made so far
	completed  int64      // how many of them have become complete
	keeper     durable.Keeper
	closed     bool
	cancelled  bool // closed to all insertions
	drained    bool // no further elements can become complete
	closing    view.Act
}

// element is a tuple, complete or not. Its components are copied rows of the inserted values.
type element struct {
	number     int64 // among all of the barrier
	index      int64
	complete   int64 // how many had become complete with it; 0 for an incomplete one
	key        string
	components []*tensor.Tensor // nil for missing components
}

func (e *element) release() {
	for _, t := range e.components {
		if t != nil {
			t.Release()
		}
	}
}

// firstIndex is the index of the first new keys.
const firstIndex = math.MinInt64

// New makes an empty barrier.
func New(o Options) *Barrier {
	b := &Barrier{options: o, incomplete: map[string]*element{}, index: firstIndex}
	b.takes = b.room.NewLine(true)
	return b
}

// DTypes returns the types of a tuple's components. The caller must not change them.
func (b *Barrier) DTypes() []tensor.DType { return b.options.DTypes }

// Matches returns INVALID_ARGUMENT if the barrier cannot serve a node that asks for other types or shapes under
// the same name.
func (b *Barrier) Matches(asked Options) error {
	o := b.options
	if !slices.Equal(o.DTypes, asked.DTypes) {
		return status.InvalidArgumentf("Shared barrier '%s' has component types %s but requested component types were %s",
			o.Name, list(o.DTypes, ", "), list(asked.DTypes, ", "))
	}
	if !slices.EqualFunc(o.Shapes, asked.Shapes, tensor.Shape.Equal) {
		return status.InvalidArgumentf("Shared barrier '%s' has component shapes [%s] but requested component shapes were [%s]",
			o.Name, list(o.Shapes, ", "), list(asked.Shapes, ", "))
	}
	return nil
}

func list[T fmt.Stringer](of []T, between string) string {
	texts := make([]string, len(of))
	for i, v := range of {
		texts[i] = v.String()
	}
	return strings.Join(texts, between)
}

// CloseBarrier closes the barrier to new keys. Incomplete tuples may still be completed, unless cancel forbids all insertions and drops
// them. Takes fail with OUT_OF_RANGE when the barrier can no longer satisfy them. CloseBarrier fails with CANCELLED if the barrier is
// already closed, unless it newly sets cancel. Errors of later steps name by.
//
// changes are those of the step, here and below; nil for a change by no step.
func (b *Barrier) CloseBarrier(changes *durable.Tx, cancel bool, by view.StepOrigin) error {
	return b.room.Do(func() error {
		if err := b.keeper.Admits(durable.Removes()); err != nil {
			return err
		}
		if b.closed && (b.cancelled || !cancel) {
			return status.Errorf(status.Cancelled, "Barrier '%s' is already closed.%s", b.options.Name, b.closedBy())
		}
		if !b.closed {
			b.closing = view.Act{By: by, At: time.Now()}
		}
		b.closed, b.cancelled = true, cancel
		b.keeper.Change(changes, func(r durable.Recorder) {
			b.recordState(r)
			if cancel {
				for _, e := range b.incomplete {
					e.recordGone(r)
				}
			}
		})
		if cancel {
			b.dropIncomplete()
		}
		b.drained = len(b.incomplete) == 0
		return nil
	})
}

// closedBy returns the text that follows TensorFlow's words in an error: who closed the barrier, and how to use its name again.
func (b *Barrier) closedBy() string {
	return fmt.Sprintf(" It was closed %s, and stays closed: a reset of its container deletes it", b.closing.When(time.Now()))
}

func (b *Barrier) dropIncomplete() {
	for _, e := range b.incomplete {
		e.release()
	}
	clear(b.incomplete)
}

// ReadySize returns the number of tuples that can be taken.
func (b *Barrier) ReadySize() (n int) {
	b.room.Look(func() { n = len(b.ready) })
	return n
}

// IncompleteSize returns the number of tuples that lack components.
func (b *Barrier) IncompleteSize() (n int) {
	b.room.Look(func() { n = len(b.incomplete) })
	return n
}

// Close deletes the barrier: pending takes fail with ABORTED.
func (b *Barrier) Close() {
	b.room.Close(status.Errorf(status.Aborted, "Barrier '%s' was deleted.", b.options.Name), func() {
		b.dropIncomplete()
		for _, e := range b.ready {
			e.release()
		}
		b.ready = nil
	})
}

// Deleted reports whether Close was called.
func (b *Barrier) Deleted() bool { return b.room.Closed() }

// Describe describes the barrier for listings.
func (b *Barrier) Describe() string {
	return fmt.Sprintf("barrier of (%s), %d tuples ready, %d incomplete", list(b.options.DTypes, ", "), b.ReadySize(), b.IncompleteSize())
}

// Show adds the barrier's state to a listing.
func (b *Barrier) Show(r *view.Resource) {
	s := &view.Store{Kind: "barrier"}
	b.room.Look(func() {
		s.Size, s.Incomplete, s.Closed, s.ClosedBy = int64(len(b.ready)), int64(len(b.incomplete)), b.closed, b.closing.Proto()
		r.Durable = b.keeper.Kept()
	})
	b.Tell(s)
	r.Store = s
}

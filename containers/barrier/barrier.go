// Package barrier holds TensorFlow's barriers: tuples whose components are inserted one by one, by key, and
// that can be taken, many at a time, when they are complete.
package barrier

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/containers/internal/waiting"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

// Options are what a barrier is made from: the attributes of its op.
type Options struct {
	// Name is what error messages call it.
	Name string
	// DTypes and Shapes are those of a tuple's components, fully known, as many of each.
	DTypes []tensor.DType
	Shapes []tensor.Shape
	// Pool is where the tensors that leave are put together.
	Pool *tensor.Pool
}

// Barrier is a barrier. All methods may be called concurrently; none waits.
type Barrier struct {
	waiting.Users
	options Options
	room    waiting.Room
	takes   *waiting.Line

	// What the room guards.
	incomplete map[string]*element
	ready      []*element // by their index, then as they became complete
	index      int64      // of keys that are new
	closed     bool
	cancelled  bool // closed so that nothing more can be inserted
	drained    bool // no more elements become complete
}

// element is a tuple, complete or not: rows of what was inserted.
type element struct {
	index      int64
	key        string
	components []*tensor.Tensor // nil for those that have not come
}

func (e *element) release() {
	for _, t := range e.components {
		if t != nil {
			t.Release()
		}
	}
}

// New makes an empty barrier.
func New(o Options) *Barrier {
	b := &Barrier{options: o, incomplete: map[string]*element{}, index: math.MinInt64}
	b.takes = b.room.NewLine(true)
	return b
}

// DTypes are the types of a tuple's components; the caller must not change them.
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

// CloseBarrier closes the barrier: no new keys come. Begun tuples may still be completed, unless cancel forbids
// all insertions; then incomplete tuples are dropped. Takes end with OUT_OF_RANGE when no more tuples can come
// for them. CANCELLED if the barrier is closed already, unless only cancel is new.
func (b *Barrier) CloseBarrier(cancel bool) error {
	return b.room.Do(func() error {
		if b.closed && (b.cancelled || !cancel) {
			return status.Errorf(status.Cancelled, "Barrier '%s' is already closed.", b.options.Name)
		}
		b.closed, b.cancelled = true, cancel
		if cancel {
			b.dropIncomplete()
		}
		b.drained = len(b.incomplete) == 0
		return nil
	})
}

func (b *Barrier) dropIncomplete() {
	for _, e := range b.incomplete {
		e.release()
	}
	clear(b.incomplete)
}

// ReadySize is how many tuples can be taken.
func (b *Barrier) ReadySize() (n int) {
	b.room.Look(func() { n = len(b.ready) })
	return n
}

// IncompleteSize is how many tuples lack components.
func (b *Barrier) IncompleteSize() (n int) {
	b.room.Look(func() { n = len(b.incomplete) })
	return n
}

// Close deletes the barrier: pending takes get ABORTED.
func (b *Barrier) Close() {
	b.room.Close(status.Errorf(status.Aborted, "Barrier '%s' was deleted.", b.options.Name), func() {
		b.dropIncomplete()
		for _, e := range b.ready {
			e.release()
		}
		b.ready = nil
	})
}

// Deleted tells whether Close was called.
func (b *Barrier) Deleted() bool { return b.room.Closed() }

// Describe is the barrier for listings.
func (b *Barrier) Describe() string {
	return fmt.Sprintf("barrier of (%s), %d tuples ready, %d incomplete", list(b.options.DTypes, ", "), b.ReadySize(), b.IncompleteSize())
}

// Show adds the barrier's state to a listing.
func (b *Barrier) Show(r *view.Resource) {
	s := &view.Store{Kind: "barrier"}
	b.room.Look(func() { s.Size, s.Incomplete, s.Closed = int64(len(b.ready)), int64(len(b.incomplete)), b.closed })
	b.Tell(s)
	r.Store = s
}

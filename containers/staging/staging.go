// Package staging holds TensorFlow's staging areas: a buffer of tuples in order of arrival (Stage, Unstage), and a map of tuples by key
// (MapStage, OrderedMapStage and related ops). Putting into a full area waits for room; taking waits for its tuple.
package staging

import (
	"cmp"

	"github.com/troupe-run/troupe/containers/internal/waiting"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
	"github.com/troupe-run/troupe/internal/view"
)

// Limits bound the contents of an area; 0 means no limit.
type Limits struct {
	// Capacity is the maximum number of tuples, Bytes the maximum memory of their elements.
	Capacity, Bytes int64
}

// area is what buffers and maps share: the waiting requests and the number of bytes.
type area struct {
	waiting.Users
	name    string
	limits  Limits
	room    waiting.Room
	putters *waiting.Line
	takers  *waiting.Line
	// Guarded by room.
	bytes  int64
	keeper durable.Keeper
}

func (a *area) init(name string, limits Limits) {
	a.name, a.limits = name, limits
	// The lines are not strict: an earlier request may wait for something else, such as more memory or another key.
	a.putters, a.takers = a.room.NewLine(false), a.room.NewLine(false)
}

// admits returns RESOURCE_EXHAUSTED if the bytes exceed the area's limit, so there can never be room for them.
func (a *area) admits(bytes int64) error {
	if a.limits.Bytes > 0 && bytes > a.limits.Bytes {
		return status.Errorf(status.ResourceExhausted, "Attempted to insert tensors with combined size of '%d' bytes into Staging Area with a memory limit of '%d'.",
			bytes, a.limits.Bytes)
	}
	return nil
}

// keepable returns an error if a durable area cannot take a tuple of that many bytes.
func (a *area) keepable(t []*tensor.Tensor, bytes int64) error {
	if !a.keeper.Kept() {
		return nil
	}
	dtypes := make([]tensor.DType, len(t))
	for i, e := range t {
		dtypes[i] = e.DType()
	}
	return cmp.Or(tuple.CheckKeepable("a tuple of staging area '"+a.name+"'", dtypes...), a.keeper.Admits(durable.Adds(int(bytes))))
}

// fits reports whether there is room for another tuple of the given size beside count tuples.
func (a *area) fits(count int, bytes int64) bool {
	return (a.limits.Capacity <= 0 || int64(count) < a.limits.Capacity) && a.hasMemory(bytes)
}

func (a *area) hasMemory(bytes int64) bool {
	return a.limits.Bytes <= 0 || bytes <= a.limits.Bytes-a.bytes
}

// put adds a tuple, whose references it takes over. attempt owns them once it succeeds.
func (a *area) put(step waiting.Step, tuple []*tensor.Tensor, attempt waiting.Attempt, done func(error)) (cancel func(error)) {
	return a.putters.Ask(step, attempt, "Stage operation was cancelled", func(err error) {
		if err != nil {
			release(tuple)
		}
		done(err)
	})
}

func (a *area) take(step waiting.Step, attempt waiting.Attempt, done func(error)) (cancel func(error)) {
	return a.takers.Ask(step, attempt, "Unstage operation was cancelled", done)
}

func (a *area) close(drop func()) {
	a.room.Close(status.Errorf(status.Aborted, "Staging area '%s' was deleted.", a.name), drop)
}

// show adds the area's state to a listing. count returns its complete and incomplete tuples, and is called under the lock.
func (a *area) show(r *view.Resource, kind string, count func() (complete, incomplete int)) {
	s := &view.Store{Kind: kind, Capacity: max(0, a.limits.Capacity), BytesLimit: max(0, a.limits.Bytes)}
	a.room.Look(func() {
		complete, incomplete := count()
		s.Size, s.Incomplete, s.Bytes = int64(complete), int64(incomplete), a.bytes
		r.Durable = a.keeper.Kept()
	})
	a.Tell(s)
	r.Store = s
}

// Deleted reports whether the area was deleted.
func (a *area) Deleted() bool { return a.room.Closed() }

// Sizes of TensorFlow's C++ objects. TensorFlow's memory limits count them for elements that are not numbers.
const (
	stringBytes = 24
	objectBytes = 64
)

// bytesOf returns the memory of the elements as TensorFlow counts it (Tensor::TotalBytes).
func bytesOf(tuple []*tensor.Tensor) (bytes int64) {
	for _, t := range tuple {
		switch {
		case t == nil:
		case t.DType() == tensor.String:
			bytes += int64(t.ByteSize() + stringBytes*t.Len())
		case t.DType().Size() == 0:
			bytes += int64(objectBytes * t.Len())
		default:
			bytes += int64(t.ByteSize())
		}
	}
	return bytes
}

func release(tuple []*tensor.Tensor) {
	for _, t := range tuple {
		if t != nil {
			t.Release()
		}
	}
}

func retained(tuple []*tensor.Tensor) []*tensor.Tensor {
	for _, t := range tuple {
		t.Retain()
	}
	return append([]*tensor.Tensor(nil), tuple...)
}

package staging

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

// Buffer is a staging area whose tuples leave in the order in which they came. All methods may be called
// concurrently; none waits. Operations that may have to wait call done once, and return a function that cancels
// them while they wait: done then gets CANCELLED. If the buffer is deleted, it gets ABORTED.
type Buffer struct {
	area
	tuples [][]*tensor.Tensor
}

// NewBuffer makes an empty buffer; messages call it name.
func NewBuffer(name string, limits Limits) *Buffer {
	b := &Buffer{}
	b.init(name, limits)
	return b
}

// Put adds a tuple, whose references it takes over, when there is room for it. It is RESOURCE_EXHAUSTED if
// there can never be.
func (b *Buffer) Put(tuple []*tensor.Tensor, done func(error)) (cancel func(cause error)) {
	bytes := bytesOf(tuple)
	return b.put(tuple, func() (bool, error) {
		if err := b.admits(bytes); err != nil {
			return true, err
		}
		if !b.fits(len(b.tuples), bytes) {
			return false, nil
		}
		b.bytes += bytes
		b.tuples = append(b.tuples, tuple)
		return true, nil
	}, done)
}

// Get removes the first tuple when there is one. done owns its tensors.
func (b *Buffer) Get(done func([]*tensor.Tensor, error)) (cancel func(cause error)) {
	var tuple []*tensor.Tensor
	return b.take(func() (bool, error) {
		if len(b.tuples) == 0 {
			return false, nil
		}
		tuple = b.tuples[0]
		b.tuples[0] = nil
		b.tuples = b.tuples[1:]
		b.bytes -= bytesOf(tuple)
		return true, nil
	}, func(err error) { done(tuple, err) })
}

// Peek returns the tuple at an index when there is one, without removing it. done owns references to its
// tensors. INVALID_ARGUMENT for a negative index.
func (b *Buffer) Peek(index int, done func([]*tensor.Tensor, error)) (cancel func(cause error)) {
	if index < 0 {
		done(nil, status.InvalidArgumentf("index must not be negative, got %d", index))
		return func(error) {}
	}
	var tuple []*tensor.Tensor
	return b.take(func() (bool, error) {
		if index >= len(b.tuples) {
			return false, nil
		}
		tuple = retained(b.tuples[index])
		return true, nil
	}, func(err error) { done(tuple, err) })
}

// Size is how many tuples there are.
func (b *Buffer) Size() (n int) {
	b.room.Look(func() { n = len(b.tuples) })
	return n
}

// Clear drops all tuples.
func (b *Buffer) Clear() error {
	return b.room.Do(func() error {
		b.drop()
		return nil
	})
}

func (b *Buffer) drop() {
	for _, t := range b.tuples {
		release(t)
	}
	b.tuples, b.bytes = nil, 0
}

// Close deletes the buffer.
func (b *Buffer) Close() { b.close(b.drop) }

// Describe is the buffer for listings.
func (b *Buffer) Describe() string { return fmt.Sprintf("staging area, %d tuples", b.Size()) }

// Show adds the buffer's state to a listing.
func (b *Buffer) Show(r *view.Resource) {
	b.show(r, "staging area", func() (int, int) { return len(b.tuples), 0 })
}

package staging

import (
	"cmp"
	"fmt"

	"github.com/troupe-run/troupe/containers/internal/waiting"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/view"
)

// Buffer is a staging area whose tuples leave in order of arrival. All methods may be called concurrently; none waits. Operations that may
// have to wait call done once, and return a function that cancels them while they wait: done then receives CANCELLED, as it does when the
// caller's step ends. If the buffer is deleted, done receives ABORTED. changes are those of the step; nil for a change by no step.
type Buffer struct {
	area
	tuples []staged
	next   int64 // number of the next tuple
}

// staged is a tuple, with its number in order of arrival.
type staged struct {
	number int64
	tuple  []*tensor.Tensor
}

// NewBuffer makes an empty buffer. name is its name in messages.
func NewBuffer(name string, limits Limits) *Buffer {
	b := &Buffer{}
	b.init(name, limits)
	return b
}

// Put adds a tuple, whose references it takes over, when there is room for it. It fails with RESOURCE_EXHAUSTED if there can never be room.
func (b *Buffer) Put(step waiting.Step, changes *durable.Tx, tuple []*tensor.Tensor, done func(error)) (cancel func(cause error)) {
	bytes := bytesOf(tuple)
	return b.put(step, tuple, func() (bool, error) {
		if err := cmp.Or(b.admits(bytes), b.keepable(tuple, bytes)); err != nil {
			return true, err
		}
		if !b.fits(len(b.tuples), bytes) {
			return false, nil
		}
		b.bytes += bytes
		s := staged{b.next, tuple}
		b.next++
		b.tuples = append(b.tuples, s)
		b.keeper.Change(changes, s.record)
		return true, nil
	}, done)
}

// Get removes the first tuple as soon as there is one. done owns its tensors.
func (b *Buffer) Get(step waiting.Step, changes *durable.Tx, done func([]*tensor.Tensor, error)) (cancel func(cause error)) {
	var tuple []*tensor.Tensor
	return b.take(step, func() (bool, error) {
		if len(b.tuples) == 0 {
			return false, nil
		}
		if err := b.keeper.Admits(durable.Removes()); err != nil {
			return true, err
		}
		b.keeper.Change(changes, b.tuples[0].recordGone)
		tuple = b.tuples[0].tuple
		b.tuples[0].tuple = nil
		b.tuples = b.tuples[1:]
		b.bytes -= bytesOf(tuple)
		return true, nil
	}, func(err error) { done(tuple, err) })
}

// Peek returns the tuple at an index as soon as there is one, without removing it. done owns references to its tensors. The error is
// INVALID_ARGUMENT for a negative index.
func (b *Buffer) Peek(step waiting.Step, index int, done func([]*tensor.Tensor, error)) (cancel func(cause error)) {
	if index < 0 {
		done(nil, status.InvalidArgumentf("index must not be negative, got %d", index))
		return func(error) {}
	}
	var tuple []*tensor.Tensor
	return b.take(step, func() (bool, error) {
		if index >= len(b.tuples) {
			return false, nil
		}
		tuple = retained(b.tuples[index].tuple)
		return true, nil
	}, func(err error) { done(tuple, err) })
}

// Size returns the number of tuples.
func (b *Buffer) Size() (n int) {
	b.room.Look(func() { n = len(b.tuples) })
	return n
}

// Clear drops all tuples.
func (b *Buffer) Clear(step waiting.Step, changes *durable.Tx, done func(error)) (cancel func(cause error)) {
	return b.take(step, func() (bool, error) {
		if err := b.keeper.Admits(durable.Removes()); err != nil {
			return true, err
		}
		b.keeper.Change(changes, func(r durable.Recorder) {
			for _, s := range b.tuples {
				s.recordGone(r)
			}
		})
		b.drop()
		return true, nil
	}, done)
}

func (b *Buffer) drop() {
	for _, s := range b.tuples {
		release(s.tuple)
	}
	b.tuples, b.bytes = nil, 0
}

// Close deletes the buffer.
func (b *Buffer) Close() { b.close(b.drop) }

// Describe describes the buffer for listings.
func (b *Buffer) Describe() string { return fmt.Sprintf("staging area, %d tuples", b.Size()) }

// Show adds the buffer's state to a listing.
func (b *Buffer) Show(r *view.Resource) {
	b.show(r, "staging area", func() (int, int) { return len(b.tuples), 0 })
}

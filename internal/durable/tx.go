package durable

import (
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// Value is what a transaction sets a key to. If it has a method Size() int as well, the store counts it as pending with that many bytes.
type Value interface {
	// Append appends the encoding to b. It is called at most once, on the store's goroutine.
	Append(b []byte) ([]byte, error)
	// Release is called once: after Append, or when the value is not needed.
	Release()
}

// sizeOf returns the size of a value, as far as it tells; 0 for nil.
func sizeOf(v Value) int {
	if sized, ok := v.(interface{ Size() int }); ok {
		return sized.Size()
	}
	return 0
}

// Bytes is a value that is encoded already.
type Bytes []byte

// Append implements Value.
func (v Bytes) Append(b []byte) ([]byte, error) { return append(b, v...), nil }

// Release implements Value.
func (Bytes) Release() {}

// Size returns the number of bytes.
func (v Bytes) Size() int { return len(v) }

// JSON returns v, a struct of plain data, as JSON.
func JSON(v any) Bytes {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: numbers, strings and times have an encoding
	}
	return b
}

// Tx is the changes of a step. Its methods may be called concurrently. It is used for one step.
type Tx struct {
	store   *Store
	cleanup bool
	inside  atomic.Bool // the store's gate

	// The rest is guarded by the store's mu.
	unit    *unit // the changes since the last split, or nil
	writing int   // units that were split off and are not on disk yet
	waits   int
	open    int // changes that have begun and not ended (BeginChange)
	ended   bool
	done    func(error)
	err     error // of a unit that was split off
}

// unit is changes that get on disk together: all of a transaction, or those up to a split.
type unit struct {
	tx      *Tx
	changes []*change
	deps    map[*unit]struct{} // units with earlier changes of the same keys that were not on disk; nil if there are none
	sealed  bool               // it is being written, or is on disk
	queued  bool               // it is in the store's queue
	blocked bool               // it had to wait for another
	ended   time.Time          // when the transaction ended
	waiters []*unit            // units that have ended and wait for this one
	mark    uint64             // of the last search that met it
}

// change is the last change of a key in a unit.
type change struct {
	slot   *slot
	unit   *unit
	value  Value // nil: the key is deleted
	size   int64
	held   int64 // of them and others, as counted in the store's memory
	winner bool  // it is the last change of its key in its batch
}

// Begin starts a transaction.
func (s *Store) Begin() *Tx { return &Tx{store: s} }

// Cleanup starts a transaction of changes that may be lost: it waits without a limit for those that it depends on, which are never split
// for it, and Close does not wait for it.
func (s *Store) Cleanup() *Tx { return &Tx{store: s, cleanup: true} }

// Set sets a key of a cell, and takes over v. A later change of the key in the same transaction replaces it.
func (t *Tx) Set(c *Cell, key []byte, v Value) {
	if v == nil {
		panic("durable: Set without a value")
	}
	t.change(c, key, v)
}

// Delete deletes a key of a cell.
func (t *Tx) Delete(c *Cell, key []byte) { t.change(c, key, nil) }

func (t *Tx) change(c *Cell, key []byte, v Value) {
	if c.store != t.store {
		panic("durable: a transaction changes a cell of another store")
	}
	if unused := t.record(c, key, v); unused != nil {
		unused.Release()
	}
}

// record notes a change, and returns the value that is not needed: of the change that it replaces, or v.
func (t *Tx) record(c *Cell, key []byte, v Value) (unused Value) {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ended {
		panic("durable: a change after the end of its transaction")
	}
	if s.failure.Load() != nil || s.stopped {
		t.err = s.refusal()
		return v
	}
	if c.dropped {
		return v
	}
	if t.unit == nil {
		t.unit = &unit{tx: t}
	}
	u := t.unit
	k := c.slot(key)
	u.dependOn(k)
	ch := k.take(u)
	if ch == nil {
		ch = &change{slot: k, unit: u}
		u.changes = append(u.changes, ch)
	}
	k.changes = append(k.changes, ch)
	unused = ch.value
	s.pending.Add(-ch.size)
	s.room.drop(ch)
	ch.value, ch.size = v, int64(len(key)+sizeOf(v))
	s.pending.Add(ch.size)
	s.room.hold(ch)
	return unused
}

// After makes the transaction depend on the last change of a key of a cell, as if it changed the key itself: what its step has done relies on it.
func (t *Tx) After(c *Cell, key []byte) {
	t.relyOn(c, func() []*slot {
		if k := c.slots[string(key)]; k != nil {
			return []*slot{k}
		}
		return nil
	})
}

// AfterAll makes the transaction depend on the last changes of all keys of a cell.
func (t *Tx) AfterAll(c *Cell) {
	t.relyOn(c, func() []*slot { return slices.Collect(maps.Values(c.slots)) })
}

// relyOn makes the transaction depend on slots. One that only depends on others is written like one that changes something, after them.
func (t *Tx) relyOn(c *Cell, on func() []*slot) {
	if c.store != t.store {
		panic("durable: a transaction depends on a cell of another store")
	}
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.ended:
		panic("durable: a dependency after the end of its transaction")
	case s.failure.Load() != nil || s.stopped:
		t.err = s.refusal()
		return
	}
	for _, k := range on() {
		if len(k.changes) == 0 {
			continue
		}
		if t.unit == nil {
			t.unit = &unit{tx: t} // in a later batch than changes that are being written
		}
		t.unit.dependOn(k)
	}
}

// slot returns the slot of a key.
func (c *Cell) slot(key []byte) *slot {
	k := c.slots[string(key)]
	if k == nil {
		k = &slot{cell: c, key: string(key)}
		if c.slots == nil {
			c.slots = map[string]*slot{}
		}
		c.slots[k.key] = k
	}
	return k
}

// take removes the unit's change from the slot's, and returns it.
func (k *slot) take(u *unit) *change {
	i := slices.IndexFunc(k.changes, func(c *change) bool { return c.unit == u })
	if i < 0 {
		return nil
	}
	ch := k.changes[i]
	k.changes = slices.Delete(k.changes, i, i+1)
	return ch
}

// dependOn makes u depend on the unit with the last change of a key. A unit that is being written is in an earlier batch.
func (u *unit) dependOn(k *slot) {
	if len(k.changes) == 0 {
		return
	}
	last := k.changes[len(k.changes)-1].unit
	if last == u || last.sealed {
		return
	}
	if u.deps == nil {
		u.deps = map[*unit]struct{}{}
	}
	u.deps[last] = struct{}{}
}

// Waits says that the step waits for something, such as an element of a queue, until goesOn is called. Transactions that depend on this one
// do not wait for it meanwhile: its changes so far are written with theirs. Waits may be nested.
func (t *Tx) Waits() (goesOn func()) {
	s := t.store
	t.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.waits++
	if t.unit != nil {
		s.requeue(t.unit)
	}
	var called atomic.Bool
	return func() {
		if called.Swap(true) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		t.waits--
	}
}

// BeginChange begins a change of several keys. Until EndChange the transaction is not split: after a crash, all that is set and deleted in between is
// there or none. Changes may be nested. Whoever makes one waits for nothing before its end.
func (t *Tx) BeginChange() {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	t.open++
	s.changing++
}

// EndChange ends a change that BeginChange has begun.
func (t *Tx) EndChange() {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	t.open--
	s.changing--
	if t.open == 0 && t.unit != nil {
		s.requeue(t.unit)
	}
	if s.stopped && s.changing == 0 {
		s.wake() // the committer may have waited for the change
	}
}

// Changed reports whether the transaction has changes that are not on disk.
func (t *Tx) Changed() bool {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	return t.changed()
}

func (t *Tx) changed() bool { return t.unit != nil || t.writing > 0 || t.err != nil }

// End commits the transaction. done is called once: before End returns, if there is nothing to commit; otherwise on another goroutine when
// everything is on disk, or with the error.
func (t *Tx) End(done func(error)) {
	t.leave()
	s := t.store
	s.mu.Lock()
	if t.ended {
		s.mu.Unlock()
		panic("durable: a transaction ends twice")
	}
	t.ended = true
	if !t.changed() {
		s.mu.Unlock()
		done(nil)
		return
	}
	t.done = done
	switch u := t.unit; {
	case u == nil && t.writing > 0: // the end of the writing calls done
	case s.stopped || u == nil:
		s.answerLater(func() { s.drop(t) })
	default:
		u.ended = time.Now()
		s.enqueue(u)
		s.requeue(u)
	}
	s.mu.Unlock()
}

// drop releases the values of a transaction that can't be written any more, and calls its done.
func (s *Store) drop(t *Tx) {
	s.mu.Lock()
	u := t.unit
	err := t.err
	if err == nil {
		err = s.refusal()
	}
	done := t.done
	t.unit, t.done = nil, nil
	var released []*change
	if u != nil {
		u.sealed = true
		s.requeue(u)
		released = s.forget(u)
	}
	s.mu.Unlock()
	s.release(released)
	s.finish(done, err)
}

// refusal is the error of changes after a failure, or after Close.
func (s *Store) refusal() error {
	if f := s.failure.Load(); f != nil {
		return f.err
	}
	return errClosed
}

var errClosed = status.New(status.Aborted, "the durable store is closed")

package durable

import (
	"encoding/binary"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

const (
	// batchBytes bounds what is written together, unless one transaction and what it depends on has more.
	batchBytes = 64 << 20
	// batchOverhead is the size of a small batch. Larger values are in one whose memory is not copied again and again.
	batchOverhead = 4 << 10
	// keptBuffer is the largest buffer for encodings that is kept.
	keptBuffer = 4 << 20
	// splitLogInterval is the least time between two messages about splits.
	splitLogInterval = time.Minute
)

// group is what the committer writes as one batch.
type group struct {
	units   []*unit
	created []described
	deleted []droppedCell
	cells   uint64 // the next cell's number
	size    int64  // of the changes, as far as it is known
	splits  int
}

func (g *group) empty() bool { return len(g.units)+len(g.created)+len(g.deleted) == 0 }

// wake makes the committer look at its work again.
func (s *Store) wake() {
	select {
	case s.work <- struct{}{}:
	default:
	}
}

// enqueue hands a unit whose transaction has ended to the committer.
func (s *Store) enqueue(u *unit) {
	if u.queued || u.sealed {
		return
	}
	u.queued = true
	s.queue = append(s.queue, u)
	s.wake()
}

// requeue hands the units that wait for u to the committer again.
func (s *Store) requeue(u *unit) {
	for _, w := range u.waiters {
		s.enqueue(w)
	}
	u.waiters = nil
}

// run is the committer.
func (s *Store) run() {
	for {
		s.checkSpace(time.Now())
		s.mu.Lock()
		failed := s.failure.Load() != nil
		if failed || s.closing {
			s.enqueueBlocked()
		}
		s.stopped = s.closing // what has ended by now is written, with all that it depends on
		if failed {
			dropped, deleted := s.takeAll()
			s.mu.Unlock()
			s.refuseAll(dropped, deleted)
			s.mu.Lock()
		}
		g := &group{}
		if !failed {
			g = s.collect(time.Now())
		}
		if g.empty() && s.stopped && s.idle() {
			s.mu.Unlock()
			return
		}
		wait := s.nextLook(time.Now())
		s.mu.Unlock()
		if g.empty() {
			s.sleep(wait)
			continue
		}
		s.commit(g)
	}
}

// idle reports whether the committer has nothing to do, and nothing comes after a change that has begun.
func (s *Store) idle() bool { return len(s.queue)+len(s.created)+len(s.deleted)+s.changing == 0 }

// sleep waits until there is work, or for a time; 0 means that only work ends the wait.
func (s *Store) sleep(d time.Duration) {
	if d == 0 {
		<-s.work
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.work:
	case <-t.C:
	}
}

// nextLook returns when the committer has to look again although nobody wakes it: 0 is never.
func (s *Store) nextLook(now time.Time) time.Duration {
	if len(s.queue) > 0 {
		return time.Nanosecond
	}
	var d time.Duration
	if b := s.firstBlocked(); b != nil {
		d = max(time.Nanosecond, b.ended.Add(s.patience).Sub(now))
	}
	if (s.room.short || s.room.wanted.Load()) && s.failure.Load() == nil && (d == 0 || d > spaceInterval) {
		d = spaceInterval
	}
	return d
}

// firstBlocked returns the unit that has been blocked for the longest time, or nil.
func (s *Store) firstBlocked() *unit {
	for len(s.blocked) > 0 && s.blocked[0].sealed {
		s.blocked[0] = nil
		s.blocked = s.blocked[1:]
	}
	if len(s.blocked) == 0 {
		s.blocked = nil
		return nil
	}
	return s.blocked[0]
}

// enqueueBlocked has the committer look at all blocked units again.
func (s *Store) enqueueBlocked() {
	for _, u := range s.blocked {
		s.enqueue(u)
	}
	s.blocked = nil
}

// collect takes what is ready.
func (s *Store) collect(now time.Time) *group {
	for b := s.firstBlocked(); b != nil && now.Sub(b.ended) >= s.patience; b = s.firstBlocked() {
		s.blocked = s.blocked[1:]
		s.enqueue(b)
	}
	g := &group{created: s.created, deleted: s.deleted, cells: s.nextCell}
	s.created, s.deleted = nil, nil
	n := 0
	for ; n < len(s.queue) && (g.size < batchBytes || s.stopped); n++ { // seal lengthens the queue
		u := s.queue[n]
		u.queued = false
		if u.sealed {
			continue
		}
		ready, blocker := s.closure(u, now)
		if blocker != nil {
			blocker.waiters = append(blocker.waiters, u)
			if !u.blocked && !u.tx.cleanup {
				u.blocked = true
				s.blocked = append(s.blocked, u)
			}
			continue
		}
		for _, w := range ready {
			s.seal(g, w)
		}
	}
	g.choose()
	clear(s.found[:cap(s.found)])
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	return g
}

// closure returns u and what it depends on, directly or not, that is not on disk; or a unit that goes on and that u has to wait for.
func (s *Store) closure(u *unit, now time.Time) (all []*unit, blocker *unit) {
	patient := !s.stopped && now.Sub(u.ended) < s.patience
	s.mark++
	u.mark = s.mark
	all = append(s.found[:0], u)
	for i := 0; i < len(all); i++ {
		w := all[i]
		if w.tx.open > 0 || !w.tx.ended && (u.tx.cleanup || patient && w.tx.waits == 0) {
			return nil, w
		}
		for d := range w.deps {
			if d.sealed {
				delete(w.deps, d)
			} else if d.mark != s.mark {
				d.mark = s.mark
				all = append(all, d)
			}
		}
	}
	s.found = all
	return all, nil
}

// seal adds a unit to the group. A transaction that has not ended goes on with another unit.
func (s *Store) seal(g *group, u *unit) {
	u.sealed, u.deps = true, nil
	u.tx.unit = nil
	u.tx.writing++
	if !u.tx.ended {
		g.splits++
	}
	for _, c := range u.changes {
		g.size += c.size
	}
	g.units = append(g.units, u)
	s.requeue(u)
}

// choose marks the changes of the group that are written: of each key the last. The changes of dropped cells are none: the deletion is in
// this batch or an earlier one, so that no crash shows a part of a transaction without it.
func (g *group) choose() {
	for _, u := range g.units {
		for _, c := range u.changes {
			k := c.slot
			if k.cell.dropped {
				continue
			}
			last := len(k.changes) - 1
			for !k.changes[last].unit.sealed {
				last--
			}
			c.winner = k.changes[last] == c
		}
	}
}

// commit writes the group and calls the dones.
func (s *Store) commit(g *group) {
	if g.splits > 0 {
		s.logSplits(g.splits)
	}
	err := contain.Run(s.log, "The durable store's commit", func() error { return s.write(g) })
	if f := s.failure.Load(); f != nil {
		err = f.err
	} else if err != nil {
		s.fail(err)
	}
	s.conclude(g, err)
}

// write makes one batch of the group and waits until it is on disk.
func (s *Store) write(g *group) error {
	defer func() {
		for _, u := range g.units {
			s.release(u.changes)
		}
	}()
	s.throttle()
	b := s.db.NewBatchWithSize(int(min(g.size, batchBytes)) + batchOverhead)
	defer func() { _ = b.Close() }() // frees its memory, which does not fail
	if err := s.build(b, g); err != nil {
		return err
	}
	start := time.Now()
	s.applying = true // see closeDatabase
	if err := s.db.Apply(b, pebble.Sync); err != nil {
		return status.Internalf("the durable store in %s can't write: %v", s.dir, err)
	}
	s.applying = false
	took := time.Since(start)
	s.sinceLook += int64(b.Len())
	s.room.used.Add(int64(b.Len()))
	s.room.since += int64(b.Len())
	s.count(func(st *Stats) {
		st.Commits++
		st.Bytes += int64(b.Len())
		st.LastSync = took
		s.syncTime += took
	})
	return nil
}

// build encodes the group.
func (s *Store) build(b *pebble.Batch, g *group) error {
	set := func(k, v []byte) { _ = b.Set(k, v, nil) } // a batch without an index has no errors
	s.batches++
	set([]byte(metaBatches), binary.BigEndian.AppendUint64(nil, s.batches))
	if len(g.created) > 0 {
		set([]byte(metaCells), binary.BigEndian.AppendUint64(nil, g.cells))
	}
	for _, n := range g.created {
		set(recordKey(n.cell.number), record(n.cell.place, n.about))
	}
	for _, d := range g.deleted {
		_ = b.Delete(recordKey(d.cell.number), nil)
		_ = b.DeleteRange(entriesOf(d.cell.number), entriesOf(d.cell.number+1), nil)
	}
	var key []byte
	for _, u := range g.units {
		for _, c := range u.changes {
			if !c.winner {
				continue
			}
			key = appendEntryKey(key[:0], c.slot.cell.number, c.slot.key)
			if c.value == nil {
				_ = b.Delete(key, nil)
				continue
			}
			v, err := c.value.Append(s.buffer[:0])
			if err != nil {
				return status.Prefix(err, "the durable store can't encode a value: ")
			}
			set(key, v)
			if cap(v) <= keptBuffer {
				s.buffer = v
			}
		}
	}
	return nil
}

// release releases the values of changes.
func (s *Store) release(changes []*change) {
	for _, c := range changes {
		if v := c.value; v != nil {
			c.value = nil
			contain.Func(s.log, "The release of a durable value", v.Release, nil)()
		}
	}
}

// conclude forgets what was written, or could not be, and calls the dones.
func (s *Store) conclude(g *group, err error) {
	var dones []func(error)
	var errs []error
	s.mu.Lock()
	for _, u := range g.units {
		s.forget(u)
		t := u.tx
		t.writing--
		if err != nil {
			t.err = err
		}
		if t.ended && t.unit == nil && t.writing == 0 && t.done != nil {
			dones, errs = append(dones, t.done), append(errs, t.err)
			t.done = nil
		}
	}
	s.mu.Unlock()
	s.count(func(st *Stats) { st.Transactions += int64(len(dones)) })
	for i, done := range dones {
		s.finish(done, errs[i])
	}
	for _, d := range g.deleted {
		s.finish(d.done, err)
	}
}

// forget removes a unit's changes from their slots, and returns them.
func (s *Store) forget(u *unit) []*change {
	changes := u.changes
	for _, c := range changes {
		s.pending.Add(-c.size)
		s.room.drop(c)
		k := c.slot
		k.take(u)
		if len(k.changes) == 0 && k.cell.slots[k.key] == k {
			delete(k.cell.slots, k.key)
		}
	}
	u.changes, u.deps = nil, nil
	return changes
}

// finish calls done, whose panic is only logged.
func (s *Store) finish(done func(error), err error) {
	if done == nil {
		return
	}
	contain.Func(s.log, "The end of a durable transaction", func() { done(err) }, nil)()
}

// answerLater calls f on a goroutine of its own.
func (s *Store) answerLater(f func()) { contain.Go(s.log, "The end of a durable transaction", f, nil) }

// takeAll takes what can't be written any more.
func (s *Store) takeAll() (ended []*Tx, deleted []droppedCell) {
	for _, u := range s.queue {
		u.queued = false
		if !u.sealed {
			ended = append(ended, u.tx)
		}
	}
	deleted = s.deleted
	s.queue, s.deleted, s.created = nil, nil, nil
	return ended, deleted
}

// refuseAll ends transactions and deletions with the store's error.
func (s *Store) refuseAll(ended []*Tx, deleted []droppedCell) {
	s.closeDatabase()
	for _, t := range ended {
		s.drop(t)
	}
	for _, d := range deleted {
		s.finish(d.done, s.refusal())
	}
}

// logSplits counts splits.
func (s *Store) logSplits(n int) {
	s.count(func(st *Stats) { st.Splits += int64(n) })
	s.unlogged += n
	if now := time.Now(); now.Sub(s.splitLogged) >= splitLogInterval {
		s.log.Info("Transactions were committed in parts, since others that depend on them would have waited for too long", "parts", s.unlogged)
		s.splitLogged, s.unlogged = now, 0
	}
}

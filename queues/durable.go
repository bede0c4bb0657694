package queues

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
	"github.com/troupe-run/troupe/internal/view"
)

// A durable queue is a cell with an entry for each run of elements that has entered the queue at once, until the last of them has left for
// good: an element that is leased, or that a dequeue has collected which waits for more, is still there. Elements that leave before the others
// of their entry are named by entries of their own. The state machine says what changes; the queue makes that a part of the changes of the
// operation's step.

// Keys of a cell's entries: a letter, and for elements the number of the first in 8 bytes, big-endian, for a producer its id.
const (
	closedKey   = 'c' // the queue is closed
	elementsKey = 'e' // elements: their batch
	goneKey     = 'g' // elements that have left before others of their entry: how many
	producerKey = 'p' // the number of a producer's next element, and when its last put was
)

// entry is elements that are on disk together.
type entry struct {
	number int64
	left   int     // elements that have not left for good
	gone   []int64 // the numbers of the entries that name those that have left
}

// change is a change of an entry, or only what a request relies on.
type change struct {
	waiter *waiter       // the request that causes it, or nil
	key    []byte        // nil: nothing changes, and the request relies on all changes so far
	value  durable.Value // nil deletes the entry
	after  []byte        // another entry that must not get on disk later, or nil
}

func keyOf(letter byte, number int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{letter}, uint64(number))
}

// entered records elements that have entered the queue, and returns their entry.
func (s *state) entered(r run, w *waiter) *entry {
	if !s.kept {
		return nil
	}
	s.changes = append(s.changes, change{waiter: w, key: keyOf(elementsKey, r.number), value: r.kept()})
	return &entry{number: r.number, left: r.len()}
}

// kept returns the elements as what is written of them, with references of its own.
func (r run) kept() keptRun {
	e := keptRun{run: run{batch: &batch{many: r.many}, from: r.from, to: r.to}}
	for _, t := range r.tensors {
		e.tensors = append(e.tensors, t.Retain())
	}
	return e
}

// removed records elements that have left the queue for good.
func (s *state) removed(c collected, w *waiter) {
	for _, r := range c {
		e := r.entry
		if e == nil {
			continue
		}
		e.left -= r.len()
		if e.left == 0 && len(e.gone) == 0 {
			s.changes = append(s.changes, change{waiter: w, key: keyOf(elementsKey, e.number)})
			continue
		}
		e.gone = append(e.gone, r.number)
		count := binary.AppendUvarint(nil, uint64(r.len()))
		s.changes = append(s.changes, change{waiter: w, key: keyOf(goneKey, r.number), value: durable.Bytes(count), after: keyOf(elementsKey, e.number)})
		if e.left == 0 {
			s.empty = append(s.empty, e)
		}
	}
}

// clean deletes entries whose elements have all left, when that is on disk: until then a step that took some of them may be lost.
func clean(cell *durable.Cell, empty []*entry) {
	for _, e := range empty {
		tx := cell.Store().Cleanup()
		tx.Delete(cell, keyOf(elementsKey, e.number))
		for _, n := range e.gone {
			tx.Delete(cell, keyOf(goneKey, n))
		}
		tx.End(func(error) {}) // what remains is deleted when the queue is restored
	}
}

// advanced records how far a producer that numbers its elements has come.
func (s *state) advanced(id string, w *waiter) {
	if !s.kept {
		return
	}
	s.changes = append(s.changes, change{waiter: w, key: append([]byte{producerKey}, id...), value: s.producers.entries[id].encoded()})
	if f := s.producers.forgotten; f != "" {
		s.producers.forgotten = ""
		s.changes = append(s.changes, change{waiter: w, key: append([]byte{producerKey}, f...)})
	}
}

// repeated records that a request is answered as one before it, whose answer may have been lost: it must not be answered before the changes of that
// one are on disk.
func (s *state) repeated(w *waiter) {
	if s.kept {
		s.changes = append(s.changes, change{waiter: w})
	}
}

// openOrClosed records whether the queue is closed.
func (s *state) openOrClosed(w *waiter) {
	if !s.kept {
		return
	}
	c := change{waiter: w, key: []byte{closedKey}}
	if s.closed {
		c.value = s.closedState()
	}
	s.changes = append(s.changes, c)
}

// closedState returns the entry of a closed queue.
func (s *state) closedState() durable.Bytes {
	p := closedState{Closing: s.closing, Elements: s.enqueued - s.before}
	if s.reason != nil {
		p.Code, p.Reason = status.CodeOf(s.reason), s.reason.Error()
	}
	return durable.JSON(p)
}

// closedState is the entry of a closed queue: why its producer failed, if it did, and who closed it, which earlier versions do not say.
type closedState struct {
	Code     status.Code
	Reason   string
	Closing  view.Act
	Elements int64 // that were enqueued before
}

// keptRun is elements to be written: a byte that says whether they are rows of a batch, and the tensors.
type keptRun struct{ run }

// Append implements durable.Value.
func (e keptRun) Append(b []byte) ([]byte, error) {
	if !e.many {
		return tuple.Tuple(e.tensors).Append(append(b, 0))
	}
	// A copy of the rows could be refused for lack of memory, and a value that cannot be encoded ends the store.
	own := make(tuple.Tuple, len(e.tensors))
	for i, t := range e.tensors {
		if own[i] = t; e.whole() {
			t.Retain()
		} else {
			own[i] = t.Rows(e.from, e.to)
		}
	}
	defer own.Release()
	return own.Append(append(b, 1))
}

// Release implements durable.Value.
func (e keptRun) Release() { release(e.tensors) }

// Size returns the number of bytes in memory.
func (e keptRun) Size() (n int) { return tuple.Tuple(e.tensors).Size() }

// record makes the machine's changes a part of those of their requests' steps. It is called with the queue's lock, before the requests are
// completed.
func (q *Queue) record() {
	s := q.core.state
	q.recordTogether(s.changes)
	clear(s.changes)
	s.changes = s.changes[:0]
	clean(q.cell, s.empty)
	s.empty = nil
}

// recordTogether records changes, those of a request as one.
func (q *Queue) recordTogether(changes []change) {
	begun := 0
	defer func() { // after a panic, too: a store that closes waits for what has begun
		for _, c := range changes[:begun] {
			if c.waiter != nil {
				c.waiter.changes.EndChange()
				c.waiter.waiting()
			}
		}
	}()
	for _, c := range changes {
		if c.waiter != nil {
			q.changesOf(c.waiter).BeginChange()
		}
		begun++
	}
	for _, c := range changes {
		tx := q.changesOf(c.waiter)
		switch {
		case c.key == nil:
			tx.AfterAll(q.cell)
		case c.value == nil:
			tx.Delete(q.cell, c.key)
		default:
			tx.Set(q.cell, c.key, c.value)
		}
		if c.after != nil {
			tx.After(q.cell, c.after)
		}
		if c.waiter == nil {
			tx.End(func(error) {}) // a store that fails refuses the next request, and says so itself
		}
	}
}

// changesOf returns where the changes of a request go.
func (q *Queue) changesOf(w *waiter) *durable.Tx {
	switch {
	case w == nil:
		return q.cell.Store().Begin()
	case w.changes == nil:
		w.changes, w.own = q.cell.Store().Begin(), true
	}
	return w.changes
}

// waiting tells the changes of a request that it waits, or waits no more. Those of a step are told by the step.
func (w *waiter) waiting() {
	switch {
	case !w.own:
	case w.list != nil && w.goesOn == nil:
		w.goesOn = w.changes.Waits()
	case w.list == nil && w.goesOn != nil:
		w.goesOn()
		w.goesOn = nil
	}
}

// changeable returns an error if a durable queue cannot do what a request asks for, since the changes could not be kept.
func (q *Queue) changeable(w *waiter) error {
	if q.cell == nil || w.action == look {
		return nil
	}
	need := durable.Removes()
	if w.action == enqueue {
		if n := tuple.Tuple(w.in.tensors).Size(); w.moves {
			need = durable.Replaces(n, n)
		} else {
			need = durable.Adds(n)
		}
	}
	return q.cell.Store().Admits(need)
}

// settle runs a completion, after the request's own changes are on disk. If they do not get there, the request fails.
func (c completion) settle() {
	if c.waiter == nil || !c.own {
		c.run()
		return
	}
	c.changes.End(func(err error) {
		if err != nil && c.err == nil {
			release(c.tensors)
			c.tensors, c.err = nil, err
		}
		c.run()
	})
}

// about is what is kept of a queue besides its elements.
type about struct {
	Kind            Kind
	Name            string
	DTypes          []tensor.DType
	Shapes          []tensor.Shape
	Capacity        int
	MinAfterDequeue int
	Seed, Seed2     int64
}

// About describes the queue, so that Restore can make it anew. A queue that has failed has lost its elements, and the error says so.
func (q *Queue) About() ([]byte, error) {
	if err := q.ended.Load(); err != nil {
		return nil, *err
	}
	o := &q.options
	if err := tuple.CheckKeepable(fmt.Sprintf("queue '%s'", o.Name), o.DTypes...); err != nil {
		return nil, err
	}
	return json.Marshal(about{o.Kind, o.Name, o.DTypes, o.Shapes, o.Capacity, o.MinAfterDequeue, o.Seed, o.Seed2})
}

// Keep makes the elements durable in cell from now on. It is called before the queue is shared.
func (q *Queue) Keep(cell *durable.Cell) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.core.state
	q.cell, s.kept = cell, true
	s.order.each(func(r *run) { r.entry = s.entered(*r, nil) })
	for _, id := range s.producers.ids() {
		s.advanced(id, nil)
	}
	if s.closed {
		s.openOrClosed(nil)
	}
	q.record()
}

// State records all that the queue has. Elements that are leased, or that a dequeue has collected which waits for more, are back in their places.
func (q *Queue) State(r durable.Recorder) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.core.state
	if s.closed {
		r.Set([]byte{closedKey}, s.closedState())
	}
	for _, e := range s.all() {
		r.Set(keyOf(elementsKey, e.number), e.kept())
	}
	for _, id := range s.producers.ids() {
		r.Set(append([]byte{producerKey}, id...), s.producers.entries[id].encoded())
	}
}

// all returns the elements, wherever they are, in the order in which they came.
func (s *state) all() (all []run) {
	s.order.each(func(r *run) { all = append(all, *r) })
	for _, e := range s.leases.deadlines {
		all = append(all, e.elems...)
	}
	for _, l := range []*line{&s.dequeues, &s.late} {
		for w := l.first; w != nil; w = w.next {
			all = append(all, w.got...)
		}
	}
	slices.SortFunc(all, func(a, b run) int { return cmp.Compare(a.number, b.number) })
	return all
}

// Restore makes the queue whose state from has, as an actor of system. random returns the random numbers for
// the seeds of a RandomShuffle. Leases have ended: their elements are back in their places.
func Restore(system *actor.ActorSystem, from durable.Source, description []byte, pool *tensor.Pool, random func(seed, seed2 int64) func() uint32) (*Queue, error) {
	var a about
	if err := durable.ReadAbout(description, "a queue", &a); err != nil {
		return nil, err
	}
	o := Options{Kind: a.Kind, Name: a.Name, DTypes: a.DTypes, Shapes: a.Shapes, Capacity: a.Capacity, MinAfterDequeue: a.MinAfterDequeue, Seed: a.Seed, Seed2: a.Seed2, Pool: pool}
	if o.Kind == RandomShuffle {
		o.Random = random(a.Seed, a.Seed2)
	}
	q, err := Spawn(system, o)
	if err != nil {
		return nil, status.Errorf(status.DataLoss, "a queue cannot be made of its description: %v", err)
	}
	if err := q.fill(from); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

// fill gives a new queue the state that from has.
func (q *Queue) fill(from durable.Source) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.core.state
	q.cell = from.Cell()
	s.kept = q.cell != nil
	var there []run
	gone := map[int64]int{}
	err := from.Each(func(key, value []byte) error {
		if len(key) == 0 {
			return q.damaged("an entry without a key")
		}
		letter, rest := key[0], key[1:]
		switch {
		case letter == elementsKey && len(rest) == 8 && len(value) > 0:
			r, err := q.read(value, int64(binary.BigEndian.Uint64(rest)))
			if err == nil {
				there = append(there, r)
			}
			return err
		case letter == goneKey && len(rest) == 8:
			n, size := binary.Uvarint(value)
			if size <= 0 {
				return q.damaged("a number of elements")
			}
			gone[int64(binary.BigEndian.Uint64(rest))] = int(n)
		case letter == producerKey:
			if !s.producers.restore(string(rest), value) {
				return q.damaged("the number of a producer's next element")
			}
		case letter == closedKey && len(rest) == 0:
			var c closedState
			if json.Unmarshal(value, &c) != nil {
				return q.damaged("its state")
			}
			if s.closed, s.closing, s.before = true, c.Closing, -c.Elements; c.Reason != "" {
				s.reason = status.New(c.Code, c.Reason)
			}
		default:
			return q.damaged(fmt.Sprintf("the key %q", key))
		}
		return nil
	})
	var empty []*entry
	for _, r := range there {
		e, failed := s.put(r, gone)
		if failed != nil && err == nil {
			err = failed
		}
		if e.left == 0 {
			empty = append(empty, e)
		}
	}
	if err == nil && s.kept {
		clean(q.cell, empty)
		s.forgetStray(q.cell, there, gone)
	}
	s.enqueued = int64(s.order.len())
	s.before += s.enqueued // closedAfter says how many elements it was, though most of them are gone
	return err
}

// forgetStray deletes entries that name elements which left before others of an entry that is not there: earlier versions could write the former without the
// latter. New elements get other numbers, and are not taken for those.
func (s *state) forgetStray(cell *durable.Cell, there []run, gone map[int64]int) {
	if len(gone) == 0 {
		return
	}
	for _, r := range there {
		for n := r.number; n < r.number+int64(r.len()); n++ {
			delete(gone, n)
		}
	}
	tidy := cell.Store().Cleanup()
	for n, count := range gone {
		tidy.Delete(cell, keyOf(goneKey, n))
		s.numbered = max(s.numbered, n+int64(max(count, 0)))
	}
	tidy.End(func(error) {}) // the next restart tries again
}

// read decodes elements with numbers from the given one on.
func (q *Queue) read(value []byte, number int64) (run, error) {
	t, err := tuple.Read(value[1:], q.options.Pool)
	if err != nil {
		return run{}, status.Errorf(status.CodeOf(err), "the elements of queue '%s' cannot be read: %v", q.options.Name, err)
	}
	many := value[0] != 0
	check := q.options.checkOne
	if many {
		check = q.options.checkMany
	}
	if err := check(t); err != nil {
		t.Release()
		return run{}, q.damaged(err.Error())
	}
	r := one(t)
	if many {
		r = rows(t)
	}
	r.number = number
	return r, nil
}

func (q *Queue) damaged(what string) error {
	return status.Errorf(status.DataLoss, "the state of queue '%s' is damaged: %s", q.options.Name, what)
}

// put puts elements that another process has had into the queue, except for those that are gone, and returns their entry.
func (s *state) put(r run, gone map[int64]int) (*entry, error) {
	e := &entry{number: r.number}
	s.numbered = r.number + int64(r.len())
	for r.len() > 0 {
		if n := min(gone[r.number], r.len()); n > 0 {
			e.gone = append(e.gone, r.number)
			var left run
			left, r = r.split(n)
			left.release()
			continue
		}
		n := 1
		for n < r.len() && gone[r.number+int64(n)] == 0 {
			n++
		}
		var stays run
		stays, r = r.split(n)
		if s.kept {
			stays.entry = e
		}
		e.left += n
		if err := s.putApart(stays); err != nil {
			r.release()
			return e, err
		}
	}
	return e, nil
}

// putApart pushes elements, one by one if the queue's order separates them.
func (s *state) putApart(r run) error {
	if !s.Kind.scatters() || !r.many {
		s.order.push(r)
		return nil
	}
	defer r.release()
	for n := r; n.len() > 0; {
		var first run
		first, n = n.split(1)
		t, err := first.copied(s.Pool)
		if err != nil {
			return err
		}
		own := one(t)
		own.number, own.entry = first.number, first.entry
		s.order.push(own)
	}
	return nil
}

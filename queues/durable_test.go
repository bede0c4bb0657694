package queues

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
)

func openStore(t *testing.T, dir string) *durable.Store {
	t.Helper()
	return openWith(t, dir, durable.Options{})
}

func openWith(t *testing.T, dir string, o durable.Options) *durable.Store {
	t.Helper()
	o.Owner, o.Log = "/job:test/task:0", slog.New(slog.DiscardHandler)
	s, err := durable.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keep makes a queue durable in a store.
func keep(t *testing.T, s *durable.Store, q *Queue) {
	t.Helper()
	about, err := q.About()
	if err != nil {
		t.Fatal(err)
	}
	cell, err := s.Create(durable.Place{Container: "jobs", Kind: "Queue", Name: q.options.Name}, about)
	if err != nil {
		t.Fatal(err)
	}
	q.Keep(cell)
}

// restored is the queue that a store has, after the store was opened.
func restored(t *testing.T, s *durable.Store, random func(int64, int64) func() uint32) (q *Queue) {
	t.Helper()
	err := s.Load(func(c *durable.Cell, _ durable.Place, about []byte) (err error) {
		q, err = Restore(nil, c, about, nil, random)
		return err
	})
	if err != nil || q == nil {
		t.Fatalf("no queue came back: %v", err)
	}
	return q
}

func randomNumbers(int64, int64) func() uint32 { return rand.New(rand.NewPCG(1, 2)).Uint32 }

// wait returns what an operation ends with.
func wait[T any](t *testing.T, start func(done func(T))) T {
	t.Helper()
	c := make(chan T, 1)
	start(func(v T) { c <- v })
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("an operation does not end")
		panic("unreachable")
	}
}

func end(t *testing.T, tx *durable.Tx) {
	t.Helper()
	if err := wait(t, tx.End); err != nil {
		t.Fatal(err)
	}
}

// TestDurableHistories applies random steps to queues of each kind. Some steps do not end: what they take is back in its place when the store
// is opened again, and everything else is as it was.
func TestDurableHistories(t *testing.T) {
	for kind := FIFO; kind <= Priority; kind++ {
		t.Run(kind.String(), func(t *testing.T) {
			for seed := range uint64(4) {
				history(t, kind, rand.New(rand.NewPCG(seed, uint64(kind))))
			}
		})
	}
}

// history runs a history. Elements are numbers, which are also their priorities. The model is the numbers that are on disk, sorted unless
// the queue is first in, first out.
func history(t *testing.T, kind Kind, rng *rand.Rand) {
	t.Helper()
	dir := t.TempDir()
	store := openStore(t, dir)
	o := Options{Kind: kind, Name: "q", DTypes: []tensor.DType{tensor.Int64, tensor.String}, Shapes: []tensor.Shape{{}, {}}, Capacity: 40}
	if kind == RandomShuffle {
		o.Random = randomNumbers(0, 0)
	}
	q, err := Spawn(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	keep(t, store, q)
	var model []int64
	next := int64(0)
	for range 4 {
		for range 30 {
			tx := store.Begin()
			user := q.For(Origin{}, nil, tx)
			ends := rng.IntN(4) > 0
			for range 1 + rng.IntN(3) {
				size := wait(t, func(done func(int)) { q.Size(func(n int, _ error) { done(n) }) })
				n := 1 + rng.IntN(4)
				switch {
				case ends && size < o.Capacity-4 && rng.IntN(2) == 0:
					elem := numbers(next, n)
					for i := range n {
						model = append(model, next+int64(i))
					}
					next += int64(n)
					if err := wait(t, func(done func(error)) { user.EnqueueMany(elem, done) }); err != nil {
						t.Fatal(err)
					}
				case size >= n && kind != Priority || size > 8:
					for _, v := range taken(t, user, n) {
						if ends {
							model = slices.DeleteFunc(model, func(m int64) bool { return m == v })
						}
					}
				}
			}
			if ends {
				end(t, tx)
			}
		}
		for _, look := range []bool{true, false} {
			q.Close()
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			store = openStore(t, dir)
			q = restored(t, store, randomNumbers)
			if look {
				check(t, store, q, kind, model)
			}
		}
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// numbers returns a batch of n elements, from first on.
func numbers(first int64, n int) []*tensor.Tensor {
	v, texts := make([]int64, n), make([]string, n)
	for i := range v {
		v[i], texts[i] = first+int64(i), fmt.Sprint(first+int64(i))
	}
	a, _ := tensor.FromValues(v)
	b, _ := tensor.FromStrings(tensor.Shape{int64(n)}, texts)
	return []*tensor.Tensor{a, b}
}

// taken takes n elements from a queue.
func taken(t *testing.T, user User, n int) (v []int64) {
	t.Helper()
	type result struct {
		tuple []*tensor.Tensor
		err   error
	}
	r := wait(t, func(done func(result)) {
		user.DequeueMany(n, func(tuple []*tensor.Tensor, err error) { done(result{tuple, err}) })
	})
	if r.err != nil {
		t.Fatal(r.err)
	}
	v = slices.Clone(tensor.Of[int64](r.tuple[0]))
	for i, s := range r.tuple[1].Strings() {
		if s != fmt.Sprint(v[i]) {
			t.Errorf("the element %d came with the text %q", v[i], s)
		}
	}
	for _, e := range r.tuple {
		e.Release()
	}
	return v
}

// check takes all elements in a step that does not end, and compares them with the model.
func check(t *testing.T, store *durable.Store, q *Queue, kind Kind, model []int64) {
	t.Helper()
	user := q.For(Origin{}, nil, store.Begin())
	size := wait(t, func(done func(int)) { q.Size(func(n int, _ error) { done(n) }) })
	var got []int64
	if size > 0 {
		got = taken(t, user, size)
	}
	want := slices.Clone(model)
	if kind != FIFO && kind != PaddingFIFO {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("a %v has %v, and should have %v", kind, got, want)
	}
}

// failure is what an operation without a result ends with.
func failure(t *testing.T, start func(done func(error)) func(error)) error {
	t.Helper()
	return wait(t, func(done func(error)) { start(done) })
}

// TestDurableOperations checks what is left, after restarts, of operations that are no part of a step: they are on disk when they are completed.
func TestDurableOperations(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	q, err := Spawn(nil, Options{Name: "q", DTypes: []tensor.DType{tensor.Int64, tensor.String}, Shapes: []tensor.Shape{{}, {}}, Capacity: -1})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, store, q)
	restart := func() {
		t.Helper()
		q.Close()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		store = openStore(t, dir)
		q = restored(t, store, randomNumbers)
	}
	has := func(what string, want ...int64) {
		t.Helper()
		size := wait(t, func(done func(int)) { q.Size(func(n int, _ error) { done(n) }) })
		if got := taken(t, q.For(Origin{}, nil, store.Begin()), size); !slices.Equal(got, want) {
			t.Errorf("%s: the queue has %v, and should have %v", what, got, want)
		}
		restart()
	}
	put := func(first int64, n int) error {
		return failure(t, func(done func(error)) func(error) {
			return q.For(Origin{}, nil, nil).EnqueueManyOnce("producer", first, numbers(first, n), done)
		})
	}
	lease := func(n int) string {
		return wait(t, func(done func(string)) {
			q.For(Origin{}, nil, nil).Lease(n, Terms{Duration: time.Hour}, func(token string, tuple []*tensor.Tensor, err error) {
				release(tuple)
				if err != nil {
					t.Error(err)
				}
				done(token)
			})
		})
	}
	if err := put(0, 6); err != nil {
		t.Fatal(err)
	}
	first, _ := lease(2), lease(2)
	wait(t, func(done func(error)) { q.Acknowledge([]string{first}, func(_ []bool, err error) { done(err) }) })
	restart()
	has("after a restart with a lease", 2, 3, 4, 5)
	if err := put(4, 3); err != nil {
		t.Fatal(err)
	}
	restart()
	has("after a repeated put", 2, 3, 4, 5, 6)
	wait(t, func(done func(error)) { q.CloseQueue(false, status.New(status.DataLoss, "no more"), done) })
	restart()
	has("after it was closed", 2, 3, 4, 5, 6)
	taken(t, q.For(Origin{}, nil, nil), 5)
	restart()
	_, err = wait2(t, q.Dequeue)
	if status.CodeOf(err) != status.DataLoss {
		t.Errorf("a queue that was closed by a producer that failed: %v", err)
	}
	if err := failure(t, func(done func(error)) func(error) { return q.For(Origin{}, nil, nil).Open(0, done) }); err != nil {
		t.Error(err)
	}
	restart()
	if err := put(7, 1); err != nil {
		t.Error(err)
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = openWith(t, dir, durable.Options{Reserve: 1 << 62})
	q = restored(t, store, randomNumbers)
	if err := put(8, 1); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("a put without room on the disk: %v", err)
	}
	if _, err := wait2(t, q.Dequeue); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("a dequeue without room on the disk: %v", err)
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func wait2(t *testing.T, start func(func([]*tensor.Tensor, error)) func(error)) (tuple []*tensor.Tensor, err error) {
	t.Helper()
	err = failure(t, func(done func(error)) func(error) {
		return start(func(v []*tensor.Tensor, err error) { tuple = v; done(err) })
	})
	return tuple, err
}

// TestBeyondTheLimit: a queue in a store beyond its limit takes nothing, and gives what it has. Dead letters come from the same disk, and are kept.
func TestBeyondTheLimit(t *testing.T) {
	store := openWith(t, t.TempDir(), durable.Options{Limit: 1})
	var all []*Queue
	for _, name := range []string{"q", "dead"} {
		q, err := Spawn(nil, Options{Name: name, DTypes: []tensor.DType{tensor.Int64, tensor.String}, Shapes: []tensor.Shape{{}, {}}, Capacity: -1})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, q)
	}
	q, dead := all[0], all[1]
	put := func() error {
		return failure(t, func(done func(error)) func(error) { return q.For(Origin{}, nil, nil).EnqueueMany(numbers(0, 3), done) })
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	keep(t, store, q)
	keep(t, store, dead)
	if err := put(); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("a put beyond the limit: %v", err)
	}
	if got := taken(t, q.For(Origin{}, nil, nil), 1); !slices.Equal(got, []int64{0}) {
		t.Errorf("it gives %v", got)
	}
	terms := Terms{Duration: time.Hour, MaxDeliveries: 1, DeadLetters: dead}
	token := wait(t, func(done func(string)) {
		q.For(Origin{}, nil, nil).Lease(2, terms, func(token string, tuple []*tensor.Tensor, err error) {
			release(tuple)
			if err != nil {
				t.Error(err)
			}
			done(token)
		})
	})
	wait(t, func(done func(error)) { q.Return([]string{token}, func(_ []bool, err error) { done(err) }) })
	if got := taken(t, dead.For(Origin{}, nil, nil), 2); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("the dead letters are %v", got)
	}
	for _, q := range all {
		q.Close()
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDurableOrder: a step is not answered before the steps that it relies on are on disk: those whose elements it took, and those whose answer it repeats.
func TestDurableOrder(t *testing.T) {
	store := openWith(t, t.TempDir(), durable.Options{Patience: time.Hour})
	enqueue := func(q User) { wantNoError(t, func(done func(error)) { q.EnqueueMany(numbers(0, 3), done) }) }
	put := func(q User) {
		wantNoError(t, func(done func(error)) { q.EnqueueManyOnce("producer", 0, numbers(0, 3), done) })
	}
	for _, c := range []struct {
		name          string
		first, second func(q User)
	}{
		{"some elements of a batch", enqueue, func(q User) { taken(t, q, 2) }},
		{"all elements of a batch", enqueue, func(q User) { taken(t, q, 3) }},
		{"a repeated put", put, put},
		{"a repeated close", func(q User) { wantNoError(t, func(done func(error)) { q.CloseQueue(false, nil, done) }) }, func(q User) {
			if err := wait(t, func(done func(error)) { q.CloseQueue(false, nil, done) }); status.CodeOf(err) != status.Cancelled {
				t.Errorf("closing it again: %v", err)
			}
		}},
	} {
		q, err := Spawn(nil, Options{Name: c.name, DTypes: []tensor.DType{tensor.Int64, tensor.String}, Shapes: []tensor.Shape{{}, {}}, Capacity: 40})
		if err != nil {
			t.Fatal(err)
		}
		keep(t, store, q)
		other, err := store.Create(durable.Place{Name: c.name}, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, second, later := store.Begin(), store.Begin(), store.Begin()
		c.first(q.For(Origin{}, nil, first))
		c.second(q.For(Origin{}, nil, second))
		answered := make(chan error, 1)
		second.End(func(err error) { answered <- err })
		later.Set(other, []byte("k"), durable.Bytes{1})
		end(t, later) // what was ready before is on disk now
		if len(answered) > 0 {
			t.Errorf("%s: the step is answered before the one that it relies on has ended", c.name)
		}
		end(t, first)
		if err := <-answered; err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		q.Close()
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantNoError(t *testing.T, start func(done func(error))) {
	t.Helper()
	if err := wait(t, start); err != nil {
		t.Error(err)
	}
}

// TestRepeatedAcknowledgement: an acknowledgement that is repeated is not answered before the first one is on disk.
func TestRepeatedAcknowledgement(t *testing.T) {
	store := openWith(t, t.TempDir(), durable.Options{Patience: time.Hour})
	q, err := Spawn(nil, Options{Name: "q", DTypes: []tensor.DType{tensor.Int64, tensor.String}, Shapes: []tensor.Shape{{}, {}}, Capacity: 40})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, store, q)
	other, err := store.Create(durable.Place{Name: "other"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	step, later := store.Begin(), store.Begin()
	wantNoError(t, func(done func(error)) { q.For(Origin{}, nil, step).EnqueueMany(numbers(0, 3), done) })
	token := wait(t, func(done func(string)) {
		q.For(Origin{}, nil, nil).Lease(3, Terms{Duration: time.Hour}, func(token string, elems []*tensor.Tensor, err error) {
			release(elems)
			done(token)
		})
	})
	answered := make(chan bool, 2)
	for range 2 { // neither before the step that has made the elements
		q.Acknowledge([]string{token}, func(held []bool, err error) { answered <- err == nil && held[0] })
	}
	later.Set(other, []byte("k"), durable.Bytes{1})
	end(t, later)
	if n := len(answered); n > 0 {
		t.Errorf("%d of 2 acknowledgements are answered before they are on disk", n)
	}
	end(t, step)
	for range 2 {
		if !<-answered {
			t.Error("the lease is not held")
		}
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStray: entries that name elements of a batch that is not there are forgotten, and new elements are not taken for those.
func TestStray(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	q, err := Spawn(nil, Options{Name: "q", DTypes: []tensor.DType{tensor.Int64, tensor.String}, Shapes: []tensor.Shape{{}, {}}, Capacity: 40})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, store, q)
	tx := store.Begin()
	tx.Set(q.cell, keyOf(goneKey, 1), durable.Bytes{2})
	end(t, tx)
	for _, model := range [][]int64{nil, {0, 1, 2, 3}} {
		q.Close()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		store = openStore(t, dir)
		q = restored(t, store, nil)
		if model == nil {
			wantNoError(t, func(done func(error)) { q.For(Origin{}, nil, nil).EnqueueMany(numbers(0, 4), done) })
			continue
		}
		check(t, store, q, FIFO, model)
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestProducersAfterRestart: after a restart, too, the queue forgets the producer whose last put is the longest ago, and not the one whose id is the first.
func TestProducersAfterRestart(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	q, err := Spawn(nil, Options{Name: "q", DTypes: []tensor.DType{tensor.Int64, tensor.String}, Shapes: []tensor.Shape{{}, {}}, Capacity: -1})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, store, q)
	put := func(producer string) {
		wantNoError(t, func(done func(error)) { q.For(Origin{}, nil, nil).EnqueueManyOnce(producer, 0, numbers(0, 1), done) })
	}
	put("silent")
	put("active") // which is before it by its id
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = openStore(t, dir)
	q = restored(t, store, randomNumbers)
	s := q.core.state
	for i := range maxProducers - 2 {
		s.producers.advance(fmt.Sprint("other ", i), 1)
	}
	put("one more")
	if s.producers.stored("active", 0, 1) != 1 || s.producers.stored("silent", 0, 1) != 0 {
		t.Errorf("%d of the active producer's elements and %d of the silent one's are known", s.producers.stored("active", 0, 1), s.producers.stored("silent", 0, 1))
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDurableCloseWithoutItsStep ends the step of a close that waits for an earlier enqueue: the queue closes when that is over, and it stays closed
// after a restart.
func TestDurableCloseWithoutItsStep(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	q, err := Spawn(nil, Options{Kind: FIFO, Name: "q", DTypes: []tensor.DType{tensor.Int64, tensor.String}, Shapes: []tensor.Shape{{}, {}}, Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, store, q)
	enqueued, closed := make(chan error, 1), make(chan error, 1)
	q.EnqueueMany(numbers(0, 2), func(err error) { enqueued <- err })
	step := store.Begin()
	cancel := q.For(Origin{}, nil, step).CloseQueue(false, nil, func(err error) { closed <- err })
	cancel(status.New(status.Internal, "the step fails"))
	if err := <-closed; status.CodeOf(err) != status.Cancelled {
		t.Errorf("the close ended with %v", err)
	}
	end(t, step)
	if got := taken(t, q.For(Origin{}, nil, nil), 1); !slices.Equal(got, []int64{0}) {
		t.Errorf("the queue had %v", got)
	}
	if err := <-enqueued; err != nil {
		t.Error(err)
	}
	if !wait(t, func(done func(bool)) { q.IsClosed(func(closed bool, _ error) { done(closed) }) }) {
		t.Error("the queue is not closed")
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = openStore(t, dir)
	q = restored(t, store, randomNumbers)
	if got := taken(t, q.For(Origin{}, nil, nil), 1); !slices.Equal(got, []int64{1}) {
		t.Errorf("after the restart the queue had %v", got)
	}
	if _, err := wait2(t, q.Dequeue); status.CodeOf(err) != status.OutOfRange {
		t.Errorf("after the restart a dequeue ended with %v", err)
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDurableWithoutMemory ends a step that has put a part of a batch of strings into a queue while the process has no memory left: the elements are
// kept, and the store goes on.
func TestDurableWithoutMemory(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	q, err := Spawn(nil, Options{Kind: FIFO, Name: "q", DTypes: []tensor.DType{tensor.Int64, tensor.String}, Shapes: []tensor.Shape{{}, {}}, Capacity: 2})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, store, q)
	step := store.Begin()
	put := make(chan error, 1)
	cancel := q.For(Origin{}, nil, step).EnqueueMany(numbers(0, 3), func(err error) { put <- err })
	cancel(nil)
	if err := <-put; status.CodeOf(err) != status.Cancelled {
		t.Errorf("the put ended with %v", err)
	}
	limit := tensor.Process.Limit()
	runtime.GC() // so that live memory is known
	tensor.Process.SetLimit(1)
	ended := wait(t, step.End)
	tensor.Process.SetLimit(limit)
	if ended != nil {
		t.Errorf("the step ended with %v", ended)
	}
	if got := taken(t, q.For(Origin{}, nil, nil), 1); !slices.Equal(got, []int64{0}) {
		t.Errorf("the queue had %v", got)
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = openStore(t, dir)
	q = restored(t, store, randomNumbers)
	if got := taken(t, q.For(Origin{}, nil, nil), 1); !slices.Equal(got, []int64{1}) {
		t.Errorf("after the restart the queue had %v", got)
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRecordThatPanics checks that a store closes after a panic while a queue recorded the changes of a request.
func TestRecordThatPanics(t *testing.T) {
	store := openStore(t, t.TempDir())
	q, err := Spawn(nil, Options{Kind: FIFO, Name: "q", DTypes: []tensor.DType{tensor.Int64}, Capacity: 4})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, store, q)
	over := store.Begin()
	end(t, over)
	panicked := make(chan any, 1)
	func() {
		defer func() { panicked <- recover() }()
		q.recordTogether([]change{{waiter: &waiter{changes: over}, key: keyOf('x', 1)}})
	}()
	if <-panicked == nil {
		t.Error("a change after the end of its transaction was recorded")
	}
	if err := wait(t, func(done func(error)) { go func() { done(store.Close()) }() }); err != nil {
		t.Error(err)
	}
}

package queues

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// lender is the oracle of a FIFO queue with leases: it re-evaluates everything after each request and moves one element at a time.
type lender struct {
	capacity           int
	closed             bool
	elems              []counted
	enqueues, dequeues []*borrower
	leases             []*borrower // in the order of delivery
	now                time.Duration
	stores             bool // dead letters go to another queue
	dead               []int
	burials            []int // dead letters on their way there, in groups that go together
	log                []string
}

// counted is an element, the enqueue that stored it, and how often it was returned.
type counted struct {
	value   int
	by      *borrower
	returns int
}

// borrower is a request to the oracle, and the lease that it gets.
type borrower struct {
	name     string
	op       string // enqueue, close, many, upto, lease
	todo     []int
	n        int
	limit    int
	duration time.Duration
	deadline time.Duration
	taken    []counted
}

func (l *lender) tell(b *borrower, outcome string) { l.log = append(l.log, b.name+" "+outcome) }

func (l *lender) leased() (n int) {
	for _, b := range l.leases {
		n += len(b.taken)
	}
	for _, dead := range l.burials {
		n += dead
	}
	return n
}

// settle lets enqueues add what they can, then dequeues take what they can, until nothing changes.
func (l *lender) settle() {
	for changed := true; changed; {
		changed = false
		for l.put() {
			changed = true
		}
		for l.take() {
			changed = true
		}
		if !changed && len(l.burials) > 0 {
			l.burials = l.burials[1:]
			changed = true
		}
	}
}

func (l *lender) put() bool {
	if len(l.enqueues) == 0 {
		return false
	}
	b := l.enqueues[0]
	switch {
	case l.closed:
		l.tell(b, "CANCELLED")
	case b.op == "close":
		l.closed = true
		l.tell(b, "OK")
	case len(l.elems)+l.leased() >= l.capacity:
		return false
	default:
		l.elems = append(l.elems, counted{value: b.todo[0], by: b})
		if b.todo = b.todo[1:]; len(b.todo) > 0 {
			return true
		}
		l.tell(b, "OK")
	}
	l.enqueues = l.enqueues[1:]
	return true
}

func (l *lender) take() bool {
	if len(l.dequeues) == 0 {
		return false
	}
	b := l.dequeues[0]
	there, leased := len(b.taken)+len(l.elems), l.leased()
	switch {
	case len(b.taken) == b.n, l.closed && b.op != "many" && there > 0 && len(l.elems) == 0:
		l.dequeues = l.dequeues[1:]
		var values []int
		for _, e := range b.taken {
			values = append(values, e.value)
		}
		l.tell(b, fmt.Sprint(values))
		if b.op == "lease" {
			b.deadline = l.now + b.duration
			l.leases = append(l.leases, b)
		}
	case l.closed && there < b.n && (b.op == "many" && there+leased < b.n || there+leased == 0):
		l.dequeues = l.dequeues[1:]
		l.elems = append(slices.Clone(b.taken), l.elems...)
		l.tell(b, "OUT_OF_RANGE")
	case len(l.elems) == 0:
		return false
	default:
		b.taken = append(b.taken, l.elems[0])
		l.elems = l.elems[1:]
	}
	return true
}

// giveBack ends leases, which are in the order of delivery, and returns their elements.
func (l *lender) giveBack(ended func(*borrower) bool) {
	var front []counted
	for _, b := range l.leases {
		if !ended(b) {
			continue
		}
		var last counted
		for _, e := range b.taken {
			before := e
			if e.returns++; b.limit == 0 || e.returns < b.limit {
				front = append(front, e)
				continue
			}
			l.dead = append(l.dead, e.value)
			switch together := before == (counted{last.value + 1, last.by, last.returns}); {
			case !l.stores:
			case together:
				l.burials[len(l.burials)-1]++
			default:
				l.burials = append(l.burials, 1)
			}
			last = before
		}
	}
	l.leases = slices.DeleteFunc(l.leases, ended)
	l.elems = append(front, l.elems...)
}

func (l *lender) cancel(name string) {
	for _, line := range []*[]*borrower{&l.enqueues, &l.dequeues} {
		for i, b := range *line {
			if b.name == name {
				*line = slices.Delete(*line, i, i+1)
				l.elems = append(slices.Clone(b.taken), l.elems...)
				l.tell(b, "CANCELLED")
				return
			}
		}
	}
}

// TestLeaseOracle sends random requests to a queue and to the oracle, and compares the completions and the elements after each. In the end,
// each element that was stored must be in one place: in the queue, leased, used once, or a dead letter. First deliveries must be in order.
func TestLeaseOracle(t *testing.T) {
	for seed := range uint64(500) {
		pool := tensor.NewPool("test", 0)
		runLender(t, rand.New(rand.NewPCG(seed, 1)), pool)
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes still in use", n)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func runLender(t *testing.T, r *rand.Rand, pool *tensor.Pool) {
	options := Options{Name: "q", Capacity: 1 + r.IntN(8), Pool: pool, DTypes: []tensor.DType{tensor.Int64}, Shapes: []tensor.Shape{{8}}}
	oracle := &lender{capacity: options.Capacity}
	spawn := func(o Options) *Queue {
		q, err := Spawn(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(q.Close)
		return q
	}
	q := spawn(options)
	defer q.Close()
	options.Capacity = -1
	var dead *Queue
	if r.IntN(2) == 0 {
		dead, oracle.stores = spawn(options), true
		defer dead.Close()
	}
	q.core.state.now = func() time.Time { return noon.Add(oracle.now) }
	var log, names []string
	cancels, tokens := map[string]func(error){}, map[string]string{}
	places := map[int]int{} // of elements that have been used
	seen, last := map[int]bool{}, -1
	leased, returned := map[string][]int{}, map[string]bool{} // by token
	say := func(name, outcome string) { log = append(log, name+" "+outcome) }
	done := func(name string) func(error) {
		return func(err error) { say(name, status.CodeOf(err).String()) }
	}
	lent := func(name string) func(string, []*tensor.Tensor, error) {
		return func(token string, tuple []*tensor.Tensor, err error) {
			if err != nil {
				done(name)(err)
				return
			}
			say(name, values(t, tuple, true))
			var got []int
			for row := range tuple[0].Dim(0) {
				v := int(tensor.Of[int64](tuple[0])[row*8])
				got = append(got, v)
				if !seen[v] && v < last {
					t.Errorf("element %d is delivered for the first time after element %d", v, last)
				}
				seen[v], last = true, max(last, v)
			}
			release(tuple)
			if token == "" { // removed
				for _, v := range got {
					places[v]++
				}
				return
			}
			tokens[name], leased[token] = token, got
		}
	}
	given := func(name string) func([]*tensor.Tensor, error) {
		return func(tuple []*tensor.Tensor, err error) { lent(name)("", tuple, err) }
	}
	count := 0
	for i := range 150 {
		name := fmt.Sprint("r", i)
		b := &borrower{name: name, n: 1 + r.IntN(6)}
		switch what := r.IntN(100); {
		case what < 30:
			for range b.n {
				b.todo = append(b.todo, count)
				count++
			}
			b.op = "enqueue"
			cancels[name] = q.EnqueueMany(tupleOf(t, &q.options, pool, true, b.todo...), done(name))
			oracle.enqueues = append(oracle.enqueues, b)
		case what < 55:
			b.op, b.duration, b.limit = "lease", time.Duration(1+r.IntN(5))*time.Second, r.IntN(4)
			terms := Terms{Duration: b.duration, MaxDeliveries: b.limit}
			if b.limit > 0 {
				terms.DeadLetters = dead
			}
			cancels[name] = q.For(Origin{}, nil, nil).Lease(b.n, terms, lent(name))
			oracle.dequeues = append(oracle.dequeues, b)
		case what < 58:
			b.op = "upto"
			cancels[name] = q.DequeueUpTo(b.n, given(name))
			oracle.dequeues = append(oracle.dequeues, b)
		case what < 61:
			b.op = "many"
			cancels[name] = q.DequeueMany(b.n, given(name))
			oracle.dequeues = append(oracle.dequeues, b)
		case what < 70 && len(names) > 0:
			victim := names[r.IntN(len(names))]
			cancels[victim](nil)
			oracle.cancel(victim)
		case what < 73:
			oracle.now += time.Duration(r.IntN(3)) * time.Second
			q.runner.send(tickOnce)
			oracle.giveBack(func(b *borrower) bool { return b.deadline <= oracle.now })
		case what == 73 && i > 60:
			b.op = "close"
			q.CloseQueue(false, nil, done(name))
			oracle.enqueues = append(oracle.enqueues, b)
		case len(tokens) > 0:
			all := slices.Sorted(func(yield func(string) bool) {
				for name := range tokens {
					if !yield(name) {
						return
					}
				}
			})
			named := all[r.IntN(len(all))]
			token, at := tokens[named], slices.IndexFunc(oracle.leases, func(b *borrower) bool { return b.name == named })
			settle := []func([]string, func([]bool, error)){q.Acknowledge, q.Return, q.Renew}[what%3]
			settle([]string{token}, func(held []bool, err error) {
				again := what%3 == 0 && len(leased[token]) == 0 || what%3 == 1 && returned[token] // repeated
				if err != nil || held[0] != (at >= 0 || again) {
					t.Errorf("request %d: settling lease %s: %v, %v", i, named, held, err)
				}
			})
			switch {
			case at < 0:
			case what%3 == 0:
				for _, v := range leased[token] {
					places[v]++
				}
				leased[token] = nil
				oracle.leases = slices.Delete(oracle.leases, at, at+1)
			case what%3 == 1:
				returned[token] = true
				oracle.giveBack(func(b *borrower) bool { return b.name == named })
			default:
				oracle.leases[at].deadline = oracle.now + oracle.leases[at].duration
			}
		}
		if cancels[name] != nil {
			names = append(names, name)
		}
		oracle.settle()
		slices.Sort(log) // the order between lines is unspecified
		slices.Sort(oracle.log)
		if got, want := strings.Join(log, "\n"), strings.Join(oracle.log, "\n"); got != want {
			t.Errorf("request %d: got\n%s\nwant\n%s", i, got, want)
			return
		}
		log, oracle.log = nil, nil
		s := q.core.state
		if s.order.len() != len(oracle.elems) || s.leases.elems != oracle.leased() || int(s.leases.stored+s.leases.dropped) != len(oracle.dead) {
			t.Errorf("request %d: %d elements, %d leased, %d dead letters; want %d, %d, %d", i, s.order.len(), s.leases.elems, s.leases.stored+s.leases.dropped,
				len(oracle.elems), oracle.leased(), len(oracle.dead))
			return
		}
	}
	s := q.core.state
	add := func(runs collected) {
		for _, r := range runs {
			for i := r.from; i < r.to; i++ {
				places[int(tensor.Of[int64](r.tensors[0])[i*8])]++
			}
		}
	}
	add(elements(s.order))
	for _, e := range s.leases.byToken {
		add(e.elems)
	}
	for w := s.dequeues.first; w != nil; w = w.next {
		add(w.got)
	}
	for _, v := range oracle.dead {
		places[v]++
	}
	for v, n := range places {
		if n != 1 {
			t.Errorf("element %d is in %d places", v, n)
		}
	}
	if len(places) != int(s.enqueued) {
		t.Errorf("%d elements were stored, and %d are somewhere", s.enqueued, len(places))
	}
	if dead != nil {
		var got []int
		for _, r := range elements(dead.core.state.order) {
			got = append(got, int(tensor.Of[int64](r.tensors[0])[r.from*8]))
		}
		if !slices.Equal(got, oracle.dead) {
			t.Errorf("dead letters %v, want %v", got, oracle.dead)
		}
	}
}

// TestLeaseExpires checks that one timer returns the elements of leases when they expire, of the lease with the earliest deadline first.
func TestLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newSystem(t), 10)
		begun := time.Now()
		lease := func(n int, d time.Duration) string {
			got := make(chan string, 1)
			b.For(Origin{}, nil, nil).Lease(n, Terms{Duration: d}, func(token string, tuple []*tensor.Tensor, err error) {
				if err != nil {
					t.Error(err)
				}
				release(tuple)
				got <- token
			})
			return <-got
		}
		b.EnqueueMany(tupleOf(t, &b.options, b.pool, true, 1, 2, 3), func(error) {})
		long := lease(2, time.Hour)
		lease(1, time.Minute)
		for _, want := range []time.Duration{time.Minute, 3 * time.Minute} { // the second one is leased for two minutes
			lease(1, 2*time.Minute)
			if after := time.Since(begun); after != want {
				t.Errorf("the element came back after %v, not %v", after, want)
			}
		}
		b.Acknowledge([]string{long}, func(held []bool, err error) {
			if err != nil || !held[0] {
				t.Errorf("the long lease: %v, %v", held, err)
			}
		})
		b.Close()
		<-b.Done()
	})
}

// TestLeaseTerms checks which queues may store dead letters.
func TestLeaseTerms(t *testing.T) {
	q, same := newBench(t, nil, 1), newBench(t, nil, 1)
	defer q.Close()
	defer same.Close()
	other, err := Spawn(nil, Options{Name: "other", DTypes: []tensor.DType{tensor.Int32}, Shapes: []tensor.Shape{{8}}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, c := range []struct {
		dead  *Queue
		limit int
		want  string
	}{
		{q.Queue, 1, "cannot store its own dead letters"},
		{other, 1, "its elements have the types int32 and shapes [[8]], those the types int64 and shapes [[8]]"},
		{same.Queue, 0, "and no limit of deliveries"},
	} {
		var got error
		q.For(Origin{}, nil, nil).Lease(1, Terms{Duration: time.Second, MaxDeliveries: c.limit, DeadLetters: c.dead}, func(_ string, _ []*tensor.Tensor, err error) { got = err })
		if status.CodeOf(got) != status.InvalidArgument || !strings.Contains(got.Error(), c.want) {
			t.Errorf("error %v, want %s", got, c.want)
		}
	}
}

// TestProducersAreBounded checks that the queue remembers the producers that were active last.
func TestProducersAreBounded(t *testing.T) {
	var p producers
	for i := range maxProducers + 1 {
		p.advance("first", int64(i))
		p.advance(fmt.Sprint(i), 7)
	}
	if len(p.entries) != maxProducers || p.stored("first", 0, 2000) != maxProducers || p.stored("0", 0, 10) != 0 || p.stored("1", 0, 10) != 0 || p.stored("2", 0, 10) != 7 {
		t.Errorf("%d producers, %d, %d, %d, %d", len(p.entries), p.stored("first", 0, 2000), p.stored("0", 0, 10), p.stored("1", 0, 10), p.stored("2", 0, 10))
	}
}

// TestRecentLeasesAreBounded checks that the queue remembers the leases that were acknowledged last.
func TestRecentLeasesAreBounded(t *testing.T) {
	r := newLeases().ended
	for i := range 3 * maxRecentLeases {
		r.Add(fmt.Sprint(i), struct{}{})
	}
	for i, want := range map[int]bool{0: false, 2*maxRecentLeases - 1: false, 2 * maxRecentLeases: true, 3*maxRecentLeases - 1: true} {
		if _, ok := r.Get(fmt.Sprint(i)); ok != want {
			t.Errorf("lease %d is remembered: %v", i, !want)
		}
	}
	if r.Len() != maxRecentLeases {
		t.Errorf("%d leases are remembered", r.Len())
	}
}

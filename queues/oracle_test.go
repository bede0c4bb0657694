package queues

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// naive is the oracle: a queue of numbers that re-evaluates everything after each request and moves one element at a time. A number is its
// own priority.
type naive struct {
	kind     Kind
	least    int // elements kept back while it is open
	random   func() uint32
	capacity int
	closed   bool
	elems    []int
	enqueues []*asked
	dequeues []*asked
	opens    []*asked // requests that wait for the queue to be reopened, or to be emptied before that
	log      []string
}

// asked is a request to the oracle.
type asked struct {
	name  string
	op    string // enqueue, close, dequeue, many, upto, open
	late  bool   // a dequeue that waits for a closed, empty queue to be reopened
	todo  []int  // values to enqueue
	n     int    // elements requested
	taken []int
}

func (q *naive) tell(a *asked, outcome string) { q.log = append(q.log, a.name+" "+outcome) }

// put lets the first enqueue add one element, or end, and reports whether it could.
func (q *naive) put() bool {
	if len(q.enqueues) == 0 {
		return false
	}
	a := q.enqueues[0]
	switch {
	case a.op == "close" && q.closed, a.op == "enqueue" && q.closed:
		q.tell(a, "CANCELLED")
		q.enqueues = q.enqueues[1:]
	case a.op == "close":
		q.closed = true
		q.tell(a, "OK")
		q.enqueues = q.enqueues[1:]
	case len(q.elems) < q.capacity:
		q.elems = append(q.elems, a.todo[0])
		if a.todo = a.todo[1:]; len(a.todo) == 0 {
			q.tell(a, "OK")
			q.enqueues = q.enqueues[1:]
		}
	default:
		return false
	}
	return true
}

// get lets the first dequeue take one element, or end, and reports whether it could.
func (q *naive) get() bool {
	if len(q.dequeues) == 0 {
		return false
	}
	a := q.dequeues[0]
	have := len(a.taken) + len(q.elems)
	ready := len(q.elems)
	if !q.closed {
		ready -= q.least
	}
	switch {
	case q.closed && have < a.n && (a.op != "upto" || have == 0):
		q.giveBack(a)
		q.dequeues = q.dequeues[1:]
		q.tell(a, "OUT_OF_RANGE")
	case q.closed && have < a.n:
		q.giveBack(a)
		a.n = have
	case len(a.taken) == a.n:
		q.dequeues = q.dequeues[1:]
		q.tell(a, fmt.Sprint(a.taken))
	case ready > 0 && (q.kind != Priority || have >= a.n):
		i := 0
		switch q.kind {
		case RandomShuffle: // the last element moves to the place of the chosen one
			i = int(q.random()) % len(q.elems)
			last := len(q.elems) - 1
			a.taken = append(a.taken, q.elems[i])
			q.elems[i] = q.elems[last]
			q.elems = q.elems[:last]
			return true
		case Priority:
			i = slices.Index(q.elems, slices.Min(q.elems))
		}
		a.taken = append(a.taken, q.elems[i])
		q.elems = slices.Delete(q.elems, i, i+1)
	default:
		return false
	}
	return true
}

// open lets one request that waits for the queue to be reopened or emptied continue, and reports whether it could.
func (q *naive) open() bool {
	closes := slices.ContainsFunc(q.enqueues, func(e *asked) bool { return e.op == "close" })
	i := slices.IndexFunc(q.opens, func(a *asked) bool {
		if a.op == "open" {
			return !closes && (!q.closed || len(q.elems) == 0)
		}
		return !q.closed
	})
	if i < 0 {
		return false
	}
	a := q.opens[i]
	q.opens = slices.Delete(q.opens, i, i+1)
	if a.op == "open" {
		q.closed = false
		q.tell(a, "OK")
	} else {
		q.dequeues = append(q.dequeues, a)
	}
	return true
}

// takes adds a dequeue or an open to the list in which it waits.
func (q *naive) takes(a *asked) {
	if a.op == "open" || a.late && q.closed && len(q.elems) == 0 {
		q.opens = append(q.opens, a)
	} else {
		q.dequeues = append(q.dequeues, a)
	}
}

// giveBack puts back the elements that a dequeue has collected.
func (q *naive) giveBack(a *asked) {
	if q.kind == RandomShuffle {
		slices.Reverse(a.taken)
		q.elems = append(q.elems, a.taken...)
	} else {
		q.elems = append(a.taken, q.elems...)
	}
	a.taken = nil
}

// settle serves the enqueues as far as possible, then the dequeues and the requests that wait for the queue to be reopened, until nothing
// changes.
func (q *naive) settle() {
	for changed := true; changed; {
		changed = false
		for q.put() {
			changed = true
		}
		for q.get() {
			changed = true
		}
		for q.open() {
			changed = true
		}
	}
}

func (q *naive) cancel(name string) {
	for i, a := range q.enqueues {
		if a.name == name && a.op == "enqueue" {
			q.enqueues = slices.Delete(q.enqueues, i, i+1)
			q.tell(a, "CANCELLED")
			break
		}
	}
	for i, a := range q.dequeues {
		if a.name == name {
			q.dequeues = slices.Delete(q.dequeues, i, i+1)
			q.giveBack(a)
			q.tell(a, "CANCELLED")
			break
		}
	}
	for i, a := range q.opens {
		if a.name == name {
			q.opens = slices.Delete(q.opens, i, i+1)
			q.tell(a, "CANCELLED")
			break
		}
	}
	q.settle()
}

func (q *naive) closeAndCancel(a *asked) {
	q.closed = true
	for _, e := range q.enqueues {
		q.tell(e, "CANCELLED")
	}
	q.enqueues = nil
	q.settle()
	q.tell(a, "OK")
}

// TestOracle sends random requests to queues of all kinds and to the oracle. Each request must produce the same completions and leave the
// same number of elements.
func TestOracle(t *testing.T) {
	for kind := FIFO; kind <= Priority; kind++ {
		t.Run(kind.String(), func(t *testing.T) {
			for seed := range uint64(300) {
				pool := tensor.NewPool("test", 0)
				runOracle(t, kind, rand.New(rand.NewPCG(seed, 0)), pool)
				if n := pool.Stats().InUse; n != 0 {
					t.Errorf("seed %d: %d bytes still in use", seed, n)
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func runOracle(t *testing.T, kind Kind, r *rand.Rand, pool *tensor.Pool) {
	capacity := 1 + r.IntN(6)
	options := Options{
		Kind: kind, Name: "q", Capacity: capacity, Pool: pool,
		DTypes: []tensor.DType{tensor.Int64, tensor.String},
		Shapes: []tensor.Shape{{8}, {}},
	}
	oracle := &naive{kind: kind, capacity: capacity}
	switch kind {
	case RandomShuffle:
		options.MinAfterDequeue = r.IntN(capacity)
		oracle.least = options.MinAfterDequeue
		seed := r.Uint64()
		options.Random = rand.New(rand.NewPCG(seed, 0)).Uint32
		oracle.random = rand.New(rand.NewPCG(seed, 0)).Uint32
	case Priority:
		options.Shapes[0] = tensor.Shape{}
	}
	q, err := Spawn(nil, options)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var log, names []string
	cancels := map[string]func(error){}
	done := func(name string) func(error) {
		return func(err error) { log = append(log, name+" "+status.CodeOf(err).String()) }
	}
	given := func(name string) func([]*tensor.Tensor, error) {
		return func(tuple []*tensor.Tensor, err error) {
			if err != nil {
				done(name)(err)
				return
			}
			many := tuple[1].Rank() > 0
			v := values(t, tuple, many)
			if !many {
				v = "[" + v + "]"
			}
			log = append(log, name+" "+v)
			release(tuple)
		}
	}
	count := 0
	next := func() int { // each value once, in scrambled order
		count++
		return count * 7919 % 100003
	}
	for i := range 120 {
		name := fmt.Sprint("r", i)
		a := &asked{name: name, n: 1 + r.IntN(8)}
		var cancel func(error)
		what := r.IntN(100)
		user := q.For(Origin{}, nil, nil)
		if a.late = r.IntN(2) == 0; a.late {
			user = user.AwaitingOpen(time.Hour)
		}
		switch {
		case what < 30:
			a.op, a.todo = "enqueue", []int{next()}
			cancel = q.Enqueue(tupleOf(t, &q.options, pool, false, a.todo...), done(name))
		case what < 48:
			for range a.n {
				a.todo = append(a.todo, next())
			}
			a.op = "enqueue"
			cancel = q.EnqueueMany(tupleOf(t, &q.options, pool, true, a.todo...), done(name))
		case what < 66:
			a.op, a.n = "dequeue", 1
			cancel = user.Dequeue(given(name))
		case what < 76:
			a.op = "many"
			cancel = user.DequeueMany(a.n, given(name))
		case what < 84:
			a.op = "upto"
			cancel = user.DequeueUpTo(a.n, given(name))
		case what < 96 && len(names) > 0:
			victim := names[r.IntN(len(names))]
			cancels[victim](nil)
			oracle.cancel(victim)
		case what < 98:
			a.op = "open"
			cancel = user.Open(time.Hour, done(name))
		case i > 30 && what == 98:
			a.op = "close"
			q.CloseQueue(false, nil, done(name))
		case i > 30:
			q.CloseQueue(true, nil, done(name))
			oracle.closeAndCancel(a)
		}
		if cancel != nil {
			names, cancels[name] = append(names, name), cancel
		}
		switch a.op {
		case "":
		case "enqueue", "close":
			oracle.enqueues = append(oracle.enqueues, a)
		default:
			oracle.takes(a)
		}
		oracle.settle()
		slices.Sort(log) // the order between lines is unspecified
		slices.Sort(oracle.log)
		if got, want := strings.Join(log, "\n"), strings.Join(oracle.log, "\n"); got != want {
			t.Errorf("request %d: got\n%s\nwant\n%s", i, got, want)
			return
		}
		log, oracle.log = nil, nil
		if got, want := q.core.state.order.len(), len(oracle.elems); got != want {
			t.Errorf("request %d: size %d, want %d", i, got, want)
			return
		}
	}
}

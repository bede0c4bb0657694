package queues

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// naive is the oracle: a queue of numbers that looks at everything anew after each request and
// moves one element at a time. By priority it is a number's own value that counts.
type naive struct {
	kind     Kind
	least    int // kept back while it is open
	random   func() uint32
	capacity int
	closed   bool
	elems    []int
	enqueues []*asked
	dequeues []*asked
	log      []string
}

// asked is a request to the oracle.
type asked struct {
	name  string
	op    string // enqueue, close, dequeue, many, upto
	todo  []int  // values to put in
	n     int    // elements asked for
	taken []int
}

func (q *naive) tell(a *asked, outcome string) { q.log = append(q.log, a.name+" "+outcome) }

// put lets the first enqueue put in one element, or end, and tells whether it could.
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

// get lets the first dequeue take one element, or end, and tells whether it could.
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
		case RandomShuffle: // the last one comes to where the chosen one was
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

// giveBack puts back what a dequeue has collected.
func (q *naive) giveBack(a *asked) {
	if q.kind == RandomShuffle {
		slices.Reverse(a.taken)
		q.elems = append(q.elems, a.taken...)
	} else {
		q.elems = append(a.taken, q.elems...)
	}
	a.taken = nil
}

// settle serves the enqueues as far as it goes, then the dequeues, until nothing changes.
func (q *naive) settle() {
	for changed := true; changed; {
		changed = false
		for q.put() {
			changed = true
		}
		for q.get() {
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

// TestOracle drives random requests through queues of all kinds and the oracle: each request must bring
// about the same completions and leave as many elements.
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
	next := func() int { // each value once, in no order
		count++
		return count * 7919 % 100003
	}
	for i := range 120 {
		name := fmt.Sprint("r", i)
		a := &asked{name: name, n: 1 + r.IntN(8)}
		var cancel func(error)
		what := r.IntN(100)
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
			cancel = q.Dequeue(given(name))
		case what < 76:
			a.op = "many"
			cancel = q.DequeueMany(a.n, given(name))
		case what < 84:
			a.op = "upto"
			cancel = q.DequeueUpTo(a.n, given(name))
		case what < 98 && len(names) > 0:
			victim := names[r.IntN(len(names))]
			cancels[victim](nil)
			oracle.cancel(victim)
		case i > 60 && what == 98:
			a.op = "close"
			q.CloseQueue(false, nil, done(name))
		case i > 60:
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
			oracle.dequeues = append(oracle.dequeues, a)
		}
		oracle.settle()
		slices.Sort(log) // between the two lines the order is nobody's business
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

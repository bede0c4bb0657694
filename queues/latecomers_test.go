package queues

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

// notes are what has been recorded of sessions.
type notes []string

func (n *notes) Missed(what, name, text string) { *n = append(*n, what+" "+name+": "+text) }

// TestLatecomers lets sessions take from a queue that was closed at noon, and compares whose miss is recorded. A session's name says when it
// was opened: in seconds after noon.
func TestLatecomers(t *testing.T) {
	takes := map[string]func(User, func([]*tensor.Tensor, error)) func(error){
		"element": User.Dequeue,
		"batch":   func(u User, done func([]*tensor.Tensor, error)) func(error) { return u.DequeueMany(2, done) },
		"up to":   func(u User, done func([]*tensor.Tensor, error)) func(error) { return u.DequeueUpTo(2, done) },
	}
	for _, c := range []struct {
		name   string
		left   int   // elements in the queue when it is closed
		reason error // that it is closed with
		takes  []int // sessions, in turn
		missed []int // those whose miss is recorded
	}{
		{"of a later run", 0, nil, []int{10}, []int{10}},
		{"again and again", 0, nil, []int{10, 10, 11, 10, 11}, []int{10, 11}},
		{"opened before", 0, nil, []int{-10, -10}, nil},
		{"of unknown age", 0, nil, []int{0}, nil},
		{"who takes what is left", 2, nil, []int{10, 10, 10}, nil},
		{"after one that takes what is left", 2, nil, []int{10, 10, 11}, []int{11}},
		{"told of a failure", 0, status.New(status.DataLoss, "no more"), []int{10}, nil},
	} {
		for way, take := range takes {
			t.Run(c.name+", "+way, func(t *testing.T) {
				q := closedQueue(t, c.left, c.reason)
				var told notes
				for _, opened := range c.takes {
					tuple, _ := wait2(t, func(done func([]*tensor.Tensor, error)) func(error) {
						return take(q.For(opens(opened), nil, nil).Noting(&told), done)
					})
					release(tuple)
				}
				if len(told) != len(c.missed) {
					t.Fatalf("it was recorded that %v", told)
				}
				for i, opened := range c.missed {
					for _, want := range []string{"queue q: session " + opens(opened).Session + " of ", "end of FIFOQueue 'q' and no element", fmt.Sprintf("closed after %d elements, 1m0s ago (2026", c.left), "by session a of", "opens it anew"} {
						if !strings.Contains(told[i], want) {
							t.Errorf("%q does not say %q", told[i], want)
						}
					}
				}
				var r view.Resource
				q.Show(&r)
				if int(r.Queue.Missed) != len(c.missed) || len(c.missed) > 0 && r.Queue.LastMissed.Session != opens(c.missed[len(c.missed)-1]).Session {
					t.Errorf("it shows %v", r.Queue)
				}
			})
		}
	}
}

// opens returns a step of a session that was opened so many seconds after noon; 0 is a time that is not known.
func opens(seconds int) Origin {
	o := Origin{Step: 9, Session: fmt.Sprint("s", seconds), Master: second.Master}
	if seconds != 0 {
		o.Opened = noon.Add(time.Duration(seconds) * time.Second).UnixNano()
	}
	return o
}

// closedQueue returns a queue of numbers that was closed at noon, a minute ago.
func closedQueue(t *testing.T, left int, reason error) *Queue {
	t.Helper()
	q, err := Spawn(nil, Options{Name: "q", DTypes: []tensor.DType{tensor.Int64}, Shapes: []tensor.Shape{{}}, Capacity: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	at(q, noon)
	for i := range left {
		if err := failure(t, func(done func(error)) func(error) {
			return q.Enqueue(tupleOf(t, &q.options, tensor.Host, false, i), done)
		}); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, func(done func(error)) { q.For(first, nil, nil).CloseQueue(false, reason, done) })
	at(q, noon.Add(time.Minute))
	return q
}

// at sets a queue's clock.
func at(q *Queue, now time.Time) { q.core.state.now = func() time.Time { return now } }

// TestLatecomersOfRuns checks that each run of a queue has its own latecomers: opening it forgets those before.
func TestLatecomersOfRuns(t *testing.T) {
	q := closedQueue(t, 0, nil)
	var told notes
	for run := range 3 {
		_, _ = wait2(t, q.For(opens(100+run), nil, nil).Noting(&told).Dequeue)
		_, _ = wait2(t, q.For(opens(300), nil, nil).Noting(&told).Dequeue)
		if err := failure(t, func(done func(error)) func(error) { return q.For(second, nil, nil).Open(0, done) }); err != nil {
			t.Fatal(err)
		}
		var r view.Resource
		if q.Show(&r); r.Queue.Missed != 0 || r.Queue.LastMissed != nil {
			t.Errorf("after it was opened: %v", r.Queue)
		}
		wait(t, func(done func(error)) { q.For(first, nil, nil).CloseQueue(false, nil, done) })
	}
	if len(told) != 6 {
		t.Errorf("it was recorded that %v", told)
	}
}

// TestLatecomersOfDurableQueues checks that a queue says by whom it was closed, and when, after its task was restarted.
func TestLatecomersOfDurableQueues(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	q, err := Spawn(nil, Options{Name: "q", DTypes: []tensor.DType{tensor.Int64}, Shapes: []tensor.Shape{{}}, Capacity: 10})
	if err != nil {
		t.Fatal(err)
	}
	keep(t, store, q)
	at(q, noon)
	if err := failure(t, func(done func(error)) func(error) {
		return q.EnqueueMany(tupleOf(t, &q.options, tensor.Host, true, 1, 2, 3), done)
	}); err != nil {
		t.Fatal(err)
	}
	wait(t, func(done func(error)) { q.For(first, nil, nil).CloseQueue(false, nil, done) })
	tuple, err := wait2(t, func(done func([]*tensor.Tensor, error)) func(error) { return q.DequeueMany(3, done) })
	if err != nil {
		t.Fatal(err)
	}
	release(tuple)
	for range 2 {
		q.Close()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		store = openStore(t, dir)
		q = restored(t, store, randomNumbers)
		at(q, noon.Add(time.Minute))
		var told notes
		_, err := wait2(t, q.For(opens(10), nil, nil).Noting(&told).Dequeue)
		const says = "closed after 3 elements, 1m0s ago (2026-11-26T12:00:00Z) by session a of /job:worker/replica:0/task:0"
		if status.CodeOf(err) != status.OutOfRange || !strings.Contains(err.Error(), says) || len(told) != 1 || !strings.Contains(told[0], says) {
			t.Errorf("after a restart: %v; it was recorded that %v", err, told)
		}
	}
	q.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

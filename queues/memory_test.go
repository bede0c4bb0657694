package queues

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// take dequeues from an inline queue, which must already hold what is requested.
func take(t *testing.T, ask func(func([]*tensor.Tensor, error)) func(error)) []*tensor.Tensor {
	t.Helper()
	var got []*tensor.Tensor
	told := false
	ask(func(tuple []*tensor.Tensor, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got, told = tuple, true
	})
	if !told {
		t.Fatal("waits")
	}
	return got
}

func (b *bench) takeMany(t *testing.T, n int) *tensor.Tensor {
	t.Helper()
	return take(t, func(f func([]*tensor.Tensor, error)) func(error) { return b.DequeueMany(n, f) })[0]
}

// TestRowsShareMemory checks that rows that leave together in their original order are a view of the enqueued tensors.
func TestRowsShareMemory(t *testing.T) {
	b := newBench(t, nil, -1)
	in := b.many(1, 2, 3, 4, 5, 6)
	data := tensor.Of[int64](in[0])
	b.EnqueueMany(in, newPromise(t).end)
	used := b.pool.Stats().InUse
	first := take(t, b.Dequeue)[0]
	pair := b.takeMany(t, 2)
	if &tensor.Of[int64](first)[0] != &data[0] || &tensor.Of[int64](pair)[0] != &data[8] || b.pool.Stats().InUse != used {
		t.Error("rows were copied")
	}
	if first.Exclusive() || pair.Exclusive() {
		t.Error("a row of a batch looks as if it could be written")
	}
	b.Enqueue(b.one(7), newPromise(t).end)
	rest := b.takeMany(t, 4)
	if &tensor.Of[int64](rest)[0] == &data[24] || values(t, []*tensor.Tensor{rest}, true) != "[4 5 6 7]" {
		t.Error("rows of two enqueues")
	}
	release([]*tensor.Tensor{first, pair, rest})

	in = b.many(1, 2, 3)
	b.EnqueueMany(in, newPromise(t).end)
	whole := b.takeMany(t, 3)
	if whole != in[0] || !whole.Exclusive() {
		t.Error("a batch that leaves whole is not the tensor that came")
	}
	whole.Release()
	b.finish()
}

// TestShareThroughNarrowQueue checks that a batch that passed through the queue in parts comes out as one piece.
func TestShareThroughNarrowQueue(t *testing.T) {
	b := newBench(t, nil, 1)
	in := b.many(1, 2, 3)
	b.EnqueueMany(in, newPromise(t).end)
	if b.takeMany(t, 3) != in[0] {
		t.Error("the batch was copied")
	}
	in[0].Release()
	b.finish()
}

// TestGoValuesAreCopied checks elements such as strings, which have no owner that tracks whether they may be written in place.
func TestGoValuesAreCopied(t *testing.T) {
	q, err := Spawn(nil, Options{Name: "q", DTypes: []tensor.DType{tensor.String, tensor.Resource, tensor.Variant}, Shapes: []tensor.Shape{{2}, {2}, {2}}, Capacity: -1})
	if err != nil {
		t.Fatal(err)
	}
	strings, _ := tensor.FromStrings(tensor.Shape{2, 2}, []string{"a", "b", "c", "d"})
	handles, _ := tensor.New(tensor.Host, tensor.Resource, tensor.Shape{2, 2})
	handles.Handles()[2].Name = "h"
	variants, _ := tensor.New(tensor.Host, tensor.Variant, tensor.Shape{2, 2})
	variants.Variants()[3] = 1
	held := []*tensor.Tensor{strings.Retain(), handles.Retain(), variants.Retain()}
	q.EnqueueMany([]*tensor.Tensor{strings, handles, variants}, newPromise(t).end)
	release(take(t, q.Dequeue))
	row := take(t, q.Dequeue)
	row[0].Strings()[0] = "x"
	if strings.Strings()[2] != "c" || row[0].Strings()[1] != "d" || row[1].Handles()[0].Name != "h" || row[2].Variants()[1] != 1 {
		t.Error("row", row[0].Strings(), row[1].Handles(), row[2].Variants())
	}
	release(row)
	release(held)
	q.Close()
}

// TestNoMemory checks that a failed allocation of a batch leaves its elements in the queue.
func TestNoMemory(t *testing.T) {
	pool := tensor.NewPool("small", 64)
	q, err := Spawn(nil, Options{Name: "q", DTypes: []tensor.DType{tensor.Int64}, Shapes: []tensor.Shape{{8}}, Capacity: -1, Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	for v := range 2 {
		q.Enqueue(tupleOf(t, &q.options, tensor.Host, false, v), newPromise(t).end)
	}
	p := newPromise(t)
	q.DequeueMany(2, p.take)
	p.want(status.ResourceExhausted, "OOM")
	for v := range int64(2) {
		got := take(t, q.Dequeue)
		if tensor.Of[int64](got[0])[0] != v {
			t.Error("an element was lost")
		}
		release(got)
	}
	q.Close()
}

// TestEndlessBatch checks that elements without memory cost none, however many a batch claims to have.
func TestEndlessBatch(t *testing.T) {
	q, err := Spawn(nil, Options{Name: "q", DTypes: []tensor.DType{tensor.Int64}, Shapes: []tensor.Shape{{0}}, Capacity: -1})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := tensor.New(tensor.Host, tensor.Int64, tensor.Shape{1 << 40, 0})
	if err != nil {
		t.Fatal(err)
	}
	e := newPromise(t)
	q.EnqueueMany([]*tensor.Tensor{batch}, e.end)
	q.Size(func(n int, err error) {
		if n != unbounded || err != nil {
			t.Error(n, err)
		}
	})
	got := take(t, func(f func([]*tensor.Tensor, error)) func(error) { return q.DequeueMany(1<<30, f) })
	if got[0].Dim(0) != 1<<30 {
		t.Error(got[0].Shape())
	}
	release(got)
	q.Close()
	e.want(status.Aborted, "deleted")
}

func BenchmarkDequeueMany(b *testing.B) {
	for _, mode := range []string{"actor", "inline"} {
		b.Run(mode, func(b *testing.B) {
			q := newBench(b, nil, -1)
			if mode == "actor" {
				q = newBench(b, newSystem(b), -1)
			}
			done := make(chan struct{}, 1)
			batch := q.many(make([]int, 100)...)
			for b.Loop() {
				q.EnqueueMany([]*tensor.Tensor{batch[0].Retain()}, func(error) {})
				q.DequeueMany(100, func(tuple []*tensor.Tensor, _ error) { release(tuple); done <- struct{}{} })
				<-done
			}
			release(batch)
			q.finish()
		})
	}
}

func BenchmarkElements(b *testing.B) {
	for _, mode := range []string{"actor", "inline"} {
		b.Run(mode, func(b *testing.B) {
			q := newBench(b, nil, -1)
			if mode == "actor" {
				q = newBench(b, newSystem(b), -1)
			}
			done := make(chan struct{}, 1)
			elem := q.one(1)
			for b.Loop() {
				q.Enqueue([]*tensor.Tensor{elem[0].Retain()}, func(error) {})
				q.Dequeue(func(tuple []*tensor.Tensor, _ error) { release(tuple); done <- struct{}{} })
				<-done
			}
			release(elem)
			q.finish()
		})
	}
}

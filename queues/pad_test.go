package queues

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// TestPadding compares batches of elements of random shapes with the expected value at each position.
func TestPadding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		pool := tensor.NewPool("test", 0)
		known := make(tensor.Shape, 1+r.IntN(3))
		for d := range known {
			known[d] = int64(r.IntN(5)) - 1
		}
		q, err := Spawn(nil, Options{
			Kind: PaddingFIFO, Name: "q", Capacity: -1, Pool: pool,
			DTypes: []tensor.DType{tensor.Int64, tensor.String}, Shapes: []tensor.Shape{known, known},
		})
		if err != nil {
			t.Fatal(err)
		}
		// Each enqueue adds an element, or rows of the same shape, with distinct numbers.
		var shapes []tensor.Shape
		var first []int
		count := 1
		for range 1 + r.IntN(4) {
			shape := known.Clone()
			for d := range shape {
				if shape[d] < 0 {
					shape[d] = int64(r.IntN(4))
				}
			}
			n := r.IntN(4) // 0 for a single element
			whole := shape
			if n > 0 {
				whole = rowsOf(shape, int64(n))
			}
			tuple := numbered(t, pool, whole, count)
			end := newPromise(t).end
			if n > 0 {
				q.EnqueueMany(tuple, end)
			} else {
				q.Enqueue(tuple, end)
			}
			for i := range max(n, 1) {
				shapes, first = append(shapes, shape), append(first, count+i*shape.Elements())
			}
			count += whole.Elements()
		}
		got := take(t, func(f func([]*tensor.Tensor, error)) func(error) { return q.DequeueMany(len(shapes), f) })
		checkPadded(t, known, shapes, first, got)
		release(got)
		q.Close()
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes still in use", n)
		}
	}
}

// numbered returns a tuple of a number tensor and a string tensor, both counting up.
func numbered(t *testing.T, pool *tensor.Pool, shape tensor.Shape, from int) []*tensor.Tensor {
	numbers, err := tensor.New(pool, tensor.Int64, shape)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := tensor.New(pool, tensor.String, shape)
	if err != nil {
		t.Fatal(err)
	}
	for i := range numbers.Len() {
		tensor.Of[int64](numbers)[i] = int64(from + i)
		texts.Strings()[i] = strconv.Itoa(from + i)
	}
	return []*tensor.Tensor{numbers, texts}
}

// checkPadded checks each position of a batch: it holds the element's number, or zero.
func checkPadded(t *testing.T, known tensor.Shape, shapes []tensor.Shape, first []int, got []*tensor.Tensor) {
	t.Helper()
	want := zeroUnknown(known)
	for _, s := range shapes {
		for d := range want {
			want[d] = max(want[d], s[d])
		}
	}
	want = rowsOf(want, int64(len(shapes)))
	if !got[0].Shape().Equal(want) || !got[1].Shape().Equal(want) {
		t.Fatalf("%v of %v: %v and %v, want %v", known, shapes, got[0].Shape(), got[1].Shape(), want)
	}
	for at := range got[0].Len() {
		// The position's coordinates, from the last dimension to the first, and the corresponding index in the element.
		rest, inside, number, step := at, true, 0, 1
		row := at / want[1:].Elements()
		for d, size := range slices.Backward(want[1:]) {
			c := rest % int(size)
			rest /= int(size)
			inside = inside && c < int(shapes[row][d])
			number += c * step
			step *= int(shapes[row][d])
		}
		wantNumber, wantText := 0, ""
		if inside {
			wantNumber = first[row] + number
			wantText = strconv.Itoa(wantNumber)
		}
		if n, s := tensor.Of[int64](got[0])[at], got[1].Strings()[at]; int(n) != wantNumber || s != wantText {
			t.Fatalf("position %d of %v: %d and %q, want %d", at, want, n, s, wantNumber)
		}
	}
}

// TestPaddingWithoutMemory checks that elements stay in the queue if memory for the batch cannot be allocated.
func TestPaddingWithoutMemory(t *testing.T) {
	pool := tensor.NewPool("small", 1<<20)
	q, err := Spawn(nil, Options{
		Kind: PaddingFIFO, Name: "q", Capacity: -1, Pool: pool,
		DTypes: []tensor.DType{tensor.Uint8}, Shapes: []tensor.Shape{{-1, -1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range []tensor.Shape{{1 << 12, 1}, {1, 1 << 12}} {
		c, err := tensor.Zeros(pool, tensor.Uint8, shape)
		if err != nil {
			t.Fatal(err)
		}
		q.Enqueue([]*tensor.Tensor{c}, newPromise(t).end)
	}
	told := false
	q.DequeueMany(2, func(_ []*tensor.Tensor, err error) {
		told = status.CodeOf(err) == status.ResourceExhausted
	})
	if !told {
		t.Error("a batch beyond the pool's limit did not fail at once")
	}
	for range 2 {
		release(take(t, q.Dequeue))
	}
	q.Close()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes still in use", n)
	}
}

// TestScatteredRowsDoNotShareMemory checks that an element left in the queue does not keep its whole batch alive.
func TestScatteredRowsDoNotShareMemory(t *testing.T) {
	pool := tensor.NewPool("test", 0)
	q, err := Spawn(nil, Options{
		Kind: RandomShuffle, Name: "q", Capacity: -1, Pool: pool, Random: func() uint32 { return 0 },
		DTypes: []tensor.DType{tensor.Uint8}, Shapes: []tensor.Shape{{1 << 10}},
	})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := tensor.Zeros(pool, tensor.Uint8, tensor.Shape{256, 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	q.EnqueueMany([]*tensor.Tensor{batch}, newPromise(t).end)
	for range 255 {
		release(take(t, q.Dequeue))
	}
	if n := pool.Stats().InUse; n > 4<<10 {
		t.Errorf("one element of 1 KiB keeps %d bytes", n)
	}
	q.Close()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes still in use", n)
	}
}

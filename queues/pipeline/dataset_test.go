package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/queues/pipeline"
)

// numbers adds a dataset of 0 to n-1 on a device, with an iterator that returns next.
func numbers(s *op.Scope, device string, n int64) (begin *op.Operation, next op.Output) {
	s = s.WithDevice(device)
	types, shapes := []tensor.DType{tensor.Int64}, []shape.Shape{shape.Scalar()}
	dataset := op.RangeDataset(s, op.Const(s, int64(0)), op.Const(s, n), op.Const(s, int64(1)), types, shapes)
	return iterator(s, dataset, types, shapes)
}

// declare declares a queue of elements of type T.
func declare[T any](t *testing.T, q pipeline.Queue) *pipeline.Of[T] {
	t.Helper()
	queue, err := pipeline.Declare[T](q)
	if err != nil {
		t.Fatal(err)
	}
	return queue
}

// iterator adds an iterator of a dataset with one component.
func iterator(s *op.Scope, dataset op.Output, types []tensor.DType, shapes []shape.Shape) (begin *op.Operation, next op.Output) {
	it := op.IteratorV2(s, "", "", types, shapes)
	return op.MakeIterator(s, dataset, it), op.IteratorGetNext(s, it, types, shapes)[0]
}

// batched adds an iterator of a queue's elements in batches of two.
func batched[T any](s *op.Scope, queue *pipeline.Of[T]) (begin *op.Operation, next op.Output) {
	s = s.WithDevice(queue.Device)
	types, _ := queue.Signature()
	shapes := []shape.Shape{shape.Of(-1)}
	return iterator(s, op.BatchDatasetV2(s, queue.Dataset(s), op.Const(s, int64(2)), op.Const(s, false), types, shapes), types, shapes)
}

// add extends a session's graph and runs begin.
func add(t *testing.T, session *troupe.Session, s *op.Scope, begin ...op.Runnable) {
	t.Helper()
	def, err := s.GraphDef()
	if err == nil {
		err = session.Extend(t.Context(), def)
	}
	if err == nil {
		_, err = session.Eval(t.Context(), nil, begin...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestGoStageBetweenDatasets passes elements from a dataset on one task through a Go function and a queue on another task to a dataset
// there.
func TestGoStageBetweenDatasets(t *testing.T) {
	a, b := twoTasks(t)
	queue := declare[string](t, pipeline.Queue{Name: "spelled", Device: "/job:worker/task:1", Capacity: 2})
	s := op.NewScope()
	begin, number := numbers(s, "/job:worker/task:0", 5)
	add(t, a, s, begin)
	later := op.NewScope().SubScope("later")
	begin, batch := batched(later, queue)
	add(t, b, later, begin)

	done := make(chan error, 1)
	go func() {
		producer, err := queue.Producer(t.Context(), a, pipeline.ProducerOptions{Batch: 1})
		if err == nil {
			err = producer.Range(t.Context(), pipeline.Map(pipeline.Elements[int64](t.Context(), a, number), func(n int64) (string, error) {
				return strings.Repeat("x", int(n)), nil
			}))
		}
		done <- err
	}()
	var got [][]string
	for element, err := range b.Elements(t.Context(), batch) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, slices.Clone(element[0].Strings()))
	}
	if err := <-done; err != nil || fmt.Sprint(got) != "[[ x] [xx xxx] [xxxx]]" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestErrorsGoThroughDatasets has a Go stage that fails, and a loop that ends early.
func TestErrorsGoThroughDatasets(t *testing.T) {
	a, b := twoTasks(t)
	queue := declare[int64](t, pipeline.Queue{Name: "failing", Device: "/job:worker/task:1", OpenWait: -1})
	s := op.NewScope()
	begin, number := numbers(s, "/job:worker/task:0", 5)
	beginBatches, batch := batched(s, queue)
	add(t, a, s, begin, beginBatches)

	producer, err := queue.Producer(t.Context(), b, pipeline.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reason := status.New(status.DataLoss, "element 3 is broken")
	err = producer.Range(t.Context(), pipeline.Map(pipeline.Elements[int64](t.Context(), a, number), func(n int64) (int64, error) {
		if n == 3 {
			return 0, reason
		}
		return n, nil
	}))
	if !errors.Is(err, reason) {
		t.Errorf("The producer ended with %v", err)
	}
	var last error
	for _, err := range a.Elements(t.Context(), batch) {
		last = err
	}
	if status.CodeOf(last) != status.DataLoss || !strings.Contains(last.Error(), "element 3 is broken") {
		t.Errorf("The dataset ended with %v", last)
	}

	waiting := declare[int64](t, pipeline.Queue{Name: "never filled", Device: "/job:worker/task:1"})
	more := op.NewScope().SubScope("more")
	begin, batch = batched(more, waiting)
	add(t, a, more, begin)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, err := range a.Elements(ctx, batch) {
		last = err
	}
	if !errors.Is(last, context.DeadlineExceeded) {
		t.Errorf("The loop ended with %v", last)
	}
}

// TestElementsOfOtherTypes checks type mismatches, which are mistakes of the program.
func TestElementsOfOtherTypes(t *testing.T) {
	a, _ := twoTasks(t)
	s := op.NewScope()
	begin, number := numbers(s, "", 5)
	add(t, a, s, begin)
	code := func(err error) string { return fmt.Sprint(status.CodeOf(err), ": ", err) }
	last := func(e func(func(float32, error) bool)) (last error) {
		for _, err := range e {
			last = err
		}
		return last
	}
	if got := code(last(pipeline.Elements[float32](t.Context(), a, number))); !strings.HasSuffix(got, "Component 0 has the type int64 and the shape [], that of a float32 float and []") {
		t.Error(got)
	}
	if got := code(last(pipeline.Elements[float32](t.Context(), a, number, number))); !strings.HasSuffix(got, "The element has 2 components, and float32 has 1") {
		t.Error(got)
	}
	if got := code(last(pipeline.Elements[float32](t.Context(), a, op.Output{}))); !strings.HasPrefix(got, "INVALID_ARGUMENT") {
		t.Error(got)
	}
}

// A Go function is a stage between two datasets: it takes elements from the first, and a queue passes its results to the second.
func ExampleOf_Dataset() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithLogger(silent))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	squares, err := pipeline.Declare[int64](pipeline.Queue{Name: "squares", Capacity: 16})
	if err != nil {
		log.Fatal(err)
	}
	s := op.NewScope()
	types, scalars, batches := []tensor.DType{tensor.Int64}, []shape.Shape{shape.Scalar()}, []shape.Shape{shape.Of(-1)}
	source := op.RangeDataset(s, op.Const(s, int64(1)), op.Const(s, int64(6)), op.Const(s, int64(1)), types, scalars)
	sourceIterator := op.IteratorV2(s, "", "", types, scalars)
	number := op.IteratorGetNext(s, sourceIterator, types, scalars)[0]
	batched := op.BatchDatasetV2(s, squares.Dataset(s), op.Const(s, int64(2)), op.Const(s, false), types, batches)
	batchIterator := op.IteratorV2(s, "", "", types, batches)
	batch := op.IteratorGetNext(s, batchIterator, types, batches)[0]
	begin := []op.Runnable{op.MakeIterator(s, source, sourceIterator), op.MakeIterator(s, batched, batchIterator)}
	def, err := s.GraphDef()
	if err != nil {
		log.Fatal(err)
	}
	session, err := server.NewSession(ctx, def, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	if _, err := session.Eval(ctx, nil, begin...); err != nil {
		log.Fatal(err)
	}

	producer, err := squares.Producer(ctx, session, pipeline.ProducerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	square := func(n int64) (int64, error) { return n * n, nil }
	if err := producer.Range(ctx, pipeline.Map(pipeline.Elements[int64](ctx, session, number), square)); err != nil {
		log.Fatal(err)
	}
	for element, err := range session.Elements(ctx, batch) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tensor.Of[int64](element[0]))
	}
	// Output:
	// [1 4]
	// [9 16]
	// [25]
}

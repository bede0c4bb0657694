package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/queues/pipeline"
	"golang.org/x/sync/errgroup"
)

// produce acts as a program that puts n records into a queue and closes it.
func produce(t *testing.T, queue *pipeline.Of[record], session *troupe.Session, n int, end error) error {
	producer, err := queue.Producer(t.Context(), session, pipeline.ProducerOptions{})
	if err != nil {
		return err
	}
	return producer.Range(t.Context(), records(n, end))
}

// consume acts as a program that takes all records of a run. Their order distinguishes them from those of other runs.
func consume(t *testing.T, queue *pipeline.Of[record], session *troupe.Session, prefetch int) (n int, err error) {
	consumer, err := queue.Consumer(t.Context(), session, pipeline.ConsumerOptions{Batch: 7, Prefetch: prefetch})
	if err != nil {
		return 0, err
	}
	for batch, err := range consumer.Batches(t.Context()) {
		if err != nil {
			return n, err
		}
		for _, r := range batch.All() {
			if !same(r, recordOf(n)) {
				return n, fmt.Errorf("record %d is %+v", n, r)
			}
			n++
		}
	}
	return n, nil
}

// expectEnd checks the error of a program for which an earlier run has left nothing.
func expectEnd(t *testing.T, what string, err error, code status.Code, texts ...string) {
	t.Helper()
	if status.CodeOf(err) != code {
		t.Errorf("%s ended with %v, not %v", what, err, code)
	}
	for _, text := range texts {
		if err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%s ended with %v, which does not say %q", what, err, text)
		}
	}
}

// TestRunsAgain runs the same producer and consumer repeatedly on one cluster, starting either first. Each run must have its own records.
func TestRunsAgain(t *testing.T) {
	from, to := twoTasks(t)
	queue := declare[record](t, pipeline.Queue{Name: "again", Device: "/job:worker/task:0", Capacity: 20})
	var got int
	programs := []func() error{
		func() (err error) {
			got, err = consume(t, queue, to, 2)
			return err
		},
		func() error { return produce(t, queue, from, 100, nil) },
	}
	for run := range 6 {
		if run%2 == 0 {
			slices.Reverse(programs)
		}
		var both errgroup.Group
		for _, program := range programs {
			both.Go(program)
		}
		if err := both.Wait(); err != nil || got != 100 {
			t.Fatalf("run %d: %d records of 100 came, then %v", run, got, err)
		}
	}
}

// TestLeftByFormerRuns checks that a consumer for which an earlier run has left nothing learns which queue was closed, by whom and when.
// The same holds for a loop over a dataset, and for a producer that would mix its records with those of an earlier run.
func TestLeftByFormerRuns(t *testing.T) {
	from, to := twoTasks(t)
	queue := declare[record](t, pipeline.Queue{Name: "left", Device: "/job:worker/task:0", Capacity: 20, OpenWait: -1})
	if err := produce(t, queue, from, 10, nil); err != nil {
		t.Fatal(err)
	}
	closed := []string{"FIFOQueue 'left'", " ago (20", "by session ", " of /job:worker/replica:0/task:0"}

	// Another run starts before the records of the first have been taken.
	expectEnd(t, "The second producer", produce(t, queue, from, 1, nil), status.FailedPrecondition, append(closed, "10 of them have not been taken")...)
	if n, err := consume(t, queue, to, 0); n != 10 || err != nil {
		t.Fatalf("%d records came, then %v", n, err)
	}
	// The queue has not been reopened since.
	for prefetch := range 2 {
		n, err := consume(t, queue, to, prefetch)
		expectEnd(t, fmt.Sprintf("The consumer that came too late, with %d records,", n), err, status.FailedPrecondition, append(closed, "after 10 elements", "No producer has opened it")...)
	}
	s := op.NewScope().SubScope("dataset").WithDevice(queue.Device)
	types, shapes := queue.Signature()
	it := op.IteratorV2(s, "", "", types, shapes)
	next := op.IteratorGetNext(s, it, types, shapes)
	add(t, to, s, op.MakeIterator(s, queue.Dataset(s), it))
	var err error
	for _, err = range pipeline.Elements[record](t.Context(), to, next...) {
	}
	expectEnd(t, "The dataset", err, status.FailedPrecondition, append(closed, "after 10 elements")...)

	// The next run reopens it.
	if err := produce(t, queue, from, 20, nil); err != nil {
		t.Fatal(err)
	}
	if n, err := consume(t, queue, to, 1); n != 20 || err != nil {
		t.Fatalf("%d records came, then %v", n, err)
	}
}

// TestFailureOfFormerRun checks that a producer's failure is reported until the queue is reopened, even to consumers that arrive when it is
// empty.
func TestFailureOfFormerRun(t *testing.T) {
	from, to := twoTasks(t)
	queue := declare[record](t, pipeline.Queue{Name: "failed", Device: "/job:worker/task:1", OpenWait: -1})
	torn := status.New(status.DataLoss, "shard 7 is torn")
	if err := produce(t, queue, from, 0, torn); !errors.Is(err, torn) {
		t.Fatal(err)
	}
	_, err := consume(t, queue, to, 0)
	expectEnd(t, "The consumer", err, status.DataLoss, "shard 7 is torn", "by session")
	if err := produce(t, queue, from, 5, nil); err != nil {
		t.Fatal(err)
	}
	if n, err := consume(t, queue, to, 0); n != 5 || err != nil {
		t.Errorf("%d records came, then %v", n, err)
	}
}

// TestDelete checks that Delete drops the records that a killed run has left in an open queue.
func TestDelete(t *testing.T) {
	from, to := twoTasks(t)
	queue := declare[record](t, pipeline.Queue{Name: "dead", Device: "/job:worker/task:1"})
	ctx, kill := context.WithCancel(t.Context())
	producer, err := queue.Producer(ctx, from, pipeline.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := producer.Put(ctx, recordOf(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	kill()
	if n, err := producer.Size(t.Context()); n != 5 || err != nil {
		t.Errorf("%d records are left, %v", n, err)
	}
	for range 2 { // the second call has nothing to delete
		if err := queue.Delete(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	if err := produce(t, queue, from, 3, nil); err != nil {
		t.Fatal(err)
	}
	if n, err := consume(t, queue, to, 0); n != 3 || err != nil {
		t.Errorf("%d records came, then %v", n, err)
	}
}

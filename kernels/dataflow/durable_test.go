package dataflow_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// durableQueue makes a device with a durable queue of int32 and returns the queue's handle.
func durableQueue(t *testing.T, capacity int) (d *kt.Device, store *durable.Store, handle *tensor.Tensor) {
	t.Helper()
	d = kt.NewDevice(t)
	log := slog.New(slog.DiscardHandler)
	store, err := durable.Open(t.TempDir(), durable.Options{Owner: "/job:test/task:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	pictures := containers.NewPictures(store, log)
	d.Resources().Keep(pictures, func(string) (time.Duration, bool) { return 0, true })
	t.Cleanup(func() {
		pictures.Stop()
		if err := d.Resources().Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	handle = d.Run(t, kt.Op{Type: "FIFOQueueV2", Outputs: 1, Attrs: kt.Attrs{"component_types": []tensor.DType{tensor.Int32}, "shapes": []tensor.Shape{kt.S()},
		"capacity": capacity, "container": "", "shared_name": "q"}})[0].Tensor
	t.Cleanup(handle.Release)
	return d, store, handle
}

// stepOn returns a step with changes of its own.
func stepOn(store *durable.Store) *kernels.Step {
	step := kt.NewStep()
	step.Changes = store.Begin()
	return step
}

// ends waits until a step's changes are on disk.
func ends(t *testing.T, step *kernels.Step) {
	t.Helper()
	ended := make(chan error, 1)
	step.Changes.End(func(err error) { ended <- err })
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestCloseOfAStepThatEnds ends a step whose close of a durable queue waits for an enqueue. The queue keeps its elements and closes later.
func TestCloseOfAStepThatEnds(t *testing.T) {
	d, store, h := durableQueue(t, 1)
	ints := []tensor.DType{tensor.Int32}
	dequeue := func() kt.Op {
		return kt.Op{Type: "QueueDequeueV2", Attrs: kt.Attrs{"component_types": ints, "timeout_ms": -1}, Outputs: 1}
	}
	put := kt.Op{Type: "QueueEnqueueManyV2", Attrs: kt.Attrs{"Tcomponents": ints, "timeout_ms": -1}, Step: stepOn(store)}
	putting := kt.Start(t, d, put, h.Retain(), kt.I32(kt.S(2), 1, 2))
	closes := kt.Op{Type: "QueueCloseV2", Attrs: kt.Attrs{"cancel_pending_enqueues": false}, Step: stepOn(store)}
	closing := kt.Start(t, d, closes, h.Retain())
	closes.Step.Cancellation.Cancel(status.New(status.Internal, "boom"))
	if r := <-closing; status.CodeOf(r.Err) != status.Cancelled {
		t.Errorf("the close ended with %v", r.Err)
	}
	ends(t, closes.Step)
	kt.Expect(t, d.Run(t, dequeue(), h.Retain()), kt.I32(nil, 1))
	if r := <-putting; r.Err != nil {
		t.Error(r.Err)
	}
	ends(t, put.Step)
	kt.Expect(t, d.Run(t, dequeue(), h.Retain()), kt.I32(nil, 2))
	kt.Fails(t, d, status.OutOfRange, "is closed", dequeue(), h.Retain())
}

// TestDurableLeases acknowledges a lease of a durable queue together with the next one: the op says that it was held, though the queue answers when that
// is on disk.
func TestDurableLeases(t *testing.T) {
	d, store, h := durableQueue(t, 8)
	ints := []tensor.DType{tensor.Int32}
	d.Run(t, kt.Op{Type: "QueueEnqueueManyV2", Attrs: kt.Attrs{"Tcomponents": ints, "timeout_ms": -1}}, h.Retain(), kt.I32(kt.S(3), 1, 2, 3))
	token := ""
	for i := range int32(3) {
		op := kt.Op{Type: "TroupeQueueLease", Outputs: 3, Step: stepOn(store),
			Attrs: kt.Attrs{"component_types": ints, "N": 0, "lease_ms": 60_000, "max_deliveries": 0}}
		before, held := kt.Str(kt.S(1), token), i > 0
		out := d.Run(t, op, h.Retain(), kt.I32(nil, 1), before)
		ends(t, op.Step)
		token = out[0].Tensor.Strings()[0]
		out[0].Tensor.Release()
		kt.Expect(t, []kernels.Value{out[1], out[2]}, kt.Bool(kt.S(1), held), kt.I32(kt.S(1), i+1))
	}
}

package dataflow_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// queueAttrs returns the attributes of all queue ops at once.
func queueAttrs(capacity int, sharedName string) kt.Attrs {
	types := []tensor.DType{tensor.Float32, tensor.Int32}
	return kt.Attrs{"component_types": types, "Tcomponents": types, "shapes": []tensor.Shape{kt.S(8), kt.S()}, "capacity": capacity,
		"container": "", "shared_name": sharedName, "timeout_ms": -1, "cancel_pending_enqueues": false}
}

func TestQueue(t *testing.T) {
	for _, version := range []string{"", "V2"} {
		t.Run("FIFOQueue"+version, func(t *testing.T) {
			d := kt.NewDevice(t)
			attrs := queueAttrs(2, "")
			made := d.Run(t, kt.Op{Type: "FIFOQueue" + version, Attrs: attrs, Outputs: 1, Session: "s"})
			handle := func() any {
				if version == "" {
					return made[0].Ref
				}
				return made[0].Tensor.Retain()
			}
			run := func(op string, outputs int, inputs ...any) []kernels.Value {
				t.Helper()
				return d.Run(t, kt.Op{Type: op + version, Attrs: attrs, Outputs: outputs}, append([]any{handle()}, inputs...)...)
			}
			x := kt.Iota[float32](tensor.Float32, kt.S(8))
			run("QueueEnqueue", 0, x.Retain(), kt.I32(nil, 5))
			kt.Expect(t, run("QueueSize", 1), kt.I32(nil, 1))
			kt.Expect(t, run("QueueDequeue", 2), x, kt.I32(nil, 5))

			waiting := kt.Start(t, d, kt.Op{Type: "QueueDequeueMany" + version, Attrs: attrs, Outputs: 2}, handle(), kt.I32(nil, 2))
			run("QueueEnqueueMany", 0, kt.Iota[float32](tensor.Float32, kt.S(2, 8)), kt.I32(kt.S(2), 5, 6))
			got := <-waiting
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			kt.Expect(t, got.Out, kt.Iota[float32](tensor.Float32, kt.S(2, 8)), kt.I32(kt.S(2), 5, 6))

			kt.Fails(t, d, status.InvalidArgument, "DequeueManyOp requested -1 < 0 elements", kt.Op{Type: "QueueDequeueMany" + version, Attrs: attrs, Outputs: 2}, handle(), kt.I32(nil, -1))
			kt.Fails(t, d, status.InvalidArgument, "Shape mismatch in tuple component 1. Expected [], got [1]", kt.Op{Type: "QueueEnqueue" + version, Attrs: attrs}, handle(), x.Retain(), kt.I32(kt.S(1), 1))
			timeout := queueAttrs(2, "")
			timeout["timeout_ms"] = 10
			kt.Fails(t, d, status.InvalidArgument, "Timeout not supported yet.", kt.Op{Type: "QueueDequeue" + version, Attrs: timeout, Outputs: 2}, handle())
			other := queueAttrs(2, "")
			other["component_types"] = []tensor.DType{tensor.Int64}
			kt.Fails(t, d, status.InvalidArgument, "->int64 expected: ", kt.Op{Type: "QueueDequeue" + version, Attrs: other, Outputs: 1}, handle())
			kt.Fails(t, d, status.InvalidArgument, ", float-> expected: ", kt.Op{Type: "QueueEnqueue" + version, Attrs: attrs}, handle(), x.Retain())

			run("QueueEnqueue", 0, x.Retain(), kt.I32(nil, 7))
			kt.Expect(t, run("QueueIsClosed", 1), kt.Bool(nil, false))
			run("QueueClose", 0)
			kt.Expect(t, run("QueueIsClosed", 1), kt.Bool(nil, true))
			kt.Expect(t, run("QueueDequeueUpTo", 2, kt.I32(nil, 3)), kt.Iota[float32](tensor.Float32, kt.S(1, 8)), kt.I32(kt.S(1), 7))
			kt.Fails(t, d, status.OutOfRange, "closed", kt.Op{Type: "QueueDequeue" + version, Attrs: attrs, Outputs: 2}, handle())
			for _, v := range made {
				v.Release()
			}
		})
	}
}

func TestQueueCancel(t *testing.T) {
	d := kt.NewDevice(t)
	attrs := queueAttrs(1, "q")
	h := d.Run(t, kt.Op{Type: "FIFOQueueV2", Attrs: attrs, Outputs: 1})[0].Tensor
	defer h.Release()
	x := kt.Iota[float32](tensor.Float32, kt.S(8))
	end := func(op kt.Op, inputs ...*tensor.Tensor) {
		t.Helper()
		op.Step = kt.NewStep()
		own := func() []any {
			list := []any{h.Retain()}
			for _, in := range inputs {
				list = append(list, in.Retain())
			}
			return list
		}
		waiting := kt.Start(t, d, op, own()...)
		select {
		case r := <-waiting:
			t.Fatalf("%s did not wait: %v", op.Type, r.Err)
		default:
		}
		op.Step.Cancellation.Cancel(status.New(status.Internal, "boom"))
		if r := <-waiting; status.CodeOf(r.Err) != status.Cancelled || !status.From(r.Err).Derived {
			t.Errorf("%s ended with %v", op.Type, r.Err)
		}
		kt.Fails(t, d, status.Internal, "boom", op, own()...)
	}
	end(kt.Op{Type: "QueueDequeueV2", Attrs: attrs, Outputs: 2})
	d.Run(t, kt.Op{Type: "QueueEnqueueV2", Attrs: attrs}, h.Retain(), x.Retain(), kt.I32(nil, 1))
	end(kt.Op{Type: "QueueEnqueueV2", Attrs: attrs}, x, kt.I32(nil, 1))

	// Closing waits for an enqueue; the step that closes may give up waiting.
	step := kt.NewStep()
	enqueue := kt.Start(t, d, kt.Op{Type: "QueueEnqueueV2", Attrs: attrs}, h.Retain(), x.Retain(), kt.I32(nil, 2))
	closing := kt.Start(t, d, kt.Op{Type: "QueueCloseV2", Attrs: attrs, Step: step}, h.Retain())
	step.Cancellation.Cancel(kernels.ErrStepCancelled)
	if r := <-closing; status.CodeOf(r.Err) != status.Cancelled {
		t.Errorf("closing ended with %v", r.Err)
	}
	kt.Expect(t, d.Run(t, kt.Op{Type: "QueueDequeueV2", Attrs: attrs, Outputs: 2}, h.Retain()), x, kt.I32(nil, 1))
	if r := <-enqueue; r.Err != nil {
		t.Error(r.Err)
	}
	kt.Expect(t, d.Run(t, kt.Op{Type: "QueueDequeueV2", Attrs: attrs, Outputs: 2}, h.Retain()), x, kt.I32(nil, 2))
	if !x.Exclusive() {
		t.Error("a cancelled enqueue kept its element")
	}
}

func TestSharedQueue(t *testing.T) {
	d := kt.NewDevice(t)
	op := kt.Op{Type: "FIFOQueueV2", Attrs: queueAttrs(2, "q"), Outputs: 1}
	source, err := d.Kernel(op)
	if err != nil {
		t.Fatal(err)
	}
	first, err := source.Try()
	if err != nil {
		t.Fatal(err)
	}
	kt.Fails(t, d, status.InvalidArgument, "Shared queue 'q' has capacity 2 but requested capacity was 3", kt.Op{Type: "FIFOQueueV2", Attrs: queueAttrs(3, "q"), Outputs: 1})
	kt.Fails(t, d, status.InvalidArgument, "shared_name cannot start with '_'", kt.Op{Type: "FIFOQueueV2", Attrs: queueAttrs(3, "_q"), Outputs: 1})

	size := func(h *tensor.Tensor) ([]kernels.Value, error) {
		return d.Try(kt.Op{Type: "QueueSizeV2", Outputs: 1}, h.Retain())
	}
	d.Run(t, kt.Op{Type: "QueueEnqueueV2", Attrs: queueAttrs(2, "q")}, first[0].Tensor.Retain(), kt.Iota[float32](tensor.Float32, kt.S(8)), kt.I32(nil, 1))
	// A handle that was received from another process names the same queue.
	wire := first[0].Tensor.Handles()[0]
	wire.Local = nil
	h := tensor.FromHandle(wire)
	out, err := size(h)
	if err != nil {
		t.Fatal(err)
	}
	kt.Expect(t, out, kt.I32(nil, 1))
	h.Release()

	if err := d.Resources().Clear(""); err != nil {
		t.Fatal(err)
	}
	if _, err := size(first[0].Tensor); status.CodeOf(err) != status.Aborted {
		t.Errorf("a deleted queue answers %v", err)
	}
	second, err := source.Try()
	if err != nil {
		t.Fatal(err)
	}
	out, err = size(second[0].Tensor)
	if err != nil {
		t.Fatal(err)
	}
	kt.Expect(t, out, kt.I32(nil, 0))
	first[0].Release()
	second[0].Release()
}

// Two kernels of one node in one session share the private queue, which ends with the session.
func TestPrivateQueue(t *testing.T) {
	d := kt.NewDevice(t)
	run := func(session string) *tensor.Tensor {
		return d.Run(t, kt.Op{Type: "FIFOQueueV2", Attrs: queueAttrs(2, ""), Outputs: 1, Session: session})[0].Tensor
	}
	a, b, c := run("s1"), run("s1"), run("s2")
	if a.Handles()[0].Local != b.Handles()[0].Local || a.Handles()[0].Local == c.Handles()[0].Local {
		t.Error("a queue without a shared name must be its session's own")
	}
	for _, h := range []*tensor.Tensor{a, b, c} {
		h.Release()
	}
}

// TestQueueOrders compares the orders that seeds and priorities produce with those of TensorFlow 2.21.
func TestQueueOrders(t *testing.T) {
	count := func(from, to int) *tensor.Tensor {
		var all []int32
		for i := from; i < to; i++ {
			all = append(all, int32(i))
		}
		return kt.I32(kt.S(int64(to-from)), all...)
	}
	attrs := kt.Attrs{"component_types": []tensor.DType{tensor.Int32}, "shapes": []tensor.Shape{{}}, "capacity": 40,
		"min_after_dequeue": 0, "container": "", "shared_name": "", "timeout_ms": -1}
	for _, c := range []struct {
		seed, seed2 int
		want        []int32
	}{
		{7, 11, []int32{13, 5, 15, 1, 7, 17, 4, 11, 20, 10, 19, 22, 3, 0, 21, 8, 6, 16, 9, 12, 25, 24, 23, 18, 2, 14}},
		{0, 3, []int32{12, 3, 19, 1, 10, 8, 13, 14, 25, 7, 0, 17, 4, 20, 15, 11, 2, 5, 6, 24, 21, 22, 18, 23, 16, 9}},
		{-5, 1 << 40, []int32{5, 9, 14, 3, 4, 13, 8, 0, 1, 25, 12, 17, 2, 11, 6, 18, 10, 16, 21, 15, 22, 7, 20, 23, 24, 19}},
	} {
		d := kt.NewDevice(t)
		attrs["seed"], attrs["seed2"] = c.seed, c.seed2
		h := d.Run(t, kt.Op{Type: "RandomShuffleQueueV2", Attrs: attrs, Outputs: 1})[0].Tensor
		d.Run(t, kt.Op{Type: "QueueEnqueueManyV2", Attrs: attrs}, h.Retain(), count(0, 20))
		kt.Expect(t, d.Run(t, kt.Op{Type: "QueueDequeueManyV2", Attrs: attrs, Outputs: 1}, h.Retain(), kt.I32(nil, 8)), kt.I32(kt.S(8), c.want[:8]...))
		d.Run(t, kt.Op{Type: "QueueEnqueueManyV2", Attrs: attrs}, h.Retain(), count(20, 26))
		kt.Expect(t, d.Run(t, kt.Op{Type: "QueueDequeueManyV2", Attrs: attrs, Outputs: 1}, h, kt.I32(nil, 18)), kt.I32(kt.S(18), c.want[8:]...))
	}

	d := kt.NewDevice(t)
	h := d.Run(t, kt.Op{Type: "PriorityQueueV2", Attrs: attrs, Outputs: 1})[0].Tensor
	attrs["component_types"] = []tensor.DType{tensor.Int64, tensor.Int32}
	var priorities []int64
	for i := range int64(20) {
		priorities = append(priorities, i*7%4)
	}
	d.Run(t, kt.Op{Type: "QueueEnqueueManyV2", Attrs: attrs}, h.Retain(), kt.I64(kt.S(20), priorities...), count(0, 20))
	out := d.Run(t, kt.Op{Type: "QueueDequeueManyV2", Attrs: attrs, Outputs: 2}, h, kt.I32(nil, 20))
	kt.Expect(t, out[1:], kt.I32(kt.S(20), 0, 12, 4, 8, 16, 11, 3, 19, 7, 15, 6, 14, 2, 10, 18, 1, 5, 9, 13, 17))
	out[0].Release()
}

func TestBadShuffleQueue(t *testing.T) {
	d := kt.NewDevice(t)
	attrs := kt.Attrs{"component_types": []tensor.DType{tensor.Int32}, "shapes": []tensor.Shape{{}}, "capacity": 4,
		"container": "", "shared_name": "", "seed": 0, "seed2": 0}
	for least, message := range map[int]string{-1: "min_after_dequeue -1 must be >= 0", 4: "min_after_dequeue 4 must be < capacity 4"} {
		attrs["min_after_dequeue"] = least
		kt.Fails(t, d, status.InvalidArgument, message, kt.Op{Type: "RandomShuffleQueueV2", Attrs: attrs, Outputs: 1})
	}
}

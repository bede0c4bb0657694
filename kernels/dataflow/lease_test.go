package dataflow_test

import (
	"maps"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestQueueLease checks the ops on leases, and the one that stores numbered elements once.
func TestQueueLease(t *testing.T) {
	d := kt.NewDevice(t)
	ints := []tensor.DType{tensor.Int32}
	queue := func(name string) *tensor.Tensor {
		attrs := kt.Attrs{"component_types": ints, "shapes": []tensor.Shape{kt.S()}, "capacity": 4, "container": "", "shared_name": name}
		return d.Run(t, kt.Op{Type: "FIFOQueueV2", Attrs: attrs, Outputs: 1})[0].Tensor
	}
	h, dead := queue("q"), queue("dead")
	defer h.Release()
	defer dead.Release()
	once := kt.Op{Type: "TroupeQueueEnqueueManyOnce", Attrs: kt.Attrs{"Tcomponents": ints}}
	for range 2 {
		d.Run(t, once, h.Retain(), kt.Str(nil, "p"), kt.I64(nil, 0), kt.I32(kt.S(3), 5, 6, 7))
	}
	lease := func(limit int, deadLetters int) kt.Op {
		return kt.Op{Type: "TroupeQueueLease", Outputs: 3,
			Attrs: kt.Attrs{"component_types": ints, "N": deadLetters, "lease_ms": 60_000, "max_deliveries": limit}}
	}
	settle := func(how, token string, held bool) {
		t.Helper()
		kt.Expect(t, d.Run(t, kt.Op{Type: "TroupeQueue" + how, Outputs: 1}, h.Retain(), kt.Str(kt.S(1), token)), kt.Bool(kt.S(1), held))
	}
	// take returns the token of a lease.
	take := func(op kt.Op, n int32, acknowledged *tensor.Tensor, held *tensor.Tensor, want *tensor.Tensor, more ...any) string {
		t.Helper()
		out := d.Run(t, op, append([]any{h.Retain(), kt.I32(nil, n), acknowledged}, more...)...)
		token := out[0].Tensor.Strings()[0]
		out[0].Tensor.Release()
		kt.Expect(t, []kernels.Value{out[1], out[2]}, held, want)
		return token
	}
	none := func() *tensor.Tensor { return kt.Str(kt.S(0)) }
	first := take(lease(0, 0), 2, none(), kt.Bool(kt.S(0)), kt.I32(kt.S(2), 5, 6))
	settle("Renew", first, true)
	settle("Renew", "guess", false)
	second := take(lease(0, 0), 1, kt.Str(kt.S(2), first, "guess"), kt.Bool(kt.S(2), true, false), kt.I32(kt.S(1), 7))
	settle("Acknowledge", first, true) // repeated
	settle("Return", first, false)
	settle("Return", second, true)
	third := take(lease(2, 1), 1, none(), kt.Bool(kt.S(0)), kt.I32(kt.S(1), 7), dead.Retain())
	settle("Return", third, true) // after two deliveries
	kt.Expect(t, d.Run(t, kt.Op{Type: "QueueDequeueV2", Attrs: kt.Attrs{"component_types": ints, "timeout_ms": -1}, Outputs: 1}, dead.Retain()), kt.I32(nil, 7))
	kt.Expect(t, d.Run(t, kt.Op{Type: "QueueSizeV2", Outputs: 1}, h.Retain()), kt.I32(nil, 0))

	refused := func(text string, op kt.Op, inputs ...any) {
		t.Helper()
		kt.Fails(t, d, status.InvalidArgument, text, op, append([]any{h.Retain()}, inputs...)...)
	}
	refused("may have one", lease(1, 2), kt.I32(nil, 1), none(), dead.Retain(), dead.Retain())
	refused("cannot store its own dead letters", lease(1, 1), kt.I32(nil, 1), none(), h.Retain())
	refused("no limit of deliveries", lease(0, 1), kt.I32(nil, 1), none(), dead.Retain())
	refused("must have at least one", lease(0, 0), kt.I32(nil, 0), none())
	long := lease(0, 0)
	long.Attrs = maps.Clone(long.Attrs)
	long.Attrs["lease_ms"] = 1 << 62
	refused("must last from 1ms to 24h0m0s", long, kt.I32(nil, 1), none())
	refused("has 65537 leases", kt.Op{Type: "TroupeQueueRenew", Outputs: 1}, kt.Str(kt.S(65537), make([]string, 65537)...))
	refused("has 0 bytes", once, kt.Str(nil, ""), kt.I64(nil, 0), kt.I32(kt.S(1), 1))
	refused("must be a scalar string", once, kt.Str(kt.S(1), "p"), kt.I64(nil, 0), kt.I32(kt.S(1), 1))
	refused("numbers are from 0", once, kt.Str(nil, "p"), kt.I64(nil, -1), kt.I32(kt.S(1), 1))

	// A step that ends gives back what it waits for.
	op := lease(0, 0)
	op.Step = kt.NewStep()
	d.Run(t, once, h.Retain(), kt.Str(nil, "p"), kt.I64(nil, 3), kt.I32(kt.S(1), 8))
	waiting := kt.Start(t, d, op, h.Retain(), kt.I32(nil, 2), none())
	op.Step.Cancellation.Cancel(status.New(status.Internal, "boom"))
	if r := <-waiting; status.CodeOf(r.Err) != status.Cancelled {
		t.Errorf("a lease whose step ended: %v", r.Err)
	}
	kt.Expect(t, d.Run(t, kt.Op{Type: "QueueSizeV2", Outputs: 1}, h.Retain()), kt.I32(nil, 1))
}

package actors

import (
	"context"
	"testing"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// TestDetach tells which steps keep the goroutine of their call for themselves.
func TestDetach(t *testing.T) {
	net := newNetwork(t, "a", "b")
	c := open(t, net.node(taskName("a")), arithmetic+`
		far = Neg(x) @b0
		near = Neg(x) @a0
		q = FIFOQueueV2() @a0 shared_name="q"
		take = QueueDequeueV2(q) @a0
		taken = AddV2(take, two) @a0
		put = QueueEnqueueV2(q, two) @a0`)
	detached := 0
	run := func(req *StepRequest) error {
		detached = 0
		req.Detach = func(context.Context) { detached++ }
		_, err := c.try(t.Context(), req)
		return err
	}
	large := func() *StepRequest {
		return &StepRequest{Feeds: []Feed{{"x:0", kernelstest.Iota[int64](tensor.Int64, kernelstest.S(50_000))}}, Fetches: []string{"near:0"}}
	}
	for _, s := range []struct {
		name string
		req  func() *StepRequest
		want bool
	}{
		{"no wait", func() *StepRequest { return request(map[string]int64{"x:0": 5}, "y:0", "near:0") }, false},
		{"large inputs", large, true},
	} {
		t.Run(s.name, func(t *testing.T) {
			for i := range 3 {
				if err := run(s.req()); err != nil {
					t.Fatal(err)
				}
				if built := i == 0; (s.want || built) != (detached > 0) {
					t.Errorf("step %d detached %d times", i, detached)
				}
			}
		})
	}
	waits := func(req *StepRequest, goOn func()) {
		t.Helper()
		detached := make(chan struct{}, 8)
		req.Detach = func(context.Context) { detached <- struct{}{} }
		ended := c.begin(t.Context(), req)
		<-detached // or it would wait for ever
		goOn()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	t.Run("an element that comes later", func(t *testing.T) {
		for range 3 {
			waits(request(nil, "taken:0"), func() { c.run(request(nil, "!put")) })
		}
	})
	t.Run("another task", func(t *testing.T) {
		c.run(request(map[string]int64{"x:0": 5}, "far:0"), -5)
		held := make(chan func(), 1)
		net.filter(func(_, _ string, m proto.Message, deliver func()) bool {
			if _, ok := m.(*wire.RunPartition); ok {
				held <- deliver
				return false
			}
			return true
		})
		waits(request(map[string]int64{"x:0": 5}, "far:0"), func() { (<-held)() })
	})
}

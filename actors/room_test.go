package actors

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestRoom sends many large tensors to a task that takes none for a while: their senders wait.
func TestRoom(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	const sends, elements = 40, 20_000
	const size = 8 * elements
	var text strings.Builder
	text.WriteString("x = Placeholder() @a0\n")
	for i := range sends {
		fmt.Fprintf(&text, "y%d = Neg(x) @a0\nz%d = Square(y%d) @b0\n", i, i, i)
	}
	c := open(t, a, text.String())
	large := func() *StepRequest {
		req := &StepRequest{Feeds: []Feed{{"x:0", kernelstest.Iota[int64](tensor.Int64, kernelstest.S(elements))}}}
		for i := range sends {
			req.Targets = append(req.Targets, fmt.Sprintf("z%d", i))
		}
		return req
	}
	c.run(large())
	bounded := func(j *jam) {
		t.Helper()
		j.mu.Lock()
		defer j.mu.Unlock()
		if most := int64(j.limit + 8*size); j.peak > most {
			t.Errorf("%d bytes were held, more than %d", j.peak, most)
		}
		if j.peak == 0 || j.queued == 0 {
			t.Error("nothing waited")
		}
	}
	stuck := func(j *jam) func() bool {
		return func() bool {
			j.mu.Lock()
			defer j.mu.Unlock()
			return len(j.waiting) > 0
		}
	}
	t.Run("it goes on", func(t *testing.T) {
		j := net.jam(a.name, b.name, 4*size)
		ended := c.begin(t.Context(), large())
		until(t, "a send waits", stuck(j))
		j.clear()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		bounded(j)
	})
	t.Run("time is over", func(t *testing.T) {
		j := net.jam(a.name, b.name, 4*size)
		req := large()
		req.Options = &corepb.RunOptions{TimeoutInMs: 300}
		_, err := c.try(t.Context(), req)
		wantError(t, err, status.DeadlineExceeded, "/job:b/replica:0/task:0")
		bounded(j)
		j.clear()
	})
	t.Run("the client goes away", func(t *testing.T) {
		j := net.jam(a.name, b.name, 4*size)
		ctx, cancel := context.WithCancel(t.Context())
		ended := c.begin(ctx, large())
		until(t, "a send waits", stuck(j))
		cancel()
		wantError(t, <-ended, status.Cancelled)
		c.idle()
		bounded(j)
		j.clear()
	})
	c.idle()
	net.jam(a.name, b.name, 0).clear()
	c.run(large())
}

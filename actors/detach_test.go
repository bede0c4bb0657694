package actors

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// TestDetach checks which steps keep their caller's goroutine to themselves.
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
		req.Detach = func(context.Context, func()) func() {
			detached++
			return func() {}
		}
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
		req.Detach = func(context.Context, func()) func() {
			detached <- struct{}{}
			return func() {}
		}
		ended := c.begin(t.Context(), req)
		<-detached // or it would hang
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

// A step that is abandoned while its part on another task begins leaves nothing there, although the abort overtakes the part.
func TestAbortThatOvertakesItsStep(t *testing.T) {
	net := newNetwork(t, "a", "b")
	c := open(t, net.node(taskName("a")), arithmetic+`
		q = FIFOQueueV2() @b0 shared_name="q"
		take = QueueDequeueV2(q) @b0
		taken = AddV2(take, two) @b0
		put = QueueEnqueueV2(q, two) @b0`)
	c.run(request(nil, "!put"))
	c.run(request(nil, "taken:0"), 4)
	held, aborted := make(chan func(), 1), make(chan struct{})
	tell := sync.OnceFunc(func() { close(aborted) })
	net.filter(func(_, _ string, m proto.Message, deliver func()) bool {
		switch m.(type) {
		case *wire.RunPartition:
			select {
			case held <- deliver:
				return false
			default: // of the steps below
			}
		case *wire.AbortStep:
			deliver()
			tell() // the master may repeat it once the part has been sent
			return false
		}
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := c.begin(ctx, request(nil, "taken:0"))
	late := <-held
	held <- nil
	cancel()
	<-aborted
	late()
	if err := <-ended; status.CodeOf(err) != status.Cancelled {
		t.Errorf("the step that was given up: %v", err)
	}
	c.run(request(nil, "!put"))
	c.run(request(nil, "taken:0"), 4)
}

// A step that is cancelled while its part on another task is being started dequeues nothing that its client enqueues afterwards, although that
// arrives before the part.
func TestCancelWhileAPartIsStarted(t *testing.T) {
	net := newNetwork(t, "a", "b")
	graph := arithmetic + `
		q = FIFOQueueV2() @b0 shared_name="q"
		take = QueueDequeueV2(q) @b0
		taken = AddV2(take, two) @b0
		put = QueueEnqueueV2(q, two) @b0`
	names := []string{"taken:0"}
	for i := range 300 { // enough for the call to be detached before it starts other parts
		graph += fmt.Sprintf("\n\t\tn%d = NoOp() @a0", i)
		names = append(names, fmt.Sprintf("!n%d", i))
	}
	c := open(t, net.node(taskName("a")), graph)
	c.run(request(nil, "!put"))
	c.run(request(nil, names...), 4)
	starting, start := make(chan struct{}), make(chan struct{})
	net.onSend(func(m proto.Message) {
		if _, ok := m.(*wire.RunPartition); ok {
			close(starting)
			<-start
		}
	})
	cancels := make(chan func(), 8)
	req := request(nil, names...)
	req.Detach = func(_ context.Context, cancelled func()) func() {
		cancels <- cancelled
		return func() {}
	}
	ended := c.begin(t.Context(), req)
	cancel := <-cancels
	<-starting
	net.onSend(nil)
	cancel()
	c.run(request(nil, "!put"))
	close(start)
	if err := <-ended; status.CodeOf(err) != status.Cancelled {
		t.Errorf("the cancelled step: %v", err)
	}
	c.run(request(nil, "taken:0"), 4)
}

// What the client sends after it cancelled a step comes after the aborts, even if another goroutine is sending them.
func TestCancelWhileAnotherAborts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork(t, "a", "b")
		c := open(t, net.node(taskName("a")), arithmetic+`
			q = FIFOQueueV2() @b0 shared_name="q"
			take = QueueDequeueV2(q) @b0
			taken = AddV2(take, two) @b0`)
		aborting, abort := make(chan struct{}), make(chan struct{})
		var aborted atomic.Bool
		net.onSend(func(m proto.Message) {
			if _, ok := m.(*wire.AbortStep); ok {
				close(aborting)
				<-abort
				aborted.Store(true)
			}
		})
		cancels := make(chan func(), 8)
		req := request(nil, "taken:0")
		req.Detach = func(_ context.Context, cancelled func()) func() {
			cancels <- cancelled
			return func() {}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := c.begin(ctx, req)
		<-cancels // of the plan
		synctest.Wait()
		cancel()
		<-aborting
		first := make(chan bool)
		go func() {
			(<-cancels)()
			first <- aborted.Load()
		}()
		synctest.Wait()
		close(abort)
		if !<-first {
			t.Error("the cancellation was handled before the abort was sent")
		}
		if err := <-ended; status.CodeOf(err) != status.Cancelled {
			t.Error(err)
		}
	})
}

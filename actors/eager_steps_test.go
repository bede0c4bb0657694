package actors

import (
	"context"
	"fmt"
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

// sender registers a component that sends its argument under the name "out" to the client, and then, if waits is set, waits for "in".
func (c *eagerClient) sender(name string, waits bool) {
	c.t.Helper()
	edge := func(tensor string) string {
		return fmt.Sprintf(`attr { key: "tensor_name" value { s: %q } } attr { key: "send_device" value { s: %q } } attr { key: "send_device_incarnation" value { i: %d } }
			attr { key: "recv_device" value { s: %q } }`, tensor, eagerCPU, int64(c.incarnation()), peerCPU)
	}
	text := fmt.Sprintf(`signature { name: %q input_arg { name: "x" type: DT_FLOAT } is_stateful: true control_output: "end" }
		node_def { name: "send" op: "_Send" input: "x" attr { key: "T" value { type: DT_FLOAT } } %s }`, name, edge("out"))
	end := "send"
	if waits {
		text += fmt.Sprintf(`node_def { name: "recv" op: "_Recv" input: "^send" attr { key: "tensor_type" value { type: DT_FLOAT } } %s }`, edge("in"))
		end = "recv"
	}
	text += fmt.Sprintf(`control_ret { key: "end" value: %q }`, end)
	if err := c.Register(&corepb.RegisterFunctionOp{FunctionDef: functionDef(c.t, text), IsComponentFunction: true}); err != nil {
		c.t.Fatal(err)
	}
}

// runComponent runs a component of a step with the handle 1:0.
func (c *eagerClient) runComponent(ctx context.Context, step int64, name string) error {
	o := call(40, name, "1:0")
	o.IsComponentFunction, o.FuncStepId = true, step
	_, err := c.RunComponent(ctx, &corepb.RunComponentFunctionRequest{ContextId: c.id, Operation: o})
	return err
}

// TestStepsOfLostMains checks that the steps of components do not pile up where no Cleanup comes, because their main was lost or could not reach the
// task: a step ends with the component that fails, and others make room when there are too many.
func TestStepsOfLostMains(t *testing.T) {
	n := newNetwork(t, "a").node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	c.send(1, 1, 2)
	c.sender("ends", false)
	c.sender("waits", true)
	_, key := c.outbound("out")
	count := func() int {
		n.task.eager.mu.Lock()
		defer n.task.eager.mu.Unlock()
		return n.task.eager.begun
	}
	want := func(what string, steps int) {
		t.Helper()
		if have := count(); have != steps {
			t.Errorf("%s: %d steps are counted, want %d", what, have, steps)
		}
	}
	t.Run("lost while a component waits", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.runComponent(ctx, -5, "waits") }()
		until(t, "the component waits", func() bool { return n.task.eager.receives() == 1 })
		want("a component waits", 1)
		cancel()
		wantError(t, <-ended, status.Cancelled)
		want("the main is lost", 0)
		wantError(t, c.runComponent(t.Context(), -5, "ends"), status.Cancelled)
	})
	t.Run("lost later", func(t *testing.T) {
		const kept = -7 // a value that was not received
		if err := c.runComponent(t.Context(), kept, "ends"); err != nil {
			t.Fatal(err)
		}
		for step := int64(-100); count() < maxClientSteps; step-- {
			if err := c.runComponent(t.Context(), step, "ends"); err != nil {
				t.Fatal(err)
			}
			(<-n.fetch(t.Context(), step, key)).want(t, 1, 2)
		}
		if err := c.runComponent(t.Context(), -6, "ends"); err != nil {
			t.Fatal(err)
		}
		want("at the limit", 2)
		(<-n.fetch(t.Context(), kept, key)).want(t, 1, 2)
		c.Cleanup(kept)
		c.Cleanup(-6)
	})
	t.Run("a receiver of a failed component hears nothing before its main", func(t *testing.T) {
		receives, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		in := n.fetch(receives, -8, c.key("other"))
		wantError(t, c.runComponent(t.Context(), -8, "unknown"), status.NotFound)
		if len(in) > 0 {
			t.Error("the receiver has ended")
		}
		giveUp()
		wantError(t, (<-in).err, status.Cancelled)
		want("the receiver has given up", 0)
	})
	if have := len(n.task.eager.steps); have != 1 {
		t.Errorf("there are %d steps, want the context's own", have)
	}
}

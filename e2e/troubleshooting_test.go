//go:build unix

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
)

// troupeSays runs the command, and checks its exit code and that it prints all of the parts, on standard output or error.
func troupeSays(t *testing.T, code int, args []string, parts ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("troupe %s ended with %d, not %d: %s", strings.Join(args, " "), got, code, &out)
	}
	for _, p := range parts {
		if !strings.Contains(out.String(), p) {
			t.Errorf("troupe %s does not say %q: %s", strings.Join(args, " "), p, &out)
		}
	}
}

// TestTroubleshooting reproduces the problems in docs/troubleshooting.md, and checks that the commands that the page names find them.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	t.Run("wrong_address", func(t *testing.T) {
		// 192.0.2.7 is reserved for documentation: no machine has it.
		const cluster = "ps=127.0.0.1:1;worker=192.0.2.7:2222"
		troupeSays(t, 3, []string{"serve", "--cluster", cluster, "--job", "worker"}, "192.0.2.7 is not an address of this machine")
		troupeSays(t, 1, []string{"doctor", "--cluster", cluster, "--job", "worker"},
			"error (self): /job:worker/replica:0/task:0: 192.0.2.7:2222 (192.0.2.7) is not an address of this machine")
	})
	t.Run("task_never_starts", func(t *testing.T) {
		c := declare(t, "ps=1,worker=1")
		t.Cleanup(func() {
			if err := c.stop(); err != nil {
				t.Error(err)
			}
		})
		ps, worker := c.task("ps", 0), c.task("worker", 0)
		c.start(t, ps)
		c.answers(t, ps)
		troupeSays(t, 1, []string{"status", ps.target()}, worker.addr, "never seen")
		troupeSays(t, 1, []string{"doctor", ps.target()}, "error (reach): "+worker.name()+": "+worker.addr+" refuses connections")
	})
	c := declare(t, "ps=1,worker=2")
	for _, k := range c.tasks {
		k.flags = []string{"--process-memory", "256MiB"}
	}
	c.startAll(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := &blocked{T: t, cluster: c, ctx: ctx, name: "batches"}
	t.Run("full_queue", func(t *testing.T) {
		s := b.graph()
		q := b.queue(s, "q", 2)
		first := op.QueueEnqueueV2(s, q, []op.Output{oneNumber(s, 1)})
		second := op.QueueEnqueueV2(s.WithControlDependencies(first), q, []op.Output{oneNumber(s, 1)})
		b.start(s, op.QueueEnqueueV2(s.WithControlDependencies(second).WithName("put"), q, []op.Output{oneNumber(s, 1)}))
		b.says("{{node put}} (QueueEnqueueV2)", "which is full (2 elements, capacity 2)", "no running step dequeues from it", "nobody has ever taken one")
	})
	t.Run("missing_op", func(t *testing.T) {
		s := op.NewScope().WithDevice(onWorker)
		text := op.Const(s, "x")
		def, err := s.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		def.Node = append(def.Node, sqlDataset(text.Op.Name()))
		session, err := dialTarget(t, c.task("worker", 0).target()).NewSession(ctx, def, nil)
		if err == nil {
			_, err = session.Run(ctx, nil, nil, []string{"rows"})
		}
		saysError(t, err, status.InvalidArgument, "No OpKernel was registered to support Op 'SqlDataset'", "{{node rows}}")
	})
	t.Run("out_of_memory", func(t *testing.T) {
		s := op.NewScope().WithDevice(onWorker)
		x := op.Fill(s.WithName("big"), op.Const(s, []int32{1000, 1000, 100}), oneNumber(s, 1))
		_, err := b.session(s).Eval(ctx, nil, x)
		saysError(t, err, status.ResourceExhausted, "{{node big}}", "268435456")
		troupeSays(t, 0, []string{"doctor", c.task("ps", 0).target()}, "troupe") // it has survived
	})
}

// sqlDataset returns the node rows, of an op that TensorFlow has and Troupe lacks. Its three inputs are text.
func sqlDataset(text string) *nodepb.NodeDef {
	types := &attrpb.AttrValue_ListValue{Type: []typespb.DataType{typespb.DataType_DT_FLOAT}}
	shapes := &attrpb.AttrValue_ListValue{Shape: []*shapepb.TensorShapeProto{{}}}
	return &nodepb.NodeDef{Name: "rows", Op: "SqlDataset", Device: onWorker, Input: []string{text, text, text}, Attr: map[string]*attrpb.AttrValue{
		"output_types":  {Value: &attrpb.AttrValue_List{List: types}},
		"output_shapes": {Value: &attrpb.AttrValue_List{List: shapes}},
	}}
}

// saysError checks an error's code and parts of its message.
func saysError(t *testing.T, err error, code status.Code, parts ...string) {
	t.Helper()
	if status.CodeOf(err) != code {
		t.Errorf("the code of %v is not %v", err, code)
	}
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("the error does not say %q: %v", p, err)
		}
	}
}

package actors

import (
	"context"
	"fmt"
	"strings"
	"testing"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// waits are ways to make a task keep much that is no tensor, while nothing comes of the dequeues: one request each, or many. Each graph has a node
// that the requests run.
var waits = []struct {
	name     string
	text     string // of the graph
	calls    int    // how many functions call one another twice each; the node "calls" calls the last of them
	requests int    // at most
	there    bool   // it is the other task that has no memory left
}{
	{name: "steps that wait", requests: 1000, text: `
		q = FIFOQueueV2() @a0 shared_name=q
		take = QueueDequeueV2(q) @a0
		run = NoOp(^take) @a0
	`},
	{name: "steps with a part on another task", requests: 1000, text: `
		q = FIFOQueueV2() @b0 shared_name=q
		take = QueueDequeueV2(q) @b0
		run = NoOp(^take) @a0
	`},
	{name: "steps with a large part on another task", requests: 30, there: true, text: `
		q = FIFOQueueV2() @b0 shared_name=q
		` + lines(1000, "take%d = QueueDequeueV2(q) @b0") + `
		run = NoOp(` + inputs(1000, "^take%d") + `) @b0
	`},
	{name: "a step with many operations", requests: 50, text: `
		q = FIFOQueueV2() @a0 shared_name=q
		` + lines(200, "take%d = QueueDequeueV2(q) @a0") + `
		run = NoOp(` + inputs(200, "^take%d") + `) @a0
	`},
	{name: "a step with a loop whose iterations wait", requests: 1, text: `
		q = FIFOQueueV2() @a0 shared_name=q
		zero = Const() @a0 value=0
		enter = Enter(zero) @a0 frame_name=loop parallel_iterations=4000
		one = Const() @a0 value=1
		ones = Enter(one) @a0 frame_name=loop is_constant=true parallel_iterations=4000
		many = Const() @a0 value=1000000
		limit = Enter(many) @a0 frame_name=loop is_constant=true parallel_iterations=4000
		i = Merge(enter, next) @a0
		less = Less(i, limit) @a0
		cond = LoopCond(less) @a0
		switch = Switch(i, cond) @a0
		add = AddV2(switch:1, ones) @a0
		next = NextIteration(add) @a0
		qs = Enter(q) @a0 T=resource frame_name=loop is_constant=true parallel_iterations=4000
		take = QueueDequeueV2(qs, ^add) @a0
		enters = Enter(zero) @a0 frame_name=loop parallel_iterations=4000
		sum = Merge(enters, nextsum) @a0
		switches = Switch(sum, cond) @a0
		addsum = AddV2(switches:1, take) @a0
		nextsum = NextIteration(addsum) @a0
		out = Exit(switches) @a0
		run = NoOp(^out) @a0
	`},
	{name: "a step with functions that call others twice", requests: 1, calls: 24, text: `
		x = Const() value=1 @a0
		run = NoOp(^calls) @a0
	`},
}

// lines repeats the line of a node.
func lines(n int, line string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line+"\n", i)
	}
	return b.String()
}

// inputs repeats an input.
func inputs(n int, input string) string {
	return strings.ReplaceAll(strings.TrimSpace(lines(n, input)), "\n", ", ")
}

// callsTwice returns n functions. The first one dequeues, each of the others calls the one before it twice.
func callsTwice(t testing.TB, n int) *functionpb.FunctionDefLibrary {
	library := &functionpb.FunctionDefLibrary{}
	for i := range n {
		body, result := fmt.Sprintf("a = f%d(x)\nminus = Neg(x)\nb = f%d(minus:y:0)\nsum = AddV2(a:y:0, b:y:0)", i-1, i-1), "sum:z:0"
		if i == 0 {
			body, result = "q = FIFOQueueV2() shared_name=q\ntake = QueueDequeueV2(q:handle:0)\nsum = AddV2(take:components:0, x)", "sum:z:0"
		}
		f := &functionpb.FunctionDef{NodeDef: kernelstest.GraphDef(t, body).Node, Ret: map[string]string{"y": result}, Signature: &oppb.OpDef{Name: fmt.Sprint("f", i), IsStateful: true,
			InputArg:  []*oppb.OpDef_ArgDef{{Name: "x", Type: typespb.DataType_DT_INT64}},
			OutputArg: []*oppb.OpDef_ArgDef{{Name: "y", Type: typespb.DataType_DT_INT64}}}}
		for _, node := range f.NodeDef {
			if strings.HasPrefix(node.Op, "f") {
				clear(node.Attr)
			}
		}
		library.Function = append(library.Function, f)
	}
	return library
}

// TestWhatWaitsIsCounted checks that steps that wait, and what they have begun, count as memory of their session, that the session's limit ends it
// by name while others go on, and that nothing stays counted.
func TestWhatWaitsIsCounted(t *testing.T) {
	const limit = 4 << 20
	for _, w := range waits {
		t.Run(w.name, func(t *testing.T) {
			tasks := []string{"a"}
			if strings.Contains(w.text, "@b0") {
				tasks = append(tasks, "b")
			}
			net := newNetwork(t, tasks...)
			a := net.node(taskName("a"))
			def := kernelstest.GraphDef(t, w.text)
			if w.calls > 0 {
				call := &graphpb.GraphDef{Node: kernelstest.GraphDef(t, fmt.Sprintf("calls = f%d(x) @a0", w.calls-1)).Node}
				clear(call.Node[0].Attr)
				def.Node, def.Library = append(def.Node, call.Node...), callsTwice(t, w.calls)
			}
			handle, err := a.task.CreateSession(t.Context(), 0, Rights{Who: "one", SessionBytes: limit}, def, nil)
			if err != nil {
				t.Fatal(err)
			}
			session, err := a.task.Session(handle, 0)
			if err != nil {
				t.Fatal(err)
			}
			c := &client{t, a, session}
			other := openAs(t, a, Rights{Who: "other", SessionBytes: limit}, arithmetic, nil)
			ctx, cancel := context.WithCancel(t.Context())
			refused := make(chan error, w.requests)
			for range w.requests {
				ended := c.begin(ctx, request(nil, "!run"))
				go func() { refused <- <-ended }()
			}
			err = <-refused // the others wait, or are refused, too
			wantError(t, err, status.ResourceExhausted, "the session may hold 4194304 bytes")
			other.run(request(map[string]int64{"x:0": 5}, "z:0"), 15)
			memory := session.worker.memory
			if w.there {
				memory = net.node(taskName("b")).task.session(handle).memory
			}
			if got := memory.InUse(); w.requests > 1 && got < limit/2 || got > limit {
				t.Errorf("%d bytes are counted, the limit is %d", got, limit)
			}
			cancel()
			for range w.requests - 1 {
				<-refused
			}
			c.idle()
			c.close()
			other.close()
			until(t, "nothing of the session is counted any more", func() bool { return session.worker.memory.InUse() == 0 && memory.InUse() == 0 })
		})
	}
}

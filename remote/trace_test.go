package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	troupestatus "github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/member"
)

// working runs steps on the first of two nodes, across both, until stop is called.
func working(t *testing.T, n *Node) (stop func()) {
	t.Helper()
	handle, err := n.Task().CreateSession(t.Context(), 0, actors.Rights{}, there(), &corepb.ConfigProto{})
	if err != nil {
		t.Fatal(err)
	}
	session, err := n.Task().Session(handle, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			x, err := tensor.Zeros(tensor.Host, tensor.Float32, tensor.Shape{1000})
			if err != nil {
				t.Error(err)
				return
			}
			got, err := session.Run(context.Background(), &actors.StepRequest{Fetches: []string{"init:0"}, Feeds: []actors.Feed{{Name: "x:0", Tensor: x}}})
			x.Release()
			if err != nil {
				t.Error(err)
				return
			}
			got.Tensors[0].Release()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// TestTraceOfSteps checks that a trace of three steps has only these steps, on both tasks, with an arrow for each tensor that crosses.
func TestTraceOfSteps(t *testing.T) {
	nodes := twoNodes(t, true)
	stop := working(t, nodes[0])
	defer stop()
	trace, err := nodes[0].Trace(t.Context(), &view.TraceQuery{Duration: int64(30 * time.Second), Steps: 3, Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Duration(trace.Ended - trace.Began); took > 20*time.Second {
		t.Errorf("three steps took %v", took)
	}
	if len(trace.Tasks) != 2 {
		t.Fatalf("%d tasks", len(trace.Tasks))
	}
	steps, kinds := map[uint64]bool{}, [2]map[string]int{{}, {}}
	for i, task := range trace.Tasks {
		if task.Reason != "" || task.Dropped != 0 || task.OffsetError < 0 || task.OffsetError > int64(5*time.Second) {
			t.Errorf("%s: %q, %d dropped, clock error %d", task.Task, task.Reason, task.Dropped, task.OffsetError)
		}
		for _, e := range task.Events {
			if e.Duration < 0 || e.Begin < trace.Began-int64(5*time.Second) || e.Begin > trace.Ended+int64(5*time.Second) {
				t.Errorf("%v is out of the window", e)
			}
			if e.Step != 0 {
				steps[e.Step] = true
			}
			kinds[i][e.Kind]++
			switch e.Kind {
			case view.SendEvent, view.ReceiveEvent:
				if e.Bytes != 4000 || e.Edge == "" || !strings.Contains(e.Peer, trace.Tasks[1-i].Task) {
					t.Errorf("%v", e)
				}
			case view.KernelEvent:
				if !strings.HasPrefix(e.Device, task.Task+"/device:CPU:0") || e.Op == "" || e.Name == "" {
					t.Errorf("%v", e)
				}
			}
		}
	}
	if len(steps) != 3 || kinds[0][view.StepEvent] != 3 {
		t.Errorf("steps %v, %v", steps, kinds)
	}
	for i := range kinds {
		for _, kind := range []string{view.SendEvent, view.ReceiveEvent, view.PushEvent, view.ArrivalEvent, view.PartEvent} {
			if kinds[i][kind] != 3 {
				t.Errorf("task %d has %d of kind %s", i, kinds[i][kind], kind)
			}
		}
	}
	if kinds[1][view.KernelEvent] == 0 {
		t.Errorf("task 1 ran no kernels: %v", kinds[1])
	}
	var file struct {
		TraceEvents []struct {
			Phase    string   `json:"ph"`
			Process  int      `json:"pid"`
			ID       int      `json:"id"`
			Duration *float64 `json:"dur"`
		} `json:"traceEvents"`
	}
	var text bytes.Buffer
	if err := view.WriteTimeline(&text, trace); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text.Bytes(), &file); err != nil {
		t.Fatalf("%v in %s", err, text.Bytes())
	}
	from := map[int]int{}
	arrows := map[[2]int]int{}
	for _, e := range file.TraceEvents {
		switch e.Phase {
		case "s":
			from[e.ID] = e.Process
		case "f":
			arrows[[2]int{from[e.ID], e.Process}]++
		case "X":
			if e.Duration == nil || *e.Duration <= 0 {
				t.Errorf("%+v", e)
			}
		}
	}
	if len(arrows) != 2 || arrows[[2]int{1, 2}] != 3 || arrows[[2]int{2, 1}] != 3 {
		t.Errorf("arrows %v", arrows)
	}
}

// TestTraceOfTime checks that a window that has ended leaves nothing behind, and that limits hold.
func TestTraceOfTime(t *testing.T) {
	nodes := twoNodes(t, true)
	stop := working(t, nodes[0])
	defer stop()
	trace, err := nodes[1].Trace(t.Context(), &view.TraceQuery{Duration: int64(2 * member.ReadEvery), Cluster: true, MaxEvents: 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range trace.Tasks {
		if len(task.Events) != 20 || task.Dropped == 0 || task.Reason != "" {
			t.Errorf("%s: %d events, %d dropped, %q", task.Task, len(task.Events), task.Dropped, task.Reason)
		}
	}
	alone, err := nodes[1].Trace(t.Context(), &view.TraceQuery{Duration: int64(300 * time.Millisecond)})
	if err != nil || len(alone.Tasks) != 1 || alone.Tasks[0].Task != nodes[1].Self().Name() {
		t.Errorf("%v, %v", alone, err)
	}
	for _, n := range nodes {
		if open := n.Task().TraceWindows(); open != 0 {
			t.Errorf("%s has %d windows", n.Self().Name(), open)
		}
	}
	for _, q := range []*view.TraceQuery{{}, {Duration: -1}, {Duration: int64(61 * time.Second)}, {Duration: 1, Steps: -1}, {Duration: 1, Steps: 1, Step: 1}, {Duration: 1, MaxEvents: -1}} {
		if _, err := nodes[0].Trace(t.Context(), q); troupestatus.CodeOf(err) != troupestatus.InvalidArgument {
			t.Errorf("%v: %v", q, err)
		}
	}
}

// TestTraceOfWhatWaits checks that waiting work is traced, too: the step, its parts, and the kernels that have started. A trace of steps
// has them if its time is over before the wanted number has ended.
func TestTraceOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startStrangers(t)
		s.connect()
		handle := s.open(0, func(g *op.Scope) {
			q := op.NewFIFOQueue(g.WithDevice("/job:w/task:1"), []tensor.DType{tensor.Float32}, attr.SharedName("q"))
			taken := q.Dequeue(g.WithDevice("/job:w/task:1").WithName("take"))[0]
			op.Identity(g.WithDevice("/job:w/task:0").WithName("here"), taken)
			op.NoOp(g.WithDevice("/job:w/task:0").WithName("nothing"))
		})
		run := func(target string) error {
			return s.call(0, masterService+"RunStep", &corepb.RunStepRequest{SessionHandle: handle, Target: []string{target}}, &corepb.RunStepResponse{})
		}
		for range 2 { // then the links are open, and the plan exists
			if err := run("nothing"); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- run("here") }()
		pass := func(d time.Duration) { <-time.After(d) }
		pass(10 * time.Second)
		find := func(trace *view.Trace, task int, kind, name string) *view.TraceEvent {
			t.Helper()
			for _, e := range trace.Tasks[task].Events {
				if e.Kind == kind && (e.Name == name || name == "") {
					return e
				}
			}
			t.Fatalf("%s has no %s %q: %v", trace.Tasks[task].Task, kind, name, trace.Tasks[task].Events)
			return nil
		}
		waiting := func(trace *view.Trace) {
			t.Helper()
			step := find(trace, 0, view.StepEvent, "").Step
			for _, e := range []*view.TraceEvent{find(trace, 0, view.StepEvent, stepName(step)), find(trace, 0, view.PartEvent, ""), find(trace, 0, view.ReceiveEvent, ""),
				find(trace, 1, view.PartEvent, ""), find(trace, 1, view.WaitEvent, "take")} {
				if !e.Unfinished || e.Step != step || e.Duration < int64(9*time.Second) || e.Begin+e.Duration > trace.Ended+int64(time.Second) {
					t.Errorf("%v", e)
				}
			}
			if e := find(trace, 0, view.ReceiveEvent, ""); !strings.HasPrefix(e.Peer, s.nodes[1].Self().Name()) || e.Edge == "" {
				t.Errorf("%v", e)
			}
			if e := find(trace, 1, view.WaitEvent, "take"); e.Op != "QueueDequeueV2" || !strings.HasPrefix(e.Device, s.nodes[1].Self().Name()) {
				t.Errorf("%v", e)
			}
		}
		trace := func(q *view.TraceQuery) *view.Trace {
			t.Helper()
			q.Cluster, q.Duration = true, int64(2*time.Second)
			trace, err := s.nodes[1].Trace(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			return trace
		}
		waiting(trace(&view.TraceQuery{}))

		// One of two steps ends: the other is in the trace as it is.
		go func() {
			pass(time.Second)
			if err := run("nothing"); err != nil {
				t.Error(err)
			}
		}()
		both := trace(&view.TraceQuery{Steps: 2})
		steps := map[bool]int{}
		for _, e := range both.Tasks[0].Events {
			if e.Kind == view.StepEvent {
				steps[e.Unfinished]++
			}
		}
		if steps[true] != 1 || steps[false] != 1 {
			t.Errorf("there are %v", both.Tasks[0].Events)
		}

		// If as many steps have ended as are wanted, running ones are left out.
		go func() {
			pass(time.Second)
			if err := run("nothing"); err != nil {
				t.Error(err)
			}
		}()
		for _, task := range trace(&view.TraceQuery{Steps: 1}).Tasks {
			for _, e := range task.Events {
				if e.Unfinished {
					t.Errorf("%s: %v", task.Task, e)
				}
			}
		}

		var text bytes.Buffer
		if err := view.WriteTimeline(&text, both); err != nil || !strings.Contains(text.String(), `"name":"CPU:0 waits"`) || !strings.Contains(text.String(), `"unfinished":true`) {
			t.Errorf("the timeline is %s, %v", text.String(), err)
		}
		s.must(0, masterService+"CloseSession", &corepb.CloseSessionRequest{SessionHandle: handle}, &corepb.CloseSessionResponse{})
		if err := <-ended; err == nil {
			t.Error("the step ended in order")
		}
	})
}

func stepName(step uint64) string { return "step " + view.StepName(step) }

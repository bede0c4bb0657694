package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	troupestatus "github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

// working runs steps on the first of two nodes, over both, until stop is called.
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

// A trace of three steps has these steps alone, on both tasks, with an arrow for each tensor that crosses.
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

// A window that has ended leaves nothing, and limits hold.
func TestTraceOfTime(t *testing.T) {
	nodes := twoNodes(t, true)
	stop := working(t, nodes[0])
	defer stop()
	trace, err := nodes[1].Trace(t.Context(), &view.TraceQuery{Duration: int64(2 * readEvery), Cluster: true, MaxEvents: 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range trace.Tasks {
		if len(task.Events) != 20 || task.Dropped == 0 || task.Reason != "" {
			t.Errorf("%s: %d events, %d dropped, %q", task.Task, len(task.Events), task.Dropped, task.Reason)
		}
	}
	alone, err := nodes[1].Trace(t.Context(), &view.TraceQuery{Duration: int64(300 * time.Millisecond)})
	if err != nil || len(alone.Tasks) != 1 || alone.Tasks[0].Task != nodes[1].self.Name() {
		t.Errorf("%v, %v", alone, err)
	}
	for _, n := range nodes {
		if open := n.Task().TraceWindows(); open != 0 {
			t.Errorf("%s has %d windows", n.self.Name(), open)
		}
	}
	for _, q := range []*view.TraceQuery{{}, {Duration: -1}, {Duration: int64(61 * time.Second)}, {Duration: 1, Steps: -1}, {Duration: 1, Steps: 1, Step: 1}, {Duration: 1, MaxEvents: -1}} {
		if _, err := nodes[0].Trace(t.Context(), q); troupestatus.CodeOf(err) != troupestatus.InvalidArgument {
			t.Errorf("%v: %v", q, err)
		}
	}
}

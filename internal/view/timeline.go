package view

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// Lane holds consecutive events of a task: none begins before the one before it has ended.
type Lane struct {
	// Name is the name of the device, or of a group of the task's own events (steps, plans, arrivals). Further lanes of the same name hold
	// concurrent events.
	Name string
	// Number counts the lanes of the same name, from 0.
	Number int
	Events []*TraceEvent
}

// Lanes assigns each event of a task to a lane. The events must be sorted by begin.
func Lanes(events []*TraceEvent) []Lane {
	groups := map[string][]int{} // by name, the indexes of its lanes
	var all []Lane
	for _, e := range events {
		name := laneOf(e)
		at := -1
		for _, i := range groups[name] {
			last := all[i].Events[len(all[i].Events)-1]
			if last.Begin+last.Duration <= e.Begin {
				at = i
				break
			}
		}
		if at < 0 {
			if n := len(groups[name]); n < maxLanes {
				at = len(all)
				all = append(all, Lane{Name: name, Number: n})
				groups[name] = append(groups[name], at)
			} else {
				at = groups[name][n-1]
			}
		}
		all[at].Events = append(all[at].Events, e)
	}
	slices.SortStableFunc(all, func(a, b Lane) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number)) })
	return all
}

// maxLanes bounds the lanes of a name; the last one takes all remaining events.
const maxLanes = 256

// laneOf returns the name of an event's lane. Receives wait while kernels run, so they have their own lanes.
func laneOf(e *TraceEvent) string {
	_, device, _ := strings.Cut(e.Device, "/device:")
	switch e.Kind {
	case StepEvent, PartEvent:
		return "steps"
	case PlanEvent:
		return "plans"
	case PushEvent, ArrivalEvent:
		return "transfers"
	case ReceiveEvent:
		return device + " receives"
	case WaitEvent:
		return device + " waits"
	}
	return device
}

// chromeEvent is an event of Chrome's trace format. Times are microseconds.
type chromeEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Time     float64        `json:"ts"`
	Duration *float64       `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Scope    string         `json:"s,omitempty"`
	ID       int            `json:"id,omitempty"`
	Binding  string         `json:"bp,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// edgeKey identifies a tensor sent in a step.
type edgeKey struct {
	step  uint64
	edge  string
	frame uint64
	iter  int64
}

func keyOf(e *TraceEvent) edgeKey { return edgeKey{e.Step, e.Edge, e.Frame, e.Iter} }

// spot is where and when an arrow begins.
type spot struct {
	process, thread int
	time            int64
}

// WriteTimeline writes a trace in Chrome's trace format for Perfetto and chrome://tracing: a process for each task, a thread for each lane,
// and arrows from sends to receives. Times are microseconds since the trace began.
func WriteTimeline(out io.Writer, t *Trace) error {
	w := &timelineWriter{w: bufio.NewWriter(out), began: t.GetBegan(), sends: map[edgeKey]spot{}}
	w.text(`{"displayTimeUnit":"ns","traceEvents":[`)
	var lanes [][]Lane
	for i, task := range t.GetTasks() {
		name := task.GetTask()
		if task.GetReason() != "" {
			name += " (" + task.GetReason() + ")"
		}
		w.meta("process_name", i+1, 0, map[string]any{"name": name})
		w.meta("process_sort_index", i+1, 0, map[string]any{"sort_index": i})
		lanes = append(lanes, Lanes(task.GetEvents()))
		for j, l := range lanes[i] {
			w.meta("thread_name", i+1, j+1, map[string]any{"name": l.Name})
			w.meta("thread_sort_index", i+1, j+1, map[string]any{"sort_index": j})
			for _, e := range l.Events {
				if e.Kind == SendEvent {
					w.sends[keyOf(e)] = spot{i + 1, j + 1, e.Begin}
				}
			}
		}
	}
	for i := range lanes {
		for j, l := range lanes[i] {
			for _, e := range l.Events {
				w.event(e, i+1, j+1)
			}
		}
	}
	w.text("]")
	notes := make([]map[string]any, 0, len(t.GetTasks()))
	for _, task := range t.GetTasks() {
		notes = append(notes, map[string]any{"task": task.GetTask(), "reason": task.GetReason(), "events": len(task.GetEvents()), "dropped": task.GetDropped(),
			"clock_offset_ns": task.GetOffset(), "clock_error_ns": task.GetOffsetError()})
	}
	w.text(`,"otherData":`)
	w.json(map[string]any{"collected_by": t.GetTask(), "began_ns": t.GetBegan(), "ended_ns": t.GetEnded(), "tasks": notes})
	w.text("}\n")
	return cmp.Or(w.err, w.w.Flush())
}

type timelineWriter struct {
	w      *bufio.Writer
	began  int64
	sends  map[edgeKey]spot
	arrows int
	any    bool
	err    error
}

func (w *timelineWriter) text(s string) {
	if w.err == nil {
		_, w.err = w.w.WriteString(s)
	}
}

func (w *timelineWriter) json(v any) {
	b, err := json.Marshal(v)
	w.err = cmp.Or(w.err, err)
	w.text(string(b))
}

func (w *timelineWriter) add(e chromeEvent) {
	if w.any {
		w.text(",\n")
	}
	w.any = true
	w.json(e)
}

func (w *timelineWriter) meta(name string, process, thread int, args map[string]any) {
	w.add(chromeEvent{Name: name, Phase: "M", Process: process, Thread: thread, Args: args})
}

func (w *timelineWriter) micros(ns int64) float64 { return float64(ns-w.began) / 1e3 }

func (w *timelineWriter) event(e *TraceEvent, process, thread int) {
	c := chromeEvent{Name: e.Name, Category: e.Kind, Phase: "X", Time: w.micros(e.Begin), Process: process, Thread: thread, Args: map[string]any{}}
	if e.Op != "" {
		c.Name, c.Args["node"], c.Args["op"] = e.Op, e.Name, e.Op
	}
	if e.Step != 0 {
		c.Args["step"] = StepName(e.Step)
	}
	for name, value := range map[string]string{"session": e.Session, "edge": e.Edge, "peer": e.Peer} {
		if value != "" {
			c.Args[name] = value
		}
	}
	if e.Bytes > 0 {
		c.Args["bytes"] = e.Bytes
	}
	if e.Unfinished {
		c.Args["unfinished"] = true
	}
	if e.Kind == PushEvent || e.Kind == ArrivalEvent {
		c.Name, c.Phase, c.Scope = e.Kind+" "+e.Edge, "i", "t"
		w.add(c)
		return
	}
	long := float64(max(e.Duration, 1)) / 1e3
	c.Duration = &long
	w.add(c)
	if e.Kind != ReceiveEvent {
		return
	}
	if from, ok := w.sends[keyOf(e)]; ok {
		w.arrows++
		arrow := chromeEvent{Name: e.Edge, Category: "transfer", Phase: "s", ID: w.arrows, Process: from.process, Thread: from.thread, Time: w.micros(from.time)}
		w.add(arrow)
		arrow.Phase, arrow.Binding, arrow.Process, arrow.Thread = "f", "e", process, thread
		arrow.Time = w.micros(e.Begin + max(e.Duration-1, 0))
		w.add(arrow)
	}
}

package actors

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// Bounds of trace windows.
const (
	maxWindows   = 8                // open windows of a task
	readingTime  = 30 * time.Second // how long a window stays open for readers after its end
	traceChunk   = 8 << 10          // events in an answer
	eventBytes   = 160              // size of an event, but for its texts, which are shared with the graph
	defaultBytes = 64 << 20
)

// traces are the open windows of a task. While there are none, they cost a kernel only the reading of a pointer.
type traces struct {
	kernels kernels.Observation
	open    atomic.Pointer[[]*traceWindow]
	mu      sync.Mutex // guards the rest, and changes of open: windows open and close on the goroutines of calls, while kernels read open without a lock
	watch   func(kernels.Execution)
	stopped bool
}

// traceWindow records what runs on the task within a window of time.
type traceWindow struct {
	id     uint64
	began  int64 // nanoseconds since 1970, as until
	until  int64
	step   uint64
	expiry *time.Timer

	mu     sync.Mutex // guards the rest: kernels record on the goroutines that run them
	events []*view.TraceEvent
	left   int64 // remaining room, in events
	bytes  int64 // remaining room, in bytes
	missed int64
	over   bool // only unfinished events are still recorded
}

// Trace answers a query of the collecting task: it opens a window, takes out what was recorded, or closes it.
func (t *Task) Trace(q *view.TraceQuery) *view.TaskTrace {
	a := &view.TaskTrace{Task: t.name}
	var err error
	switch {
	case q.GetRead() || q.GetClose():
		if w := t.traces.find(q.GetWindow()); w != nil {
			if q.GetLast() {
				t.recordUnfinished(w)
			}
			w.read(a)
			if q.GetClose() {
				t.traces.remove(w)
			}
		} else if q.GetRead() {
			err = status.Errorf(status.NotFound, "%s has no trace window %d: it was closed, or the task was restarted", t.name, q.GetWindow())
		}
	default:
		err = t.traces.add(q)
	}
	if err != nil {
		a.Reason = status.From(err).Message
	}
	a.Clock = time.Now().UnixNano()
	return a
}

// add opens a window.
func (ts *traces) add(q *view.TraceQuery) error {
	long := time.Duration(q.GetDuration())
	if long <= 0 || long > view.MaxTraceTime {
		return status.InvalidArgumentf("A trace of %v is asked for; it takes up to %v", long, view.MaxTraceTime)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	all := ts.all()
	switch {
	case ts.stopped:
		return status.New(status.Unavailable, "The task stops")
	case len(all) >= maxWindows:
		return status.Errorf(status.ResourceExhausted, "%d traces are being recorded, which is the limit: try again when they have ended", len(all))
	}
	now := time.Now().UnixNano()
	w := &traceWindow{id: q.GetWindow(), began: now, until: now + int64(long), step: q.GetStep(), left: q.GetMaxEvents(), bytes: q.GetMaxBytes()}
	if w.left <= 0 || w.left > view.MaxTraceEvents {
		w.left = view.MaxTraceEvents
	}
	if w.bytes <= 0 {
		w.bytes = defaultBytes
	}
	w.bytes = min(w.bytes, view.MaxTraceBytes)
	w.expiry = time.AfterFunc(long+readingTime, contain.Func(nil, "The end of a trace window", func() { ts.remove(w) }, nil))
	ts.set(append(slices.Clone(all), w))
	return nil
}

// maxUnfinished bounds the unfinished steps that a window records.
const maxUnfinished = 1000

// recordUnfinished records in a window the running steps of the task, their parts, and the kernels that have begun.
func (t *Task) recordUnfinished(w *traceWindow) {
	seen := t.Look(&view.Query{Sections: []string{"steps"}, Step: w.step, Limit: maxUnfinished})
	now := time.Now().UnixNano()
	ended := w.finish()
	for _, st := range seen.Steps {
		record := func(e *view.TraceEvent) {
			if e.Begin == 0 {
				e.Begin = st.Began
			}
			e.Step, e.Duration, e.Unfinished = st.Id, max(0, now-e.Begin), true
			w.record(e)
		}
		if st.Master == t.name && !ended[stepText(st.Id)] {
			record(&view.TraceEvent{Kind: view.StepEvent, Name: stepText(st.Id), Session: st.Session, Who: st.Who})
		}
		if !st.Runs || ended[partText(st.Id)] {
			continue
		}
		record(&view.TraceEvent{Kind: view.PartEvent, Name: partText(st.Id), Session: st.Session, Who: st.Who})
		for _, wait := range st.Waits {
			e := &view.TraceEvent{Kind: view.WaitEvent, Name: wait.Node, Op: wait.Op, Device: wait.Device, Begin: wait.Since}
			switch wait.Kind {
			case view.Computing:
				e.Kind = view.KernelEvent
			case view.Input:
				e.Kind, e.Edge, e.Peer = view.ReceiveEvent, wait.Edge, wait.From
			}
			record(e)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed += seen.Omitted["steps"]
}

// finish stops the recording of what ends. It returns the names of the steps and parts that ended and are still in the window.
func (w *traceWindow) finish() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	ended := map[string]bool{}
	for _, e := range w.events {
		if e.Kind == view.StepEvent || e.Kind == view.PartEvent {
			ended[e.Name] = true
		}
	}
	return ended
}

func stepText(step uint64) string { return "step " + view.StepName(step) }
func partText(step uint64) string { return "part of step " + view.StepName(step) }

func (ts *traces) all() []*traceWindow {
	if all := ts.open.Load(); all != nil {
		return *all
	}
	return nil
}

// set replaces the open windows; the caller holds the lock.
func (ts *traces) set(all []*traceWindow) {
	watch := ts.watch
	switch {
	case len(all) == 0:
		ts.open.Store(nil)
		ts.kernels.Tell(watch)
	case watch == nil:
		ts.open.Store(&all)
		ts.kernels.Tell(ts.ran)
	default:
		ts.open.Store(&all)
		ts.kernels.Tell(func(x kernels.Execution) {
			watch(x)
			ts.ran(x)
		})
	}
}

// WatchKernels has f called with each kernel that runs on the task from now on, whether or not a window is open; nil ends that. It is for
// tests that judge what runs. f is called on the goroutines that run steps and must not wait.
func (t *Task) WatchKernels(f func(kernels.Execution)) {
	t.traces.mu.Lock()
	defer t.traces.mu.Unlock()
	t.traces.watch = f
	t.traces.set(t.traces.all())
}

func (ts *traces) find(id uint64) *traceWindow {
	for _, w := range ts.all() {
		if w.id == id {
			return w
		}
	}
	return nil
}

// remove closes a window.
func (ts *traces) remove(w *traceWindow) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	w.expiry.Stop()
	ts.set(slices.DeleteFunc(slices.Clone(ts.all()), func(other *traceWindow) bool { return other == w }))
}

// stop closes all windows.
func (ts *traces) stop() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.stopped = true
	for _, w := range ts.all() {
		w.expiry.Stop()
	}
	ts.set(nil)
}

// record adds an event to the windows that want it. They share the event, which must not be changed: a collector gets copies.
func (ts *traces) record(e *view.TraceEvent) {
	for _, w := range ts.all() {
		w.record(e)
	}
}

// record adds an event if it is wanted and there is room.
func (w *traceWindow) record(e *view.TraceEvent) {
	if w.step != 0 && w.step != e.Step || e.Begin > w.until || e.Begin+e.Duration < w.began {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over && !e.Unfinished {
		return
	}
	size := int64(eventBytes + len(e.Name) + len(e.Op) + len(e.Device) + len(e.Edge) + len(e.Peer) + len(e.Session))
	if w.left <= 0 || w.bytes < size {
		w.missed++
		return
	}
	w.left--
	w.bytes -= size
	w.events = append(w.events, e)
}

// read moves up to traceChunk events to a.
func (w *traceWindow) read(a *view.TaskTrace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.events), traceChunk)
	a.Events = make([]*view.TraceEvent, n)
	for i, e := range w.events[:n] {
		a.Events[i] = proto.Clone(e).(*view.TraceEvent)
	}
	clear(w.events[:n])
	if w.events = w.events[n:]; len(w.events) == 0 {
		w.events = nil
	}
	a.More, a.Dropped = len(w.events) > 0, w.missed
}

// ran records a kernel.
func (ts *traces) ran(x kernels.Execution) {
	n := x.Node
	e := &view.TraceEvent{Kind: view.KernelEvent, Name: n.UserName(), Op: n.Op, Device: x.Device, Step: uint64(x.Step),
		Begin: x.Began.UnixNano(), Duration: int64(x.Ended.Sub(x.Began)), Bytes: x.Bytes}
	switch n.Op {
	case "_Send", "_HostSend":
		e.Kind, e.Peer = view.SendEvent, text(n, "recv_device")
	case "_Recv", "_HostRecv":
		e.Kind, e.Peer = view.ReceiveEvent, text(n, "send_device")
	}
	if e.Kind != view.KernelEvent {
		e.Edge, e.Frame, e.Iter = text(n, "tensor_name"), x.Tag.Frame, x.Tag.Iter
	}
	ts.record(e)
}

func text(n *graph.Node, attr string) string { return string(n.Attrs[attr].GetS()) }

// transferred records that a tensor leaves for a peer, or has arrived from one.
func (ts *traces) transferred(kind string, step uint64, key kernels.Key, peer string, v *tensor.Tensor) {
	if ts.open.Load() == nil {
		return
	}
	e := &view.TraceEvent{Kind: kind, Name: key.Edge, Step: step, Begin: time.Now().UnixNano(), Edge: key.Edge, Peer: peer,
		Frame: key.Tag.Frame, Iter: key.Tag.Iter}
	if v != nil {
		e.Bytes = int64(v.ByteSize())
	}
	ts.record(e)
}

// took records what has taken from began, in nanoseconds since 1970, until now. A step or part is named by its number, a plan by name.
func (ts *traces) took(kind, name string, step uint64, session, who string, began int64) {
	if ts.open.Load() == nil {
		return
	}
	switch kind {
	case view.StepEvent:
		name = stepText(step)
	case view.PartEvent:
		name = partText(step)
	}
	ts.record(&view.TraceEvent{Kind: kind, Name: name, Step: step, Session: view.SessionName(session), Who: who, Begin: began, Duration: max(0, time.Now().UnixNano()-began)})
}

// TraceWindows returns the number of windows that are open on the task.
func (t *Task) TraceWindows() int { return len(t.traces.all()) }

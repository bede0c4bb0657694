package actors

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/devices"
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
	// MaxTraceTime is the longest window.
	MaxTraceTime = 60 * time.Second
	// MaxTraceEvents is how many events a window records at most, and MaxTraceBytes what they take at most, about.
	MaxTraceEvents = 1 << 20
	MaxTraceBytes  = 128 << 20

	maxWindows   = 8                // that a task has open at a time
	readingTime  = 30 * time.Second // after which a window is closed that nobody has
	traceChunk   = 8 << 10          // events of an answer
	eventBytes   = 160              // of an event, but for its texts, which are shared with the graph
	defaultBytes = 64 << 20
)

// traces are the windows that are open on a task. While there is none, a run of kernels costs no more than the
// reading of a pointer.
type traces struct {
	kernels kernels.Observation
	open    atomic.Pointer[[]*traceWindow]
	mu      sync.Mutex // of those who open and close
	stopped bool
}

// traceWindow records what runs on the task within a window of time.
type traceWindow struct {
	id     uint64
	began  int64 // nanoseconds since 1970, as until
	until  int64
	step   uint64
	expiry *time.Timer

	mu     sync.Mutex
	events []*view.TraceEvent
	left   int64 // events that it has room for
	bytes  int64 // that it has room for
	missed int64
}

// Trace answers a query of the task that collects: it opens a window, takes out what was recorded, or closes it.
func (t *Task) Trace(q *view.TraceQuery) *view.TaskTrace {
	a := &view.TaskTrace{Task: t.name}
	var err error
	switch {
	case q.GetRead() || q.GetClose():
		if w := t.traces.find(q.GetWindow()); w != nil {
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

// AskTrace has a task, which may be this one, answer a query by Trace, within ctx.
func (t *Task) AskTrace(ctx context.Context, task string, q *view.TraceQuery) (*view.TaskTrace, error) {
	return ask[*view.TaskTrace](ctx, t, task, workerName, q)
}

// add opens a window.
func (ts *traces) add(q *view.TraceQuery) error {
	long := time.Duration(q.GetDuration())
	if long <= 0 || long > MaxTraceTime {
		return status.InvalidArgumentf("A trace of %v is asked for; it takes up to %v", long, MaxTraceTime)
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
	if w.left <= 0 || w.left > MaxTraceEvents {
		w.left = MaxTraceEvents
	}
	if w.bytes <= 0 {
		w.bytes = defaultBytes
	}
	w.bytes = min(w.bytes, MaxTraceBytes)
	w.expiry = time.AfterFunc(long+readingTime, contain.Func(nil, "The end of a trace window", func() { ts.remove(w) }, nil))
	ts.set(append(slices.Clone(all), w))
	return nil
}

func (ts *traces) all() []*traceWindow {
	if all := ts.open.Load(); all != nil {
		return *all
	}
	return nil
}

// set makes windows the open ones; the caller holds the lock.
func (ts *traces) set(all []*traceWindow) {
	if len(all) == 0 {
		ts.open.Store(nil)
		ts.kernels.Tell(nil)
		return
	}
	ts.open.Store(&all)
	ts.kernels.Tell(ts.ran)
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

// record puts an event into the windows that want it. They share it: nobody changes it but a collector, which gets copies.
func (ts *traces) record(e *view.TraceEvent) {
	for _, w := range ts.all() {
		w.record(e)
	}
}

// record puts an event in if it is wanted and there is room.
func (w *traceWindow) record(e *view.TraceEvent) {
	if w.step != 0 && w.step != e.Step || e.Begin > w.until || e.Begin+e.Duration < w.began {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	size := int64(eventBytes + len(e.Name) + len(e.Op) + len(e.Device) + len(e.Edge) + len(e.Peer) + len(e.Session))
	if w.left <= 0 || w.bytes < size {
		w.missed++
		return
	}
	w.left--
	w.bytes -= size
	w.events = append(w.events, e)
}

// read takes events out.
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
	e := &view.TraceEvent{Kind: view.KernelEvent, Name: devices.UserName(n), Op: n.Op, Device: x.Device, Step: uint64(x.Step),
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

// took records what has taken from a time in nanoseconds since 1970 until now.
func (ts *traces) took(kind, name string, step uint64, session string, began int64) {
	if ts.open.Load() == nil {
		return
	}
	if step != 0 {
		name += " " + view.StepName(step)
	}
	ts.record(&view.TraceEvent{Kind: kind, Name: name, Step: step, Session: view.SessionName(session), Begin: began, Duration: max(0, time.Now().UnixNano()-began)})
}

// TraceWindows is how many windows are open on the task.
func (t *Task) TraceWindows() int { return len(t.traces.all()) }

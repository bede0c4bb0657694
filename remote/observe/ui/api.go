package ui

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
)

const (
	// apiTime bounds an answer, and timelineTime one that waits for a step.
	apiTime      = 10 * time.Second
	timelineTime = 25 * time.Second
	// traceTime bounds the wait for the next steps.
	traceTime = 15 * time.Second
	// maxTraceSteps and maxTraceEvents (per task) bound what a page has to draw.
	maxTraceSteps  = 100
	maxTraceEvents = 1 << 15
	// fresh is how long a look is shared with callers that ask for the same.
	fresh = 400 * time.Millisecond
	// maxLooks bounds the different looks that are kept.
	maxLooks = 16
	// maxGraphNodes bounds the nodes of a returned graph.
	maxGraphNodes = 200_000
	// maxBody bounds the bodies of requests to act.
	maxBody = 1 << 16
)

// server serves the endpoints.
type server struct {
	see   See
	graph Graph
	trace Trace
	acts  Acts // nil if there are none
	looks looks
}

// about lists the server's functions that the caller may use.
type about struct {
	Graph    bool `json:"graph"`
	Timeline bool `json:"timeline"`
	Cancel   bool `json:"cancel"`
	Reset    bool `json:"reset"`
	Drain    bool `json:"drain"`
}

func (s *server) serveAbout(w http.ResponseWriter, r *http.Request) {
	a := about{Graph: s.graph != nil, Timeline: s.trace != nil}
	if s.acts != nil {
		a.Cancel, a.Reset, a.Drain = s.acts.MayAct(r.Context())
	}
	answer(w, r, a, nil)
}

func (s *server) serveSee(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), apiTime)
	defer cancel()
	q, err := queryOf(r.URL.Query())
	if err != nil {
		answer(w, r, nil, err)
		return
	}
	c, err := s.look(ctx, q)
	answer(w, r, c, err)
}

// queryOf parses a query about all tasks.
func queryOf(v url.Values) (*view.Query, error) {
	q := &view.Query{Cluster: true}
	for name, values := range v {
		var err error
		last := values[len(values)-1]
		switch name {
		case "sections":
			q.Sections = strings.Split(strings.Join(values, ","), ",")
		case "detail":
			q.Detail, err = strconv.ParseBool(last)
		case "step":
			q.Step, err = strconv.ParseUint(last, 10, 64)
		case "limit":
			q.Limit, err = strconv.ParseInt(last, 10, 64)
		case "events_after":
			q.EventsAfter, err = strconv.ParseUint(last, 10, 64)
		default:
			return nil, status.InvalidArgumentf("there is no parameter %q: sections, detail, step, limit and events_after are known", view.Line(name))
		}
		if err != nil {
			return nil, status.InvalidArgumentf("the parameter %s cannot be %q", name, view.Line(last))
		}
	}
	return q, nil
}

// reasons says why steps do not end, with the time of the look.
type reasons struct {
	Clock   int64         `json:"clock"`
	Reasons []view.Reason `json:"reasons"`
}

func (s *server) serveWhy(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), apiTime)
	defer cancel()
	longer := time.Second
	if text := r.URL.Query().Get("longer"); text != "" {
		var err error
		if longer, err = time.ParseDuration(text); err != nil {
			answer(w, r, nil, status.InvalidArgumentf("longer is a duration such as 1s, not %q", view.Line(text)))
			return
		}
	}
	c, err := s.look(ctx, view.ForWhy())
	if err != nil {
		answer(w, r, nil, err)
		return
	}
	answer(w, r, reasons{c.Clock, view.WhyAll(c, longer)}, nil)
}

// placed is a whole graph, by columns.
type placed struct {
	Task    string     `json:"task"`
	Session string     `json:"session"`
	Nodes   int64      `json:"nodes"` // of the graph; more than are listed if it is too large
	Ops     []string   `json:"ops"`
	Devices []string   `json:"devices"`
	Names   []string   `json:"names"`
	Op      []uint32   `json:"op"`     // of each node, an index in ops
	Device  []uint32   `json:"device"` // the same, in devices
	Inputs  [][]uint32 `json:"inputs"` // of each node, the nodes whose tensors it takes
	Control [][]uint32 `json:"control"`
	Omitted int64      `json:"omitted"` // inputs that are not listed
}

func (s *server) serveGraph(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), apiTime)
	defer cancel()
	v := r.URL.Query()
	q := &view.GraphQuery{Task: v.Get("task"), Session: v.Get("session")}
	for range 3 {
		g, err := s.whole(ctx, q)
		if err != nil || g != nil {
			answer(w, r, g, err)
			return
		}
	}
	answer(w, r, nil, status.Errorf(status.Aborted, "the graph of session %s changes while it is read", view.Line(q.Session)))
}

// whole assembles a graph from its pages; it returns nil if the graph changed meanwhile.
func (s *server) whole(ctx context.Context, q *view.GraphQuery) (*placed, error) {
	out := &placed{Task: q.Task, Session: q.Session, Ops: []string{}, Devices: []string{}, Names: []string{}, Op: []uint32{}, Device: []uint32{}, Inputs: [][]uint32{}, Control: [][]uint32{}}
	ops, devices := map[string]uint32{}, map[string]uint32{}
	for first := true; first || int64(len(out.Names)) < min(out.Nodes, maxGraphNodes); first = false {
		page, err := s.graph(ctx, &view.GraphQuery{Task: q.Task, Session: q.Session, First: int64(len(out.Names))})
		if err != nil {
			return nil, err
		}
		if !first && (page.Nodes != out.Nodes || len(page.Page) == 0) {
			return nil, nil //nolint:nilnil // no graph, and nothing that went wrong
		}
		out.Nodes = page.Nodes
		op, device := renumber(page.Ops, ops, &out.Ops), renumber(page.Devices, devices, &out.Devices)
		for _, n := range page.Page {
			if int(n.Op) >= len(op) || int(n.Device) >= len(device) {
				return nil, status.Internalf("a page of the graph of session %s has no op or device for its node %s", q.Session, n.Name)
			}
			out.Names = append(out.Names, n.Name)
			out.Op = append(out.Op, op[n.Op])
			out.Device = append(out.Device, device[n.Device])
			out.Inputs = append(out.Inputs, listed(n.Inputs))
			out.Control = append(out.Control, listed(n.Controls))
			out.Omitted += n.Omitted
		}
	}
	return out, nil
}

// listed returns a list that JSON does not encode as null.
func listed(l []uint32) []uint32 {
	if l == nil {
		return []uint32{}
	}
	return l
}

// renumber returns the index in all of each string of a page.
func renumber(page []string, known map[string]uint32, all *[]string) []uint32 {
	out := make([]uint32, len(page))
	for i, s := range page {
		at, ok := known[s]
		if !ok {
			at = uint32(len(*all))
			known[s] = at
			*all = append(*all, s)
		}
		out[i] = at
	}
	return out
}

// serveTimeline records the next steps and returns them in Chrome's trace format.
func (s *server) serveTimeline(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timelineTime)
	defer cancel()
	steps := int64(1)
	if text := r.URL.Query().Get("steps"); text != "" {
		var err error
		if steps, err = strconv.ParseInt(text, 10, 64); err != nil || steps < 1 || steps > maxTraceSteps {
			answer(w, r, nil, status.InvalidArgumentf("steps is a number from 1 to %d, not %q", maxTraceSteps, view.Line(text)))
			return
		}
	}
	trace, err := s.trace(ctx, &view.TraceQuery{Cluster: true, Steps: steps, Duration: int64(traceTime), MaxEvents: maxTraceEvents})
	if err != nil {
		answer(w, r, nil, err)
		return
	}
	var text bytes.Buffer
	err = view.WriteTimeline(&text, trace)
	answer(w, r, json.RawMessage(text.Bytes()), err)
}

// cancelled identifies a cancelled step's session.
type cancelled struct {
	Session string `json:"session"`
	Master  string `json:"master"`
}

func (s *server) serveCancel(w http.ResponseWriter, r *http.Request) {
	act(w, r, func(ctx context.Context, q struct {
		Step uint64 `json:"step"`
	},
	) (any, error) {
		if q.Step == 0 {
			return nil, status.InvalidArgumentf("no step is named")
		}
		session, master, err := s.acts.CancelStep(ctx, q.Step)
		return cancelled{session, master}, err
	})
}

func (s *server) serveReset(w http.ResponseWriter, r *http.Request) {
	act(w, r, func(ctx context.Context, q struct {
		Containers []string `json:"containers"`
	},
	) (any, error) {
		if q.Containers == nil { // nil must not mean the default ones
			return nil, status.InvalidArgumentf("no containers are named: an empty list stands for the default ones")
		}
		return struct{}{}, s.acts.Reset(ctx, q.Containers)
	})
}

func (s *server) serveDrain(w http.ResponseWriter, r *http.Request) {
	act(w, r, func(ctx context.Context, q struct {
		Task    string  `json:"task"`
		Seconds float64 `json:"seconds"`
	},
	) (any, error) {
		if q.Task == "" {
			return nil, status.InvalidArgumentf("no task is named")
		}
		return struct{}{}, s.acts.Drain(ctx, q.Task, time.Duration(q.Seconds*float64(time.Second)))
	})
}

// act performs the act that a request with a JSON body asks for.
func act[Q any](w http.ResponseWriter, r *http.Request, do func(context.Context, Q) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), apiTime)
	defer cancel()
	var q Q
	if err := readBody(w, r, &q); err != nil {
		answer(w, r, nil, err)
		return
	}
	done, err := do(ctx, q)
	answer(w, r, done, err)
}

// readBody decodes a body that is a single JSON value.
func readBody(w http.ResponseWriter, r *http.Request, q any) error {
	if kind := r.Header.Get("Content-Type"); kind != "application/json" { // no form of another page can send this type
		return status.InvalidArgumentf("the request is application/json, not %q", view.Line(kind))
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return status.InvalidArgumentf("the request cannot be read, or has more than %d bytes: %v", maxBody, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(q); err != nil {
		return status.InvalidArgumentf("the request cannot be read: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return status.InvalidArgumentf("the request has more than one value")
	}
	return nil
}

// failure is an error as JSON.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// httpStatus maps errors' codes to HTTP statuses.
var httpStatus = map[status.Code]int{
	status.InvalidArgument:  http.StatusBadRequest,
	status.NotFound:         http.StatusNotFound,
	status.PermissionDenied: http.StatusForbidden,
	status.Unauthenticated:  http.StatusUnauthorized,
	status.Unimplemented:    http.StatusNotImplemented,
	status.DeadlineExceeded: http.StatusGatewayTimeout,
	status.Unavailable:      http.StatusServiceUnavailable,
	status.Aborted:          http.StatusConflict,
}

// large is the size, in bytes, from which answers are compressed, for browsers on other machines.
const large = 16 << 10

// answer writes a result or an error as JSON.
func answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	code := http.StatusOK
	if err != nil {
		e := status.From(err)
		if code = httpStatus[e.Code]; code == 0 {
			code = http.StatusInternalServerError
		}
		v = failure{e.Code.String(), e.Message}
	}
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "the answer cannot be encoded: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if len(b) >= large && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // the level exists
		_, _ = z.Write(b)                                    // a Buffer accepts everything
		if z.Close() == nil {
			w.Header().Set("Content-Encoding", "gzip")
			b = packed.Bytes()
		}
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.WriteHeader(code)
	_, _ = w.Write(b) // the browser may be gone
}

// looks are shared by several callers.
type looks struct {
	mu      sync.Mutex
	byQuery map[string]*sharedLook
}

// sharedLook is a look in progress or one that has just ended.
type sharedLook struct {
	done    chan struct{}
	ended   time.Time // set when done is closed
	cluster *view.Cluster
	err     error
}

// look returns the state of the cluster. It shares a look in progress, or a fresh one, with callers that have the same query and may see
// the same. The result must not be modified.
func (s *server) look(ctx context.Context, q *view.Query) (*view.Cluster, error) {
	key := access.Looker(ctx).View() + q.String()
	l := &s.looks
	l.mu.Lock()
	have := l.byQuery[key]
	if have != nil && have.old() {
		have = nil
	}
	if have == nil {
		for k, other := range l.byQuery {
			if other.old() {
				delete(l.byQuery, k)
			}
		}
		if len(l.byQuery) >= maxLooks {
			l.mu.Unlock()
			return nil, status.Errorf(status.ResourceExhausted, "%d different looks at the cluster are under way", maxLooks)
		}
		have = &sharedLook{done: make(chan struct{})}
		l.byQuery[key] = have
		l.mu.Unlock()
		// The caller may leave while others that share the look remain.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTime)
		defer cancel()
		defer func() { have.finish() }()
		have.err = status.Internalf("a look at the cluster did not end in order") // unless it does
		have.cluster, have.err = s.see(ctx, q)
		return have.cluster, have.err
	}
	l.mu.Unlock()
	select {
	case <-have.done:
		return have.cluster, have.err
	case <-ctx.Done():
		return nil, status.From(ctx.Err())
	}
}

func (l *sharedLook) finish() {
	l.ended = time.Now()
	close(l.done)
}

// old reports whether a look ended too long ago to be shared.
func (l *sharedLook) old() bool {
	select {
	case <-l.done:
		return time.Since(l.ended) > fresh
	default:
		return false
	}
}

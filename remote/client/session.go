package client

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/closing"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// Session is a graph on a server, and steps over it. Tensors, operations and feeds are named as in the graph ("x:0", "init"). Its methods
// are safe for concurrent use.
//
//	Run, RunStep     run a step; RunStep takes options and returns what they ask for
//	PrepareStep      prepares a step that is run often: a Callable
//	PartialRun       begins a step that is fed and fetched from in several calls
//	Extend           adds nodes to the graph
//	Devices, Handle  describe the session
//	Close            ends it
type Session struct {
	client *Client
	handle string
	closed *closing.Once

	extending sync.Mutex
	version   int64
}

// NewSession opens a session over a graph, which may be nil or grow later. A nil config means the server's defaults. Troupe's servers close
// a session after its lease, which begins when the client's connection ends; TensorFlow's keep it until it is closed.
func (c *Client) NewSession(ctx context.Context, graph *graphpb.GraphDef, config *corepb.ConfigProto) (*Session, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if graph == nil {
		graph = &graphpb.GraphDef{}
	}
	if config == nil {
		config = &corepb.ConfigProto{}
	}
	var a corepb.CreateSessionResponse
	if err := c.master(ctx, "CreateSession", &corepb.CreateSessionRequest{GraphDef: graph, Config: config, Target: c.target}, &a); err != nil {
		return nil, err
	}
	return &Session{client: c, handle: a.SessionHandle, closed: closing.New(), version: a.GraphVersion}, nil
}

// Handle returns the server's name for the session.
func (s *Session) Handle() string { return s.handle }

// Extend adds the nodes and functions of more to the session's graph. After an error the session is unchanged.
func (s *Session) Extend(ctx context.Context, more *graphpb.GraphDef) error {
	ctx, cancel := s.client.bounded(ctx)
	defer cancel()
	s.extending.Lock()
	defer s.extending.Unlock()
	var a corepb.ExtendSessionResponse
	err := s.client.master(ctx, "ExtendSession",
		&corepb.ExtendSessionRequest{SessionHandle: s.handle, GraphDef: more, CurrentGraphVersion: s.version}, &a)
	if err == nil {
		s.version = a.NewGraphVersion
	}
	return err
}

// Devices lists the devices that the session may use, those of its own server first.
func (s *Session) Devices(ctx context.Context) ([]Device, error) {
	return s.client.devices(ctx, s.handle)
}

// Step describes a step: tensors to feed by name ("x:0"), tensors to fetch, and operations (targets) to run without fetching anything from
// them.
type Step struct {
	Feeds   map[string]*tensor.Tensor
	Fetches []string
	Targets []string
	Options *corepb.RunOptions // nil for none
}

// Result is what a step returned. The fetched tensors are in the order of Step.Fetches; the caller must release them.
type Result struct {
	Tensors  []*tensor.Tensor
	Metadata *corepb.RunMetadata // what the options asked for; nil if they asked for nothing
}

// Run runs a step without options: it feeds tensors, runs what the fetches and targets need, and returns the fetched tensors in order. The
// caller must release them. See RunStep.
func (s *Session) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error) {
	r, err := s.RunStep(ctx, Step{Feeds: feeds, Fetches: fetches, Targets: targets})
	if err != nil {
		return nil, err
	}
	return r.Tensors, nil
}

// RunStep runs a step. The caller keeps ownership of the fed tensors. It waits for as long as the step takes, until ctx ends. The server
// learns the deadline of ctx, so its answer says what the step waited for. When ctx ends, the call returns at once and the server is
// notified: Troupe's servers end the step on all tasks, TensorFlow's as soon as their kernels check for cancellation. Feeds of 2 GiB or
// more are RESOURCE_EXHAUSTED before anything is sent; fetches of that size are once they have been computed.
func (s *Session) RunStep(ctx context.Context, step Step) (*Result, error) {
	a, err := s.run(ctx, step, "")
	if err != nil {
		return nil, err
	}
	return &Result{a.fetched, a.metadata}, nil
}

// run runs a step, or continues a partial run.
func (s *Session) run(ctx context.Context, step Step, partial string) (a answer, err error) {
	w := writers.Get().(*writer)
	defer w.free()
	fetches := unique(step.Fetches)
	if err := s.write(ctx, w, step, fetches, partial); err != nil {
		return a, err
	}
	a.fetched = make([]*tensor.Tensor, len(fetches), len(step.Fetches))
	err = s.client.invoke(ctx, service+"RunStep", w.end(), func(r *wire.Reader) error { return a.readStep(r, fetches) }, func() error {
		if a.code != 0 {
			return status.New(a.code, a.text)
		}
		if i := slices.Index(a.fetched, nil); i >= 0 {
			return status.Internalf("The server's answer lacks the tensor %s", fetches[i])
		}
		return nil
	})
	if err != nil {
		a.release()
		return a, err
	}
	if len(fetches) < len(step.Fetches) {
		a.fetched = spread(a.fetched, fetches, step.Fetches)
	}
	return a, nil
}

// maxFeeds bounds the feeds of one step, in bytes, so that they fit into one message with their names and shapes.
const maxFeeds = math.MaxInt32 - 1<<20

// fits rejects feeds that do not fit into one message.
func fits(sum, feeds int) error {
	if sum <= maxFeeds {
		return nil
	}
	return status.Errorf(status.ResourceExhausted, "The %d fed tensors take %d bytes, more than the %d that fit into one request. "+
		"Feed them in several steps, large ones in parts or through a queue, or restore them from a checkpoint.", feeds, sum, maxFeeds)
}

var writers = sync.Pool{New: func() any { return &writer{} }}

// maxKept is the most memory, in bytes, that a writer keeps for the next request.
const maxKept = 64 << 10

func (w *writer) free() {
	if w.reset(); cap(w.buf) <= maxKept {
		writers.Put(w)
	}
}

// write encodes a tensorflow.RunStepRequest.
func (s *Session) write(ctx context.Context, w *writer, step Step, fetches []string, partial string) error {
	sum := 0
	for name, t := range step.Feeds {
		if t == nil {
			return status.InvalidArgumentf("Nothing was fed for %s", name)
		}
		sum += t.ByteSize()
	}
	if err := fits(sum, len(step.Feeds)); err != nil {
		return err
	}
	w.text(1, s.handle)
	var room [8]string
	names := room[:0]
	for name := range step.Feeds {
		names = append(names, name)
	}
	slices.Sort(names) // servers also distinguish steps by the order of their feeds
	for _, name := range names {
		if err := w.named(2, name, step.Feeds[name]); err != nil {
			return err
		}
	}
	for _, name := range fetches {
		w.text(3, name)
	}
	for _, name := range step.Targets {
		w.text(4, name)
	}
	options := step.Options
	if deadline, ok := ctx.Deadline(); ok && options == nil {
		options = &corepb.RunOptions{TimeoutInMs: max(1, time.Until(deadline).Milliseconds())}
	}
	if options != nil {
		if err := w.message(5, options); err != nil {
			return err
		}
	}
	if partial != "" {
		w.text(6, partial)
	}
	w.number(7, 1) // store_errors_in_response_body: error texts may be long there
	w.number(8, requestID())
	return nil
}

func requestID() int64 { return rand.Int64N(1<<62) + 1 }

// unique drops repeated names: the protocol requests each tensor once.
func unique(names []string) []string {
	for i, name := range names {
		if !slices.Contains(names[:i], name) {
			continue
		}
		out := slices.Clone(names[:i])
		for _, name := range names[i:] {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
		return out
	}
	return names
}

// spread repeats the tensors of names that were requested several times.
func spread(fetched []*tensor.Tensor, names, asked []string) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(asked))
	for i, name := range asked {
		if out[i] = fetched[slices.Index(names, name)]; slices.Contains(asked[:i], name) {
			out[i].Retain()
		}
	}
	return out
}

// Close ends the session. Running steps are cancelled; variables and queues with names stay. Once Close has succeeded, further calls return
// nil.
func (s *Session) Close(ctx context.Context) error {
	ctx, cancel := s.client.bounded(ctx)
	defer cancel()
	return s.closed.Do(ctx, func(ctx context.Context) error {
		return s.client.master(ctx, "CloseSession", &corepb.CloseSessionRequest{SessionHandle: s.handle}, &corepb.CloseSessionResponse{})
	})
}

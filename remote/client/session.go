package client

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Session is a session on a server. Its methods may be called concurrently.
type Session struct {
	client *Client
	handle string

	extending sync.Mutex
	version   int64
}

// CreateSession opens a session over a graph, which may be nil or grow later; config is nil for the
// server's defaults.
func (c *Client) CreateSession(ctx context.Context, graph *graphpb.GraphDef, config *corepb.ConfigProto) (*Session, error) {
	ctx, cancel := bounded(ctx)
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
	return &Session{client: c, handle: a.SessionHandle, version: a.GraphVersion}, nil
}

// Handle is the server's name for the session.
func (s *Session) Handle() string { return s.handle }

// Extend adds the nodes and functions of more to the session's graph. On an error the session is as
// before.
func (s *Session) Extend(ctx context.Context, more *graphpb.GraphDef) error {
	ctx, cancel := bounded(ctx)
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

// Step is what to run: tensors to feed by name ("x:0"), tensors to fetch, and nodes to run for
// what they do.
type Step struct {
	Feeds   map[string]*tensor.Tensor
	Fetches []string
	Targets []string
	Options *corepb.RunOptions // nil for none
}

// Result is what a step gave. The fetched tensors, in the order asked for, are the receiver's to
// release.
type Result struct {
	Tensors  []*tensor.Tensor
	Metadata *corepb.RunMetadata
}

// Run fetches tensors and runs targets without options; see RunStep.
func (s *Session) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error) {
	r, err := s.RunStep(ctx, Step{Feeds: feeds, Fetches: fetches, Targets: targets})
	if err != nil {
		return nil, err
	}
	return r.Tensors, nil
}

// RunStep runs a step. The fed tensors stay the caller's. It waits as long as the step takes: bound
// it by ctx, whose deadline is told to the server too, so that its answer says what it waited for.
// Feeds of 2 GiB or more are RESOURCE_EXHAUSTED before anything is sent, and so are fetches when they
// are there.
func (s *Session) RunStep(ctx context.Context, step Step) (*Result, error) {
	q, err := s.request(ctx, step)
	if err != nil {
		return nil, err
	}
	var a corepb.RunStepResponse
	if err := s.client.master(ctx, "RunStep", q, &a); err != nil {
		return nil, err
	}
	if a.StatusCode != 0 {
		return nil, status.New(status.Code(a.StatusCode), a.StatusErrorMessage)
	}
	r := &Result{Metadata: a.Metadata}
	if r.Tensors, err = fetched(step.Fetches, a.Tensor); err != nil {
		return nil, err
	}
	return r, nil
}

// maxFeeds is what the feeds of one step may take in bytes, so that they fit into one message with
// their names and shapes.
const maxFeeds = math.MaxInt32 - 1<<20

func (s *Session) request(ctx context.Context, step Step) (*corepb.RunStepRequest, error) {
	sum := 0
	for _, t := range step.Feeds {
		sum += t.ByteSize()
	}
	if sum > maxFeeds {
		return nil, status.Errorf(status.ResourceExhausted, "The %d fed tensors take %d bytes, more than the %d that fit into one request. "+
			"Feed them in several steps, large ones in parts or through a queue, or restore them from a checkpoint.", len(step.Feeds), sum, maxFeeds)
	}
	q := &corepb.RunStepRequest{SessionHandle: s.handle, Fetch: unique(step.Fetches), Target: step.Targets, Options: step.Options,
		StoreErrorsInResponseBody: true, RequestId: rand.Int64N(1<<62) + 1}
	for _, name := range slices.Sorted(maps.Keys(step.Feeds)) {
		p, err := step.Feeds[name].Proto()
		if err != nil {
			return nil, err
		}
		q.Feed = append(q.Feed, &corepb.NamedTensorProto{Name: name, Tensor: p})
	}
	if deadline, ok := ctx.Deadline(); ok && step.Options == nil {
		q.Options = &corepb.RunOptions{TimeoutInMs: max(1, time.Until(deadline).Milliseconds())}
	}
	return q, nil
}

// unique drops repeated names: the protocol asks for each tensor once.
func unique(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// fetched puts the answer's tensors, which come in any order, into the order of names.
func fetched(names []string, answer []*corepb.NamedTensorProto) (out []*tensor.Tensor, err error) {
	byName := map[string]*tensor.Tensor{}
	defer func() {
		for _, t := range byName {
			t.Release()
		}
		if err != nil {
			for _, t := range out {
				t.Release()
			}
			out = nil
		}
	}()
	for _, n := range answer {
		if byName[n.Name] != nil || !slices.Contains(names, n.Name) {
			return nil, status.Internalf("The server answered with a tensor %s that was not asked for", n.Name)
		}
		if byName[n.Name], err = tensor.FromTensorProto(n.Tensor, tensor.Host); err != nil {
			delete(byName, n.Name)
			return nil, err
		}
	}
	for _, name := range names {
		t := byName[name]
		if t == nil {
			return out, status.Internalf("The server's answer lacks the tensor %s", name)
		}
		out = append(out, t.Retain())
	}
	return out, nil
}

// Close ends the session: running steps are cancelled; variables and queues with names stay.
func (s *Session) Close(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.client.master(ctx, "CloseSession", &corepb.CloseSessionRequest{SessionHandle: s.handle}, &corepb.CloseSessionResponse{})
}

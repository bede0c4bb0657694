package troupe

import (
	"context"
	"slices"
	"strings"
	"sync"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote"
)

// Session is a session on a server of this process: its steps start without a network. Its graph
// may still span the whole cluster. Methods may be called concurrently.
type Session struct {
	node    *remote.Node
	session *actors.Session
	handle  string

	extending sync.Mutex
	version   int64
}

// NewSession opens a session over a graph, which may be nil or grow later. config is the session's
// own, over the server's; nil for none. Variables and other named resources outlive the session.
func (s *Server) NewSession(ctx context.Context, graph *graphpb.GraphDef, config *corepb.ConfigProto) (*Session, error) {
	node, err := s.running()
	if err != nil {
		return nil, err
	}
	if graph == nil {
		graph = &graphpb.GraphDef{}
	}
	if config == nil {
		config = &corepb.ConfigProto{}
	}
	// Connection 0: no client's connection keeps the session alive, its owner closes it.
	handle, err := node.Task().CreateSession(ctx, 0, graph, config)
	if err != nil {
		return nil, err
	}
	session, err := node.Task().Session(handle, 0)
	if err != nil {
		return nil, err
	}
	return &Session{node: node, session: session, handle: handle}, nil
}

// Extend adds the nodes and functions of more to the graph. On an error the session is as before.
func (s *Session) Extend(ctx context.Context, more *graphpb.GraphDef) error {
	s.extending.Lock()
	defer s.extending.Unlock()
	version, err := s.session.Extend(ctx, more, s.version)
	if err == nil {
		s.version = version
	}
	return err
}

// Run runs a step: it feeds tensors by name ("x:0"), runs what the fetched tensors and the targets
// (nodes' names) need, and gives the fetched tensors in order, which are the caller's to release.
// The fed ones stay the caller's. When ctx ends so does the step, on all tasks.
func (s *Session) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error) {
	req := &actors.StepRequest{Fetches: fetches, Targets: targets}
	for name, t := range feeds {
		req.Feeds = append(req.Feeds, actors.Feed{Name: name, Tensor: t})
	}
	// Steps are told apart by their feeds' order too.
	slices.SortFunc(req.Feeds, func(a, b actors.Feed) int { return strings.Compare(a.Name, b.Name) })
	result, err := s.session.Run(ctx, req)
	if err != nil {
		return nil, err
	}
	return result.Tensors, nil
}

// Close ends the session. Running steps are cancelled.
func (s *Session) Close(ctx context.Context) error { return s.node.Task().CloseSession(ctx, s.handle) }

package troupe

import (
	"context"
	"slices"
	"strings"
	"sync"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// inProcess are the rights of the program that embeds the server.
var inProcess = actors.Rights{Who: "the server's program", Files: actors.AllFiles}

// NewSession opens a session over a graph, which may be nil or grow later. config is merged over the server's
// own; it may be nil. The session's steps start without a network. The session lives until it is closed;
// variables and other named resources outlive it.
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
	// Connection 0 means that no client's connection keeps the session alive: its owner closes it.
	handle, err := node.Task().CreateSession(ctx, 0, inProcess, graph, config)
	if err != nil {
		return nil, status.InContext(ctx, err)
	}
	session, err := node.Task().Session(handle, 0)
	if err != nil {
		return nil, err
	}
	return newSession(&local{task: node.Task(), session: session, handle: handle}), nil
}

// Devices lists the devices of all tasks that the server reaches, its own first.
func (s *Server) Devices(ctx context.Context) ([]Device, error) {
	node, err := s.running()
	if err != nil {
		return nil, err
	}
	devices, err := node.Task().ListDevices(ctx, "")
	return devices, status.InContext(ctx, err)
}

// Reset closes all sessions of the server and empties the given containers, or else the default ones, on all tasks.
func (s *Server) Reset(ctx context.Context, containers ...string) error {
	node, err := s.running()
	if err != nil {
		return err
	}
	return status.InContext(ctx, node.Task().Reset(ctx, containers, "the program", nil))
}

// local is a session on a server of this process.
type local struct {
	task    *actors.Task
	session *actors.Session
	handle  string

	extending sync.Mutex
	version   int64
}

func (l *local) extend(ctx context.Context, more *graphpb.GraphDef) error {
	l.extending.Lock()
	defer l.extending.Unlock()
	version, err := l.session.Extend(ctx, more, l.version)
	if err != nil {
		return l.told(err)
	}
	l.version = version
	return nil
}

// told returns err, or ABORTED if the session is gone, as servers return it over the network.
func (l *local) told(err error) error {
	if status.CodeOf(err) == status.FailedPrecondition && !l.task.Has(l.handle) {
		_, err = l.task.Session(l.handle, 0)
	}
	return err
}

func (l *local) run(ctx context.Context, step Step) (*Result, error) { return l.step(ctx, step, "") }

// step runs a step, or continues a partial run.
func (l *local) step(ctx context.Context, step Step, partial string) (*Result, error) {
	req := &actors.StepRequest{Fetches: step.Fetches, Targets: step.Targets, Options: step.Options, Partial: partial}
	if len(step.Feeds) > 0 {
		req.Feeds = make([]actors.Feed, 0, len(step.Feeds))
		for name, t := range step.Feeds {
			if t == nil {
				return nil, status.InvalidArgumentf("Nothing was fed for %s", name)
			}
			req.Feeds = append(req.Feeds, actors.Feed{Name: name, Tensor: t})
		}
		// The order of the feeds is part of a step's identity.
		slices.SortFunc(req.Feeds, func(a, b actors.Feed) int { return strings.Compare(a.Name, b.Name) })
	}
	r, err := l.session.Run(ctx, req)
	if err != nil {
		return nil, l.told(err)
	}
	return &Result{Tensors: r.Tensors, Metadata: r.Metadata}, nil
}

func (l *local) prepare(ctx context.Context, o *corepb.CallableOptions) (prepared, error) {
	c, err := l.session.Prepare(ctx, o)
	if err != nil {
		return nil, l.told(err)
	}
	return &localCallable{l, c}, nil
}

func (l *local) setup(ctx context.Context, feeds, fetches, targets []string) (partial, error) {
	handle, err := l.session.PartialSetup(ctx, feeds, fetches, targets)
	if err != nil {
		return nil, l.told(err)
	}
	return &localPartial{l, handle}, nil
}

func (l *local) devices(ctx context.Context) ([]Device, error) {
	return l.task.ListDevices(ctx, l.handle)
}

func (l *local) close(ctx context.Context) error { return l.task.CloseSession(ctx, l.handle) }

type localCallable struct {
	session  *local
	callable *actors.Callable
}

func (c *localCallable) run(ctx context.Context, feeds, fetched []*tensor.Tensor) error {
	if _, err := c.callable.Run(ctx, feeds, fetched, nil); err != nil {
		return c.session.told(err)
	}
	return nil
}

func (c *localCallable) release(context.Context) error {
	c.callable.Release()
	return nil
}

type localPartial struct {
	session *local
	handle  string
}

func (p *localPartial) run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error) {
	r, err := p.session.step(ctx, Step{Feeds: feeds, Fetches: fetches}, p.handle)
	if err != nil {
		return nil, err
	}
	return r.Tensors, nil
}

package troupe

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote"
	"github.com/troupe-run/troupe/remote/spec"
	"google.golang.org/protobuf/proto"
)

// stopTime bounds Stop where its context has no deadline.
const stopTime = 5 * time.Second

// state is how far a server's life has gone.
type state int

const (
	bound state = iota
	serving
	ended
)

// Server is one task of a cluster, in this process. Several servers, of one cluster or of many, can
// live in a process. All methods may be called concurrently.
type Server struct {
	def      *corepb.ServerDef
	self     spec.Task
	log      *slog.Logger
	stopped  chan struct{}
	stopOnce sync.Once
	stopErr  error

	node *remote.Node // whose port is bound

	mu    sync.Mutex
	state state
}

// NewServer makes a task of the declared cluster, binds its port, and starts it, unless
// WithStart(false) is among the options. The errors are those of TensorFlow's servers: INVALID_ARGUMENT for a malformed cluster,
// INTERNAL for a job or task that it does not have, NOT_FOUND for a protocol other than grpc,
// UNKNOWN where the port cannot be bound.
func NewServer[D Declaration](declaration D, opts ...Option) (*Server, error) {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	def, cluster, err := define(declaration, &o)
	if err != nil {
		return nil, err
	}
	s, err := newServer(def, cluster, &o)
	if err != nil {
		return nil, err
	}
	if o.start {
		if err := s.Start(context.Background()); err != nil {
			return nil, err // and nothing is left of it
		}
	}
	return s, nil
}

// NewLocalServer makes a cluster of one task, /job:local/replica:0/task:0, on a free port of the
// loopback interface.
func NewLocalServer(opts ...Option) (*Server, error) {
	return NewServer(ClusterSpec{"local": {"localhost:0"}}, opts...)
}

func newServer(def *corepb.ServerDef, cluster *spec.Spec, o *options) (*Server, error) {
	self, err := cluster.Task(def.JobName, int(def.TaskIndex))
	if err != nil {
		return nil, err
	}
	if o.lease <= 0 {
		return nil, status.InvalidArgumentf("A session's lease must be positive, not %v", o.lease)
	}
	if o.memoryLimit < 0 {
		return nil, status.InvalidArgumentf("The memory limit is negative: %d", o.memoryLimit)
	}
	cpus, err := cpusOf(def.DefaultSessionConfig)
	if err != nil {
		return nil, err
	}
	gpus, err := gpusOf(def.DefaultSessionConfig, o.log)
	if err != nil {
		return nil, err
	}
	defaults, err := defaultsOf(def.DefaultSessionConfig)
	if err != nil {
		return nil, err
	}
	s := &Server{def: def, self: self, log: o.log, stopped: make(chan struct{})}
	s.node, err = remote.Listen(remote.Config{Spec: cluster, Job: def.JobName, Task: int(def.TaskIndex), Bind: o.bind, Claimed: o.claim, NoLending: o.noLending, Outsiders: o.outsiders, CPUs: cpus,
		MemoryLimit: o.memoryLimit, GPUConfig: gpus, Lease: o.lease, Defaults: defaults, Actors: s.kinds(o.actors), Log: o.log})
	if err != nil {
		return nil, startError(err)
	}
	return s, nil
}

// Start begins to serve. A server that runs is left alone; one that was stopped is
// FAILED_PRECONDITION. ctx bounds the start alone. A server that fails to start is stopped.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case serving:
		return nil
	case ended:
		return status.Errorf(status.FailedPrecondition, "Server has stopped.")
	}
	if err := s.node.Serve(ctx); err != nil {
		s.state = ended
		close(s.stopped)
		return err
	}
	tellUnused(s.def.DefaultSessionConfig, s.log)
	s.state = serving
	return nil
}

// startError gives an address that cannot be bound the code and the first words of TensorFlow's
// servers, and keeps which port it is and what helps.
func startError(err error) error {
	e := status.From(err)
	if e.Code != status.FailedPrecondition && e.Code != status.PermissionDenied {
		return err
	}
	return status.Errorf(status.Unknown, "Could not start gRPC server at %s", strings.TrimPrefix(e.Message, "Could not start the server at "))
}

// Join waits until the server has stopped or ctx ends. TensorFlow's never returns.
func (s *Server) Join(ctx context.Context) error {
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return status.From(ctx.Err())
	}
}

// Stop ends the server: no new call is taken, running steps get until ctx ends (5 s where it has
// no deadline) and are then cancelled, the port is free again. A second call waits for the first
// and has its result.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		if _, limited := ctx.Deadline(); !limited {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, stopTime)
			defer cancel()
		}
		s.mu.Lock()
		before := s.state
		s.state = ended
		s.mu.Unlock()
		if before != ended {
			s.stopErr = s.node.Stop(ctx)
			close(s.stopped)
		}
	})
	return s.stopErr
}

// running gives the node, or an error where it does not serve.
func (s *Server) running() (*remote.Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case ended:
		return nil, status.Errorf(status.FailedPrecondition, "Server has stopped.")
	case bound:
		return nil, status.Errorf(status.FailedPrecondition, "The server of %v has not been started.", s.self)
	}
	return s.node, nil
}

// Target is what a client opens sessions with: grpc://host:port, with the port that is bound.
func (s *Server) Target() string { return s.node.Target() }

// Address is the host:port at which the server is reached.
func (s *Server) Address() string { return s.node.Address() }

// Task is the server's task name, such as /job:worker/replica:0/task:1.
func (s *Server) Task() string { return s.self.Name() }

// ServerDef is what the declaration and the options came to. The caller owns it.
func (s *Server) ServerDef() *corepb.ServerDef { return proto.Clone(s.def).(*corepb.ServerDef) }

// Status tells of all declared tasks what this one knows; nil for a server that does not run.
func (s *Server) Status() []TaskStatus {
	node, err := s.running()
	if err != nil {
		return nil
	}
	return node.Status()
}

// Trim gives idle tensor memory that nothing asked for since the last call back to the Go runtime
// and tells how many bytes that are. Whoever owns the process calls it now and then.
func (s *Server) Trim() int64 {
	node, err := s.running()
	if err != nil {
		return 0
	}
	return trim(node.Task())
}

func trim(task *actors.Task) (bytes int64) {
	for _, d := range task.Devices {
		if t, ok := d.(interface{ Trim() int64 }); ok {
			bytes += t.Trim()
		} else if d.Type() == "CPU" { // others share the CPU's host memory
			bytes += d.Pool().Trim()
		}
	}
	return bytes
}

package troupe

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote"
	"github.com/troupe-run/troupe/remote/spec"
	"google.golang.org/protobuf/proto"
)

// stopTime bounds Stop if its context has no deadline.
const stopTime = 5 * time.Second

// The states of a server.
const (
	bound int32 = iota
	serving
	ended
)

// Server is a task of a cluster that runs in this process. A process may have several servers, of one cluster or of
// several. All methods may be called concurrently.
type Server struct {
	def     *corepb.ServerDef
	self    spec.Task
	log     *slog.Logger
	stopped chan struct{} // closed when the server has stopped
	stopErr error         // set before stopped is closed

	node      *remote.Node // its port is bound
	watched   *watched     // nil without an HTTP endpoint
	functions *functions   // nil if the program has none
	outsiders bool         // programs outside the cluster and actors exchange messages

	mu    sync.Mutex // held by Start, so that Stop waits for it
	state atomic.Int32
}

// localOnly are the options that only local clusters take.
var localOnly = map[string]string{"WithLocalPorts": "it is for NewLocalCluster; the cluster's declaration has the ports"}

// NewServer makes a task of the declared cluster, binds its port, and starts it unless WithStart(false) is among
// the options. ctx bounds the start, not the server's life.
//
// The errors are those of TensorFlow's servers: INVALID_ARGUMENT for a malformed cluster, INTERNAL for a job or task
// that the cluster does not have, NOT_FOUND for a protocol other than grpc, UNKNOWN if the port cannot be bound. After
// an error nothing remains of the server.
func NewServer[D Declaration](ctx context.Context, declaration D, opts ...Option) (*Server, error) {
	o, err := collect("NewServer", opts, localOnly)
	if err != nil {
		return nil, err
	}
	return start(ctx, declaration, o)
}

// Resolve returns the ServerDef that [NewServer] would use for a declaration and options: the cluster, the job, the task, the protocol and
// the config. It binds nothing. It returns NewServer's errors for an invalid declaration or option.
func Resolve[D Declaration](declaration D, opts ...Option) (*corepb.ServerDef, error) {
	o, err := collect("Resolve", opts, localOnly)
	if err != nil {
		return nil, err
	}
	def, cluster, err := define(declaration, o)
	if err != nil {
		return nil, err
	}
	self, err := cluster.Task(def.JobName, int(def.TaskIndex))
	if err == nil {
		err = o.check(self)
	}
	if err != nil {
		return nil, err
	}
	return def, nil
}

// start makes a server and starts it if the options say so.
func start(ctx context.Context, declaration any, o *options) (*Server, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.From(err)
	}
	def, cluster, err := define(declaration, o)
	if err != nil {
		return nil, err
	}
	s, err := newServer(def, cluster, o)
	if err != nil || !o.start {
		return s, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// NewLocalServer is NewServer for a cluster of one task, /job:local/replica:0/task:0, on a free port of the
// loopback interface. Without WithLogger, only warnings and errors go to the default logger, as with NewLocalCluster.
func NewLocalServer(ctx context.Context, opts ...Option) (*Server, error) {
	o, err := collect("NewLocalServer", opts, localOnly)
	if err != nil {
		return nil, err
	}
	o.logWarnings()
	return start(ctx, ClusterSpec{"local": {"localhost:0"}}, o)
}

func newServer(def *corepb.ServerDef, cluster *spec.Spec, o *options) (*Server, error) {
	self, err := cluster.Task(def.JobName, int(def.TaskIndex))
	if err != nil {
		return nil, err
	}
	if err := o.check(self); err != nil {
		return nil, err
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
	defaults.Own = o.own
	if o.processMemory > 0 || tensor.Process.Limit() == 0 {
		tensor.Process.SetLimit(cmp.Or(o.processMemory, tensor.DefaultProcessMemory()))
	}
	s := &Server{def: def, self: self, log: o.log, stopped: make(chan struct{}), watched: o.http.shared, functions: newFunctions(o), outsiders: o.outsiders}
	if s.watched == nil {
		if s.watched, err = o.watch(self); err != nil {
			return nil, err
		}
	}
	s.node, err = remote.Listen(remote.Config{Spec: cluster, Job: def.JobName, Task: int(def.TaskIndex), Bind: o.bind, Claimed: o.claim, NoLending: o.noLending, Outsiders: o.outsiders, ActorLimit: o.actorLimit, Together: o.together, End: o.end, CPUs: cpus,
		Data: o.data, Durable: o.durable, DataLimit: o.dataLimit, CompactionRate: o.compactionRate, Files: o.files, Credentials: o.credentials, SecretFile: o.secretFile, Traces: o.traces, Guard: o.guard(),
		MemoryLimit: o.memoryLimit, Threads: o.threads(def.DefaultSessionConfig), StepMemory: o.stepMemory, SessionMemory: o.sessionMemory, ClientMemory: o.clientMemory, GPUConfig: gpus, Lease: o.lease, Startup: o.startup, Defaults: defaults, Program: s.functions.program(), Actors: s.kinds(o.actors), Network: o.network, Private: o.private, Log: o.log})
	if err != nil {
		if o.http.shared == nil {
			err = s.watched.abandon(err)
		}
		return nil, startError(err)
	}
	return s, nil
}

// Start begins to serve. It does nothing if the server already serves, and returns FAILED_PRECONDITION if it was
// stopped. ctx bounds only the start. A server that fails to start is stopped.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state.Load() {
	case serving:
		return nil
	case ended:
		return status.Errorf(status.FailedPrecondition, "Server has stopped.")
	}
	if err := s.node.Serve(ctx); err != nil {
		s.state.Store(ended)
		close(s.stopped)
		if e := s.watched.remove(s.Task()); e != nil {
			s.log.Warn("the HTTP endpoint did not end in order", "error", e)
		}
		return status.InContext(ctx, err)
	}
	s.watched.serve(s)
	tellUnused(s.def.DefaultSessionConfig, s.log)
	s.state.Store(serving)
	return nil
}

// startError gives the error of an address that cannot be bound the code and the first words that TensorFlow's servers
// use. The rest of the message, which names the port and says what to do, stays.
func startError(err error) error {
	e := status.From(err)
	if e.Code != status.FailedPrecondition && e.Code != status.PermissionDenied {
		return err
	}
	return status.Errorf(status.Unknown, "Could not start gRPC server at %s", strings.TrimPrefix(e.Message, "Could not start the server at "))
}

// Join waits until the server has stopped or ctx ends. TensorFlow's Join never returns.
func (s *Server) Join(ctx context.Context) error {
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return status.From(ctx.Err())
	}
}

// Stop stops the server. It accepts no new calls, and running steps are cancelled when ctx ends, or after 5 s if ctx
// has no deadline. The port is free afterwards. A later call of Stop waits for the first until its own context ends,
// and returns the first one's result.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	before := s.state.Swap(ended)
	s.mu.Unlock()
	if before == ended {
		select {
		case <-s.stopped:
			return s.stopErr
		default:
		}
		select {
		case <-s.stopped:
			return s.stopErr
		case <-ctx.Done():
			return status.From(ctx.Err())
		}
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stopTime)
		defer cancel()
	}
	defer close(s.stopped)
	s.watched.leave(s)
	s.stopErr = cmp.Or(s.node.Stop(ctx), s.functions.stop(ctx), s.watched.remove(s.Task()))
	return s.stopErr
}

// running returns the node, or an error if it does not serve. It does not wait for Start.
func (s *Server) running() (*remote.Node, error) {
	switch s.state.Load() {
	case ended:
		return nil, status.Errorf(status.FailedPrecondition, "Server has stopped.")
	case bound:
		return nil, status.Errorf(status.FailedPrecondition, "The server of %v has not been started.", s.self)
	}
	return s.node, nil
}

// Target returns the target that clients dial: grpc://host:port, with the port that is bound.
func (s *Server) Target() string { return s.node.Target() }

// Address returns the host:port at which others reach the server.
func (s *Server) Address() string { return s.node.Address() }

// Task returns the server's task name, such as /job:worker/replica:0/task:1.
func (s *Server) Task() string { return s.self.Name() }

// ServerDef returns a copy of the declaration with the options applied. The caller owns it.
func (s *Server) ServerDef() *corepb.ServerDef { return proto.Clone(s.def).(*corepb.ServerDef) }

// Status returns what this task knows about all declared tasks, in order, without asking them. It returns nil if the server does not serve.
// While a cluster starts, this task may not know yet of tasks that are already up: WatchTasks reports them, and a client's Status asks
// them.
func (s *Server) Status() []TaskStatus {
	node, err := s.running()
	if err != nil {
		return nil
	}
	return node.Status()
}

// Trim returns to the Go runtime the tensor memory that has been idle since the last call of Trim, and reports the
// number of bytes. A long-running program should call it now and then.
func (s *Server) Trim() int64 {
	node, err := s.running()
	if err != nil {
		return 0
	}
	return node.Task().Trim()
}

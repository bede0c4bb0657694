package troupe

import (
	"cmp"
	"context"
	"log/slog"
	"strings"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/remote"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
	"google.golang.org/protobuf/proto"
)

// Server is a task of a cluster that runs in this process. A process may have several servers, of one cluster or of
// several. All methods may be called concurrently.
//
// A server is a [node.Node], which hosts the actors of the program, too, and has its methods: Start, Join and Stop; Target, Address, Task
// and Status; Spawn, Ensure, EndActor, Send, TrySend, WatchActor, WatchTasks, Publish, TryPublish and Subscribe.
type Server struct {
	*node.Node
	def       *corepb.ServerDef
	self      spec.Task
	log       *slog.Logger
	server    *remote.Node // its port is bound
	watched   *watched     // nil without an HTTP endpoint
	functions *functions   // nil if the program has none
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
	s := &Server{def: def, self: self, log: o.log, watched: o.http.shared, functions: newFunctions(o)}
	if s.watched == nil {
		if s.watched, err = o.watch(self); err != nil {
			return nil, err
		}
	}
	s.Node, err = node.Wrap(o.kinds, o.outsiders, func(kinds map[string]cast.Maker) (node.Host, error) {
		s.server, err = remote.Listen(remote.Config{Spec: cluster, Job: def.JobName, Task: int(def.TaskIndex), Bind: o.bind, Claimed: o.claim, NoLending: o.noLending, Outsiders: o.outsiders, ActorLimit: o.actorLimit, Together: o.together, End: o.end, CPUs: cpus,
			Data: o.data, Durable: o.durable, DataLimit: o.dataLimit, CompactionRate: o.compactionRate, Files: o.files, Credentials: o.credentials, SecretFile: o.secretFile, Traces: o.traces, Guard: o.guard(),
			MemoryLimit: o.memoryLimit, Threads: o.threads(def.DefaultSessionConfig), StepMemory: o.stepMemory, SessionMemory: o.sessionMemory, ClientMemory: o.clientMemory, GPUConfig: gpus, Lease: o.lease, Startup: o.startup, Defaults: defaults, Program: s.functions.program(), Actors: kinds, Network: o.network, Private: o.private, Log: o.log})
		return host{s}, err
	})
	if err != nil {
		if o.http.shared == nil {
			err = s.watched.abandon(err)
		}
		return nil, startError(err)
	}
	return s, nil
}

// host is a server as what runs its node.
type host struct{ *Server }

// Member returns the task of the cluster.
func (h host) Member() *member.Member { return h.server.Member }

// Serve begins to serve.
func (h host) Serve(ctx context.Context) error {
	s := h.Server
	if err := s.server.Serve(ctx); err != nil {
		if e := s.watched.remove(s.Task()); e != nil {
			s.log.Warn("the HTTP endpoint did not end in order", "error", e)
		}
		return err
	}
	s.watched.serve(s)
	tellUnused(s.def.DefaultSessionConfig, s.log)
	return nil
}

// Stop cancels running steps when ctx ends.
func (h host) Stop(ctx context.Context) error {
	s := h.Server
	s.watched.leave(s)
	return cmp.Or(s.server.Stop(ctx), s.functions.stop(ctx), s.watched.remove(s.Task()))
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

// running returns what serves, or an error if the server does not. It does not wait for Start.
func (s *Server) running() (*remote.Node, error) {
	if err := s.Serving(); err != nil {
		return nil, err
	}
	return s.server, nil
}

// ServerDef returns a copy of the declaration with the options applied. The caller owns it.
func (s *Server) ServerDef() *corepb.ServerDef { return proto.Clone(s.def).(*corepb.ServerDef) }

// Trim returns to the Go runtime the tensor memory that has been idle since the last call of Trim, and reports the
// number of bytes. A long-running program should call it now and then.
func (s *Server) Trim() int64 {
	node, err := s.running()
	if err != nil {
		return 0
	}
	return node.Task().Trim()
}

package troupe

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/remote"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
	"go.opentelemetry.io/otel/trace"
)

// DefaultLease is how long a session lives on after its client's last connection ended, unless WithLease says
// otherwise, and unless the client rests: see WithLease.
const DefaultLease = remote.DefaultLease

// DefaultStartup is how long after its start a server waits for tasks that have never been seen, unless WithStartup says otherwise.
const DefaultStartup = remote.DefaultStartup

// Option configures a server. Options override the ServerDef. An option that does not apply to a constructor is an
// INVALID_ARGUMENT error that names it.
type Option func(*options)

type options struct {
	job, protocol  *string
	task           *int
	config         *corepb.ConfigProto
	gpus           *int
	gpuOptions     *corepb.GPUOptions
	start          bool
	lease          time.Duration
	startup        time.Duration
	own            bool
	memoryLimit    int64
	data           string
	durable        []string
	dataLimit      int64
	compactionRate int64
	processMemory  int64
	stepMemory     int64
	sessionMemory  int64
	clientMemory   int64
	bind           string
	noLending      bool
	outsiders      bool
	actorLimit     int
	end            func(time.Duration)
	credentials    *access.Credentials
	secretFile     string
	policy         *access.PolicyFile
	tokens         *access.Tokens
	audit          *access.Audit
	files          actors.FileAccess
	kinds          node.Kinds
	functions      map[string]Function
	otherFunctions Function
	http           httpOptions
	traces         trace.TracerProvider
	network        network.Network // nil for the machine's own
	private        bool            // only this process reaches the network
	log            *slog.Logger
	ownLog         bool // log was set by WithLogger

	claim bool // the process joins a running cluster and claims the task

	localHost string // the host of a LocalCluster's tasks
	firstPort int
	together  *member.Together // with the other servers of a LocalCluster; else nil

	given []string // the names of the options
	err   error    // of the first invalid option
}

// option returns an Option that records its name.
func option(name string, set func(*options)) Option {
	return func(o *options) {
		o.given = append(o.given, name)
		set(o)
	}
}

// collect applies the options of a constructor. refused are those that do not apply to it, each with what to do
// instead.
func collect(constructor string, opts []Option, refused map[string]string) (*options, error) {
	o := &options{start: true, lease: DefaultLease, startup: DefaultStartup, log: slog.Default(), localHost: "127.0.0.1"}
	for _, opt := range opts {
		if opt == nil {
			return nil, status.InvalidArgumentf("An option of %s is nil", constructor)
		}
		opt(o)
	}
	for _, name := range o.given {
		if instead, is := refused[name]; is {
			return nil, status.InvalidArgumentf("%s does not apply to %s: %s", name, constructor, instead)
		}
	}
	return o, o.err
}

// WithJob sets the job that the server is a task of. It may be omitted if the cluster has one job.
func WithJob(name string) Option { return option("WithJob", func(o *options) { o.job = &name }) }

// WithTask sets the index of the server's task in its job. It may be omitted if the job has one task.
func WithTask(index int) Option { return option("WithTask", func(o *options) { o.task = &index }) }

// WithProtocol sets the protocol of the server. The only one is "grpc", the default.
func WithProtocol(name string) Option {
	return option("WithProtocol", func(o *options) { o.protocol = &name })
}

// WithConfig sets the configuration that sessions on the server inherit. It is merged into the ServerDef's own.
// device_count and gpu_options determine the server's devices; allow_soft_placement, log_device_placement,
// operation_timeout_in_ms and the compression of rpc_options apply unless the client asks for something else.
func WithConfig(config *corepb.ConfigProto) Option {
	return option("WithConfig", func(o *options) { o.config = config })
}

// WithGPUs limits the number of GPUs that the server uses; 0 means none. Without it, and if no device_count says
// otherwise, the server uses all GPUs that it finds. A build without CUDA finds none.
func WithGPUs(count int) Option { return option("WithGPUs", func(o *options) { o.gpus = &count }) }

// WithGPUOptions sets which GPUs the server uses, and how much of their memory. It is merged into the configuration's
// gpu_options. A field that cannot be honoured is an error that names it.
func WithGPUOptions(gpu *corepb.GPUOptions) Option {
	return option("WithGPUOptions", func(o *options) { o.gpuOptions = gpu })
}

// WithStart sets whether the server serves at once, as it does by default. With false it binds its port but does not
// serve until Start is called.
func WithStart(start bool) Option { return option("WithStart", func(o *options) { o.start = start }) }

// WithOwnResources sets the owner of resources, such as variables and queues, that ask for no device. With true, it is the task that the
// session was opened on, as with TensorFlow's servers. With false, the default, it is the whole cluster: clients of all tasks share these
// resources by name. A session's config may override this: see docs/clusters.md.
func WithOwnResources(own bool) Option {
	return option("WithOwnResources", func(o *options) { o.own = own })
}

// WithLease sets how long a session lives on after its client's last connection ended. If the client had made no call for half an hour by then, the session
// lives on for a week at least: gRPC's clients, such as TensorFlow's, close connections that they do not use. Where memory is short, it lives on for half a
// minute at most.
func WithLease(lease time.Duration) Option {
	return option("WithLease", func(o *options) { o.lease = lease })
}

// WithStartup sets how long after its start the server waits for tasks that have never been seen. The tasks of a cluster may start in any
// order: a step, a message to an actor or anything else that needs a task which has not come yet waits for it. A step's own timeout, or the
// caller's context, ends the wait sooner. After that time, and always for tasks that were lost, what needs them fails within seconds.
func WithStartup(d time.Duration) Option {
	return option("WithStartup", func(o *options) { o.startup = d })
}

// WithMemoryLimit limits the bytes that the tensors on each of the server's devices may take. 0 means no limit other
// than the machine's memory.
func WithMemoryLimit(bytes int64) Option {
	return option("WithMemoryLimit", func(o *options) { o.memoryLimit = bytes })
}

// WithDurable makes the containers (tf.container) whose names match a pattern durable: their resources, such as variables and queues,
// outlive the process, on disk below dir, in a directory for each task. In a pattern, * stands for any characters and ? for one; the empty
// pattern is the default container. A step is answered when its changes to durable resources are on disk; after a crash, all of its changes on a task are there or
// none. A pattern that ends in ":snapshot=30s" is for the weights of a training: the variables of these containers are written at that
// interval, as they were between two steps, and steps do not wait for it. docs/durability.md says what is promised.
func WithDurable(dir string, patterns ...string) Option {
	return option("WithDurable", func(o *options) { o.data, o.durable = dir, patterns })
}

// WithDataLimit limits the bytes of the files that keep the server's durable containers (WithDurable). What would make them larger fails with
// RESOURCE_EXHAUSTED before it changes anything; reads, and what removes something or replaces it by something no larger, go on. When there is
// room again, so do changes. 0, the default, means no limit other than the disk's.
func WithDataLimit(bytes int64) Option {
	return option("WithDataLimit", func(o *options) { o.dataLimit = bytes })
}

// WithCompactionRate limits how many bytes a second the server writes to rewrite files of durable containers without what is not there any
// more, so that this leaves the disk to steps. Steps never wait for it: if they would, there is no limit. 0, the default, means none.
func WithCompactionRate(bytesPerSecond int64) Option {
	return option("WithCompactionRate", func(o *options) { o.compactionRate = bytesPerSecond })
}

// LeastProcessMemory is the least limit of WithProcessMemory, in bytes: a server has about half of it in use before anybody uses it.
const LeastProcessMemory = 16 << 20

// WithProcessMemory limits the live bytes of the process: the tensors of all its servers, and everything else on its
// heap. An allocation that would exceed it fails with RESOURCE_EXHAUSTED before it is made. 0, the default, means four
// fifths of the memory that the process may use, which is the machine's or the limit of its control group. The least is
// LeastProcessMemory. All servers of the process share the limit: the last one made with a positive value sets it.
func WithProcessMemory(bytes int64) Option {
	return option("WithProcessMemory", func(o *options) { o.processMemory = bytes })
}

// WithStepMemory limits the bytes of host memory that a step may take on the server: tensors, and the working memory of
// kernels. Tensors that the step has assigned to a variable or enqueued count as long as they are alive. 0 means no
// limit other than the session's, the device's and the process's.
func WithStepMemory(bytes int64) Option {
	return option("WithStepMemory", func(o *options) { o.stepMemory = bytes })
}

// WithSessionMemory limits the bytes of host memory that a client's session may take on the server: its graph, its plans,
// its constants, its feeds, what its steps take, and what they leave in variables and queues, as long as that is alive. 0 means no limit
// other than the device's and the process's.
func WithSessionMemory(bytes int64) Option {
	return option("WithSessionMemory", func(o *options) { o.sessionMemory = bytes })
}

// WithClientMemory limits the bytes of host memory that all sessions of a client together may take on the server, and
// leave in variables and queues. Sessions belong to the same client if they present the same certificate or token, or
// else come from the same address. Clients on the loopback interface that present neither cannot be distinguished, and
// have no such limit. 0, the default, means three quarters of the process's memory.
func WithClientMemory(bytes int64) Option {
	return option("WithClientMemory", func(o *options) { o.clientMemory = bytes })
}

// check rejects invalid options, as far as they are known to be invalid before anything is opened or bound.
func (o *options) check(self spec.Task) error {
	if o.lease <= 0 {
		return status.InvalidArgumentf("A session's lease must be positive, not %v", o.lease)
	}
	return errors.Join(o.member(self).Check(), o.checkMemory(), o.checkHTTP(), remote.CheckDurable(o.data, o.durable), o.checkData())
}

// checkMemory rejects negative limits, and a limit of the process that no server can work with.
func (o *options) checkMemory() error {
	for _, l := range []struct {
		name  string
		bytes int64
	}{{"memory limit", o.memoryLimit}, {"process's memory limit", o.processMemory}, {"step's memory limit", o.stepMemory}, {"session's memory limit", o.sessionMemory}, {"client's memory limit", o.clientMemory}} {
		if l.bytes < 0 {
			return status.InvalidArgumentf("The %s is negative: %d", l.name, l.bytes)
		}
	}
	if o.processMemory > 0 && o.processMemory < LeastProcessMemory {
		return status.InvalidArgumentf("The process's memory limit is %d bytes, and a server needs at least %d", o.processMemory, LeastProcessMemory)
	}
	return nil
}

// checkData rejects limits of durable containers that cannot be, or without durable containers.
func (o *options) checkData() error {
	for _, l := range []struct {
		what   string
		number int64
	}{{"limit of the files of durable containers (--data-limit, WithDataLimit)", o.dataLimit}, {"rate of their compaction (--data-compaction-rate, WithCompactionRate)", o.compactionRate}} {
		switch {
		case l.number < 0:
			return status.InvalidArgumentf("The %s is negative: %d", l.what, l.number)
		case l.number > 0 && o.data == "":
			return status.InvalidArgumentf("The %s needs a directory for their data (--data; in Python, data=; in Go, WithDurable)", l.what)
		}
	}
	return nil
}

// member returns what the options say of the task as a member of its cluster, as far as that can be invalid.
func (o *options) member(self spec.Task) *member.Config {
	return &member.Config{Job: self.Job, Task: self.Index, Bind: o.bind, Startup: o.startup, ActorLimit: o.actorLimit, Credentials: o.credentials}
}

// WithBind sets the host:port to bind, for a server that others reach at its address in the cluster through a forwarded
// port. Without it the server binds that address.
func WithBind(address string) Option {
	return option("WithBind", func(o *options) { o.bind = address })
}

// WithLocalPorts sets the host that the tasks of a LocalCluster bind and the port of the first task. The other tasks
// have the ports that follow. 0 means free ports.
func WithLocalPorts(host string, first int) Option {
	return option("WithLocalPorts", func(o *options) { o.localHost, o.firstPort = host, first })
}

// WithLending turns shared memory on, which is the default, or off. With false, processes of one machine do not read
// large tensors out of each other's memory, and servers of one process do not share tensors. Tensors then go over the
// connection, as between machines.
func WithLending(lending bool) Option {
	return option("WithLending", func(o *options) { o.noLending = !lending })
}

// WithLogger sets the logger of the server and all of its parts. The default is slog.Default(), to which NewLocalServer and
// NewLocalCluster then log only warnings and errors.
func WithLogger(log *slog.Logger) Option {
	return option("WithLogger", func(o *options) {
		if log == nil && o.err == nil {
			o.err = status.InvalidArgumentf("WithLogger needs a logger: it is nil")
		}
		o.log, o.ownLog = log, true
	})
}

// WithTraces records OpenTelemetry spans of the steps whose master the server is, and of its parts of other masters' steps. Each run has a
// span. Below it are spans for building a plan, for each part on another task, and for the tensors that these parts and the master receive.
// A client's call carries its trace context in the headers traceparent and tracestate; for a session in the process, it is in the context.
// Within a trace, requests to the program's actors have spans, and so have the messages that they handle; what has no trace begins none.
// The program shuts the provider down after the server has stopped.
func WithTraces(provider trace.TracerProvider) Option {
	return option("WithTraces", func(o *options) { o.traces = provider })
}

// WithFiles restricts the ops that use files (checkpoints, readers, event files, tables from files), in all sessions,
// to the given folders of the server's machine and what is below them. Without it, clients on the loopback interface
// and the program itself may use all files that the process may use, and other clients none; see docs/files.md.
func WithFiles(folders ...string) Option {
	return option("WithFiles", func(o *options) { o.files.Folders = slices.Concat(o.files.Folders, folders) })
}

// WithInsecure with true gives everybody who can reach the server's port the rights that TensorFlow's server gives: the use of all files
// that the process may use, unless WithFiles restricts them.
func WithInsecure(insecure bool) Option {
	return option("WithInsecure", func(o *options) { o.files.Insecure = insecure })
}

// withTask returns a copy of the options for one task.
func (o *options) withTask(job string, task int) *options {
	c := *o
	c.job, c.task, c.given = &job, &task, slices.Clone(o.given)
	return &c
}

// WithDrainRequests allows authorized operators (troupe drain, the dashboard) to end the task. end is called for each request, and must not
// block. It makes the program call Server.Stop with a context that gives running steps the time within, or the program's own time if within
// is 0. Without the option such requests fail with FAILED_PRECONDITION.
func WithDrainRequests(end func(within time.Duration)) Option {
	return option("WithDrainRequests", func(o *options) { o.end = end })
}

// WithOutsiders with true allows processes outside the cluster that speak protoactor-go's remote protocol to exchange
// messages with the program's actors, in both directions: see docs/actors.md. Without it they are refused. They can
// reach nothing else. Any such process that can reach the port is accepted, so use it only on networks where that is
// acceptable.
func WithOutsiders(let bool) Option {
	return option("WithOutsiders", func(o *options) { o.outsiders = let })
}

// WithActorLimit limits the program's own actors on the server's task; 0, the default, means MaxActors. Half of them may be there because of one client:
// those that it has spawned, and virtual ones that its messages have begun. An idle actor takes less than 800 bytes, beside what the program keeps for it.
func WithActorLimit(actors int) Option {
	return option("WithActorLimit", func(o *options) { o.actorLimit = actors })
}

package troupe

import (
	"log/slog"
	"slices"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote"
	"github.com/troupe-run/troupe/remote/access"
	"go.opentelemetry.io/otel/trace"
)

// DefaultLease is how long a session lives on after its client's last connection ended, unless WithLease says
// otherwise.
const DefaultLease = remote.DefaultLease

// Option changes how a server is made. Options override what a ServerDef says. An option that does not apply to
// a constructor is an INVALID_ARGUMENT error that names it.
type Option func(*options)

type options struct {
	job, protocol *string
	task          *int
	config        *corepb.ConfigProto
	gpus          *int
	gpuOptions    *corepb.GPUOptions
	start         bool
	lease         time.Duration
	memoryLimit   int64
	processMemory int64
	stepMemory    int64
	sessionMemory int64
	clientMemory  int64
	bind          string
	noLending     bool
	outsiders     bool
	end           func(time.Duration)
	credentials   *access.Credentials
	secretFile    string
	policy        *access.PolicyFile
	tokens        *access.Tokens
	audit         *access.Audit
	files         actors.FileAccess
	actors        map[string]ActorMaker
	http          httpOptions
	traces        trace.TracerProvider
	log           *slog.Logger

	claim bool // the task was chosen as a free one

	localHost string // where the tasks of a LocalCluster are
	firstPort int

	given []string // the options' names
	err   error    // of the first option that cannot be
}

// option is an option that tells its name.
func option(name string, set func(*options)) Option {
	return func(o *options) {
		o.given = append(o.given, name)
		set(o)
	}
}

// collect reads the options of a constructor. refused are those that do not apply to it, each with what to do
// instead.
func collect(constructor string, opts []Option, refused map[string]string) (*options, error) {
	o := &options{start: true, lease: DefaultLease, log: slog.Default(), localHost: "127.0.0.1"}
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

// WithConfig sets what sessions on the server inherit; it is merged into the ServerDef's own configuration.
// device_count and gpu_options determine the server's devices; allow_soft_placement, log_device_placement,
// operation_timeout_in_ms and the compression of rpc_options apply unless the client asks for something else.
func WithConfig(config *corepb.ConfigProto) Option {
	return option("WithConfig", func(o *options) { o.config = config })
}

// WithGPUs limits the number of GPUs that the server uses; 0 means none. Without it, and if no device_count says
// otherwise, the server uses all GPUs that it finds. A build without CUDA finds none.
func WithGPUs(count int) Option { return option("WithGPUs", func(o *options) { o.gpus = &count }) }

// WithGPUOptions says which GPUs the server uses, and how much of their memory. It is merged into the
// configuration's gpu_options. A field that cannot be honoured is an error that names it.
func WithGPUOptions(gpu *corepb.GPUOptions) Option {
	return option("WithGPUOptions", func(o *options) { o.gpuOptions = gpu })
}

// WithStart tells whether the server serves at once, as it does by default. With false it has bound its port but
// does not serve until Start is called.
func WithStart(start bool) Option { return option("WithStart", func(o *options) { o.start = start }) }

// WithLease sets how long a session lives on after its client's last connection ended.
func WithLease(lease time.Duration) Option {
	return option("WithLease", func(o *options) { o.lease = lease })
}

// WithMemoryLimit limits the bytes that the tensors on each of the server's devices may take; 0 means no limit
// but the machine's memory.
func WithMemoryLimit(bytes int64) Option {
	return option("WithMemoryLimit", func(o *options) { o.memoryLimit = bytes })
}

// WithProcessMemory limits the bytes that may be alive in the process: the tensors of all its servers, and everything
// else on its heap. What does not fit fails with RESOURCE_EXHAUSTED before it is allocated. 0, the default, means four
// fifths of what the process may use, which is the machine's memory or the limit of its control group. The limit is the
// process's: the server that is made last sets it.
func WithProcessMemory(bytes int64) Option {
	return option("WithProcessMemory", func(o *options) { o.processMemory = bytes })
}

// WithStepMemory limits the bytes of host memory that a step may take on the server: tensors, and what kernels need
// beside them. What the step has assigned to a variable or enqueued counts as long as it is alive. 0 means no limit
// but the session's, the device's and the process's.
func WithStepMemory(bytes int64) Option {
	return option("WithStepMemory", func(o *options) { o.stepMemory = bytes })
}

// WithSessionMemory limits the bytes of host memory that a client's session may take on the server: its constants, what
// is fed to it, and what its steps take and leave in variables and queues, as long as that is alive. 0 means no limit
// but the device's and the process's.
func WithSessionMemory(bytes int64) Option {
	return option("WithSessionMemory", func(o *options) { o.sessionMemory = bytes })
}

// WithClientMemory limits the bytes of host memory that all sessions of a client may take on the server together, and
// what they leave in variables and queues. A client is who shows the same certificate or token, or else comes from the
// same address; those on the loopback interface that show neither are not told apart, and have no such limit. 0, the
// default, means three quarters of the process's memory.
func WithClientMemory(bytes int64) Option {
	return option("WithClientMemory", func(o *options) { o.clientMemory = bytes })
}

// checkMemory refuses limits that cannot be.
func (o *options) checkMemory() error {
	for _, l := range []struct {
		name  string
		bytes int64
	}{{"memory limit", o.memoryLimit}, {"process's memory limit", o.processMemory}, {"step's memory limit", o.stepMemory}, {"session's memory limit", o.sessionMemory}, {"client's memory limit", o.clientMemory}} {
		if l.bytes < 0 {
			return status.InvalidArgumentf("The %s is negative: %d", l.name, l.bytes)
		}
	}
	return nil
}

// WithBind sets the host:port to bind, for a server that others reach at its address of the cluster through a
// forwarded port. Without it the server binds that address.
func WithBind(address string) Option {
	return option("WithBind", func(o *options) { o.bind = address })
}

// WithLocalPorts sets the host that the tasks of a LocalCluster bind and the port of the first task, which the
// ports of the others follow; 0 means free ports.
func WithLocalPorts(host string, first int) Option {
	return option("WithLocalPorts", func(o *options) { o.localHost, o.firstPort = host, first })
}

// WithLending turns shared memory on, as it is by default, or off: with false, processes of one machine do not read
// large tensors out of each other's memory, and servers of one process do not share tensors. Tensors then take the
// connection, as between machines.
func WithLending(lending bool) Option {
	return option("WithLending", func(o *options) { o.noLending = !lending })
}

// WithLogger sets the logger of the server and all of its parts; slog.Default() is the default.
func WithLogger(log *slog.Logger) Option {
	return option("WithLogger", func(o *options) {
		if log == nil && o.err == nil {
			o.err = status.InvalidArgumentf("WithLogger needs a logger: it is nil")
		}
		o.log = log
	})
}

// WithTraces tells OpenTelemetry of the steps whose master the server is, and of its parts of others': a span for each run, and below it
// for building a plan, for each part on another task and for the tensors that these and the master receive. A client's call brings the
// context of its trace in the headers traceparent and tracestate; of a session in the process, it is in the context. The program shuts the provider down after the server has stopped.
func WithTraces(provider trace.TracerProvider) Option {
	return option("WithTraces", func(o *options) { o.traces = provider })
}

// WithFiles confines the ops of all sessions that use files (checkpoints, readers, event files, tables from files) to
// what lies below some folders of the server's machine. Without it, clients that come over the loopback interface, and
// the program itself, may use all files that the process may, and other clients none; see docs/files.md.
func WithFiles(folders ...string) Option {
	return option("WithFiles", func(o *options) { o.files.Folders = slices.Concat(o.files.Folders, folders) })
}

// WithInsecure with true gives everybody who reaches the server's port all that TensorFlow's server allows: the use of all
// files that the process may use, unless WithFiles confines them.
func WithInsecure(insecure bool) Option {
	return option("WithInsecure", func(o *options) { o.files.Insecure = insecure })
}

// withTask is a copy of the options for one task.
func (o *options) withTask(job string, task int) *options {
	c := *o
	c.job, c.task, c.given = &job, &task, slices.Clone(o.given)
	return &c
}

// WithDrainRequests lets operators who may (troupe drain, the dashboard) have the task end. end is called for each request, and must not block: it has
// the program call Server.Stop with a context of that time for running steps, or with the program's own where within is 0. Without the option such
// requests are FAILED_PRECONDITION.
func WithDrainRequests(end func(within time.Duration)) Option {
	return option("WithDrainRequests", func(o *options) { o.end = end })
}

// WithOutsiders with true lets processes that are no tasks of the cluster, but speak the remote protocol of
// protoactor-go, exchange messages with the program's actors, and these with theirs: see docs/actors.md. Without it
// they are turned away. They reach nothing else. Whoever reaches the port is let in, so give it to servers on
// networks of which that holds.
func WithOutsiders(let bool) Option {
	return option("WithOutsiders", func(o *options) { o.outsiders = let })
}

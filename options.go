package troupe

import (
	"log/slog"
	"slices"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote"
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
	bind          string
	noLending     bool
	outsiders     bool
	actors        map[string]ActorMaker
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

// withTask is a copy of the options for one task.
func (o *options) withTask(job string, task int) *options {
	c := *o
	c.job, c.task, c.given = &job, &task, slices.Clone(o.given)
	return &c
}

// WithOutsiders with true lets processes that are no tasks of the cluster, but speak the remote protocol of
// protoactor-go, exchange messages with the program's actors, and these with theirs: see docs/actors.md. Without it
// they are turned away. They reach nothing else. Whoever reaches the port is let in, so give it to servers on
// networks of which that holds.
func WithOutsiders(let bool) Option {
	return option("WithOutsiders", func(o *options) { o.outsiders = let })
}

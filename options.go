package troupe

import (
	"log/slog"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/remote"
)

// DefaultLease is how long a session lives on after its client's last connection ended, where
// WithLease says nothing else.
const DefaultLease = remote.DefaultLease

// Option changes how a server is made. What an option says holds over what a ServerDef says.
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
}

func defaults() options {
	return options{start: true, lease: DefaultLease, log: slog.Default(), localHost: "127.0.0.1"}
}

// WithJob says which job the server is a task of. It may be left out where the cluster has one job.
func WithJob(name string) Option { return func(o *options) { o.job = &name } }

// WithTask says which task of its job the server is. It may be left out where the job has one task.
func WithTask(index int) Option { return func(o *options) { o.task = &index } }

// WithProtocol says how the server speaks: "grpc", the default. Any other is refused.
func WithProtocol(name string) Option { return func(o *options) { o.protocol = &name } }

// WithConfig gives what sessions on the server inherit; it is merged into the ServerDef's own.
// device_count and gpu_options make the server's devices, allow_soft_placement, log_device_placement,
// operation_timeout_in_ms and rpc_options' compression hold where the client asks for nothing else.
func WithConfig(config *corepb.ConfigProto) Option { return func(o *options) { o.config = config } }

// WithGPUs bounds the GPUs that the server uses: 0 for none. Without it, and where no device_count says
// otherwise, it uses all that it finds; a build without CUDA finds none.
func WithGPUs(count int) Option { return func(o *options) { o.gpus = &count } }

// WithGPUOptions says how the server uses GPUs: which, and how much of their memory. It is merged into the
// config's gpu_options. Options that cannot be had are errors that name the field.
func WithGPUOptions(gpu *corepb.GPUOptions) Option { return func(o *options) { o.gpuOptions = gpu } }

// WithStart(false) makes a server whose port is bound but that does not serve before Start.
func WithStart(start bool) Option { return func(o *options) { o.start = start } }

// WithLease sets how long a session lives on after its client's last connection ended.
func WithLease(lease time.Duration) Option { return func(o *options) { o.lease = lease } }

// WithMemoryLimit bounds the bytes that the tensors on each of the server's devices may take; 0 is
// what the machine has.
func WithMemoryLimit(bytes int64) Option { return func(o *options) { o.memoryLimit = bytes } }

// WithBind gives the host:port to bind, for a server that is reached at its address of the cluster
// through a forwarded port. Without it the server binds that address.
func WithBind(address string) Option { return func(o *options) { o.bind = address } }

// WithLocalPorts says where the tasks of a LocalCluster are: the address that they bind, and the port of the first, which
// the others follow; 0 for free ones.
func WithLocalPorts(host string, first int) Option {
	return func(o *options) { o.localHost, o.firstPort = host, first }
}

// WithLending(false) keeps processes of the same machine from reading large tensors out of this one's
// memory, and this one from reading theirs, and servers of one process from sharing tensors: they go
// over the connection, as between machines.
func WithLending(lending bool) Option { return func(o *options) { o.noLending = !lending } }

// WithOutsiders(true) lets processes that are no tasks of the cluster, but speak the remote protocol of
// protoactor-go, exchange messages with the program's actors, and these with theirs: see docs/actors.md. Without it
// they are turned away. They reach nothing else. Whoever reaches the port is let in, so give it to servers on
// networks of which that holds.
func WithOutsiders(let bool) Option { return func(o *options) { o.outsiders = let } }

// WithLogger says where the server logs; slog.Default() is the default.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

package gpu

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

var sprintf = fmt.Sprintf

// Options say what a device is made of.
type Options struct {
	// Card is the card, and Index its number among those that the process may use, for the description.
	Card  Card
	Index int
	// Name is the device's full name, Job the name of its default container, and System where its
	// containers are actors; nil for containers that are plain maps.
	Name, Job string
	System    *actor.ActorSystem
	// Host is where its tensors in host memory come from: the pool of the task's CPU.
	Host *tensor.Pool
	// MemoryLimit is the most bytes that its tensors may take of the card. Where it is 0, MemoryFraction is that part of
	// the card's memory. Where both are 0, it is all that is free on the card when the device is opened, but for what
	// TensorFlow leaves to the system.
	MemoryLimit    int64
	MemoryFraction float64
	// AllowGrowth takes memory from the card as it is needed. Otherwise the first tensor takes all.
	AllowGrowth bool
	// HostLimit bounds the pinned host memory for copies from and to the card; 0 for an eighth of the pool's
	// limit and at most 4 GiB. Beyond it copies are slower.
	HostLimit int64
	// rest is the time between two tries to start a device anew, and grace what the card gets to do the work of steps that
	// were cancelled, and of a device that ends; 0 for the usual times.
	rest, grace time.Duration
	// Log is told of the loss of the device and of what could not be given back; nil is the default log.
	Log *slog.Logger
}

// Device is one card, or a part of its memory, as a device of a task. It is safe for concurrent use.
//
// What is given to it runs in the order of giving: see kernels.Accelerator. It may be lost, when the card or a
// kernel fails in a way that breaks the driver's context. Then all steps with work on it fail with UNAVAILABLE,
// its variables are gone, and it is started anew, with another incarnation.
type Device struct {
	*core
	name      string // as the device is called here; core.name is its first name
	resources *containers.Manager
	host      *tensor.Pool // its tensors in host memory
}

var (
	_ devices.Device      = (*Device)(nil)
	_ devices.Landing     = (*Device)(nil)
	_ kernels.Accelerator = (*Device)(nil)
)

// core is what a device and its views by isolated sessions share.
type core struct {
	opts          Options
	name          string
	info          Info
	limit         int64 // bytes of memory
	queue         *queue
	life          atomic.Pointer[life]
	ended         chan struct{} // the device's threads have ended
	waiterThreads sync.WaitGroup
	waits         struct{ compute, in, out, peers *waiter }

	mu       sync.Mutex
	works    map[*kernels.Step]*work
	managers []weak.Pointer[containers.Manager]
	tried    time.Time // when starting anew was tried last
	waking   bool      // a timer wakes the thread when it is time to try again
	closing  error     // what giving back failed with

	notices notices
	closed  atomic.Bool
	seen    atomic.Uint64 // what was given at the last Trim
}

// Open starts a device on a card. The error names the card.
func Open(o Options) (*Device, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	d := &core{opts: o, name: o.Name, info: o.Card.Info(), queue: newQueue(), ended: make(chan struct{}), works: map[*kernels.Step]*work{}}
	if o.rest == 0 {
		d.opts.rest = retryAfter
	}
	if o.grace == 0 {
		d.opts.grace = patience
	}
	started := make(chan error, 1)
	go d.run(started)
	if err := <-started; err != nil {
		return nil, status.Errorf(status.Unavailable, "%s cannot be used as %s: %v", d.info.Name, o.Name, err)
	}
	dev := &Device{core: d, name: o.Name, resources: containers.NewManager(o.System, o.Name, o.Job), host: o.Host}
	d.keep(dev.resources)
	return dev, nil
}

// keep remembers a manager of containers, which a loss empties.
func (d *core) keep(m *containers.Manager) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.managers) == cap(d.managers) { // before it grows, since sessions come and go
		d.managers = slices.DeleteFunc(d.managers, func(w weak.Pointer[containers.Manager]) bool { return w.Value() == nil })
	}
	d.managers = append(d.managers, weak.Make(m))
}

// WithResources is the same device with containers of its own.
func (d *Device) WithResources(r *containers.Manager) devices.Device {
	d.keep(r)
	return &Device{core: d.core, name: d.name, resources: r, host: d.host}
}

// Renamed is the same device under another full name.
func (d *Device) Renamed(name string) devices.Device {
	return &Device{core: d.core, name: name, resources: d.resources, host: d.host}
}

// Within is the same device, whose tensors in host memory count against a quota.
func (d *Device) Within(q *tensor.Quota) devices.Device {
	return &Device{core: d.core, name: d.name, resources: d.resources, host: d.host.Under(q)}
}

// Name is the full device name.
func (d *Device) Name() string { return d.name }

// Type is GPU.
func (d *core) Type() string { return "GPU" }

// Incarnation is a random number of the device's start, never 0. It changes when the device is started anew.
func (d *core) Incarnation() uint64 { return d.life.Load().number }

// MemoryLimit is the most bytes that tensors on the device may take.
func (d *core) MemoryLimit() int64 { return d.limit }

// Description is what TensorFlow's physical_device_desc says.
func (d *core) Description() string {
	return fmt.Sprintf("device: %d, name: %s, pci bus id: %s, compute capability: %d.%d", d.opts.Index, d.info.Name, d.info.PCI, d.info.Compute/10, d.info.Compute%10)
}

// Card describes the card for the choice of functions and sizes.
func (d *core) Card() kernels.Card {
	return kernels.Card{Compute: d.info.Compute, Processors: d.info.Processors, SharedMemory: d.info.SharedMemory}
}

// Pool is where the device's tensors in host memory come from.
func (d *Device) Pool() *tensor.Pool { return d.host }

// Memory is the card's memory, as long as the device is not lost.
func (d *core) Memory() tensor.Memory { return d.life.Load().memory }

// Resources are the device's containers.
func (d *Device) Resources() *containers.Manager { return d.resources }

// Parallel spreads a loop over the process's workers.
func (d *core) Parallel(n, grain int, body func(lo, hi int)) { devices.Parallel(n, grain, body) }

// Close ends the device: what was given and has not begun fails with CANCELLED, and what runs on the card is
// waited for, for a bounded time. Tensors that are still in its memory are lost.
func (d *core) Close() error {
	d.closed.Store(true)
	d.queue.close()
	<-d.ended
	return d.closing
}

package gpu

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/live"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/kernels"
)

var sprintf = fmt.Sprintf

// Options configure a device.
type Options struct {
	// Card is the card, and Index its number among the cards available to the process, for the description.
	Card  Card
	Index int
	// Name is the device's full name, Job the name of its default container, and System the actor system of its containers; if System is
	// nil, they are plain maps.
	Name, Job string
	System    *actor.ActorSystem
	// Host is the memory for its tensors in host memory: the pool of the task's CPU.
	Host *tensor.Pool
	// MemoryLimit is the maximum number of bytes of its tensors on the card. If it is 0, MemoryFraction is the fraction of the card's
	// memory to use. If both are 0, the limit is all memory that is free on the card when the device is opened, minus what TensorFlow
	// leaves to the system.
	MemoryLimit    int64
	MemoryFraction float64
	// AllowGrowth allocates memory on the card as needed. Otherwise the first tensor allocates all.
	AllowGrowth bool
	// HostLimit bounds the pinned host memory for copies to and from the card; 0 means an eighth of the pool's limit, at most 4 GiB. Beyond
	// the limit, copies are slower.
	HostLimit int64
	// rest is the time between two attempts to restart a device. grace is the time for the card to finish the work of cancelled steps, and
	// of a device that ends. 0 means the defaults.
	rest, grace time.Duration
	// Log receives the loss of the device and failures to release resources; nil means the default logger.
	Log *slog.Logger
}

// Device is a card, or a part of its memory, as a device of a task. It is safe for concurrent use.
//
// Work runs in the order in which it was given: see kernels.Accelerator. A device is lost if the card or a kernel fails in a way that
// breaks the driver's context. Then all steps with work on it fail with UNAVAILABLE, its variables are gone, and it is restarted with
// another incarnation.
type Device struct {
	*core
	name      string // the device's name in this view; core.name is its first name
	resources *containers.Manager
	host      *tensor.Pool // its tensors in host memory
	rights    *rights.Session
}

var (
	_ devices.Device      = (*Device)(nil)
	_ devices.Landing     = (*Device)(nil)
	_ kernels.Accelerator = (*Device)(nil)
)

// core is shared by a device and its views for sessions.
type core struct {
	opts          Options
	name          string
	info          Info
	limit         int64 // bytes of memory
	queue         *queue
	life          atomic.Pointer[life]
	ended         chan struct{} // closed when the device's threads have ended
	waiterThreads sync.WaitGroup
	managers      live.List[containers.Manager] // which a loss empties
	waits         struct{ compute, in, out, peers *waiter }

	mu      sync.Mutex
	works   map[*kernels.Step]*work
	tried   time.Time // time of the last attempt to restart
	waking  bool      // a timer will wake the thread for the next attempt
	closing error     // error of the final release

	notices notices
	closed  atomic.Bool
	seen    atomic.Uint64 // value of queue.given at the last Trim
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
	d.managers.Add(dev.resources)
	return dev, nil
}

// RefuseDurable makes the device refuse resources in the containers that lasting selects: what is in a GPU's memory cannot be kept. It must be
// called before the device is used.
func (d *Device) RefuseDurable(lasting containers.Lasting) {
	d.resources.Keep(nil, lasting)
}

// WithResources returns the same device with its own containers.
func (d *Device) WithResources(r *containers.Manager) devices.Device {
	d.managers.Add(r)
	c := *d
	c.resources = r
	return &c
}

// Renamed returns the same device under another full name.
func (d *Device) Renamed(name string) devices.Device {
	c := *d
	c.name = name
	return &c
}

// Within returns the same device, with its tensors in host memory also counted against a quota.
func (d *Device) Within(q *tensor.Quota) devices.Device {
	c := *d
	c.host = d.host.Under(q)
	return &c
}

// For returns the same device for a session with the given rights.
func (d *Device) For(r *rights.Session) devices.Device {
	c := *d
	c.rights, c.resources = r, d.resources.For(r)
	return &c
}

// Rights returns the rights of the device's session.
func (d *Device) Rights() *rights.Session { return d.rights }

// Name returns the full device name.
func (d *Device) Name() string { return d.name }

// Type returns "GPU".
func (d *core) Type() string { return "GPU" }

// Incarnation returns a random number that identifies the device's start, never 0. It changes when the device is restarted.
func (d *core) Incarnation() uint64 { return d.life.Load().number }

// MemoryLimit returns the maximum number of bytes of tensors on the device.
func (d *core) MemoryLimit() int64 { return d.limit }

// Description returns the text of TensorFlow's physical_device_desc.
func (d *core) Description() string {
	return fmt.Sprintf("device: %d, name: %s, pci bus id: %s, compute capability: %d.%d", d.opts.Index, d.info.Name, d.info.PCI, d.info.Compute/10, d.info.Compute%10)
}

// Card describes the card, for choosing functions and sizes.
func (d *core) Card() kernels.Card {
	return kernels.Card{Compute: d.info.Compute, Processors: d.info.Processors, SharedMemory: d.info.SharedMemory}
}

// Pool returns the memory for the device's tensors in host memory.
func (d *Device) Pool() *tensor.Pool { return d.host }

// Memory returns the card's memory. It is valid until the device is lost.
func (d *core) Memory() tensor.Memory { return d.life.Load().memory }

// Resources returns the device's containers.
func (d *Device) Resources() *containers.Manager { return d.resources }

// Parallel divides a loop between the process's workers.
func (d *core) Parallel(n, grain int, body func(lo, hi int)) { devices.Parallel(n, grain, body) }

// Close ends the device. Work that has not begun fails with CANCELLED; Close waits for work that runs on the card, for a bounded time.
// Tensors that are still in its memory are lost.
func (d *core) Close() error {
	d.closed.Store(true)
	d.queue.close()
	<-d.ended
	return d.closing
}

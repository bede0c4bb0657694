package devices

import (
	"math"
	"math/rand/v2"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Device is a device of a task, as the task sees it. The first device of a task is its CPU:0, whose memory
// is the host's. It is safe for concurrent use.
type Device interface {
	kernels.Device
	// Incarnation is a random number of this start of the device, never 0. It changes while the process lives
	// where a device was lost and started anew: what lay in its memory is gone then and its containers, those
	// of WithResources too, are empty, and what was made for the former start fails.
	Incarnation() uint64
	// MemoryLimit is the most bytes that tensors on the device may take; 0 where nothing bounds them.
	MemoryLimit() int64
	// Description is what people want to know of the hardware, in TensorFlow's words; empty for a CPU.
	Description() string
	// WithResources is the same device with containers of its own: what a session with isolated
	// state runs on. It shares all else with the device, and is not closed.
	WithResources(r *containers.Manager) Device
	// Renamed is the same device under another full name, with the same containers: what a session runs on
	// whose client declares the cluster. It is not closed.
	Renamed(name string) Device
	// Within is the same device, whose tensors in host memory count against a quota, too: what a session with a limit
	// of its own runs on. It is not closed.
	Within(q *tensor.Quota) Device
	// MemoryStats counts the tensors in the device's memory, in bytes.
	MemoryStats() tensor.Stats
	// Trim releases memory that was idle since the last Trim, and tells the bytes.
	Trim() int64
	// Close gives up what the device holds, after its containers are closed. Nothing runs on it any more.
	Close() error
}

// Losable is a device that may be lost while the process lives, such as a GPU, and that starts itself anew.
type Losable interface {
	Device
	// Watch has w told of the device's present state before it returns, and of all changes until stop is called.
	Watch(w Watcher) (stop func())
	// Revive tells a device that is lost and could not be started anew that it is wanted: it tries again, if it is time
	// to. It does not wait for that.
	Revive()
}

// Landing is a device that takes up tensors from the network faster if they are received into memory that it gives.
type Landing interface {
	// Land gives a tensor in host memory, with undefined content, for elements that will be uploaded to the device.
	// It is ordinary memory where there is no room in that which the device prefers, and may be called at any time.
	Land(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error)
}

// Watcher is told of the losses and starts of a device, in order and one at a time, on any goroutine. It must not wait
// for the device.
type Watcher interface {
	// DeviceStarted tells that the device serves, with empty memory and empty containers.
	DeviceStarted(incarnation uint64)
	// DeviceLost tells that the device is out of service until DeviceStarted: all work on it fails with why. It is called
	// again where the reason changes.
	DeviceLost(why error)
}

// CPU is a processor device of a task: memory of the process, the process's workers, and the
// containers that live on it. It is safe for concurrent use.
type CPU struct {
	name        string
	incarnation uint64
	memoryLimit int64
	threads     int // that a kernel is divided between at most
	pool        *tensor.Pool
	resources   *containers.Manager
}

var _ Device = (*CPU)(nil)

// NewCPU makes the device called name (a full device name). memoryLimit bounds the bytes of its
// tensors, 0 for no bound but the machine's. job is the name of its default container. With a nil system the
// containers are plain maps.
func NewCPU(system *actor.ActorSystem, name, job string, memoryLimit int64) *CPU {
	if memoryLimit == 0 {
		memoryLimit = tensor.MachineMemory()
	}
	return &CPU{
		name:        name,
		incarnation: rand.Uint64() | 1,
		memoryLimit: memoryLimit,
		threads:     math.MaxInt,
		pool:        tensor.NewPool("cpu on "+name, memoryLimit).WithRoom(tensor.AvailableMemory),
		resources:   containers.NewManager(system, name, job),
	}
}

// WithThreads makes the device divide kernels between n processors at most, 0 for all. It is for a device that nobody uses yet.
func (d *CPU) WithThreads(n int) *CPU {
	if n > 0 {
		d.threads = n
	}
	return d
}

// WithResources shares memory accounting and incarnation with d.
func (d *CPU) WithResources(r *containers.Manager) Device {
	c := *d
	c.resources = r
	return &c
}

// Renamed shares everything else with d.
func (d *CPU) Renamed(name string) Device {
	c := *d
	c.name = name
	return &c
}

// Within shares everything else with d.
func (d *CPU) Within(q *tensor.Quota) Device {
	c := *d
	c.pool = d.pool.Under(q)
	return &c
}

// Name is the full device name.
func (d *CPU) Name() string { return d.name }

// Type is CPU.
func (d *CPU) Type() string { return "CPU" }

// Incarnation is a random number of the device's start, never 0. It does not change.
func (d *CPU) Incarnation() uint64 { return d.incarnation }

// MemoryLimit is the most bytes that tensors on the device may take; 0 where nothing bounds them.
func (d *CPU) MemoryLimit() int64 { return d.memoryLimit }

// Description is empty.
func (d *CPU) Description() string { return "" }

// MemoryStats are those of the pool.
func (d *CPU) MemoryStats() tensor.Stats { return d.pool.Stats() }

// Trim releases idle memory of the pool to the Go runtime.
func (d *CPU) Trim() int64 { return d.pool.Trim() }

// Close does nothing: the memory is the process's.
func (d *CPU) Close() error { return nil }

// Pool is where the device's tensors come from.
func (d *CPU) Pool() *tensor.Pool { return d.pool }

// Memory is the pool: host memory.
func (d *CPU) Memory() tensor.Memory { return d.pool }

// Resources are the device's containers.
func (d *CPU) Resources() *containers.Manager { return d.resources }

// Parallel spreads a loop over the process's workers.
func (d *CPU) Parallel(n, grain int, body func(lo, hi int)) { parallel(d.threads, n, grain, body) }

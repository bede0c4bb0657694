package devices

import (
	"math"
	"math/rand/v2"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/restore"
)

// Device is a device of a task, as the task sees it. The first device of a task is its CPU:0, which uses host memory. A Device is safe for
// concurrent use.
type Device interface {
	kernels.Device
	// Incarnation is a random number that identifies this start of the device, never 0. It changes within a process if the device was lost
	// and restarted: the contents of its memory are then gone, its containers, including those of WithResources, are empty, and programs
	// made for the earlier start fail.
	Incarnation() uint64
	// MemoryLimit returns the maximum number of bytes of tensors on the device, or 0 if there is no limit.
	MemoryLimit() int64
	// Description describes the hardware for people, in TensorFlow's words; empty for a CPU.
	Description() string
	// WithResources returns the same device with its own containers, for a session with isolated state. It shares everything else with the
	// device, and is not closed.
	WithResources(r *containers.Manager) Device
	// Renamed returns the same device under another full name, with the same containers, for a session whose client declares the cluster.
	// It is not closed.
	Renamed(name string) Device
	// Within returns the same device, with its tensors in host memory also counted against a quota, for a session with its own limit. It is
	// not closed.
	Within(q *tensor.Quota) Device
	// For returns the same device for a session with the given rights. Its kernels can reach only the containers that the rights allow. It
	// is not closed.
	For(r *rights.Session) Device
	// MemoryStats counts the tensors in the device's memory, in bytes.
	MemoryStats() tensor.Stats
	// Trim releases memory that has been idle since the last Trim, and returns the number of bytes.
	Trim() int64
	// Close releases what the device holds. Its containers are closed before; nothing may run on it any more.
	Close() error
}

// AttributesOf returns the present attributes of a device of this process.
func AttributesOf(d Device) device.Attributes {
	return device.Attributes{Name: d.Name(), Type: d.Type(), MemoryLimit: d.MemoryLimit(), Incarnation: d.Incarnation(),
		Description: d.Description(), Functions: programOf(d), Local: true}
}

// programOf says whether a program with functions owns the server of a device.
func programOf(d Device) device.Functions {
	if kernels.ProgramOf(d) == nil {
		return device.NoFunctions
	}
	return device.HasFunctions
}

// Losable is a device that may be lost during the life of the process, such as a GPU, and that restarts itself.
type Losable interface {
	Device
	// Watch notifies w of the device's present state before it returns, and of all changes until stop is called.
	Watch(w Watcher) (stop func())
	// Revive asks a lost device that could not be restarted to try again, if a retry is due. It does not wait.
	Revive()
}

// Landing is a device that uploads tensors from the network faster if they are received into memory that it allocates.
type Landing interface {
	// Land returns a tensor in host memory, with undefined content, for elements to be uploaded to the device. If the memory that the
	// device prefers is full, it uses ordinary memory. Land may be called at any time.
	Land(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error)
}

// Watcher is notified of the losses and starts of a device, in order and one at a time, on any goroutine. It must not wait for the device.
type Watcher interface {
	// DeviceStarted reports that the device serves, with empty memory and empty containers.
	DeviceStarted(incarnation uint64)
	// DeviceLost reports that the device is out of service until DeviceStarted: all work on it fails with why. It is called again if the
	// reason changes.
	DeviceLost(why error)
}

// CPU is a processor device of a task: memory of the process, the process's workers, and the device's containers. It is safe for concurrent
// use.
type CPU struct {
	name        string
	incarnation uint64
	memoryLimit int64
	threads     int // the most that a kernel is divided between
	pool        *tensor.Pool
	resources   *containers.Manager
	program     kernels.Program // nil if no program owns the server
	rights      *rights.Session
}

var _ Device = (*CPU)(nil)

// NewCPU makes the device called name (a full device name). memoryLimit bounds the bytes of its tensors; 0 means the machine's memory. job
// is the name of its default container. If system is nil, the containers are plain maps.
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

// WithThreads makes the device divide kernels between at most n processors; 0 means all. It must be called before the device is used.
func (d *CPU) WithThreads(n int) *CPU {
	if n > 0 {
		d.threads = n
	}
	return d
}

// WithProgram allows graphs on the device to call functions of the program that owns the server. It must be called before the device is
// used.
func (d *CPU) WithProgram(p kernels.Program) *CPU {
	d.program = p
	return d
}

// Keep makes the device's containers durable that lasting selects; see containers.Manager.Keep. It must be called before the device is used.
func (d *CPU) Keep(pictures *containers.Pictures, lasting containers.Lasting) {
	d.resources.Keep(pictures, lasting)
}

// Restore brings back a resource that a store has kept. It must be called before the device is used.
func (d *CPU) Restore(cell *durable.Cell, at durable.Place, about []byte) error {
	return restore.Resource(d.resources, d.pool, cell, at, about)
}

// Program returns the program that owns the server, or nil.
func (d *CPU) Program() kernels.Program { return d.program }

// WithResources returns a device that shares memory accounting and incarnation with d.
func (d *CPU) WithResources(r *containers.Manager) Device {
	c := *d
	c.resources = r
	return &c
}

// Renamed returns a device that shares everything else with d.
func (d *CPU) Renamed(name string) Device {
	c := *d
	c.name = name
	return &c
}

// Within returns a device that shares everything else with d.
func (d *CPU) Within(q *tensor.Quota) Device {
	c := *d
	c.pool = d.pool.Under(q)
	return &c
}

// For returns a device that shares everything else with d.
func (d *CPU) For(r *rights.Session) Device {
	c := *d
	c.rights, c.resources = r, d.resources.For(r)
	return &c
}

// Rights returns the rights of the device's session.
func (d *CPU) Rights() *rights.Session { return d.rights }

// Name returns the full device name.
func (d *CPU) Name() string { return d.name }

// Type returns "CPU".
func (d *CPU) Type() string { return "CPU" }

// Incarnation returns a random number that identifies the device's start, never 0. It does not change.
func (d *CPU) Incarnation() uint64 { return d.incarnation }

// MemoryLimit returns the maximum number of bytes of tensors on the device, or 0 if there is no limit.
func (d *CPU) MemoryLimit() int64 { return d.memoryLimit }

// Description returns an empty string.
func (d *CPU) Description() string { return "" }

// MemoryStats returns the pool's counters.
func (d *CPU) MemoryStats() tensor.Stats { return d.pool.Stats() }

// Trim releases idle memory of the pool to the Go runtime.
func (d *CPU) Trim() int64 { return d.pool.Trim() }

// Close does nothing: the memory belongs to the process.
func (d *CPU) Close() error { return nil }

// Pool returns the memory for the device's tensors.
func (d *CPU) Pool() *tensor.Pool { return d.pool }

// Memory returns the pool: host memory.
func (d *CPU) Memory() tensor.Memory { return d.pool }

// Resources returns the device's containers.
func (d *CPU) Resources() *containers.Manager { return d.resources }

// Parallel divides a loop between the process's workers.
func (d *CPU) Parallel(n, grain int, body func(lo, hi int)) { parallel(d.threads, n, grain, body) }

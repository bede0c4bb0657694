package devices

import (
	"math/rand/v2"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// CPU is a processor device of a task: memory of the process, the process's workers, and the
// containers that live on it. It is safe for concurrent use.
type CPU struct {
	name        string
	incarnation uint64
	memoryLimit int64
	pool        *tensor.Pool
	resources   *containers.Manager
}

var _ kernels.Device = (*CPU)(nil)

// NewCPU makes the device called name (a full device name). memoryLimit bounds the bytes of its
// tensors, 0 for no bound but the machine's. job is the name of its default container. With a nil system the
// containers are plain maps.
func NewCPU(system *actor.ActorSystem, name, job string, memoryLimit int64) *CPU {
	if memoryLimit == 0 {
		memoryLimit = machineMemory()
	}
	return &CPU{
		name:        name,
		incarnation: rand.Uint64() | 1,
		memoryLimit: memoryLimit,
		pool:        tensor.NewPool("cpu on "+name, memoryLimit).WithRoom(availableMemory),
		resources:   containers.NewManager(system, name, job),
	}
}

// WithResources is the same device with containers of its own: what a session with isolated
// state runs on. It shares memory accounting and incarnation with d.
func (d *CPU) WithResources(r *containers.Manager) *CPU {
	c := *d
	c.resources = r
	return &c
}

// Name is the full device name.
func (d *CPU) Name() string { return d.name }

// Type is CPU.
func (d *CPU) Type() string { return "CPU" }

// Incarnation is a random number of this start of the device, never 0.
func (d *CPU) Incarnation() uint64 { return d.incarnation }

// MemoryLimit is the most bytes that tensors on the device may take; 0 where nothing bounds them.
func (d *CPU) MemoryLimit() int64 { return d.memoryLimit }

// Pool is where the device's tensors come from.
func (d *CPU) Pool() *tensor.Pool { return d.pool }

// Memory is the pool: host memory.
func (d *CPU) Memory() tensor.Memory { return d.pool }

// Resources are the device's containers.
func (d *CPU) Resources() *containers.Manager { return d.resources }

// Parallel spreads a loop over the process's workers.
func (d *CPU) Parallel(n, grain int, body func(lo, hi int)) { parallel(n, grain, body) }

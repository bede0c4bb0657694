package actors

import (
	"context"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// DeviceInfo describes a device of a task.
type DeviceInfo struct {
	// Name is the full name, such as /job:worker/replica:0/task:1/device:CPU:0; Type CPU or GPU.
	Name, Type string
	// MemoryLimit is in bytes, Incarnation a random number of the device's start.
	MemoryLimit int64
	Incarnation uint64
	// Description is of the hardware, in TensorFlow's words; empty for a CPU.
	Description string
}

// Peer is another task of the cluster, as far as it is reached. It is safe for concurrent use.
type Peer interface {
	// Task is the task's name, such as /job:ps/replica:0/task:0.
	Task() string
	// Address is where its actors are.
	Address() string
	// Boot is a random number of the process's start: another one means that everything which
	// lived there is gone.
	Boot() uint64
	// Devices are the task's devices.
	Devices() []DeviceInfo
	// Hold keeps the link open, however long nothing passes over it, until release is called.
	Hold() (release func())
	// Push hands a large tensor to the peer's step beside the actors' messages. It takes over the
	// caller's reference and does not wait. Errors that come later break the link.
	Push(p Push) error
	// Room tells whether the queue of what was pushed has room for n bytes more now. Where it has not,
	// ready is called once when it may have or the peer is gone, and the caller asks again. A peer that
	// is gone has room: Push tells.
	Room(n int, ready func()) bool
}

// Push is a tensor on its way to a step of another task.
type Push struct {
	Step   uint64
	Key    kernels.Key
	Tensor *tensor.Tensor
	// Device is the full name of the device that receives it.
	Device string
	// Compression is for where the tensor's bytes are sent; within a machine they may not be.
	Compression Compression
}

// Cluster is the declared cluster and who of it is reached.
type Cluster interface {
	// Self is the name of the own task.
	Self() string
	// Tasks are the names of all declared tasks, the own one included, in order. They must not be changed.
	Tasks() []string
	// Known gives what is known of a task's devices without asking it; nil when it was never reached.
	Known(task string) []DeviceInfo
	// Peer gives a task that is reached. A task that was never seen is waited for, for a bounded
	// time and no longer than ctx; one that is lost is UNAVAILABLE at once. The error names the
	// task, its address, and why and since when it is not there.
	Peer(ctx context.Context, task string) (Peer, error)
	// Reached is Peer without waiting: nil when the task is not reached now.
	Reached(task string) Peer
	// Watch registers what is told of every task whose link breaks, after the last message that came
	// over the link has been handled.
	Watch(down func(task string, err error))
}

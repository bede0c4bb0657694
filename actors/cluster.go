package actors

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Peer is another task of the cluster that has been reached. It is safe for concurrent use.
type Peer interface {
	// Task is the task's name, such as /job:ps/replica:0/task:0.
	Task() string
	// Address is the network address of its actors.
	Address() string
	// Boot is a random number, drawn at the process's start. If it has changed, everything that lived in the former process is gone.
	Boot() uint64
	// Devices are the task's devices.
	Devices() []device.Attributes
	// Hold keeps the link open, however long it is idle, until release is called.
	Hold() (release func())
	// OnDown calls f once when the link ends, at once if it has, after the last message from it. f must not block. Until cancel is called, the link stays
	// open as with Hold; cancel does not wait for a call in progress.
	OnDown(f func(err error)) (cancel func())
	// Push hands a large tensor to a step on the peer, beside the actors' messages. It takes over the caller's reference and does not
	// block. Later errors break the link.
	Push(p Push) error
	// Room reports whether the queue of pushed tensors has room for n more bytes. If it has none, ready is called once when it may have
	// room or the peer is gone, and the caller asks again. A peer that is gone has room: Push returns the error.
	Room(n int, ready func()) bool
}

// Push is a tensor in transit to a step of another task.
type Push struct {
	Step   uint64
	Key    kernels.Key
	Tensor *tensor.Tensor
	// Device is the full name of the device that receives it.
	Device string
	// Compression applies where the tensor's bytes are sent; within a machine they may not be.
	Compression Compression
}

// TaskState is what is known of a task.
type TaskState struct {
	State  string    // view.StateUp, view.StateDown or view.StateNeverSeen
	Since  time.Time // zero: unknown
	Reason string    // why it is not up; may be empty
}

// Cluster is the declared cluster and the tasks of it that are reached.
type Cluster interface {
	// Self is the name of this task.
	Self() string
	// Tasks are the names of all declared tasks, this one included, in order. They must not be changed.
	Tasks() []string
	// Known returns what is known of a task's devices, without asking the task; nil if it was never reached, and empty for a task that was
	// and has none. Callers must not modify it.
	Known(task string) []device.Attributes
	// Find is like Known, but first contacts a task of which nothing is known, for a bounded time within ctx: at the start of a cluster,
	// some tasks are up that no other task knows yet.
	Find(ctx context.Context, task string) []device.Attributes
	// Peer returns a task that is reached. It waits for a task that was never seen, while the cluster comes up or else for a few seconds,
	// and within ctx. A lost task is UNAVAILABLE at once. The error names the task and its address, and says why and since when it is not
	// reached. view.Await describes the caller for people who want to know what waits.
	Peer(ctx context.Context, task string) (Peer, error)
	// Unseen reports whether the cluster still comes up and the task has never been seen, so that Peer would wait for it.
	Unseen(task string) bool
	// Reached is Peer without waiting: nil when the task is not reached now.
	Reached(task string) Peer
	// Down reports whether a task that was reached is known to be gone.
	Down(task string) bool
	// State returns what is known of a task, without asking it.
	State(task string) TaskState
	// Watch registers a function that is called for every task whose link breaks, after the last message from the link has been handled.
	Watch(down func(task string, err error))
}

// Package node makes a process a task of a cluster that hosts actors, and runs no graphs. A program that embeds it carries neither kernels nor
// devices along: its binary is less than half as large as one with package troupe, whose servers do all that nodes do, and run TensorFlow's
// graphs besides. Nodes and servers may be tasks of one cluster.
//
//	func greet(_ *node.ActorContext, name string) (string, error) { return "Hello, " + name, nil }
//	…
//	n, err := node.NewLocal(ctx, node.WithActor("greeter", node.Stateless(node.Answer(greet)), node.Virtual{}))
//	…
//	defer n.Stop(ctx)
//	answer, err := node.Ask[string](ctx, n, node.VirtualActor("greeter", "first"), "world")
//
// See Actor and docs/actors.md for what actors can do and what is guaranteed. Queues and pipelines are on servers: a node reaches them as a client
// (package remote/client), as it does anything else that sessions do. Commands for operators, such as troupe status, actors and why, work on nodes, too.
//
// Every call that connects, listens or waits takes a context, which bounds and cancels it. All errors carry one of TensorFlow's codes, which
// status.CodeOf (package graph/status) returns.
package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/member"
)

// stopTime bounds Stop if its context has no deadline.
const stopTime = 5 * time.Second

// The states of a node.
const (
	bound int32 = iota
	serving
	ended
)

// TaskStatus is what a node knows about a declared task: whether it is up, where, since when, and with which devices.
type TaskStatus = client.TaskStatus

// Node is a task of a cluster in this process, with the actors of the program. A process may have several nodes, of one cluster or of several. All
// methods may be called concurrently.
type Node struct {
	host      Host
	outsiders bool          // programs outside the cluster and actors exchange messages
	stopped   chan struct{} // closed when the node has stopped
	stopErr   error         // set before stopped is closed

	mu    sync.Mutex // held by Start, so that Stop waits for it
	state atomic.Int32
}

// Host is what runs a node: a member of the cluster, and for a server all the rest.
type Host interface {
	// Member returns the task of the cluster, whose port is bound.
	Member() *member.Member
	// Serve begins to serve. If it fails, it stops the task.
	Serve(ctx context.Context) error
	// Stop ends the task.
	Stop(ctx context.Context) error
}

// Wrap returns the node of a host with kinds of actors, which listen makes. It is for package troupe, whose servers are nodes, too. outsiders allows
// processes outside the cluster to exchange messages with the actors.
func Wrap(kinds Kinds, outsiders bool, listen func(kinds map[string]cast.Maker) (Host, error)) (*Node, error) {
	n := &Node{outsiders: outsiders, stopped: make(chan struct{})}
	var err error
	n.host, err = listen(n.kinds(kinds))
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Start begins to serve. It does nothing if the node already serves, and returns FAILED_PRECONDITION if it was
// stopped. ctx bounds only the start. A node that fails to start is stopped.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch n.state.Load() {
	case serving:
		return nil
	case ended:
		return status.Errorf(status.FailedPrecondition, "Server has stopped.")
	}
	if err := n.host.Serve(ctx); err != nil {
		n.state.Store(ended)
		close(n.stopped)
		return status.InContext(ctx, err)
	}
	n.state.Store(serving)
	return nil
}

// Join waits until the node has stopped or ctx ends.
func (n *Node) Join(ctx context.Context) error {
	select {
	case <-n.stopped:
		return nil
	case <-ctx.Done():
		return status.From(ctx.Err())
	}
}

// Stop stops the node. It accepts no new calls, and its actors end, at the latest when ctx ends, or after 5 s if ctx
// has no deadline. On a server, running steps are cancelled then. The port is free afterwards. A later call of Stop waits for the first until its own context ends,
// and returns the first one's result.
func (n *Node) Stop(ctx context.Context) error {
	n.mu.Lock()
	before := n.state.Swap(ended)
	n.mu.Unlock()
	if before == ended {
		select {
		case <-n.stopped:
			return n.stopErr
		default:
		}
		select {
		case <-n.stopped:
			return n.stopErr
		case <-ctx.Done():
			return status.From(ctx.Err())
		}
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stopTime)
		defer cancel()
	}
	defer close(n.stopped)
	n.stopErr = n.host.Stop(ctx)
	return n.stopErr
}

// Serving returns FAILED_PRECONDITION for a node that has not been started, or was stopped. It does not wait for Start.
func (n *Node) Serving() error {
	switch n.state.Load() {
	case ended:
		return status.Errorf(status.FailedPrecondition, "Server has stopped.")
	case bound:
		return status.Errorf(status.FailedPrecondition, "The server of %v has not been started.", n.host.Member().Self())
	}
	return nil
}

// running returns the task of the cluster, or an error if it does not serve.
func (n *Node) running() (*member.Member, error) {
	if err := n.Serving(); err != nil {
		return nil, err
	}
	return n.host.Member(), nil
}

// Target returns the target that clients dial: grpc://host:port, with the port that is bound.
func (n *Node) Target() string { return n.host.Member().Target() }

// Address returns the host:port at which others reach the node.
func (n *Node) Address() string { return n.host.Member().Address() }

// Task returns the node's task name, such as /job:worker/replica:0/task:1.
func (n *Node) Task() string { return n.host.Member().Self().Name() }

// Status returns what this task knows about all declared tasks, in order, without asking them. It returns nil if the node does not serve.
// While a cluster starts, this task may not know yet of tasks that are already up: WatchTasks reports them, and a client's Status asks
// them.
func (n *Node) Status() []TaskStatus {
	m, err := n.running()
	if err != nil {
		return nil
	}
	return m.Status()
}

package client

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// ClusterStatus is what a task knows of its cluster.
type ClusterStatus struct {
	// Task is the task that was asked, such as /job:ps/replica:0/task:0.
	Task string
	// Spec is the declared cluster, such as ps=10.0.0.1:2222;worker=10.0.0.2:2222,10.0.0.3:2222.
	Spec string
	// Tasks are all declared tasks, in order.
	Tasks []TaskStatus
	// Exposed is a warning that whoever reaches the address of the task that was asked may use it; empty if that is not the case.
	Exposed string
}

// TaskStatus is what a task knows of a declared task.
type TaskStatus struct {
	// Task is the full name, such as /job:ps/replica:0/task:0, Address the declared host:port.
	Task, Address string
	// State is "up", "down" or "never seen". Since is when that state began; the zero Time if unknown. Reason says why a task is not up.
	State  string
	Since  time.Time
	Reason string
	// Boot is a random number that is new at each start of the task; 0 for a task that was never seen.
	Boot uint64
	// Devices are the task's devices, as far as they are known.
	Devices []Device
}

// Target returns what clients dial to reach the task: grpc://host:port.
func (s TaskStatus) Target() string { return targetScheme + s.Address }

// Status returns what the server knows of all tasks of its cluster. The server first looks for those that it does not know to be up, for at
// most 2 s. TensorFlow's servers do not know the call: UNIMPLEMENTED.
func (c *Client) Status(ctx context.Context) (*ClusterStatus, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	a := &wire.ClusterStatus{}
	err := c.call(ctx, wire.OperatorStatus, &wire.StatusRequest{}, a)
	if status.CodeOf(err) == status.Unimplemented {
		return nil, status.Unimplementedf("The server at %s does not report the state of its cluster: it is not a Troupe server", c.target)
	}
	if err != nil {
		return nil, err
	}
	s := &ClusterStatus{Task: a.GetTask(), Spec: a.GetSpec(), Tasks: make([]TaskStatus, 0, len(a.GetTasks())), Exposed: a.GetExposed()}
	for _, t := range a.GetTasks() {
		task := TaskStatus{Task: t.GetTask(), Address: t.GetAddress(), State: t.GetState(), Reason: t.GetReason(), Boot: t.GetBoot()}
		if t.GetSince() != 0 {
			task.Since = time.Unix(0, t.GetSince())
		}
		for _, d := range t.GetDevices() {
			task.Devices = append(task.Devices, d.Attributes(t.GetTask() == a.GetTask()))
		}
		s.Tasks = append(s.Tasks, task)
	}
	return s, nil
}

// TaskActors lists the actors of the task that was asked, by kind and name.
type TaskActors struct {
	Task   string
	Actors []ActorStatus
}

// ActorStatus is the state of one actor.
type ActorStatus struct {
	// Name is the actor's address on the task, such as worker or session/0123456789abcdef.
	Name string
	// Kind is master, session, worker, directory, device, container or queue; program/KIND for the actors of a program.
	Kind string
	// State is idle, running, or suspended after a panic or until it restarts.
	State string
	// Handled, Panics and Restarts count messages, panics and restarts since the actor's start; Waiting is the number of messages waiting now.
	Handled  uint64
	Waiting  int64
	Panics   uint64
	Restarts uint64
	Since    time.Time
	// Device is the state of the device whose executor this actor is; nil for other actors.
	Device *DeviceState
}

// DeviceState is what the executor of a device knows of it. Counts are since the executor's start.
type DeviceState struct {
	// Lost says why the device is out of service; it is empty while the device serves. Losses counts how often it was lost, and Incarnation is
	// the random number of its current start.
	Lost        string
	Losses      int64
	Incarnation uint64
	// PartsRunning are the parts of steps that run now. PartsDone have ended, PartsFailed of them with an error. PartsRefused arrived while
	// the device was lost.
	PartsRunning, PartsDone, PartsFailed, PartsRefused int64
	// Programs are compiled and in use.
	Programs int64
	// MemoryLimit bounds the tensors in the device's memory, in bytes; 0 means no bound. MemoryInUse is the current use, MemoryPeak the
	// maximum so far, and MemoryIdle what is kept for future tensors.
	MemoryLimit, MemoryInUse, MemoryPeak, MemoryIdle int64
}

func deviceState(s *wire.DeviceState) *DeviceState {
	if s == nil {
		return nil
	}
	return &DeviceState{Lost: s.GetLost(), Losses: s.GetLosses(), Incarnation: s.GetIncarnation(), PartsRunning: s.GetPartsRunning(),
		PartsDone: s.GetPartsDone(), PartsFailed: s.GetPartsFailed(), PartsRefused: s.GetPartsRefused(), Programs: s.GetPrograms(),
		MemoryLimit: s.GetMemoryLimit(), MemoryInUse: s.GetMemoryInUse(), MemoryPeak: s.GetMemoryPeak(), MemoryIdle: s.GetMemoryIdle()}
}

// Messages that describe the state of a cluster; internal/view/view.proto documents their fields.
type (
	// Query says what to look at.
	Query = view.Query
	// ClusterView is the state of the cluster's tasks.
	ClusterView = view.Cluster
	// GraphQuery requests a page of a session's placed graph.
	GraphQuery = view.GraphQuery
	// GraphPage is that page.
	GraphPage = view.Graph
)

// See returns the state of the server's task, or with q.Cluster that of all tasks of its cluster. Tasks that do not answer within 2 s, or
// by the end of ctx, are listed as silent. TensorFlow's servers do not know the call: UNIMPLEMENTED.
func (c *Client) See(ctx context.Context, q *Query) (*ClusterView, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	out := &ClusterView{}
	err := c.call(ctx, wire.OperatorSee, q, out)
	if status.CodeOf(err) == status.Unimplemented {
		return nil, status.Unimplementedf("The server at %s does not show its state: it is not a Troupe server, or an older one", c.target)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Graph returns a page of a session's graph. q.Task names the session's master, which may be any task of the server's cluster. Errors:
// NOT_FOUND if there is no such session, UNAVAILABLE if the task is not up. TensorFlow's servers do not know the call: UNIMPLEMENTED.
func (c *Client) Graph(ctx context.Context, q *GraphQuery) (*GraphPage, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	out := &GraphPage{}
	if err := c.call(ctx, wire.OperatorGraph, q, out); err != nil {
		return nil, err
	}
	return out, nil
}

// CancelStep cancels a step of any session of the server's cluster; its client gets the error CANCELLED. It returns the name of the session
// and the task that is its master. Errors: NOT_FOUND for a step that is not running, PERMISSION_DENIED for a step of somebody else's
// session that the caller may not cancel.
func (c *Client) CancelStep(ctx context.Context, step uint64) (session, master string, err error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	a := &wire.CancelStepAnswer{}
	err = c.call(ctx, wire.OperatorCancelStep, &wire.CancelStepRequest{Step: step}, a)
	if status.CodeOf(err) == status.Unimplemented {
		err = status.Unimplementedf("The server at %s does not cancel steps of others: it is not a Troupe server, or an older one", c.target)
	}
	return a.GetSession(), a.GetMaster(), err
}

// Drain makes a task of the server's cluster end, such as /job:worker/replica:0/task:1. Its running steps may continue for the time within,
// or for the task's own default if that is 0; new ones are UNAVAILABLE. Drain does not wait for the task's end. Errors: NOT_FOUND for a
// task that the cluster does not have, UNAVAILABLE for one that is not up, FAILED_PRECONDITION for one whose program does not end on
// request, PERMISSION_DENIED.
func (c *Client) Drain(ctx context.Context, task string, within time.Duration) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	err := c.call(ctx, wire.OperatorDrain, &wire.DrainRequest{Task: task, Within: int64(within)}, &wire.DrainAnswer{})
	if status.CodeOf(err) == status.Unimplemented {
		err = status.Unimplementedf("The server at %s does not drain tasks: it is not a Troupe server, or an older one", c.target)
	}
	return err
}

// Messages that describe what has run on a cluster; internal/view/trace.proto documents their fields.
type (
	// TraceQuery says what to record, and for how long.
	TraceQuery = view.TraceQuery
	// Trace is what was recorded.
	Trace = view.Trace
)

// Trace records what runs on the server's task, or with q.Cluster on all tasks of its cluster that can be reached, for the query's duration
// of up to 60 s: ctx must allow for that and some seconds more. TensorFlow's servers do not know the call: UNIMPLEMENTED.
func (c *Client) Trace(ctx context.Context, q *TraceQuery) (*Trace, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	out := &Trace{}
	err := c.call(ctx, wire.OperatorTrace, q, out)
	if status.CodeOf(err) == status.Unimplemented {
		return nil, status.Unimplementedf("The server at %s does not record traces: it is not a Troupe server, or an older one", c.target)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Actors returns the actors of the server's task. TensorFlow's servers do not know the call: UNIMPLEMENTED.
func (c *Client) Actors(ctx context.Context) (*TaskActors, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	a := &wire.TaskActors{}
	err := c.call(ctx, wire.OperatorListActors, &wire.ListActorsRequest{}, a)
	if status.CodeOf(err) == status.Unimplemented {
		return nil, status.Unimplementedf("The server at %s does not list its actors: it is not a Troupe server, or an older one", c.target)
	}
	if err != nil {
		return nil, err
	}
	list := &TaskActors{Task: a.GetTask(), Actors: make([]ActorStatus, 0, len(a.GetActors()))}
	for _, s := range a.GetActors() {
		list.Actors = append(list.Actors, ActorStatus{Name: s.GetName(), Kind: s.GetKind(), State: s.GetState(), Handled: s.GetHandled(),
			Waiting: s.GetWaiting(), Panics: s.GetPanics(), Restarts: s.GetRestarts(), Since: time.Unix(0, s.GetSince()), Device: deviceState(s.GetDevice())})
	}
	return list, nil
}

package node

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors/bare"
	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
)

// ClusterSpec declares a cluster. It maps each job to the addresses (host:port) of its tasks, starting with task 0.
type ClusterSpec map[string][]string

// New makes a task of the declared cluster, binds its port, and starts it unless WithStart(false) is among the options. ctx bounds the start, not the
// node's life. Other tasks of the cluster may be servers.
//
// Errors: INVALID_ARGUMENT for a malformed cluster or option, INTERNAL for a job or task that the cluster does not have, FAILED_PRECONDITION if the port
// cannot be bound, ALREADY_EXISTS if another process is the task. After an error nothing remains of the node.
func New(ctx context.Context, cluster ClusterSpec, opts ...Option) (*Node, error) {
	o, err := collect(opts)
	if err != nil {
		return nil, err
	}
	jobs := map[string]map[int]string{}
	for job, addresses := range cluster {
		tasks := map[int]string{}
		for i, a := range addresses {
			tasks[i] = a
		}
		jobs[job] = tasks
	}
	declared, err := spec.New(jobs)
	if err != nil {
		return nil, err
	}
	task, err := member.Choose(declared, o.job, o.task)
	if err != nil {
		return nil, err
	}
	return start(ctx, declared, task, o)
}

// NewLocal is New for a cluster of one task, /job:local/replica:0/task:0, on a free port of the loopback interface. Without WithLogger, only
// warnings and errors go to the default logger.
func NewLocal(ctx context.Context, opts ...Option) (*Node, error) {
	return New(ctx, ClusterSpec{"local": {"localhost:0"}}, append([]Option{logWarnings}, opts...)...)
}

// JoinCluster makes this process a task of a running cluster and starts it. seeds are addresses (host:port) or targets of any of the cluster's tasks; the
// first that answers within 5 s provides the cluster's spec. ctx bounds the start, which takes at most a minute if ctx has no deadline.
//
// WithJob sets the job, which may be omitted if the cluster has one. WithTask sets the task; without it, JoinCluster claims the first free task
// of the job whose address is local, or, with WithBind, the first whose address leads to this process. No two processes are the same task.
//
// If no task is free, the error is RESOURCE_EXHAUSTED, and lists the tasks of the job with the reason of each. UNAVAILABLE means that no seed
// answered, or that no task could be found at its address.
func JoinCluster(ctx context.Context, seeds []string, opts ...Option) (*Node, error) {
	o, err := collect(opts)
	if err != nil {
		return nil, err
	}
	o.start, o.claim = true, true
	return member.Join(ctx, member.Claim{Seeds: seeds, Job: o.job, Task: o.task, Bind: o.bind, Credentials: o.credentials},
		func(ctx context.Context, cluster *spec.Spec, task spec.Task) (*Node, error) {
			return start(ctx, cluster, task, o)
		})
}

// start makes a node and starts it if the options say so.
func start(ctx context.Context, cluster *spec.Spec, task spec.Task, o *options) (*Node, error) {
	n, err := Wrap(o.kinds, o.outsiders, func(kinds map[string]cast.Maker) (Host, error) { return listen(o.config(cluster, task, kinds), o) })
	if err != nil || !o.start {
		return n, err
	}
	if err := n.Start(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

// alone is the host of a node that is no server.
type alone struct {
	member *member.Member
	end    func(within time.Duration) // see WithDrainRequests
	roles  *bare.Task                 // nil until it serves
}

// listen binds the port of a node.
func listen(c member.Config, o *options) (Host, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	m, err := member.Listen(c)
	if err != nil {
		return nil, err
	}
	return &alone{member: m, end: o.end}, nil
}

// Member returns the task of the cluster.
func (a *alone) Member() *member.Member { return a.member }

// Serve begins to serve.
func (a *alone) Serve(ctx context.Context) error {
	err := a.serve(ctx)
	if err != nil {
		if e := a.Stop(ctx); e != nil {
			a.member.Log().Warn("a node that failed to start did not shut down cleanly", "error", e)
		}
	}
	return err
}

func (a *alone) serve(ctx context.Context) (err error) {
	m := a.member
	m.Connect(member.Landing{Reachable: bare.Reachable})
	a.roles, err = bare.Start(bare.Config{System: m.Port().System(), Name: m.Self().Name(), Boot: m.Boot(), Events: m.Events(), Complete: m.Complete, End: a.end, Log: m.Log(),
		Reach: func(ctx context.Context, task string) (bare.Peer, error) { return m.Reach(ctx, task) }})
	if err != nil {
		return err
	}
	m.Perform(member.Work{Roles: a.roles, Unknown: a.unknown})
	return m.Open(ctx)
}

// unknown tells clients of TensorFlow's services that they should have called another task. It does not say which: the caller may be anybody.
func (a *alone) unknown(method string) error {
	if !strings.HasPrefix(method, "/tensorflow.") {
		return nil
	}
	return status.Unimplementedf("%s hosts actors and runs no graphs: open the session on a server of its cluster (troupe status lists the tasks; those with devices are servers)", a.member.Self().Name())
}

// Stop ends the task: the actors that can move go to other tasks, the others end, and the port is released.
func (a *alone) Stop(ctx context.Context) error {
	a.member.Close()
	errs := []error{a.member.Leave(ctx)}
	if a.roles != nil {
		errs = append(errs, a.roles.Stop(ctx))
	}
	// The rest must end even if the actors used all of the time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return errors.Join(append(errs, a.member.Stop(ctx))...)
}

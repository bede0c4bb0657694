package troupe

import (
	"context"

	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
)

// Discover returns the status of all declared tasks of a cluster, in order: where each is (TaskStatus.Target), and whether it is up. The
// cluster must have no certificates; for others, see client.Discover. seeds are addresses (host:port) or targets of tasks, of which one
// must answer. If none answers, the error is UNAVAILABLE and lists each seed with its reason.
func Discover(ctx context.Context, seeds ...string) ([]TaskStatus, error) {
	_, all, err := member.Discover(ctx, nil, 0, seeds...)
	return all, err
}

// JoinCluster makes this process a task of a running cluster and starts it. seeds are addresses (host:port) or targets
// of any of the cluster's tasks; the first that answers within 5 s provides the cluster's spec. ctx bounds the start,
// which takes at most a minute if ctx has no deadline.
//
// WithJob sets the job, which may be omitted if the cluster has one. WithTask sets the task. Without it JoinCluster
// claims the first free task of the job whose address is local, or, with WithBind, the first whose address leads to
// this process.
//
// Binding a task's address claims the task. If several processes race for a task, only one can bind its port, and it
// serves only after other tasks have found it there. So no two processes are the same task. A process that loses tries
// the next free task.
//
// If no task is free, the error is RESOURCE_EXHAUSTED. It lists the tasks of the job: which process has each and since
// when, or why its address is not local. A cluster has the tasks that its spec declares and does not grow. UNAVAILABLE
// means that no seed answered, or that no task could be found at its address.
func JoinCluster(ctx context.Context, seeds []string, opts ...Option) (*Server, error) {
	o, err := collect("JoinCluster", opts, map[string]string{
		"WithStart":      "a server that joins a cluster is started at once",
		"WithLocalPorts": "the cluster's declaration has the ports",
	})
	if err != nil {
		return nil, err
	}
	o.claim = true
	return member.Join(ctx, member.Claim{Seeds: seeds, Job: o.job, Task: o.task, Bind: o.bind, Credentials: o.credentials},
		func(ctx context.Context, cluster *spec.Spec, task spec.Task) (*Server, error) {
			return start(ctx, cluster.Proto(), o.withTask(task.Job, task.Index))
		})
}

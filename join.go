package troupe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
)

const (
	// joinTime bounds JoinCluster if its context has no deadline.
	joinTime = time.Minute
	// seedPatience is how long JoinCluster retries seeds that do not answer: they may still be starting.
	seedPatience = 5 * time.Second
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
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, joinTime)
		defer cancel()
	}
	cluster, known, err := member.Discover(ctx, o.credentials, seedPatience, seeds...)
	if err != nil {
		return nil, err
	}
	tasks, err := candidates(cluster, o)
	if err != nil {
		return nil, err
	}
	o.claim = true
	c := claimant{options: *o, cluster: cluster, known: known}
	var taken []string
	for _, task := range tasks {
		s, why, err := c.claim(ctx, task)
		if err != nil {
			return nil, err
		}
		if s != nil {
			return s, nil
		}
		taken = append(taken, fmt.Sprintf("%v: %s", task, why))
	}
	return nil, status.Errorf(status.ResourceExhausted, "No task of job %q is free for this process in the cluster of %s:\n  %s\n"+
		"The cluster has the tasks that its spec declares. Stop one of these processes, or start all tasks with a spec that has one more.",
		tasks[0].Job, strings.Join(seeds, ", "), strings.Join(taken, "\n  "))
}

// candidates returns the tasks that a joining process may claim, in order.
func candidates(cluster *spec.Spec, o *options) ([]spec.Task, error) {
	jobs := cluster.Jobs()
	if o.job == nil {
		if len(jobs) > 1 {
			return nil, noJobGiven(jobs)
		}
		o.job = &jobs[0]
	}
	if !slices.Contains(jobs, *o.job) {
		return nil, noJob(*o.job, jobs)
	}
	tasks := slices.DeleteFunc(cluster.Tasks(), func(t spec.Task) bool { return t.Job != *o.job })
	if o.task == nil {
		return tasks, nil
	}
	for _, t := range tasks {
		if t.Index == *o.task {
			return []spec.Task{t}, nil
		}
	}
	return nil, noTask(*o.task, *o.job, jobTasks(cluster.Proto(), *o.job))
}

// claimant is a process that tries to claim a task.
type claimant struct {
	options options
	cluster *spec.Spec
	known   []TaskStatus // as the seed reported them
	machine member.Machine
}

// claim tries to claim a task. If it cannot, why says which process has the task, or what else prevents it. An error is
// one that would occur for every other task too.
func (c *claimant) claim(ctx context.Context, task spec.Task) (s *Server, why string, err error) {
	if c.options.bind == "" {
		if why := c.machine.Refuses(ctx, task.Address); why != "" {
			return nil, why + c.lastSeen(task), nil
		}
	}
	if holder := member.Holder(ctx, c.options.credentials, task.Address); holder != "" {
		return nil, "it is taken by " + holder, nil
	}
	s, err = start(ctx, c.cluster.Proto(), c.options.withTask(task.Job, task.Index))
	switch status.CodeOf(err) {
	case status.OK:
		return s, "", nil
	case status.Unknown, status.AlreadyExists, status.FailedPrecondition:
		return nil, status.From(err).Message, nil
	}
	return nil, "", err
}

// lastSeen returns what the cluster knows about a task, as text.
func (c *claimant) lastSeen(task spec.Task) string {
	for _, k := range c.known {
		if k.Task == task.Name() {
			return fmt.Sprintf(" (the task is %s, since %s)", k.State, k.Since.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

package member

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/spec"
)

// Choose returns the task of a cluster that a process was told to be, by the rules of tf.train.Server. The job may be omitted if there is only
// one, and the index if the job has only one task. Errors: INVALID_ARGUMENT for what is missing, INTERNAL for a job or task that the cluster does not
// have, as of TensorFlow's servers.
func Choose(cluster *spec.Spec, job *string, index *int) (spec.Task, error) {
	tasks, err := tasksOf(cluster, job)
	switch {
	case err != nil:
		return spec.Task{}, err
	case index == nil && len(tasks) == 1:
		return tasks[0], nil
	case index == nil:
		return spec.Task{}, status.InvalidArgumentf("Must specify an explicit `task_index`: job %q has %s.", tasks[0].Job, describe(tasks))
	}
	return taskOf(tasks, *index)
}

// tasksOf returns the tasks of a job, in order; job may be nil if the cluster has only one.
func tasksOf(cluster *spec.Spec, job *string) ([]spec.Task, error) {
	jobs := cluster.Jobs()
	if job == nil {
		if len(jobs) > 1 {
			return nil, status.InvalidArgumentf("Must specify an explicit `job_name`: the cluster has the jobs %s.", strings.Join(jobs, ", "))
		}
		job = &jobs[0]
	}
	if !slices.Contains(jobs, *job) {
		return nil, status.Internalf("Job %q was not defined in cluster, whose jobs are %s", *job, strings.Join(jobs, ", "))
	}
	return slices.DeleteFunc(cluster.Tasks(), func(t spec.Task) bool { return t.Job != *job }), nil
}

// taskOf returns the task of a job with an index.
func taskOf(tasks []spec.Task, index int) (spec.Task, error) {
	for _, t := range tasks {
		if t.Index == index {
			return t, nil
		}
	}
	return spec.Task{}, status.Internalf("Task %d was not defined in job %q, which has %s", index, tasks[0].Job, describe(tasks))
}

// describe returns a job's tasks in words, for error texts.
func describe(tasks []spec.Task) string {
	first, last := tasks[0].Index, tasks[len(tasks)-1].Index
	switch {
	case len(tasks) == 1:
		return fmt.Sprintf("task %d only", first)
	case last-first == len(tasks)-1:
		return fmt.Sprintf("the tasks %d to %d", first, last)
	}
	var all []string
	for _, t := range tasks {
		all = append(all, fmt.Sprint(t.Index))
	}
	return "the tasks " + strings.Join(all, ", ")
}

const (
	// joinTime bounds a Claim whose context has no deadline.
	joinTime = time.Minute
	// seedPatience is how long a Claim retries seeds that do not answer: they may still be starting.
	seedPatience = 5 * time.Second
)

// Claim describes a process that joins a running cluster as one of its free tasks.
type Claim struct {
	// Seeds are addresses or targets of tasks of the cluster, of which one must answer.
	Seeds []string
	// Job and Task are the job and the task to claim: those that are nil are chosen. Bind is that of Config.
	Job  *string
	Task *int
	Bind string
	// Credentials, if set, are those of the process.
	Credentials *access.Credentials
}

// Join claims the first task of the job that is free and whose address is local, or the given one, by starting it: only one process can bind a
// task's port. start returns UNKNOWN, ALREADY_EXISTS or FAILED_PRECONDITION for a task that another process has. ctx bounds it all.
//
// If no task is free, the error is RESOURCE_EXHAUSTED, with why each is not. UNAVAILABLE means that no seed answered, or that no task could be found at
// its address.
func Join[S any](ctx context.Context, c Claim, start func(ctx context.Context, cluster *spec.Spec, task spec.Task) (S, error)) (S, error) {
	var none S
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, joinTime)
		defer cancel()
	}
	cluster, known, err := Discover(ctx, c.Credentials, seedPatience, c.Seeds...)
	if err != nil {
		return none, err
	}
	tasks, err := tasksOf(cluster, c.Job)
	if err == nil && c.Task != nil {
		var one spec.Task
		one, err = taskOf(tasks, *c.Task)
		tasks = []spec.Task{one}
	}
	if err != nil {
		return none, err
	}
	var machine Machine
	var taken []string
	for _, task := range tasks {
		why := c.refusal(ctx, &machine, task, known)
		if why == "" {
			s, err := start(ctx, cluster, task)
			switch status.CodeOf(err) {
			case status.OK:
				return s, nil
			case status.Unknown, status.AlreadyExists, status.FailedPrecondition:
				why = status.From(err).Message
			default: // it would occur for every other task, too
				return none, err
			}
		}
		taken = append(taken, fmt.Sprintf("%v: %s", task, why))
	}
	return none, status.Errorf(status.ResourceExhausted, "No task of job %q is free for this process in the cluster of %s:\n  %s\n"+
		"The cluster has the tasks that its spec declares. Stop one of these processes, or start all tasks with a spec that has one more.",
		tasks[0].Job, strings.Join(c.Seeds, ", "), strings.Join(taken, "\n  "))
}

// refusal returns why the process need not try to be a task, as far as that is known before it does; known is what a seed reported of the tasks.
func (c *Claim) refusal(ctx context.Context, machine *Machine, task spec.Task, known []TaskStatus) string {
	if c.Bind == "" {
		if why := machine.Refuses(ctx, task.Address); why != "" {
			return why + lastSeen(task, known)
		}
	}
	if holder := Holder(ctx, c.Credentials, task.Address); holder != "" {
		return "it is taken by " + holder
	}
	return ""
}

// lastSeen returns what the cluster knows about a task, as text.
func lastSeen(task spec.Task, known []TaskStatus) string {
	for _, k := range known {
		if k.Task == task.Name() {
			return fmt.Sprintf(" (the task is %s, since %s)", k.State, k.Since.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

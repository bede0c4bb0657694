package actors

import (
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// atTask names the task of an error, but for those that speak of the cluster itself.
func atTask(err error, task string) error {
	if strings.Contains(err.Error(), "{{node ") {
		return status.AtTask(err, task)
	}
	return err
}

// abortLocked gives the tasks to abort when the step has failed just now; nil otherwise.
func (st *step) abortLocked() []*taskPart {
	if st.err == nil || st.broken.happened {
		return nil
	}
	st.broken.happen()
	return append(make([]*taskPart, 0, len(st.owed)), st.owed...) // not nil
}

// owes is where the part of a task is in what is owed, or -1; the caller holds the lock.
func (st *step) owes(task string) int {
	return slices.IndexFunc(st.owed, func(part *taskPart) bool { return part.task == task })
}

// owing are the tasks that owe the end of their part, in order.
func (st *step) owing() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	var tasks []string
	for _, part := range st.owed {
		tasks = append(tasks, part.task)
	}
	slices.Sort(tasks)
	return tasks
}

// spread ends the parts that still run.
func (st *step) spread(abort []*taskPart, err error) {
	derived := status.Derive(err)
	st.own.fail(derived)
	for _, part := range abort {
		st.abort(part, derived)
	}
}

// abort tells a task to end its part.
func (st *step) abort(part *taskPart, err error) {
	if p := st.session.task.Cluster.Reached(part.task); p != nil {
		st.session.task.System.Root.Send(actor.NewPID(p.Address(), workerName), &wire.AbortStep{Step: st.id, Failure: failure(err)})
	}
}

// fail ends the step with err, unless it has failed before.
func (st *step) fail(err error) {
	st.mu.Lock()
	st.err = status.Worse(st.err, err)
	abort := st.abortLocked()
	failure := st.err
	st.mu.Unlock()
	if abort != nil {
		st.spread(abort, failure)
	}
}

// lost ends the parts of a task that is gone. If only the connection to it is, the part may live on.
func (st *step) lost(task string, err error) {
	st.mu.Lock()
	owes := st.owes(task) >= 0
	st.mu.Unlock()
	if owes {
		st.session.stray(task, st.id)
		st.partEnded(task, err)
	}
}

// abandon ends the parts that other tasks owe.
func (st *step) abandon(err error) {
	for _, task := range st.owing() {
		st.partEnded(task, err)
	}
}

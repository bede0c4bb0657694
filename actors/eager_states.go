package actors

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

// stateTime bounds the wait for a task whose state is asked for, unless the client's configuration has another time.
const stateTime = 10 * time.Second

// EagerStates returns for each of some tasks of a client's cluster, by the client's names, why its context there cannot be used; nil if it can.
// The cluster is that of the latest context on this task that the peer may use: INTERNAL if there is none. Each task is asked, unless it is this
// one. One that has ended, was restarted or does not answer is UNAVAILABLE, one that the cluster does not have INVALID_ARGUMENT. The error is
// RESOURCE_EXHAUSTED while too many tasks are being asked.
func (t *Task) EagerStates(ctx context.Context, peer EagerPeer, tasks []string) ([]error, error) {
	var latest *EagerContext
	for _, c := range t.EagerContexts() {
		if peer.may(c) == nil && (latest == nil || c.session.opened > latest.session.opened) {
			latest = c
		}
	}
	if latest == nil {
		return nil, status.Internalf("Coordination service is not enabled: %s has no eager context of this client.", t.name)
	}
	limit := stateTime
	if ms := latest.session.config.GetExperimental().GetCoordinationConfig().GetHeartbeatTimeoutInMs(); ms > 0 {
		limit = milliseconds(ms)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	states := make([]error, len(tasks))
	first := map[string]int{} // where in tasks a name comes first: a request may name a task any number of times
	for i, task := range tasks {
		if _, again := first[task]; !again {
			first[task] = i
		}
	}
	answered, err := t.eager.ask(peer, len(first)) // each has a goroutine, and a call to another task
	if err != nil {
		return nil, err
	}
	defer answered()
	var asked sync.WaitGroup
	for task, i := range first {
		asked.Go(contain.Func(t.Log, "The state of "+task, func() { states[i] = latest.state(ctx, task) }, nil)) // bounded by ctx
	}
	asked.Wait()
	for i, task := range tasks {
		states[i] = states[first[task]]
	}
	return states, nil
}

// state returns why the context of the same client on another task cannot be used.
func (c *EagerContext) state(ctx context.Context, task string) error {
	if task == c.names.client {
		return nil
	}
	address, err := c.peer(task)
	if err != nil {
		return status.InvalidArgumentf("Unexpected task %s: %v", task, err)
	}
	if err := c.task.EagerService.KeepAlive(c.calling(ctx), address, task, c.id); err != nil {
		return status.Errorf(status.Unavailable, "Task %s has ended, was restarted or does not answer: %v", task, err)
	}
	return nil
}

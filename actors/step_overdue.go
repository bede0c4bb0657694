package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

// overdue is the error of a step that did not end in time: it names what the step waits for.
func (st *step) overdue(limit time.Duration) error {
	tasks := st.owing()
	st.mu.Lock()
	local := st.local
	st.mu.Unlock()
	var waits []string
	if local {
		for _, n := range st.own.waiting(maxWaiting) {
			waits = append(waits, "{{node "+n+"}}")
		}
	}
	remote := make([][]string, len(tasks))
	var asked sync.WaitGroup
	for i, task := range tasks {
		asked.Go(contain.Func(st.session.task.Log, "The question for what a step waits", func() { remote[i] = st.remoteWaits(task) }, nil))
	}
	asked.Wait() // askMargin at most
	waits = append(waits, slices.Concat(remote...)...)
	text := "its kernels to end"
	if len(waits) > 0 {
		text = strings.Join(waits, ", ")
	}
	return status.Errorf(status.DeadlineExceeded, "The step did not end within %v; it was still waiting for: %s", limit, text)
}

// remoteWaits asks a task what the step waits for there, within the little time that is left.
func (st *step) remoteWaits(task string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), askMargin)
	defer cancel()
	if st.session.task.Cluster.Reached(task) == nil {
		return []string{task + " (not reached)"}
	}
	answer, err := ask[*wire.Waiting](ctx, st.session.task, task, workerName, &wire.WaitingFor{Step: st.id})
	switch {
	case err != nil:
		return []string{task + " (which does not answer)"}
	case len(answer.Nodes) == 0:
		return []string{task}
	}
	out := make([]string, len(answer.Nodes))
	for i, n := range answer.Nodes {
		out[i] = fmt.Sprintf("{{node %s}} on %s", n, task)
	}
	return out
}

// A step's own deadline comes before the client's, by answerMargin of it at most, so that the
// answer with the reason arrives in time; asking another task what it waits for takes askMargin.
const (
	answerMargin = 100 * time.Millisecond
	askMargin    = 40 * time.Millisecond
)

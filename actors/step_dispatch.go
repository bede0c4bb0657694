package actors

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

// dispatch starts another task's part, unless the core has reasons not to.
func (st *step) dispatch(part *planPart, again bool) {
	st.mu.Lock()
	start, e := st.core.Start(part.task)
	st.do(e)
	if !start {
		return
	}
	if err := st.send(part, again); err != nil {
		st.partEnded(part.task, err)
		return
	}
	st.mu.Lock()
	st.do(st.core.Started(part.task))
}

// send asks a task to run its part. It includes the plan if the task may lack it.
func (st *step) send(part *planPart, again bool) error {
	s := st.session
	patience := st.detach
	if again { // runs on its own goroutine
		patience = context.Background
	}
	peer := s.task.Cluster.Reached(part.task)
	if peer == nil {
		var err error
		if peer, err = s.task.Cluster.Peer(st.awaiting(patience()), part.task); err != nil {
			return err
		}
	}
	if peer.Boot() != part.boot {
		if err := s.forgetPlans(patience(), part.task); err != nil {
			return err
		}
		return status.Errorf(status.Aborted, "%s (%s) was restarted: its variables and queues are gone, and have to be made again",
			part.task, peer.Address())
	}
	m := &wire.RunPartition{Step: st.id, Session: s.handle, PlanId: st.plan.id, Master: s.task.name, Boot: part.boot, Trace: st.trace, Began: st.own.Origin.Began}
	if !again {
		st.hold(peer)
	}
	if st.call.span != nil {
		within := st.beginPart(part.task)
		m.Traceparent, m.Tracestate = within.Parent, within.State
	}
	worker := actor.NewPID(peer.Address(), workerName)
	for _, id := range s.strays(part.task) {
		s.task.System.Root.Send(worker, &wire.AbortStep{Step: id, Failure: wire.FailureOf(errStray)})
	}
	along := st.own.outbox.remove(part.task)
	m.Transfers = along.transfers
	request := func() {
		s.task.System.Root.RequestWithCustomSender(worker, &wire.Parcel{Message: m, Tensors: along.tensors}, s.task.master.PID())
	}
	part.mu.Lock()
	if !part.sent || again { // before steps without the plan: a task that leaves would refuse to run their parts when it has got the plan
		defer part.mu.Unlock()
		m.Plan, part.sent = part.plan, true
		request()
		return nil
	}
	part.mu.Unlock()
	request()
	return nil
}

// awaiting returns a context for a wait of the step for another task.
func (st *step) awaiting(ctx context.Context) context.Context {
	return view.Await(ctx, fmt.Sprintf("step %d of session %s", st.id, st.session.name()))
}

var errStray = &status.Error{Code: status.Cancelled, Message: "The connection to the step's master was lost", Derived: true}

// maxStrays bounds the steps that a session remembers for a task.
const maxStrays = 1 << 10

// stray remembers a step whose part on a task could not be aborted.
func (s *Session) stray(task string, step uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = map[string][]uint64{}
	}
	if len(s.lost[task]) < maxStrays {
		s.lost[task] = append(s.lost[task], step)
	}
}

// strays returns and forgets the steps to abort on a task.
func (s *Session) strays(task string) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) == 0 {
		return nil
	}
	steps := s.lost[task]
	delete(s.lost, task)
	return steps
}

// hold keeps the link to a peer open as long as the step runs. The step may have ended while its part was being started.
func (st *step) hold(p Peer) {
	release := p.Hold()
	st.mu.Lock()
	over := st.core.Over()
	if !over {
		st.holds = append(st.holds, release)
	}
	st.mu.Unlock()
	if over {
		release()
	}
}

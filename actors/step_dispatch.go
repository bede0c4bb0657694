package actors

import (
	"context"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// dispatch starts another task's part, unless the step has failed meanwhile: its parts have been
// told to end then, and nobody would tell one that begins later.
func (st *step) dispatch(part *taskPart, again bool) {
	if st.cause() != nil {
		st.partEnded(part.task, nil)
		return
	}
	if err := st.send(part, again); err != nil {
		st.partEnded(part.task, err)
		return
	}
	if err := st.cause(); err != nil {
		st.abort(part, status.Derive(err))
	}
}

// send asks a task to run its part, with the plan when it is not known to have it.
func (st *step) send(part *taskPart, again bool) error {
	s := st.session
	patience := st.detach
	if again { // on a goroutine of its own
		patience = context.Background
	}
	peer := s.task.Cluster.Reached(part.task)
	if peer == nil {
		var err error
		if peer, err = s.task.Cluster.Peer(patience(), part.task); err != nil {
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
		s.task.System.Root.Send(worker, &wire.AbortStep{Step: id, Failure: failure(errStray)})
	}
	part.mu.Lock()
	if !part.sent || again {
		m.Plan = part.plan
		part.sent = true
	}
	part.mu.Unlock()
	along := st.own.outbox.take(part.task)
	m.Transfers = along.transfers
	s.task.System.Root.RequestWithCustomSender(worker, &wire.Parcel{Message: m, Tensors: along.tensors}, s.task.master.PID())
	return nil
}

var errStray = &status.Error{Code: status.Cancelled, Message: "The connection to the step's master was lost", Derived: true}

// maxStrays bounds the steps of a session that are remembered for a task.
const maxStrays = 1 << 10

// stray remembers a step whose part on a task could not be told to end.
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

// strays hands over the steps that a task has to be told about.
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

// hold keeps the link to a peer open as long as the step runs.
func (st *step) hold(p Peer) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.holds = append(st.holds, p.Hold())
}

// distributedSteps finds the steps that a task's sessions run on other tasks too.
type distributedSteps struct {
	mu   sync.Mutex
	byID map[uint64]*step
}

func (d *distributedSteps) enter(st *step) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byID == nil {
		d.byID = map[uint64]*step{}
	}
	d.byID[st.id] = st
}

func (d *distributedSteps) leave(st *step) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byID, st.id)
}

func (d *distributedSteps) find(id uint64) *step {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byID[id]
}

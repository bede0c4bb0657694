package actors

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// worker is the actor that runs what masters of other tasks send: partitions of their steps, the
// tensors that these receive, and what ends them. It only starts things: partitions are compiled
// and run on goroutines of their steps.
type worker struct{ task *Task }

// lostMaster tells the worker that a task is gone, whose steps may run here.
type lostMaster struct {
	task string
	err  error
}

// Receive handles the messages of masters and of other workers.
func (w *worker) Receive(c actor.Context) {
	t := w.task
	switch m := c.Message().(type) {
	case *wire.RunPartition:
		t.runPartition(m, c.Sender())
	case *wire.Tensors:
		t.receive(m.Step, m.Transfers)
	case *wire.AbortStep:
		if st := t.steps.find(m.Step); st != nil {
			st.fail(failed(m.Failure))
		}
	case *wire.DropSession:
		t.forgetSession(m.Session)
	case *wire.ClearContainers:
		sender := c.Sender()
		go func() { // bounded by the containers' patience
			t.System.Root.Send(sender, &wire.Done{Failure: failure(t.clearContainers(m.Containers))})
		}()
	case lostMaster:
		t.steps.masterDown(m.task, m.err)
		t.orphanSessionsOf(m.task)
	case *wire.WaitingFor:
		var names []string
		if st := t.steps.find(m.Step); st != nil {
			names = st.waiting(maxWaiting)
		}
		c.Respond(&wire.Waiting{Nodes: names})
	}
}

// receive takes in the tensors of a step, which may not have begun.
func (t *Task) receive(step uint64, transfers []*wire.Transfer) {
	for _, tr := range transfers {
		key, v, err := readTransfer(tr, t.Devices[0].Pool())
		if err != nil {
			t.steps.refuse(step, err)
			continue
		}
		t.steps.deposit(step, key, v, tr.Dead)
	}
}

// maxWaiting is how many nodes an error about a step that takes too long names.
const maxWaiting = 5

// clearContainers empties containers on all devices of the task; without names the default ones.
func (t *Task) clearContainers(names []string) error {
	if len(names) == 0 {
		names = []string{""}
	}
	var first error
	for _, d := range t.Devices {
		for _, name := range names {
			if err := d.Resources().Clear(name); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// runPartition starts this task's part of a step whose master is elsewhere, and answers when it
// has ended.
func (t *Task) runPartition(m *wire.RunPartition, sender *actor.PID) {
	reply := func(done *wire.PartitionDone) {
		done.Step, done.Task = m.Step, t.name
		if sender != nil {
			t.System.Root.Send(sender, done)
		}
	}
	if m.Boot != t.Boot {
		reply(&wire.PartitionDone{Failure: failure(status.Errorf(status.Aborted,
			"%s was restarted: the step was planned for another start of it", t.name))})
		return
	}
	s, plan := t.planOf(m)
	if plan == nil && m.Plan == nil {
		t.receive(m.Step, m.Transfers) // they wait for the step to come again
		reply(&wire.PartitionDone{UnknownPlan: true})
		return
	}
	var st *taskStep
	st = t.newStep(m.Step, s, plan, devices.Feeds(nil), noFetches{}, func(err error) {
		done := &wire.PartitionDone{Failure: failure(err), Transfers: st.outbox.take(m.Master)}
		if st.stats != nil {
			b, e := proto.Marshal(st.stats.proto())
			if e != nil {
				t.Log.Warn("a step's statistics cannot be sent", "error", e)
			}
			done.StepStats = b
		}
		reply(done)
	})
	st.master = m.Master
	if m.Trace {
		st.trace()
	}
	if err := st.table(); err != nil {
		st.refuse(err)
		return
	}
	st.receive(m.Transfers)
	t.crew.Schedule(func() {
		if plan == nil {
			plan, err := s.register(m.PlanId, m.Plan)
			if err != nil {
				st.refuse(err)
				return
			}
			st.use(plan)
		}
		st.run()
	})
}

// planOf finds the session and the plan of a request, and claims the plan. A session that is not
// there is made only with a plan, which tells what it is like.
func (t *Task) planOf(m *wire.RunPartition) (*workerSession, *taskPlan) {
	if m.Plan == nil {
		s := t.session(m.Session)
		if s == nil {
			return nil, nil
		}
		return s, s.plan(m.PlanId)
	}
	s := t.sessionFor(m.Session, m.Master, m.Plan.Isolated)
	return s, s.plan(m.PlanId)
}

// noFetches is for parts that fetch nothing: only the client's own task does.
type noFetches struct{}

// Fetch drops what no plan sends here.
func (noFetches) Fetch(_ int, t *tensor.Tensor, _ bool) {
	if t != nil {
		t.Release()
	}
}

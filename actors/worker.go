package actors

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// worker is the actor that runs a task's parts of the steps of all masters. Its messages start parts, bring tensors for them, and end them. Messages
// of all masters are handled one after the other, each in very little time. The parts themselves run outside the actor: small
// ones on the goroutine that delivered the message, others on the pool.
type worker struct {
	task    *Task
	refused atomic.Int64 // messages that no task of this program sends
}

// startWorker spawns the worker.
func (t *Task) startWorker() (err error) {
	w := &worker{task: t}
	t.worker, err = t.spawn(roles.Spec{Name: workerName, Kind: "worker", Receive: w.Receive, Refuse: w.refuse})
	return err
}

// Receive handles a message of wire/worker.proto.
func (w *worker) Receive(c actor.Context) {
	t := w.task
	switch m := c.Message().(type) {
	case *wire.Parcel:
		switch content := m.Message.(type) {
		case *wire.RunPartition:
			if c.Sender() == nil {
				m.Release()
				w.drop(content, "it has no sender")
				return
			}
			t.runPartition(content, m.Tensors, c.Sender())
		case *wire.Tensors:
			t.receive(content.Step, content.Transfers, m.Tensors)
		default:
			m.Release()
			w.drop(content, "it is none of a worker's")
		}
	case *wire.AbortStep:
		t.steps.refuse(m.Step, cmp.Or(m.Failure.Err(), error(errStray))) // it may be overtaking the step's start
	case *wire.Adopt:
		sender := c.Sender()
		if sender == nil {
			w.drop(m, "it has no sender")
			return
		}
		t.pool.Schedule(func() { t.adopt(m, sender) }) // bounded by the decoding of the pieces before
	case *wire.DropSession:
		t.pool.Schedule(func() { t.forgetSession(m.Session) })
	case *wire.ClearContainers:
		sender := c.Sender()
		if sender == nil {
			w.drop(m, "it has no sender")
			return
		}
		t.pool.Schedule(func() { // bounded by the containers' patience
			t.System.Root.Send(sender, &wire.Done{Failure: wire.FailureOf(t.clearContainers(m.Containers))})
		})
	case *view.Query:
		sender := c.Sender()
		if sender == nil {
			w.drop(m, "it has no sender")
			return
		}
		t.pool.Schedule(func() { // bounded by the containers' patience
			if m.Detail && m.Step == 0 && len(m.Sections) == len(stepsInDetail.Sections) {
				t.System.Root.Send(sender, t.lookLately())
				return
			}
			t.System.Root.Send(sender, t.See(m))
		})
	case *view.GraphQuery:
		sender := c.Sender()
		if sender == nil {
			w.drop(m, "it has no sender")
			return
		}
		t.pool.Schedule(func() { t.System.Root.Send(sender, t.Graph(m)) })
	case *view.TraceQuery:
		sender := c.Sender()
		if sender == nil {
			w.drop(m, "it has no sender")
			return
		}
		t.pool.Schedule(func() { t.System.Root.Send(sender, t.Trace(m)) })
	case *peerLost:
		task, err := m.message.Task, m.message.Failure.Err()
		t.steps.masterDown(task, err)
		t.orphanSessionsOf(task)
		t.steps.peerDown(m.parts, task, err)
	}
}

// drop rejects a message that no task of this program sends. The first few are logged.
func (w *worker) drop(m any, reason string) {
	if n := w.refused.Add(1); n <= loggedRefusals {
		w.task.Log.Warn("a message to the worker was refused", "message", typeName(m), "reason", reason, "refused", n)
	}
}

// sameClock is how far the time that a step took to come from its master may be from none, by the two tasks' clocks, if these agree.
const sameClock = time.Second

// loggedRefusals is how many refused messages are logged.
const loggedRefusals = 100

// refuse drops messages that arrive after the worker has stopped.
func (w *worker) refuse(message any, cause error) {
	if p, ok := message.(*wire.Parcel); ok && cause == nil {
		p.Release()
	}
}

// nodeBytes is the approximate size in bytes of a plan's node in a message.
const nodeBytes = 100

// startPart starts a part of a step, as the work that its message leaves.
type startPart stepPart

// Do runs the part.
func (p *startPart) Do(here bool) {
	st := (*stepPart)(p)
	if !here {
		st.inline.Store(false)
	}
	defer contain.Recover(st.task.Log, "The beginning of a part", st.crashed)
	st.run()
}

// receive deposits tensors for a step that may not have begun.
func (t *Task) receive(step uint64, transfers []*wire.Transfer, tensors []*tensor.Tensor) {
	err := deliver(transfers, tensors, func(key kernels.Key, v *tensor.Tensor, dead bool) {
		t.traces.transferred(view.ArrivalEvent, step, key, "", v)
		t.steps.deposit(step, key, v, dead)
	})
	if err != nil {
		t.steps.refuse(step, err)
	}
}

// clearContainers empties containers on all devices of the task: the default ones if there are no names.
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

// runPartition runs this task's part of a step whose master is another task, and answers when it has
// ended. Long and new parts run on the pool.
func (t *Task) runPartition(m *wire.RunPartition, tensors []*tensor.Tensor, sender *actor.PID) {
	reply := func(done *wire.PartitionDone, with mail) {
		done.Step, done.Task, done.Transfers = m.Step, t.name, with.transfers
		t.System.Root.Send(sender, &wire.Parcel{Message: done, Tensors: with.tensors})
	}
	if m.Boot != t.Boot {
		kernels.ReleaseTensors(tensors)
		reply(&wire.PartitionDone{Failure: wire.FailureOf(status.Errorf(status.Aborted,
			"%s was restarted: the step was planned for another start of it", t.name))}, mail{})
		return
	}
	s, plan, compiled, err := t.planOf(m)
	if err != nil {
		kernels.ReleaseTensors(tensors)
		reply(&wire.PartitionDone{Failure: wire.FailureOf(err)}, mail{})
		return
	}
	if plan == nil && compiled == nil && m.Plan == nil {
		t.receive(m.Step, m.Transfers, tensors) // parked until the step is sent again
		reply(&wire.PartitionDone{UnknownPlan: true}, mail{})
		return
	}
	var st *stepPart
	t.tally.parts.Add(1)
	var span Span
	if t.Tracer != nil && m.Traceparent != "" {
		span = t.Tracer.Part(TraceContext{m.Traceparent, m.Tracestate}, slog.String("troupe.task", t.name), slog.String("troupe.session", view.SessionName(m.Session)), stepAttribute(m.Step))
	}
	st = t.newStep(m.Step, s, plan, &devices.Feeds{}, noFetches{}, m.Master, m.Began, func(err error) {
		if span != nil {
			span.End(err)
		}
		done := &wire.PartitionDone{Failure: wire.FailureOf(err)}
		if st.stats != nil {
			b, e := proto.Marshal(st.stats.proto())
			if e != nil {
				t.Log.Warn("a step's statistics cannot be sent", "error", e)
			}
			done.StepStats = b
		}
		reply(done, st.outbox.remove(m.Master))
	})
	if span != nil {
		st.Log = span.Log(st.Log)
		st.traceTransfers(span)
	}
	if m.Trace {
		st.trace()
	}
	if err = st.count(); err == nil {
		err = st.table()
	}
	if err != nil {
		kernels.ReleaseTensors(tensors)
		compiled.abandon()
		st.refuse(err)
		return
	}
	st.receive(m.Transfers, tensors)
	begin := func(plan *compiledPlan, err error) {
		if err != nil {
			st.refuse(err)
			return
		}
		st.use(plan)
		(*startPart)(st).Do(true)
	}
	switch {
	case compiled != nil: // another step has brought the plan
		compiled.then(t.pool, begin)
	case plan == nil:
		compiled := s.beginPlan(m.PlanId)
		t.pool.Schedule(func() {
			var plan *compiledPlan
			err := contain.Run(t.Log, "Compiling a plan of session "+m.Session, func() (err error) {
				bytes := 0
				for _, part := range m.Plan.Parts {
					bytes += len(part.GraphDef)
				}
				return s.inTurn(t.life, bytes/nodeBytes, func(check func() error) (err error) {
					plan, err = s.register(m.PlanId, m.Plan, check)
					return err
				})
			})
			compiled.end(plan, err)
			begin(plan, err)
		})
	case plan.light():
		st.inline.Store(true)
		t.worker.After((*startPart)(st))
	default:
		t.pool.Schedule(func() { (*startPart)(st).Do(true) })
	}
}

// planOf returns the session and the plan of a request: a compiled one with a reference to it, or one that is being compiled, or none. An unknown
// session is created only if the request contains a plan, which describes it.
func (t *Task) planOf(m *wire.RunPartition) (*workerSession, *compiledPlan, *compiling, error) {
	if m.Plan == nil {
		s := t.session(m.Session)
		if s == nil {
			return nil, nil, nil, nil
		}
		plan, compiled := s.plan(m.PlanId)
		return s, plan, compiled, nil
	}
	rights, err := rightsFrom(m.Plan.Rights)
	if err != nil {
		return nil, nil, nil, err
	}
	rights = rights.within(t.Ceiling)
	opened := int64(0)
	if m.Plan.Opened != 0 {
		opened = m.Plan.Opened
		// If the tasks' clocks differ, only the session's age when the step began counts. If they agree, the time that the step took to come here
		// must not make the session younger.
		if ago := time.Now().UnixNano() - m.Began; ago < 0 || ago > int64(sameClock) {
			opened += ago
		}
	}
	s, err := t.sessionFor(m.Session, m.Master, opened, sessionTraits{isolated: m.Plan.Isolated, literal: m.Plan.Literal}, rights)
	if err != nil {
		return nil, nil, nil, err
	}
	plan, compiled := s.plan(m.PlanId)
	return s, plan, compiled, nil
}

// noFetches is used by parts of other tasks than the master's, which fetch nothing.
type noFetches struct{}

// Fetch drops a tensor. No plan fetches one here.
func (noFetches) Fetch(_ int, t *tensor.Tensor, _ bool) {
	if t != nil {
		t.Release()
	}
}

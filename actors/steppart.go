package actors

import (
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/actors/internal/lifecycle"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/processors"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
)

// stepPart is a step's part on one task: one run of each of the plan's programs, which exchange tensors through
// the step's rendezvous. Its life is a lifecycle.Part.
type stepPart struct {
	kernels.Step
	task       *Task
	session    *workerSession
	plan       *compiledPlan // referenced by the step; nil until it is compiled
	master     string        // the task whose client runs the step
	rendezvous *devices.Rendezvous
	cancel     kernels.Cancellation
	tabled     bool
	held       int64        // what a part of another master's step counts as memory of the session
	sends      bool         // tensors to other tasks, or may do so
	keeping    atomic.Int64 // since when its changes are being written to disk, in nanoseconds since 1970; 0 if they are not
	inline     atomic.Bool  // the part runs on the goroutine that delivered it, which must not be blocked for long
	work       processors.Work
	outbox     outbox
	done       func(error)
	parts      []devices.Part
	onePart    [1]devices.Part // backs parts in the common case
	stats      *stepStats
	transfers  *transferSpans // nil: the step is not traced
	eager      *eagerCall     // nil outside of eager contexts
	client     string         // whose steps and parts it counts among; under the lock of the task's table

	entry stepEntry

	mu   sync.Mutex // guards the rest: programs end on several goroutines; a mailbox would cost more than a small part
	core lifecycle.Part
	runs kernels.Runs
}

// newStep prepares a step of a plan on this task, for a master. began is when it began there, in nanoseconds since 1970.
// done is called once, when nothing of the step runs any more and its state is gone. A step that needs no peer and is
// not in the table is cheaper.
func (t *Task) newStep(id uint64, session *workerSession, plan *compiledPlan, feeds kernels.Feeds, fetches kernels.Fetches, master string, began int64, done func(error)) *stepPart {
	st := t.makeStep(done)
	st.master = master
	st.begin(id, session, plan, feeds, fetches, began)
	return st
}

// makeStep creates the parts of a stepPart that do not depend on its step.
func (t *Task) makeStep(done func(error)) *stepPart {
	st := &stepPart{task: t, master: t.name, done: done}
	st.parts, st.entry.Part = st.onePart[:], st
	st.rendezvous = devices.NewRendezvous(t.isLocal, st.forward)
	// Otherwise receives would keep waiting after a cancellation.
	st.cancel.Bind(st.rendezvous.Abort)
	st.Cancellation, st.Rendezvous, st.Runner = &st.cancel, st.rendezvous, st
	st.Work, st.Runs, st.Observed = &st.work, &st.runs, &t.traces.kernels
	return st
}

// Continue runs the part's work on the pool. It implements kernels.Runner.
func (st *stepPart) Continue(work func()) { st.task.pool.Schedule(work) }

// Yield implements kernels.Runner.
func (st *stepPart) Yield() bool { return st.leaveGoroutine() }

// Room reports whether the link to a device has room for a large tensor. If not, ready is called when it
// may have. It implements kernels.Runner.
func (st *stepPart) Room(device string, size int, ready func()) bool {
	if st.task.local(device) {
		return true
	}
	p := st.task.Cluster.Reached(taskOf(device))
	if p == nil {
		return true // the send waits for the peer, or fails
	}
	return p.Room(size, func() { st.task.pool.Schedule(ready) })
}

// begin makes st a step of a plan. A recycled step keeps the container name of its first use; the container is
// empty by then.
func (st *stepPart) begin(id uint64, session *workerSession, plan *compiledPlan, feeds kernels.Feeds, fetches kernels.Fetches, began int64) {
	st.session, st.plan, st.core = session, plan, lifecycle.Part{}
	if plan != nil {
		st.core.Use(plan.peers)
	}
	st.entry.ID = id
	st.ID, st.Feeds, st.Fetches, st.Log, st.Files = int64(id), feeds, fetches, st.task.Log, session.files
	if st.Container == "" {
		st.Container = containers.StepName(int64(id))
	}
	if n := session.stepMemory; n > 0 {
		st.Quota = tensor.NewQuota(n, "step", "--step-memory, WithStepMemory or step_bytes in a policy raises it")
	}
	if store := st.task.Store; store != nil {
		st.Changes = store.Begin()
	}
	st.Origin = kernels.Origin{Step: id, Session: view.SessionName(session.handle), Master: st.master, Began: began, Opened: session.opened}
	st.Notes = session
	st.work.Begin(session.processors)
	st.sends = plan == nil || len(plan.peers) > 0
}

// reset prepares st for another step. Nothing of the previous one may still run, none of its tensors may have
// crossed devices, and it must not have failed.
func (st *stepPart) reset() {
	st.rendezvous.Reset()
	st.session, st.plan, st.stats, st.Tracer = nil, nil, nil, nil
	st.transfers, st.Receiver = nil, nil
	st.Rendezvous, st.eager, st.Foreign, st.Depth = st.rendezvous, nil, false, 0
	st.Feeds, st.Fetches, st.Files, st.Quota, st.Changes, st.Notes = nil, nil, nil, nil, nil, nil
}

// local reports whether a device belongs to this task.
func (t *Task) local(device string) bool {
	return len(device) > len(t.name) && device[:len(t.name)] == t.name && device[len(t.name)] == '/'
}

// table enters the step in the task's table, where messages of other tasks find it.
func (st *stepPart) table() error {
	if err := st.task.steps.begin(st); err != nil {
		return err
	}
	st.tabled = true
	return nil
}

// partBytes is about what a part takes on another task than its master, beside its runs.
const partBytes = 2 << 10

// count counts the part as memory of its session until it has ended.
func (st *stepPart) count() error {
	if err := st.session.devices[0].Pool().Reserve(partBytes); err != nil {
		return err
	}
	st.held = partBytes
	return nil
}

// refuse ends a part that cannot start.
func (st *stepPart) refuse(err error) {
	st.mu.Lock()
	ok, err := st.core.Refuse(err)
	st.mu.Unlock()
	if ok {
		st.finish(err)
	}
}

// run starts the plan's programs, the last one on the caller's goroutine. The part has ended when
// done is called.
func (st *stepPart) run() {
	programs := st.plan.programs
	if err := st.session.checkDevices(st.plan); err != nil {
		st.refuse(err)
		return
	}
	if len(programs) == 0 {
		st.retain()
		st.ended(nil)
		return
	}
	st.mu.Lock()
	st.core.Begin(len(programs))
	st.mu.Unlock()
	last := len(programs) - 1
	if len(st.parts) < len(programs) {
		st.parts = make([]devices.Part, len(programs))
	}
	for i, p := range programs {
		part := &st.parts[i]
		part.Program, part.Step, part.Owner = p, &st.Step, st
		if i < last {
			p.Executor().RunElsewhere(part)
		} else {
			p.Executor().Run(part)
		}
	}
}

// crashed ends a part whose start panicked.
func (st *stepPart) crashed(err error) {
	st.fail(err)
	st.refuse(err) // which does nothing if a program has begun
}

// PartEnded handles the end of one program's run. It implements devices.PartOwner.
func (st *stepPart) PartEnded(err error) { st.ended(err) }

// PartLost fails the step, which does not end before that. It implements devices.PartOwner.
func (st *stepPart) PartLost(err error) {
	st.retain()
	st.task.pool.Schedule(func() {
		st.fail(err)
		st.ended(nil)
	})
}

// use sets the part's plan and takes over the caller's reference to it.
func (st *stepPart) use(p *compiledPlan) {
	st.mu.Lock()
	st.plan = p
	st.core.Use(p.peers)
	st.mu.Unlock()
}

// meets reports whether the part exchanges tensors with a task, or might because its plan is not known yet.
func (st *stepPart) meets(task string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.core.Meets(task)
}

// retain delays the part's end until ended is called once more. The part must not have ended.
func (st *stepPart) retain() {
	st.mu.Lock()
	st.core.Hold()
	st.mu.Unlock()
}

// ended handles the end of one program's run. The last one ends the part.
func (st *stepPart) ended(err error) {
	st.mu.Lock()
	last := st.core.Ending(err)
	st.mu.Unlock()
	but := ""
	if last {
		but = st.master // tensors for the master travel with the message about the end
	}
	// Flush before the run counts as ended, since a parcel may have to wait for its peer. Other programs of the part
	// may depend on these tensors and flush nothing meanwhile.
	st.flushBut(but)
	st.mu.Lock()
	over, err := st.core.Ended()
	st.mu.Unlock()
	if !over {
		return
	}
	if st.eager != nil && err == nil && st.eager.leaseOutputs() {
		st.Container = "" // that of another step that st may become
	} else {
		st.session.clear(st.Container)
	}
	st.keep(err)
}

// clear empties a step's container.
func (s *workerSession) clear(container string) {
	for _, d := range s.devices {
		if err := d.Resources().Clear(container); err != nil {
			s.task.Log.Warn("a step's container was not cleared", "container", container, "error", err)
		}
	}
}

var errCleanup = &status.Error{Code: status.Aborted, Message: "The step is over", Derived: true}

// finish drops the state of a part that has ended, and calls done. A stopping task waits for that
// call.
func (st *stepPart) finish(err error) {
	st.rendezvous.Abort(errCleanup)
	if st.plan != nil {
		st.plan.release()
	}
	if st.held > 0 {
		st.session.devices[0].Pool().Unreserve(st.held)
	}
	if st.session != nil {
		st.task.traces.took(view.PartEvent, "", uint64(st.ID), st.session.handle, st.session.who, st.Origin.Began)
	}
	if st.transfers != nil {
		st.transfers.end()
	}
	st.done(err)
	st.outbox.drop()
	if st.tabled {
		st.task.steps.end(st)
	}
}

// fail ends the part with err, unless it fails or ends by itself first.
func (st *stepPart) fail(err error) {
	st.mu.Lock()
	live := st.core.Fail(err)
	st.mu.Unlock()
	if live {
		st.cancel.Cancel(status.Derive(err))
	}
}

// receive deposits the tensors that came with a message of another task.
func (st *stepPart) receive(transfers []*wire.Transfer, tensors []*tensor.Tensor) {
	err := deliver(transfers, tensors, func(key kernels.Key, v *tensor.Tensor, dead bool) {
		st.task.traces.transferred(view.ArrivalEvent, uint64(st.ID), key, "", v)
		st.deposit(key, v, dead)
	})
	if err != nil {
		st.fail(err)
	}
}

// PartMoved records that the part now runs on a goroutine that may be blocked for long.
func (st *stepPart) PartMoved() { st.inline.Store(false) }

// leaveGoroutine reports, once, that the part must move to another goroutine before it computes for long.
func (st *stepPart) leaveGoroutine() bool {
	return st.inline.CompareAndSwap(true, false)
}

func (st *stepPart) deposit(key kernels.Key, t *tensor.Tensor, dead bool) {
	if err := st.rendezvous.Deposit(key, t, dead); err != nil && !status.From(err).Derived {
		st.fail(err)
	}
}

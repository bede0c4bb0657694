package actors

import (
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/processors"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
)

// taskStep is a step's part on one task: one run of each of the plan's programs, which meet in the
// step's rendezvous.
type taskStep struct {
	kernels.Step
	task       *Task
	session    *workerSession
	plan       *taskPlan // of which the step holds a claim; nil until it is compiled
	master     string    // the task whose client the step is for
	rendezvous *devices.Rendezvous
	cancel     kernels.Cancellation
	tabled     bool
	inline     atomic.Bool // the part runs on the goroutine that brought it, which must not be kept for long
	work       processors.Work
	outbox     outbox
	done       func(error)
	parts      []devices.Part
	onePart    [1]devices.Part // where parts often lie
	stats      *stepStats
	transfers  *transferSpans // nil: the step is not traced

	mu   sync.Mutex
	left int
	err  error
	runs kernels.Runs
}

// newStep prepares a step of a plan on this task, for a master on which it began at a time in nanoseconds since 1970. done is called once, when nothing of the step
// runs any more and its state is gone. A step that needs no peer and is not tabled is cheaper.
func (t *Task) newStep(id uint64, session *workerSession, plan *taskPlan, feeds kernels.Feeds, fetches kernels.Fetches, master string, began int64, done func(error)) *taskStep {
	st := t.makeStep(done)
	st.master = master
	st.begin(id, session, plan, feeds, fetches, began)
	return st
}

// makeStep makes what a taskStep is whatever its step.
func (t *Task) makeStep(done func(error)) *taskStep {
	st := &taskStep{task: t, master: t.name, done: done}
	st.parts = st.onePart[:]
	st.rendezvous = devices.NewRendezvous(t.isLocal, st.forward)
	// A rendezvous that nobody aborts would keep receives waiting after a cancellation.
	st.cancel.Bind(st.rendezvous.Abort)
	st.Cancellation, st.Rendezvous, st.Continue, st.Yield = &st.cancel, st.rendezvous, t.schedule, st.leaveGoroutine
	st.Room, st.Work, st.Runs, st.Observed = st.room, &st.work, &st.runs, &t.traces.kernels
	return st
}

// room tells whether the way to a device has room for a large tensor. Where it has not, ready is called
// when it may have.
func (st *taskStep) room(device string, size int, ready func()) bool {
	if st.task.local(device) {
		return true
	}
	p := st.task.Cluster.Reached(taskOf(device))
	if p == nil {
		return true // the send waits for the peer, or fails
	}
	return p.Room(size, func() { st.task.pool.Schedule(ready) })
}

// begin makes st a step of a plan. The name of the container is the first step's also for later ones,
// which find it empty.
func (st *taskStep) begin(id uint64, session *workerSession, plan *taskPlan, feeds kernels.Feeds, fetches kernels.Fetches, began int64) {
	st.session, st.plan = session, plan
	st.ID, st.Feeds, st.Fetches, st.Log, st.Files = int64(id), feeds, fetches, st.task.Log, session.files
	if st.Container == "" {
		st.Container = containers.StepName(int64(id))
	}
	if n := session.stepMemory; n > 0 {
		st.Quota = tensor.NewQuota(n, "step", "--step-memory, WithStepMemory or step_bytes in a policy raises it")
	}
	st.Origin = kernels.Origin{Step: id, Session: view.SessionName(session.handle), Master: st.master, Began: began}
	st.work.Begin(session.processors)
	st.Flush = nil
	if plan == nil || len(plan.peers) > 0 {
		st.Flush = st.flush
	}
}

// reset makes st ready for another step. Nothing of the one before runs any more, none of its tensors
// crossed devices, and it did not fail.
func (st *taskStep) reset() {
	st.rendezvous.Reset()
	st.session, st.plan, st.stats, st.Trace = nil, nil, nil, nil
	st.transfers, st.Received = nil, nil
	st.Feeds, st.Fetches, st.Files, st.Quota = nil, nil, nil, nil
}

// local tells whether a device is this task's.
func (t *Task) local(device string) bool {
	return len(device) > len(t.name) && device[:len(t.name)] == t.name && device[len(t.name)] == '/'
}

// table makes the step known to what other tasks send.
func (st *taskStep) table() error {
	if err := st.task.steps.begin(st); err != nil {
		return err
	}
	st.tabled = true
	return nil
}

// refuse ends a part that cannot run.
func (st *taskStep) refuse(err error) {
	st.mu.Lock()
	st.err = status.Worse(st.err, err)
	err = st.err
	st.mu.Unlock()
	st.leave(err)
}

// run starts the plan's programs, the last one on the caller's goroutine. The part has ended when
// done is called.
func (st *taskStep) run() {
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
	st.left += len(programs)
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

// crashed ends a part whose beginning panicked.
func (st *taskStep) crashed(err error) {
	st.mu.Lock()
	begun := st.left > 0
	st.mu.Unlock()
	if begun {
		st.fail(err)
	} else {
		st.refuse(err)
	}
}

// PartEnded takes the end of one program's run, as a devices.PartOwner.
func (st *taskStep) PartEnded(err error) { st.ended(err) }

// PartLost fails the step, which does not end before, as a devices.PartOwner.
func (st *taskStep) PartLost(err error) {
	st.retain()
	st.task.pool.Schedule(func() {
		st.fail(err)
		st.ended(nil)
	})
}

// use gives the part its plan, with the caller's claim.
func (st *taskStep) use(p *taskPlan) {
	st.mu.Lock()
	st.plan = p
	st.mu.Unlock()
}

// meets tells whether the part exchanges tensors with a task, or might: its plan is not known yet.
func (st *taskStep) meets(task string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.plan == nil || st.plan.peers[task]
}

// retain keeps the part from its end until ended is called once more. The part must not have ended.
func (st *taskStep) retain() {
	st.mu.Lock()
	st.left++
	st.mu.Unlock()
}

// ended takes the end of one program's run; the last one ends the part.
func (st *taskStep) ended(err error) {
	st.mu.Lock()
	st.err = status.Worse(st.err, err)
	but := ""
	if st.left == 1 {
		but = st.master // what is for the master goes with the news of the end
	}
	st.mu.Unlock()
	// Before the run counts as ended, since a parcel may have to wait for its peer. Other programs of the part
	// may wait for what comes of this one's tensors, and flush nothing meanwhile.
	st.flushBut(but)
	st.mu.Lock()
	st.left--
	last := st.left == 0
	err = st.err
	st.mu.Unlock()
	if !last {
		return
	}
	for _, d := range st.session.devices {
		if e := d.Resources().Clear(st.Container); e != nil {
			st.task.Log.Warn("a step's container was not cleared", "container", st.Container, "error", e)
		}
	}
	st.leave(err)
}

var errCleanup = &status.Error{Code: status.Aborted, Message: "The step is over", Derived: true}

// leave drops the state of a part that has ended, and tells so. A task that stops waits until it has
// been told.
func (st *taskStep) leave(err error) {
	st.rendezvous.Abort(errCleanup)
	if st.plan != nil {
		st.plan.release()
	}
	if st.session != nil {
		st.task.traces.took(view.PartEvent, "part of step", uint64(st.ID), st.session.handle, st.Origin.Began)
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

// fail ends the part with err unless it fails or ends by itself before.
func (st *taskStep) fail(err error) {
	st.mu.Lock()
	st.err = status.Worse(st.err, err)
	st.mu.Unlock()
	st.cancel.Cancel(status.Derive(err))
}

// receive deposits what another task sent along.
func (st *taskStep) receive(transfers []*wire.Transfer, tensors []*tensor.Tensor) {
	err := deliver(transfers, tensors, func(key kernels.Key, v *tensor.Tensor, dead bool) {
		st.task.traces.transferred(view.ArrivalEvent, uint64(st.ID), key, "", v)
		st.deposit(key, v, dead)
	})
	if err != nil {
		st.fail(err)
	}
}

// PartMoved notes that the part runs on a goroutine that may be kept for long.
func (st *taskStep) PartMoved() { st.inline.Store(false) }

// leaveGoroutine tells, once, that the part has to go on elsewhere before it computes for long.
func (st *taskStep) leaveGoroutine() bool {
	return st.inline.CompareAndSwap(true, false)
}

func (st *taskStep) deposit(key kernels.Key, t *tensor.Tensor, dead bool) {
	if err := st.rendezvous.Deposit(key, t, dead); err != nil && !status.From(err).Derived {
		st.fail(err)
	}
}

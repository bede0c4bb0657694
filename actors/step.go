package actors

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	steppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/step_stats_go_proto"
	"github.com/troupe-run/troupe/actors/internal/lifecycle"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// step is the master's side of a run. Its life is a lifecycle.Master; step does what that asks for. The part on the master's own task is
// a stepPart like any other.
type step struct {
	id      uint64
	session *Session
	plan    *plan
	own     *stepPart
	call    stepCall // the client's call that runs it; empty for a partial run
	feeds   devices.Feeds
	out     fetches
	eager   *eagerCall // nil outside of eager contexts

	// Set once the call is detached. Owned by the call's goroutine.
	bounds       context.Context
	stopWatching func()

	shared atomic.Bool // other goroutines than the one that runs the step may reference it

	mu      sync.Mutex // guards the rest: the step is fed by its call, its own part, the master actor and timers; a mailbox would cost more than a small step
	partial bool       // of a partial run
	trace   bool
	costs   bool // the client requested its cost graph
	core    lifecycle.Master
	alone   time.Duration // when the local part ended, since the process began, if other tasks have parts
	sent    event         // the other tasks have been asked to run their parts
	done    event         // the last part has ended and the session knows
	broken  event         // the first failure
	aborted event         // the parts have been aborted because of it
	resumed chan func()   // work of the local part, for the goroutine that awaits the step; created when one does
	stats   []*steppb.StepStats
	holds   []func()
	waits   bool            // counted as memory of its session: see count
	spans   map[string]Span // of other tasks' parts, of a traced call
}

// takeStep returns an unused step, which may be a recycled one.
func (t *Task) takeStep() *step {
	if st, _ := t.spare.Get().(*step); st != nil {
		return st
	}
	st := &step{}
	st.own = t.makeStep(st.ownEnded)
	st.own.Runner = st
	st.own.entry.Master = st
	return st
}

// recycle makes a step available for reuse if nothing else can reference it: it began and ended on the goroutine
// of its call, without an error.
func (st *step) recycle() {
	st.mu.Lock()
	known := st.shared.Load() || st.core.Err() != nil || st.stopWatching != nil || st.done.awaited() || st.broken.awaited() || st.resumed != nil || len(st.plan.remote) > 0
	st.mu.Unlock()
	if known {
		return
	}
	task := st.session.task
	st.own.reset()
	st.feeds, st.session, st.plan, st.call, st.eager = st.feeds[:0], nil, nil, stepCall{}, nil
	st.done = event{} // the others have not happened
	st.out.reset()
	task.spare.Put(st)
}

// isDone returns a channel that is closed when every part has ended and the session knows.
func (st *step) isDone() <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.done.wait()
}

// hasEnded reports whether every part has ended and the session knows.
func (st *step) hasEnded() bool {
	select {
	case <-st.isDone():
		return true
	default:
		return false
	}
}

// isBroken returns a channel that is closed at the first failure.
func (st *step) isBroken() <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.broken.wait()
}

// errMoved means that resources have moved, or are about to, since a step's plan was looked up.
var errMoved = status.New(status.Aborted, "The resources of the step have moved")

// beginStep makes st a step of a plan in its session; the caller then runs it. It takes over the caller's reference
// to the plan, even if it fails. If it fails with errMoved, the caller follows and looks up the plan again.
func (s *Session) beginStep(st *step, p *plan, feeds kernels.Feeds, out kernels.Fetches, trace bool) error {
	if err := s.admitStep(); err != nil {
		p.local.release()
		s.task.refused(s.rights.Who, "step refused", s.name(), err)
		return err
	}
	st.id, st.session, st.plan, st.trace = newStepID(), s, p, trace
	st.core.Begin(s.task.name, p.others...)
	st.own.begin(st.id, s.worker, p.local, feeds, out, s.used.Load())
	if st.eager != nil {
		st.eager.attach(st)
	}
	if span := st.call.span; span != nil {
		span.Set(stepAttribute(st.id))
		st.own.Log = span.Log(st.own.Log)
		if len(p.remote) > 0 {
			st.own.traceTransfers(span)
		}
	}
	if trace {
		st.own.trace()
	}
	if !p.local.light() || len(p.remote) > 0 { // refused before it has done anything
		if err := st.count(); err != nil {
			s.stepOver()
			p.local.release()
			s.task.refused(s.rights.Who, "step refused", s.name(), err)
			return err
		}
	}
	if err := s.task.steps.enter(s, st); err != nil {
		st.uncount()
		s.stepOver()
		p.local.release()
		s.task.refused(s.rights.Who, "step refused", s.name(), err)
		return err
	}
	// From here on a task that leaves waits until the step has sent it its part. If it has announced that before, it may not; and if it has left since the
	// plan was looked up, the session may have followed what has moved, but the plan has not.
	if len(p.remote) > 0 && (!s.upToDate() || s.homes.Load() != nil && p.dropped.Load()) {
		st.uncount()
		s.leave(st)
		p.local.release()
		st.mu.Lock()
		defer st.mu.Unlock()
		st.sent.set() // the task that leaves may wait for it
		st.done.set()
		return errMoved
	}
	return nil
}

// run starts all parts. The local one runs on the caller's goroutine until it must wait.
func (st *step) run() {
	light := st.plan.local.light()
	if st.own.inline.Store(light); !light || st.call.detached {
		st.detach()
	}
	if len(st.plan.remote) > 0 {
		if err := st.own.table(); err != nil {
			st.own.refuse(err)
			for _, part := range st.plan.remote {
				st.dispatch(part, false) // ends the part, since the step has failed
			}
			st.allSent()
			return
		}
		if light {
			st.runFirst()
			return
		}
		for _, part := range st.plan.remote {
			st.dispatch(part, false)
		}
		st.allSent()
	}
	st.own.run()
}

// detach detaches the call from its connection's reader, because it is about to wait or to compute for long, and starts
// watching its deadline. It returns the context that ends then. Only the call's goroutine may call it.
func (st *step) detach() context.Context {
	if st.call.ctx == nil {
		return context.Background()
	}
	if st.stopWatching == nil {
		ctx, cancel := st.call.bound(contain.Func(st.session.task.Log, "The end of a step", st.cancelled, nil))
		stop := context.AfterFunc(ctx, contain.Func(st.session.task.Log, "The end of a step", func() { st.expire(ctx, st.call.limit) }, nil))
		st.bounds, st.stopWatching = ctx, func() {
			stop()
			cancel()
		}
	}
	return st.bounds
}

// Flush, Yield, Continue and Room make the step the kernels.Runner of its local part.
func (st *step) Flush() { st.own.Flush() }

// Room is that of other parts.
func (st *step) Room(device string, size int, ready func()) bool {
	return st.own.Room(device, size, ready)
}

// Yield is called by the local part before it computes for long, which it does on the call's goroutine.
func (st *step) Yield() bool {
	if st.own.leaveGoroutine() {
		st.detach()
	}
	return false
}

// runFirst runs the local part as far as possible before the others begin, so that the tensors it sends them travel
// with the messages that start them. The part must be short.
func (st *step) runFirst() {
	st.own.outbox.hold()
	st.own.retain() // it does not end before its messages have been sent
	st.own.run()
	for _, part := range st.plan.remote {
		st.dispatch(part, false)
	}
	st.allSent()
	st.own.outbox.release()
	st.own.Flush()
	st.own.ended(nil)
}

// Continue continues the local part on the goroutine that awaits the step, or on the pool if there is none.
func (st *step) Continue(work func()) {
	st.own.leaveGoroutine() // the work may run on another goroutine than the call's
	st.shared.Store(true)
	st.mu.Lock()
	resumed := st.resumed
	st.mu.Unlock()
	select {
	case resumed <- work: // a nil channel means that no goroutine waits
	default:
		st.session.task.pool.Schedule(work)
	}
}

// partDone handles another task's answer.
func (st *step) partDone(m *wire.PartitionDone, tensors []*tensor.Tensor) {
	part := st.plan.remote[m.Task]
	if part == nil || m.UnknownPlan {
		kernels.ReleaseTensors(tensors)
	}
	if part == nil {
		return
	}
	if m.UnknownPlan {
		st.mu.Lock()
		owes := st.core.Unknown(m.Task)
		st.mu.Unlock()
		if !owes {
			return
		}
		contain.Go(st.session.task.Log, "The start of a part on "+part.task, func() { // bounded by the wait for the peer
			st.dispatch(part, true)
		}, func(err error) { st.partEnded(part.task, err) })
		return
	}
	if len(m.StepStats) > 0 {
		var stats steppb.StepStats
		if err := tensor.Unmarshal(m.StepStats, &stats); err == nil {
			st.mu.Lock()
			st.stats = append(st.stats, &stats)
			st.mu.Unlock()
		} else {
			st.session.task.Log.Warn("a step's statistics cannot be read", "task", m.Task, "error", err)
		}
	}
	st.own.receive(m.Transfers, tensors)
	st.partEnded(m.Task, m.Failure.Err())
}

// partEnded handles the end of another task's part.
func (st *step) partEnded(task string, err error) {
	st.endPart(task, err)
	st.mu.Lock()
	st.do(st.core.Ended(task, err))
}

// ownEnded handles the end of the local part.
func (st *step) ownEnded(err error) {
	st.mu.Lock()
	if len(st.plan.remote) > 0 {
		st.alone = devices.SinceStart()
	}
	st.do(st.core.EndedOwn(err))
}

// do does what the core has answered to an event. mu is held; do unlocks it.
func (st *step) do(e lifecycle.Effects) {
	if e.Failed {
		st.broken.set()
		defer func() { // even if something panics
			st.mu.Lock()
			defer st.mu.Unlock()
			st.aborted.set()
		}()
	}
	holds := st.holds
	st.mu.Unlock()
	if e.Err != nil {
		derived := status.Derive(e.Err)
		if e.AbortOwn {
			st.own.fail(derived)
		}
		for _, task := range e.Abort {
			st.abort(task, derived)
		}
	}
	if e.Over {
		for _, release := range holds {
			release()
		}
		st.over()
	}
}

// over ends the step after its last part.
func (st *step) over() {
	if len(st.plan.remote) > 0 {
		st.session.task.tally.remote.Add(devices.SinceStart()-st.alone, 1)
	}
	st.uncount()
	st.session.leave(st)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.done.set()
}

// waitingBytes is about what a step that waits takes at its master, beside its runs: the step, its call, and the goroutine that awaits its end.
const waitingBytes = 10 << 10

// count counts a step that waits, or computes for long, as memory of its session until it is over. A partial run counts from its setup on.
func (st *step) count() error {
	st.mu.Lock()
	counted := st.waits || st.partial
	st.mu.Unlock()
	if counted {
		return nil
	}
	pool := st.session.worker.devices[0].Pool()
	if err := pool.Reserve(waitingBytes); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.core.Over() { // meanwhile
		pool.Unreserve(waitingBytes)
		return nil
	}
	st.waits = true
	return nil
}

// uncount undoes count.
func (st *step) uncount() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.waits {
		st.waits = false
		st.session.worker.devices[0].Pool().Unreserve(waitingBytes)
	}
}

// owing returns the other tasks whose parts have not ended, in order.
func (st *step) owing() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.core.Owing()
}

// abort asks a task to end its part.
func (st *step) abort(task string, err error) {
	if p := st.session.task.Cluster.Reached(task); p != nil {
		st.session.task.System.Root.Send(actor.NewPID(p.Address(), workerName), &wire.AbortStep{Step: st.id, Failure: wire.FailureOf(err)})
	}
}

// fail ends the step with err, unless it has already failed.
func (st *step) fail(err error) {
	st.mu.Lock()
	st.do(st.core.Fail(err))
}

// lost ends the part of a lost task. If only the connection was lost, the part may still run.
func (st *step) lost(task string, err error) {
	st.endPart(task, err)
	st.mu.Lock()
	e := st.core.Lost(task, err)
	if e.Stray { // remembered before the step is over
		st.session.stray(task, st.id)
	}
	st.do(e)
}

// abandon ends the parts of all other tasks.
func (st *step) abandon(err error) {
	for _, task := range st.owing() {
		st.endPart(task, err)
	}
	st.mu.Lock()
	st.do(st.core.Abandon(err))
}

// cause returns the step's error.
func (st *step) cause() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.core.Err()
}

// afterFailure is how long a failed step's client waits for the other parts to end, so that its next request finds
// nothing left of the step.
const afterFailure = time.Second

// await waits for the step's end. It gives up a failed step soon after the failure; the remaining parts end
// by themselves.
func (st *step) await() error {
	st.mu.Lock()
	if st.done.happened() {
		st.mu.Unlock()
		return st.cause()
	}
	done, broken := st.done.wait(), st.broken.wait()
	if st.resumed == nil {
		st.resumed = make(chan func())
	}
	resumed := st.resumed
	st.mu.Unlock()
	st.detach()
	if err := st.count(); err != nil {
		st.fail(err)
	}
	for waiting := true; waiting; {
		select {
		case <-done:
			return st.cause()
		case work := <-resumed:
			work()
		case <-broken:
			waiting = false
		}
	}
	limit := time.NewTimer(afterFailure)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	}
	return st.cause()
}

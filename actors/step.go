package actors

import (
	"context"
	"slices"
	"sync"
	"time"

	steppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/step_stats_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// step is a run as its master sees it: which tasks still owe the end of their part, and the error
// that the client gets. The part on the master's own task is a taskStep like any other.
type step struct {
	id      uint64
	session *Session
	plan    *plan
	own     *taskStep
	call    stepCall // the client's that runs it; that of a partial run is nobody's
	feeds   devices.Feeds
	out     fetches

	// Of a call that is detached, on its goroutine.
	bounds       context.Context
	stopWatching func()

	mu      sync.Mutex
	owed    []*taskPart // by other tasks, whose part has not ended
	local   bool        // the own part has not ended
	alone   time.Time   // when the own part ended, of a step with parts on other tasks
	ending  bool        // the last part has ended
	done    event       // and the session knows
	broken  event       // the first failure
	shared  bool        // others than the goroutine that runs the step may know it
	err     error
	resumed chan func() // work of the own part, for the goroutine that waits for the step; made when one does
	stats   []*steppb.StepStats
	partial bool // of a partial run
	trace   bool
	costs   bool // its cost graph is wanted
	holds   []func()
	spans   map[string]Span // of other tasks' parts, of a traced call
}

// takeStep gives a step, whose memory may be that of one before.
func (t *Task) takeStep() *step {
	if st, _ := t.spare.Get().(*step); st != nil {
		return st
	}
	st := &step{}
	st.own = t.makeStep(func(err error) { st.partEnded("", err) })
	st.own.Continue, st.own.Yield = st.proceed, st.yield
	return st
}

// recycle lets the memory of a step be used again where nobody else can know the step: it began and
// ended on the goroutine of its call, without an error.
func (st *step) recycle() {
	st.mu.Lock()
	known := st.shared || st.err != nil || st.stopWatching != nil || st.done.told != nil || st.broken.told != nil || st.resumed != nil || len(st.plan.remote) > 0
	st.mu.Unlock()
	if known {
		return
	}
	task := st.session.task
	st.own.reset()
	st.feeds, st.session, st.plan, st.call = st.feeds[:0], nil, nil, stepCall{}
	st.ending, st.done = false, event{}
	st.out.reset()
	task.spare.Put(st)
}

// isDone is closed when every part has ended, and the session knows.
func (st *step) isDone() <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.done.wait()
}

// isBroken is closed at the first failure.
func (st *step) isBroken() <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.broken.wait()
}

// beginStep makes st a step of a plan in its session. The caller runs it. It takes over the caller's claim
// to the plan, also when it fails.
func (s *Session) beginStep(st *step, p *plan, feeds kernels.Feeds, out kernels.Fetches, trace bool) error {
	if err := s.admitStep(p); err != nil {
		p.local.release()
		s.task.refused("step refused", s.name(), err)
		return err
	}
	st.id, st.session, st.plan, st.local, st.trace = newStepID(), s, p, true, trace
	st.own.begin(st.id, s.worker, p.local, feeds, out, s.used.Load())
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
	if err := s.enter(st); err != nil {
		s.stepOver()
		p.local.release()
		s.task.refused("step refused", s.name(), err)
		return err
	}
	return nil
}

// run starts all parts; the own one works on the caller's goroutine until it has to wait.
func (st *step) run() {
	light := st.plan.local.light()
	if st.own.inline.Store(light); !light {
		st.detach()
	}
	if len(st.plan.remote) > 0 {
		if err := st.own.table(); err != nil {
			st.own.refuse(err)
			return
		}
		st.session.task.distributed.enter(st)
		st.mu.Lock()
		for _, part := range st.plan.remote {
			st.owed = append(st.owed, part)
		}
		st.mu.Unlock()
		if light {
			st.runFirst()
			return
		}
		for _, part := range st.plan.remote {
			st.dispatch(part, false)
		}
	}
	st.own.run()
}

// detach detaches the call from the reader of its connection, since it waits or computes for long, and watches its
// deadline from now on. It gives the context that ends then. The goroutine of the call calls it.
func (st *step) detach() context.Context {
	if st.call.ctx == nil {
		return context.Background()
	}
	if st.stopWatching == nil {
		ctx, cancel := st.call.bound()
		stop := context.AfterFunc(ctx, contain.Func(st.session.task.Log, "The end of a step", func() { st.expire(ctx, st.call.limit) }, nil))
		st.bounds, st.stopWatching = ctx, func() {
			stop()
			cancel()
		}
	}
	return st.bounds
}

// yield is called by the own part before it computes for long: it does so on the goroutine of the call.
func (st *step) yield() bool {
	if st.own.leaveGoroutine() {
		st.detach()
	}
	return false
}

// runFirst runs the own part as far as it goes before the others begin: what it sends them travels
// with the message that starts them. It must not take long.
func (st *step) runFirst() {
	st.own.outbox.hold()
	st.own.retain() // it does not end before what it has sent is on its way
	st.own.run()
	for _, part := range st.plan.remote {
		st.dispatch(part, false)
	}
	st.own.outbox.release()
	st.own.flush()
	st.own.ended(nil)
}

// proceed lets the goroutine that waits for the step go on with the own part, if it waits.
func (st *step) proceed(work func()) {
	st.own.leaveGoroutine() // it may not be the call's goroutine that works
	st.mu.Lock()
	st.shared = true
	resumed := st.resumed
	st.mu.Unlock()
	select {
	case resumed <- work: // nobody waits where there is no channel
	default:
		st.session.task.pool.Schedule(work)
	}
}

// partDone takes the answer of another task.
func (st *step) partDone(m *wire.PartitionDone, tensors []*tensor.Tensor) {
	if m.UnknownPlan {
		for _, t := range tensors {
			t.Release()
		}
		st.mu.Lock()
		i := st.owes(m.Task)
		var part *taskPart
		if i >= 0 {
			part = st.owed[i]
		}
		st.mu.Unlock()
		if part == nil {
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
	st.partEnded(m.Task, failed(m.Failure))
}

// partEnded notes the end of a task's part ("" for the own one), and ends the step with the last.
// The first failure is spread to the other parts.
func (st *step) partEnded(task string, err error) {
	st.mu.Lock()
	if task == "" {
		if !st.local {
			st.mu.Unlock()
			return
		}
		st.local = false
		if len(st.plan.remote) > 0 {
			st.alone = time.Now()
		}
		task = st.session.task.name
	} else {
		i := st.owes(task)
		if i < 0 {
			st.mu.Unlock()
			return
		}
		st.owed = slices.Delete(st.owed, i, i+1)
		if st.spans != nil {
			defer st.endPart(task, err)
		}
	}
	if err != nil {
		st.err = status.Worse(st.err, atTask(err, task))
	}
	abort := st.abortLocked()
	last := !st.local && len(st.owed) == 0 && !st.ending
	st.ending = st.ending || last
	failure := st.err
	st.mu.Unlock()
	if abort != nil {
		st.spread(abort, failure)
	}
	if !last {
		return
	}
	for _, release := range st.holds {
		release()
	}
	if len(st.plan.remote) > 0 {
		st.session.task.tally.remote.Add(time.Since(st.alone), 1)
		st.session.task.distributed.leave(st)
	}
	st.session.leave(st)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.done.happen()
}

// cause is the step's error.
func (st *step) cause() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.err
}

// afterFailure is how long the client of a failed step waits for the other parts to end, so that
// what it does next finds nothing of the step.
const afterFailure = time.Second

// await waits for the step's end. A failed step is given up soon after its failure; its parts end
// by themselves.
func (st *step) await() error {
	st.mu.Lock()
	if st.done.happened {
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

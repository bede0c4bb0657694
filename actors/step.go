package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	steppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/step_stats_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
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

	// The rest of a call that lingers, on its goroutine.
	bounds context.Context
	calm   func()

	mu      sync.Mutex
	owed    []*share // by other tasks, whose part has not ended
	local   bool     // the own part has not ended
	ending  bool     // the last part has ended
	over    bool     // and the session knows
	shared  bool     // others than the goroutine that runs the step may know it
	err     error
	aborted bool
	done    chan struct{} // closed when over; made when somebody waits, as the next two are
	broken  chan struct{} // closed at the first failure
	resumed chan func()   // work of the own part, for the goroutine that waits for the step
	stats   []*steppb.StepStats
	trace   bool
	holds   []func()
}

// takeStep gives a step, whose memory may be that of one before.
func (t *Task) takeStep() *step {
	if st, _ := t.spare.Get().(*step); st != nil {
		return st
	}
	st := &step{}
	st.own = t.makeStep(func(err error) { st.partEnded("", err) })
	st.own.Continue, st.own.Yield = st.proceed, st.stay
	return st
}

// recycle lets the memory of a step be used again where nobody else can know the step: it began and
// ended on the goroutine of its call, without an error.
func (st *step) recycle() {
	st.mu.Lock()
	known := st.shared || st.err != nil || st.calm != nil || st.done != nil || st.broken != nil || st.resumed != nil || len(st.plan.remote) > 0
	st.mu.Unlock()
	if known {
		return
	}
	task := st.session.task
	st.own.reset()
	st.feeds, st.session, st.plan, st.call = st.feeds[:0], nil, nil, stepCall{}
	st.ending, st.over = false, false
	st.out.reset()
	task.spare.Put(st)
}

// beginStep makes st a step of a plan in its session. The caller runs it. It takes over the caller's claim
// to the plan, also when it fails.
func (s *Session) beginStep(st *step, p *plan, feeds kernels.Feeds, out kernels.Fetches, trace bool) error {
	st.id, st.session, st.plan, st.local, st.trace = newStepID(), s, p, true, trace
	st.own.begin(st.id, s.worker, p.local, feeds, out)
	if trace {
		st.own.trace()
	}
	if err := s.enter(st); err != nil {
		p.local.release()
		return err
	}
	return nil
}

// run starts all parts; the own one works on the caller's goroutine until it has to wait.
func (st *step) run() {
	if st.own.brief = st.plan.local.brief(); !st.own.brief {
		st.linger()
	}
	if len(st.plan.remote) > 0 {
		if err := st.own.table(); err != nil {
			st.own.refuse(err)
			return
		}
		st.session.task.led.enter(st)
		st.mu.Lock()
		for _, sh := range st.plan.remote {
			st.owed = append(st.owed, sh)
		}
		st.mu.Unlock()
		if st.own.brief {
			st.runFirst()
			return
		}
		for _, sh := range st.plan.remote {
			st.dispatch(sh, false)
		}
	}
	st.own.run()
}

// linger tells the client's connection that the call waits or computes for long, and hears of the end
// of its time from now on. It gives the context that ends then. The goroutine of the call calls it.
func (st *step) linger() context.Context {
	if st.call.ctx == nil {
		return context.Background()
	}
	if st.calm == nil {
		ctx, cancel := st.call.bound()
		stop := context.AfterFunc(ctx, func() { st.expire(ctx, st.call.limit) })
		st.bounds, st.calm = ctx, func() {
			stop()
			cancel()
		}
	}
	return st.bounds
}

// stay is called by the own part before it computes for long: it does so on the goroutine of the call.
func (st *step) stay() bool {
	if st.own.leaveGoroutine() {
		st.linger()
	}
	return false
}

// runFirst runs the own part as far as it goes before the others begin: what it sends them travels
// with the message that starts them. It must not take long.
func (st *step) runFirst() {
	st.own.outbox.hold()
	st.own.also() // it does not end before what it has sent is on its way
	st.own.run()
	for _, sh := range st.plan.remote {
		st.dispatch(sh, false)
	}
	st.own.outbox.release()
	st.own.flush()
	st.own.ended(nil)
}

// proceed lets the goroutine that waits for the step go on with the own part, if it waits.
func (st *step) proceed(work func()) {
	if st.own.brief { // it may not be the call's goroutine that works
		st.own.brief = false
	}
	st.mu.Lock()
	st.shared = true
	resumed := st.resumed
	st.mu.Unlock()
	select {
	case resumed <- work: // nobody waits where there is no channel
	default:
		st.session.task.crew.Schedule(work)
	}
}

// dispatch starts another task's part, unless the step has failed meanwhile: its parts have been
// told to end then, and nobody would tell one that begins later.
func (st *step) dispatch(sh *share, again bool) {
	if st.cause() != nil {
		st.partEnded(sh.task, nil)
		return
	}
	if err := st.send(sh, again); err != nil {
		st.partEnded(sh.task, err)
		return
	}
	if err := st.cause(); err != nil {
		st.abort(sh, status.Derive(err))
	}
}

// send asks a task to run its part, with the plan when it is not known to have it.
func (st *step) send(sh *share, again bool) error {
	s := st.session
	patience := st.linger
	if again { // on a goroutine of its own
		patience = context.Background
	}
	peer := s.task.Cluster.Reached(sh.task)
	if peer == nil {
		var err error
		if peer, err = s.task.Cluster.Peer(patience(), sh.task); err != nil {
			return err
		}
	}
	if peer.Boot() != sh.boot {
		if err := s.forgetPlans(patience(), sh.task); err != nil {
			return err
		}
		return status.Errorf(status.Aborted, "%s (%s) was restarted: its variables and queues are gone, and have to be made again",
			sh.task, peer.Address())
	}
	m := &wire.RunPartition{Step: st.id, Session: s.handle, PlanId: st.plan.id, Master: s.task.name, Boot: sh.boot, Trace: st.trace}
	if !again {
		st.hold(peer)
	}
	worker := actor.NewPID(peer.Address(), workerName)
	for _, id := range s.strays(sh.task) {
		s.task.System.Root.Send(worker, &wire.AbortStep{Step: id, Failure: failure(errStray)})
	}
	sh.mu.Lock()
	if !sh.sent || again {
		m.Plan = sh.plan
		sh.sent = true
	}
	sh.mu.Unlock()
	along := st.own.outbox.take(sh.task)
	m.Transfers = along.transfers
	s.task.System.Root.RequestWithCustomSender(worker, &wire.Parcel{Message: m, Tensors: along.tensors}, s.task.answers)
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

// serveWorkers takes the answers of the tasks that have a part of a step of this master's.
func (t *Task) serveWorkers(message any, _ *actor.PID) {
	p, ok := message.(*wire.Parcel)
	if !ok {
		return
	}
	m, ok := p.Message.(*wire.PartitionDone)
	if !ok {
		p.Release()
		return
	}
	if st := t.led.find(m.Step); st != nil {
		st.partDone(m, p.Tensors)
	} else {
		p.Release()
	}
}

// ledSteps finds the steps that a task's sessions run on other tasks too.
type ledSteps struct {
	mu   sync.Mutex
	byID map[uint64]*step
}

func (l *ledSteps) enter(st *step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[uint64]*step{}
	}
	l.byID[st.id] = st
}

func (l *ledSteps) leave(st *step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byID, st.id)
}

func (l *ledSteps) find(id uint64) *step {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

// partDone takes the answer of another task.
func (st *step) partDone(m *wire.PartitionDone, tensors []*tensor.Tensor) {
	if m.UnknownPlan {
		for _, t := range tensors {
			t.Release()
		}
		st.mu.Lock()
		i := st.owes(m.Task)
		var sh *share
		if i >= 0 {
			sh = st.owed[i]
		}
		st.mu.Unlock()
		if sh == nil {
			return
		}
		go st.dispatch(sh, true) // bounded by the wait for the peer
		return
	}
	if len(m.StepStats) > 0 {
		var stats steppb.StepStats
		if err := proto.Unmarshal(m.StepStats, &stats); err == nil {
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
		task = st.session.task.name
	} else {
		i := st.owes(task)
		if i < 0 {
			st.mu.Unlock()
			return
		}
		st.owed = slices.Delete(st.owed, i, i+1)
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
		st.session.task.led.leave(st)
	}
	st.session.leave(st)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.over = true
	if st.done != nil {
		close(st.done)
	}
}

// closed is what isDone and isBroken give when that has happened.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// isDone is closed when every part has ended.
func (st *step) isDone() <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.doneLocked()
}

func (st *step) doneLocked() <-chan struct{} {
	if st.over {
		return closed
	}
	if st.done == nil {
		st.done = make(chan struct{})
	}
	return st.done
}

// isBroken is closed at the first failure.
func (st *step) isBroken() <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.brokenLocked()
}

func (st *step) brokenLocked() <-chan struct{} {
	if st.aborted {
		return closed
	}
	if st.broken == nil {
		st.broken = make(chan struct{})
	}
	return st.broken
}

// atTask names the task of an error, but for those that speak of the cluster itself.
func atTask(err error, task string) error {
	if strings.Contains(err.Error(), "{{node ") {
		return status.AtTask(err, task)
	}
	return err
}

// abortLocked gives the tasks to abort when the step has failed just now; nil otherwise.
func (st *step) abortLocked() []*share {
	if st.err == nil || st.aborted {
		return nil
	}
	st.aborted = true
	if st.broken != nil {
		close(st.broken)
	}
	return append(make([]*share, 0, len(st.owed)), st.owed...) // not nil
}

// owes is where the share of a task is in what is owed, or -1; the caller holds the lock.
func (st *step) owes(task string) int {
	return slices.IndexFunc(st.owed, func(sh *share) bool { return sh.task == task })
}

// owing are the tasks that owe the end of their part, in order.
func (st *step) owing() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	var tasks []string
	for _, sh := range st.owed {
		tasks = append(tasks, sh.task)
	}
	slices.Sort(tasks)
	return tasks
}

// spread ends the parts that still run.
func (st *step) spread(abort []*share, err error) {
	derived := status.Derive(err)
	st.own.fail(derived)
	for _, sh := range abort {
		st.abort(sh, derived)
	}
}

// abort tells a task to end its part.
func (st *step) abort(sh *share, err error) {
	if p := st.session.task.Cluster.Reached(sh.task); p != nil {
		st.session.task.System.Root.Send(actor.NewPID(p.Address(), workerName), &wire.AbortStep{Step: st.id, Failure: failure(err)})
	}
}

// fail ends the step with err, unless it has failed before.
func (st *step) fail(err error) {
	st.mu.Lock()
	st.err = status.Worse(st.err, err)
	abort := st.abortLocked()
	failure := st.err
	st.mu.Unlock()
	if abort != nil {
		st.spread(abort, failure)
	}
}

// lost ends the parts of a task that is gone. If only the connection to it is, the part may live on.
func (st *step) lost(task string, err error) {
	st.mu.Lock()
	owes := st.owes(task) >= 0
	st.mu.Unlock()
	if owes {
		st.session.stray(task, st.id)
		st.partEnded(task, err)
	}
}

// abandon ends the parts that other tasks owe.
func (st *step) abandon(err error) {
	for _, task := range st.owing() {
		st.partEnded(task, err)
	}
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
	if st.over {
		st.mu.Unlock()
		return st.cause()
	}
	done, broken := st.doneLocked(), st.brokenLocked()
	if st.resumed == nil {
		st.resumed = make(chan func())
	}
	resumed := st.resumed
	st.mu.Unlock()
	st.linger()
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
		asked.Go(func() { remote[i] = st.remoteWaits(task) })
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

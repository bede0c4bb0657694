package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	steppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/step_stats_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
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
	done    chan struct{} // closed when every part has ended
	broken  chan struct{} // closed at the first failure
	resumed chan func()   // work of the own part, for the goroutine that waits for the step
	ends    atomic.Bool

	mu      sync.Mutex
	owed    map[string]*share // other tasks whose part has not ended
	local   bool              // the own part has not ended
	err     error
	aborted bool
	stats   []*steppb.StepStats
	trace   bool
	holds   []func()
}

// newStep enters a step into its session. The caller runs it. It takes over the caller's claim to
// the plan, also when it fails.
func (s *Session) newStep(p *plan, feeds kernels.Feeds, out kernels.Fetches, trace bool) (*step, error) {
	st := &step{id: newStepID(), session: s, plan: p, done: make(chan struct{}), broken: make(chan struct{}), resumed: make(chan func()),
		local: true, trace: trace}
	st.own = s.task.newStep(st.id, s.worker, p.local, feeds, out, func(err error) { st.partEnded("", err) })
	st.own.Continue = st.proceed
	if trace {
		st.own.trace()
	}
	if err := s.enter(st); err != nil {
		p.local.release()
		return nil, err
	}
	return st, nil
}

// run starts all parts; the own one works on the caller's goroutine until it has to wait.
func (st *step) run(ctx context.Context) {
	if len(st.plan.remote) > 0 {
		if err := st.own.table(); err != nil {
			st.own.refuse(err)
			return
		}
		st.session.task.led.enter(st)
		st.mu.Lock()
		st.owed = make(map[string]*share, len(st.plan.remote))
		for task, sh := range st.plan.remote {
			st.owed[task] = sh
		}
		st.mu.Unlock()
		if st.plan.local.light() {
			st.runFirst(ctx)
			return
		}
		for _, sh := range st.plan.remote {
			st.dispatch(ctx, sh, false)
		}
	}
	st.own.run()
}

// runFirst runs the own part as far as it goes before the others begin: what it sends them travels
// with the message that starts them. It must not take long.
func (st *step) runFirst(ctx context.Context) {
	st.own.outbox.hold()
	st.own.also() // it does not end before what it has sent is on its way
	st.own.run()
	for _, sh := range st.plan.remote {
		st.dispatch(ctx, sh, false)
	}
	st.own.outbox.release()
	st.own.flush()
	st.own.ended(nil)
}

// proceed lets the goroutine that waits for the step go on with the own part, if it waits.
func (st *step) proceed(work func()) {
	select {
	case st.resumed <- work:
	default:
		st.session.task.crew.Schedule(work)
	}
}

// dispatch starts another task's part, unless the step has failed meanwhile: its parts have been
// told to end then, and nobody would tell one that begins later.
func (st *step) dispatch(ctx context.Context, sh *share, again bool) {
	if st.cause() != nil {
		st.partEnded(sh.task, nil)
		return
	}
	if err := st.send(ctx, sh, again); err != nil {
		st.partEnded(sh.task, err)
		return
	}
	if err := st.cause(); err != nil {
		st.abort(sh, status.Derive(err))
	}
}

// send asks a task to run its part, with the plan when it is not known to have it.
func (st *step) send(ctx context.Context, sh *share, again bool) error {
	s := st.session
	peer, err := s.task.Cluster.Peer(ctx, sh.task)
	if err != nil {
		return err
	}
	if peer.Boot() != sh.boot {
		if err := s.forgetPlans(ctx, sh.task); err != nil {
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
		sh := st.owed[m.Task]
		st.mu.Unlock()
		if sh == nil {
			return
		}
		go st.dispatch(context.Background(), sh, true) // bounded by the wait for the peer
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
		if st.owed[task] == nil {
			st.mu.Unlock()
			return
		}
		delete(st.owed, task)
	}
	if err != nil {
		st.err = status.Worse(st.err, atTask(err, task))
	}
	abort := st.abortLocked()
	last := !st.local && len(st.owed) == 0
	failure := st.err
	st.mu.Unlock()
	if abort != nil {
		st.spread(abort, failure)
	}
	if last && !st.ends.Swap(true) {
		for _, release := range st.holds {
			release()
		}
		if len(st.plan.remote) > 0 {
			st.session.task.led.leave(st)
		}
		st.session.leave(st)
		close(st.done)
	}
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
	close(st.broken)
	abort := make([]*share, 0, len(st.owed))
	for _, sh := range st.owed {
		abort = append(abort, sh)
	}
	return abort
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
	_, owes := st.owed[task]
	st.mu.Unlock()
	if owes {
		st.session.stray(task, st.id)
		st.partEnded(task, err)
	}
}

// abandon ends the parts that other tasks owe.
func (st *step) abandon(err error) {
	st.mu.Lock()
	tasks := sortedKeys(st.owed)
	st.mu.Unlock()
	for _, task := range tasks {
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
	for waiting := true; waiting; {
		select {
		case <-st.done:
			return st.cause()
		case work := <-st.resumed:
			work()
		case <-st.broken:
			waiting = false
		}
	}
	limit := time.NewTimer(afterFailure)
	defer limit.Stop()
	select {
	case <-st.done:
	case <-limit.C:
	}
	return st.cause()
}

// overdue is the error of a step that did not end in time: it names what the step waits for.
func (st *step) overdue(limit time.Duration) error {
	st.mu.Lock()
	var tasks []string
	for task := range st.owed {
		tasks = append(tasks, task)
	}
	local := st.local
	st.mu.Unlock()
	var waits []string
	if local {
		for _, n := range st.own.waiting(maxWaiting) {
			waits = append(waits, "{{node "+n+"}}")
		}
	}
	slices.Sort(tasks)
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

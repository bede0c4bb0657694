package devices

import (
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/processors"
	"github.com/troupe-run/troupe/kernels"
)

// report is what a kernel that ran elsewhere leaves for the owner.
type report struct {
	call *asyncCall
	err  error
}

// asyncCall is an execution away from the owner.
type asyncCall struct {
	task
	ctx   kernels.Context
	ins   [4]kernels.Value
	outs  [4]kernels.Value
	begun time.Time
	run   *run
	since time.Duration   // when the run began to wait for it, by sinceStart; 0 while it does not; under the run's lock
	on    kernels.Awaited // under the run's lock
	stall bool            // a send that waits for room
	size  int64           // of what a send sends, for who observes the step
	// reported lets only the first report count.
	reported atomic.Bool
}

// depart makes the record of an execution away from the owner, with inputs of its own.
func (r *run) depart(t task, ins []kernels.Value) *asyncCall {
	n := t.n
	call := &asyncCall{task: t, run: r}
	c := &call.ctx
	c.Node, c.Device, c.Step, c.Dead, c.Caller = n.graph, r.ctx.Device, r.step, t.dead, call
	c.Tag = kernels.Tag{Frame: t.it.frame.id, Iter: t.it.num}
	c.Inputs, c.HostOutputs = append(call.ins[:0], ins...), n.hostOut
	clear(ins)
	if int(n.numOut) <= len(call.outs) {
		c.Outputs = call.outs[:n.numOut]
	} else {
		c.Outputs = make([]kernels.Value, n.numOut)
	}
	if r.observe != nil || r.step.Trace != nil || n.recv && r.step.Received != nil {
		call.begun = time.Now()
		if n.send {
			call.size = bytesOf(c.Inputs)
		}
	}
	r.away++
	r.mu.Lock()
	r.waits[call] = struct{}{}
	r.mu.Unlock()
	return call
}

// Awaits notes what the kernel waits for.
func (call *asyncCall) Awaits(a kernels.Awaited) {
	call.run.mu.Lock()
	defer call.run.mu.Unlock()
	call.on = a
}

// start begins an asynchronous kernel. It may report before it returns.
func (r *run) start(t task, ins []kernels.Value) {
	r.setOff(r.depart(t, ins))
}

// setOff runs the asynchronous kernel of a call that nobody has reported yet.
func (r *run) setOff(call *asyncCall) {
	done := func(err error) {
		if !call.reported.Swap(true) {
			r.report(call, err, false)
		}
	}
	defer func() {
		if p := recover(); p != nil {
			done(r.panicked(call.n, p))
		}
	}()
	call.n.async.ComputeAsync(&call.ctx, done)
}

// handOver gives a costly kernel to another core, if one is free.
func (r *run) handOver(t task, ins []kernels.Value) bool {
	if processors.Default.Contended() {
		return false
	}
	select {
	case helpers <- struct{}{}:
	default:
		return false
	}
	call := r.depart(t, ins)
	contain.Go(r.step.Log, "The kernel of op "+t.n.graph.Op, func() {
		w := call.ctx.Step.Work
		if w != nil {
			w.Enter()
		}
		err := call.compute()
		if w != nil {
			w.Leave()
		}
		<-helpers
		r.report(call, err, true)
	}, nil)
	return true
}

// compute runs the call's kernel; a panic is an error.
func (call *asyncCall) compute() (err error) {
	defer contain.Recover(call.ctx.Step.Log, "The kernel of op "+call.n.graph.Op, func(e error) { err = e })
	return call.n.sync.Compute(&call.ctx)
}

// report leaves a result for the owner. Without an owner a new one takes over: the reporting
// goroutine itself where it has nothing else to do (inline), else one of its own, since who
// completes an asynchronous kernel may be an actor or hold a peer's stream.
func (r *run) report(call *asyncCall, err error, inline bool) {
	if r.step.Trace != nil {
		r.step.Trace(call.n.graph, r.p.device.Name(), call.ctx.Outputs, call.begun, time.Now())
	}
	if observe := r.step.Observed.Told(); observe != nil {
		r.mu.Lock() // the owner may stamp the call meanwhile
		since := call.since
		r.mu.Unlock()
		begun := call.begun
		if begun.IsZero() { // it began before somebody wanted to know
			begun = began.Add(since)
		}
		if since > 0 || !call.begun.IsZero() {
			observe(r.execution(call.task, begun, time.Now(), call.size+bytesOf(call.ctx.Outputs)))
		}
	}
	if received := r.step.Received; received != nil && call.n.recv {
		received(r.execution(call.task, call.begun, time.Now(), bytesOf(call.ctx.Outputs)), call.ctx.Outputs[0].Tensor, err)
	}
	r.mu.Lock()
	delete(r.waits, call)
	r.inbox = append(r.inbox, report{call, err})
	take := !r.owned
	r.owned = true
	r.mu.Unlock()
	switch {
	case !take:
	case inline:
		r.work()
	default:
		r.proceed()
	}
}

// take deals with a report. The outputs of a kernel that left them unfit are a bug like a panic.
func (r *run) take(rep report) {
	r.away--
	if rep.call.stall {
		r.stalls--
	}
	defer func() {
		if p := recover(); p != nil {
			r.abandon(rep.call.task, p)
		}
	}()
	r.finish(rep.call.task, &rep.call.ctx, rep.err)
}

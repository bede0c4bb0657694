package devices

import (
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/processors"
	"github.com/troupe-run/troupe/kernels"
)

// report is the result of a kernel that ran elsewhere, for the owner.
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
	since time.Duration   // when the run began to wait for it, by SinceStart; 0 if it does not; guarded by run.mu
	on    kernels.Awaited // guarded by run.mu
	stall bool            // a send that waits for room
	size  int64           // bytes that a send sends, for observers of the step
	// reported makes only the first report count.
	reported atomic.Bool
}

// depart makes the record of an execution away from the owner, with its own inputs.
func (r *run) depart(t task, ins []kernels.Value) *asyncCall {
	n := t.n
	call := &asyncCall{task: t, run: r}
	c := &call.ctx
	c.Node, c.Device, c.Step, c.Dead, c.Caller = n.graph, r.ctx.Device, r.step, t.dead, call
	c.Tag = kernels.Tag{Frame: t.it.frame.tag, Iter: t.it.num}
	c.Inputs, c.HostOutputs = append(call.ins[:0], ins...), n.hostOut
	clear(ins)
	if int(n.numOut) <= len(call.outs) {
		c.Outputs = call.outs[:n.numOut]
	} else {
		c.Outputs = make([]kernels.Value, n.numOut)
	}
	if r.observe != nil || r.step.Tracer != nil || n.recv && r.step.Receiver != nil {
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

// Awaits records what the kernel waits for.
func (call *asyncCall) Awaits(a kernels.Awaited) {
	call.run.mu.Lock()
	defer call.run.mu.Unlock()
	call.on = a
}

// start begins an asynchronous kernel. It may report before it returns.
func (r *run) start(t task, ins []kernels.Value) {
	r.grow()
	r.setOff(r.depart(t, ins))
}

// setOff runs the asynchronous kernel of a call that has not been reported yet.
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

// handOver moves a costly kernel to another core, if one is free. It reports whether it did.
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

// compute runs the call's kernel and turns a panic into an error.
func (call *asyncCall) compute() (err error) {
	defer contain.Recover(call.ctx.Step.Log, "The kernel of op "+call.n.graph.Op, func(e error) { err = e })
	return call.n.compute(&call.ctx)
}

// report delivers a result to the owner. If there is none, a new one takes over: the reporting goroutine itself if inline is set, otherwise
// a new goroutine, since a caller that completes an asynchronous kernel may be an actor or hold a peer's stream.
func (r *run) report(call *asyncCall, err error, inline bool) {
	if r.step.Tracer != nil {
		r.step.Tracer.Ran(call.n.graph, r.p.device.Name(), call.ctx.Outputs, call.begun, time.Now())
	}
	if observe := r.step.Observed.Told(); observe != nil {
		r.mu.Lock() // the owner may be stamping the call
		since := call.since
		r.mu.Unlock()
		begun := call.begun
		if begun.IsZero() { // it began before the step was observed
			begun = began.Add(since)
		}
		if since > 0 || !call.begun.IsZero() {
			observe(r.execution(call.task, begun, time.Now(), call.size+bytesOf(call.ctx.Outputs)))
		}
	}
	if receiver := r.step.Receiver; receiver != nil && call.n.recv {
		receiver.Received(r.execution(call.task, call.begun, time.Now(), bytesOf(call.ctx.Outputs)), call.ctx.Outputs[0].Tensor, err)
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

// handleReport handles a report. Invalid outputs of a kernel are a bug, handled like a panic.
func (r *run) handleReport(rep report) {
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

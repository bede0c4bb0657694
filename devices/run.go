package devices

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/subnormal"
	"github.com/troupe-run/troupe/kernels"
)

// run is one execution of a program. Its owner is the goroutine that found owned false under mu and set it. Everything except the fields
// under mu belongs to the owner.
type run struct {
	p    *Program
	step *kernels.Step
	done func(error)

	ready  []task
	frames map[uint64]*frame
	// windows is the number of iterations that frames have room for.
	windows int
	// iterations is what the iterations take in bytes, spare ones included.
	iterations int64
	// held is what is counted of the run in its device's memory.
	held int64

	root   frame
	away   int // kernels that have been started and have not reported
	stalls int // of those, sends that wait for room: no more nodes fire meanwhile
	err    error
	ctx    kernels.Context
	outs   [8]kernels.Value
	spare  [][]*iteration // by frame index
	cur    task           // what the owner is running, for the message of a panic
	// counts means that the device's memory counts tensors.
	counts bool
	// computing means that a kernel runs with ctx, so a panic is the kernel's.
	computing bool
	// fresh means that the run has not begun, and firing that a panic belongs to cur.
	fresh, firing bool
	scope         subnormal.Scope // begun by flush
	// yielded means that the run continues through its step's Continue.
	yielded bool
	turns   turns
	// observe is called with kernels that have run; nil if the step is not observed. It is reloaded at each turn.
	observe func(kernels.Execution)

	// listed means that the run is on its step's list of runs that wait or compute for long.
	listed bool
	// at is the costly node that the owner is computing, or nil, for observers of the run; atSince is when that began, by SinceStart.
	at      atomic.Pointer[node]
	atSince atomic.Int64

	mu    sync.Mutex
	owned bool
	inbox []report
	waits map[*asyncCall]struct{}
	num   uint64 // number of the run, since a run's memory is reused
}

type task struct {
	n    *node
	it   *iteration
	dead bool
}

type runPool struct{ pool sync.Pool }

// Run begins a run and works on it until nothing more can fire without waiting. When all kernels have ended, done is called once with the
// run's error, on the caller's goroutine or on the one that reports the last result. The caller must not hold a lock that done takes.
//
// On an accelerator, done is called after all work of the run has completed there.
//
// The first error cancels step's Cancellation, which ends waiting kernels.
func (p *Program) Run(step *kernels.Step, done func(error)) {
	if step.Tracer != nil && p.untouched != nil {
		q, err := p.untouched()
		if err != nil {
			done(err)
			return
		}
		p = q
	}
	r, _ := p.runs.pool.Get().(*run)
	if r == nil {
		r = &run{p: p, waits: map[*asyncCall]struct{}{}, spare: make([][]*iteration, len(p.frames))}
		r.root.info = p.frames[0]
		r.root.window = make([]*iteration, 1)
	}
	if a := p.accelerator; a != nil {
		ended := done
		done = func(err error) { a.Settle(step, func(e error) { ended(status.Worse(err, e)) }) }
	}
	r.step, r.done, r.owned, r.fresh, r.turns = step, done, true, true, turns{left: turnNodes}
	r.ctx.Device, r.ctx.Step = p.device, step
	if step.Quota != nil && p.accelerator == nil {
		r.ctx.Device = &bounded{p.device, p.device.Pool().Under(step.Quota)}
	}
	r.counts = r.ctx.Device.Pool().CountsTensors()
	r.work()
}

// enterRoot begins the only iteration of the root frame.
func (r *run) enterRoot() {
	r.fresh = false
	if r.step.Tracer != nil {
		r.p.traceConstants(r.step)
	}
	it := r.begin(&r.root, 0)
	for _, n := range r.p.roots {
		if n.kind == kindArg && n.handed && r.pass(n, it) {
			continue
		}
		r.push(n, it, false)
	}
}

// bounded is a device as seen by the kernels of a step with a quota.
type bounded struct {
	kernels.Device
	pool *tensor.Pool
}

// Pool returns the device's memory under the step's quota.
func (b *bounded) Pool() *tensor.Pool { return b.pool }

// Memory returns the pool: host memory.
func (b *bounded) Memory() tensor.Memory { return b.pool }

// traceConstants reports the constants as if they had run.
func (p *Program) traceConstants(step *kernels.Step) {
	now := time.Now()
	for _, c := range p.constants {
		step.Tracer.Ran(c.graph, p.device.Name(), []kernels.Value{{Tensor: c.value}}, now, now)
	}
}

// work is the owner's loop: it fires ready nodes, takes in reports, and gives up ownership when there are neither. The last owner also ends
// the run.
func (r *run) work() {
	work := r.enterTurn()
	r.observe = r.step.Observed.Told()
	for r.turn() {
	}
	if work != nil {
		work.Leave()
	}
}

// turn does the work until something panics, which fails the run; work must then call it again. A panic is a bug, and must not affect other
// runs. This is the only recover of a run, since each costs an empty step one percent.
func (r *run) turn() (again bool) {
	log, released := r.step.Log, false
	var done func(error) // called if ending the run panics
	defer func() {
		if p := recover(); p == nil {
			return
		} else if !released {
			again = true
			r.recovered(p)
		} else if err := contain.Error(log, "The end of a step's run", p); done != nil {
			done(err)
		}
	}()
	if r.fresh {
		r.enterRoot()
	}
	for {
		for len(r.ready) > 0 && r.stalls == 0 {
			r.burst()
			if r.yielded {
				r.yielded = false
				released = true
				r.leaveTurn()
				r.proceed()
				return false
			}
		}
		if r.away > 0 && r.err == nil { // a failed run sends its remaining values at its end
			r.step.Flush()
			if err := r.hold(); err != nil {
				r.fail(nil, err)
			}
		}
		r.leaveTurn()
		r.mu.Lock()
		if len(r.inbox) == 0 {
			r.owned, released = false, true
			last := r.away == 0
			if !last {
				r.list()
				r.stamp()
			}
			r.mu.Unlock()
			if last {
				done = r.done
				ended, err := r.end()
				done = nil
				ended(err)
			}
			return false
		}
		inbox := r.inbox
		r.inbox = nil
		r.mu.Unlock()
		for i := range inbox {
			r.handleReport(inbox[i])
		}
		r.recycleInbox(inbox)
	}
}

// recovered fails the run for a panic on its owner's goroutine.
func (r *run) recovered(p any) {
	r.keep()
	if r.firing {
		r.firing = false
		r.abandon(r.cur, p)
		return
	}
	clear(r.outs[:])
	r.fail(nil, contain.Error(r.step.Log, "The run of a step", p))
}

func (r *run) recycleInbox(inbox []report) {
	clear(inbox)
	r.mu.Lock()
	if r.inbox == nil {
		r.inbox = inbox[:0]
	}
	r.mu.Unlock()
}

// burst fires ready nodes until there are none.
func (r *run) burst() {
	r.firing = true
	for len(r.ready) > 0 && r.stalls == 0 {
		if r.turns.left--; r.turns.left <= 0 && r.pause() {
			break
		}
		last := len(r.ready) - 1
		t := r.ready[last]
		r.ready = r.ready[:last]
		if r.err != nil {
			t.it.ops--
			continue // the inputs are released at the end
		}
		if err := r.step.Cancellation.Err(); err != nil {
			r.fail(nil, err)
			t.it.ops--
			continue
		}
		r.cur = t
		r.fire(t)
		if r.yielded {
			break
		}
	}
	r.keep()
	r.firing = false
}

// proceed continues the run, still owned, on another goroutine.
func (r *run) proceed() {
	r.step.Continue("The run of a step", r.work)
}

// abandon fails the run for a panic in a task. Outputs that the kernel has set are released now, its inputs at the run's end.
func (r *run) abandon(t task, p any) {
	err := r.panicked(t.n, p)
	if r.computing {
		r.computing = false
		for _, v := range r.ctx.Outputs {
			v.Release()
		}
	}
	clear(r.outs[:])
	t.it.ops--
	r.fail(t.n, err)
}

// panicked returns the error of a node whose kernel panicked. The stack goes to the log.
func (r *run) panicked(n *node, p any) error {
	return contain.Error(r.step.Log, "The kernel of op "+n.graph.Op, p)
}

// fire runs one node, or propagates its deadness.
func (r *run) fire(t task) {
	n, it := t.n, t.it
	ins := it.inputs[n.base : n.base+n.numIn : n.base+n.numIn]
	if t.dead && n.kind != kindTransfer {
		for i := range ins {
			ins[i].Release()
			ins[i] = kernels.Value{}
		}
		if n.kind == kindRetval {
			r.step.Fetches.Fetch(n.index, nil, true)
		}
		r.propagate(n, it, nil, true)
		return
	}
	if err := n.dereference(ins); err != nil {
		r.fail(n, err)
		it.ops--
		return
	}
	if n.recv && n.handed && !t.dead && r.step.Tracer == nil {
		if v, dead, ok := r.received(n, it); ok {
			r.outs[0] = kernels.Value{Tensor: v}
			if r.observe != nil || r.step.Receiver != nil {
				now := time.Now()
				x := r.execution(t, now, now, bytesOf(r.outs[:1]))
				if r.observe != nil {
					r.observe(x)
				}
				if r.step.Receiver != nil {
					r.step.Receiver.Received(x, v, nil)
				}
			}
			r.propagate(n, it, r.outs[:1], dead)
			r.outs[0] = kernels.Value{}
			return
		}
	}
	if n.send && r.stall(t, ins) {
		return
	}
	if n.async != nil {
		r.keep()
		if n.calls {
			r.joinTurn()
		}
		r.start(t, ins)
		return
	}
	if n.costly || long(ins) {
		if r.step.Yield() {
			r.ready = append(r.ready, t) // it still counts as ready
			r.yielded = true
			return
		}
		r.awaitTurn()
	}
	if n.costly {
		r.step.Flush()
		if len(r.ready) > 0 && r.handOver(t, ins) {
			return
		}
	}
	c := &r.ctx
	c.Node, c.Dead = n.graph, t.dead
	c.Tag = kernels.Tag{Frame: it.frame.tag, Iter: it.num}
	c.Inputs, c.HostOutputs = ins, n.hostOut
	if int(n.numOut) <= len(r.outs) {
		c.Outputs = r.outs[:n.numOut]
	} else {
		c.Outputs = make([]kernels.Value, n.numOut)
	}
	var begun time.Time
	observe, size := r.observe, int64(0)
	if observe != nil && n.send {
		size = bytesOf(ins)
	}
	if observe != nil || r.step.Tracer != nil {
		begun = time.Now()
	}
	if n.costly {
		r.list()
		r.atSince.Store(int64(SinceStart()))
		r.at.Store(n)
	}
	r.computing = true
	if n.subnormals != ignoresSubnormals && r.scope.Begun() == (n.subnormals == keepsSubnormals) {
		r.flush(n)
	}
	err := n.sync.Compute(c)
	r.computing = false
	if n.costly {
		r.at.Store(nil)
	}
	if r.step.Tracer != nil {
		r.step.Tracer.Ran(n.graph, r.p.device.Name(), c.Outputs, begun, time.Now())
	}
	if observe != nil {
		observe(r.execution(t, begun, time.Now(), size+bytesOf(c.Outputs)))
	}
	r.finish(t, c, err)
}

// longInput is the size in bytes of inputs from which any kernel may take long.
const longInput = 256 << 10

// long reports whether inputs are large. Elements that are not plain bytes count as longElement each.
func long(ins []kernels.Value) bool {
	const longElement = 16
	size := 0
	for i := range ins {
		if t := ins[i].Tensor; t != nil {
			if n := t.DataSize(); n > 0 {
				size += n
			} else {
				size += longElement * t.Len()
			}
		}
	}
	return size > longInput
}

// pass delivers the value fed to an _Arg if it has already arrived. Otherwise it returns false.
func (r *run) pass(n *node, it *iteration) bool {
	fed := r.fed(n)
	if fed == nil {
		return false
	}
	r.outs[0] = kernels.Value{Tensor: fed}
	r.activate(n, it, r.outs[:1], false)
	r.outs[0] = kernels.Value{}
	return true
}

// fed returns a reference to the tensor of an _Arg if it has already arrived, which avoids an asynchronous kernel. Otherwise it returns
// nil, also for a tensor that the kernel will refuse.
func (r *run) fed(n *node) *tensor.Tensor {
	switch feeds := r.step.Feeds.(type) {
	case *Feeds:
		if n.index < len(*feeds) && n.takes((*feeds)[n.index]) {
			return (*feeds)[n.index].Retain()
		}
	case *arguments:
		if n.index < len(*feeds) && n.takes((*feeds)[n.index].Tensor) {
			return feeds.take(n.index)
		}
	}
	return nil
}

// received returns what a receive waits for if it has already arrived, like fed.
func (r *run) received(n *node, it *iteration) (v *tensor.Tensor, dead, ok bool) {
	if meet, _ := r.step.Rendezvous.(*Rendezvous); meet != nil {
		return meet.takeArrived(kernels.Key{Edge: n.edge, Tag: kernels.Tag{Frame: it.frame.tag, Iter: it.num}}, n.graph.OutTypes[0])
	}
	return nil, false, false
}

// takes reports whether an _Arg node may yield t.
func (n *node) takes(t *tensor.Tensor) bool { return t != nil && t.DType() == n.graph.OutTypes[0] }

// finish takes over a kernel's outputs, releases its remaining inputs and propagates.
func (r *run) finish(t task, c *kernels.Context, err error) {
	for i := range c.Inputs {
		if in := &c.Inputs[i]; in.Tensor != nil {
			in.Tensor.Release()
			in.Tensor = nil
		}
		c.Inputs[i].Ref = nil
	}
	dead, failed := t.dead, t.n
	if err == nil {
		if err = r.step.Ended(); err != nil {
			failed = nil // not the kernel's fault: it may have skipped computations
		}
	}
	if err == nil {
		dead, err = checkOutputs(t.n, c.Outputs, dead)
	}
	if err == nil && (t.n.strings || r.counts && hasUncounted(c.Outputs)) {
		err = countOutputs(c, t.n.strings)
	}
	if err != nil || dead { // a receive that is dead here may have got a live value
		for i := range c.Outputs {
			c.Outputs[i].Release()
			c.Outputs[i] = kernels.Value{}
		}
	}
	if err != nil {
		r.fail(failed, err)
		t.it.ops--
		return
	}
	r.propagate(t.n, t.it, c.Outputs, dead)
	clear(c.Outputs)
}

// hasUncounted reports whether an output may have been made without its device's memory.
func hasUncounted(outs []kernels.Value) bool {
	for i := range outs {
		if t := outs[i].Tensor; t != nil && !t.Counted() {
			return true
		}
	}
	return false
}

// countOutputs counts what a kernel has made without its device's memory: tensors whose elements need no memory of their own, and the bytes
// of strings.
func countOutputs(c *kernels.Context, strings bool) error {
	for i := range c.Outputs {
		t := c.Outputs[i].Tensor
		if t == nil {
			continue
		}
		pool := c.Device.Pool()
		if err := t.CountIn(pool); err != nil {
			return err
		}
		if strings {
			if err := t.CountStrings(pool); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOutputs finds missing outputs. A receive without an output has received a dead value.
func checkOutputs(n *node, outs []kernels.Value, dead bool) (bool, error) {
	for i := range outs {
		if outs[i].Tensor != nil || outs[i].Ref != nil {
			continue
		}
		if n.recv {
			return true, nil
		}
		if n.kind != kindSwitch {
			return false, status.Internalf("Missing %d-th output from {{node %s}}", i, n.graph.UserName())
		}
	}
	return dead, nil
}

// fail records an error and cancels the step. A root error replaces an error that is only a consequence.
func (r *run) fail(n *node, err error) {
	switch {
	case n == nil:
	case r.p.calledBy(n):
		err = graph.AtCaller(err, n.graph)
	default:
		err = graph.AtNode(err, n.graph)
	}
	first := r.err == nil
	r.err = status.Worse(r.err, err)
	if first {
		r.step.Cancellation.Cancel(status.Derive(err))
	}
}

// end releases what a failed run has left, recycles the run, and returns the callback and its error.
func (r *run) end() (done func(error), err error) {
	r.sweep(&r.root)
	for id, f := range r.frames {
		r.sweep(f)
		delete(r.frames, id)
	}
	done, err = r.done, r.err
	if r.held > 0 {
		r.ctx.Device.Pool().Unreserve(r.held)
		r.held = 0
	}
	r.mu.Lock()
	if r.listed {
		r.listed = false
		r.step.Runs.Remove(kernels.ListedRun{Run: r, Number: r.num})
	}
	r.num++
	r.mu.Unlock()
	r.at.Store(nil)
	r.step, r.done, r.err, r.cur, r.windows, r.observe = nil, nil, nil, task{}, 0, nil
	r.ctx = kernels.Context{}
	r.p.runs.pool.Put(r)
	return done, err
}

// sweep releases the values in a frame and recycles its iterations.
func (r *run) sweep(f *frame) {
	for i, it := range f.window {
		if it != nil {
			r.freeIteration(it)
			f.window[i] = nil
		}
	}
	for _, h := range f.invariants {
		h.value.Release()
	}
	for _, h := range f.waiting {
		h.value.Release()
	}
	f.oldest, f.count, f.live = 0, 0, 0
	f.invariants, f.waiting, f.deadExits = nil, nil, nil
}

// newIteration returns a fresh iteration of a frame, reusing a finished one if possible.
func (r *run) newIteration(info *frameInfo) *iteration {
	var it *iteration
	if list := r.spare[info.index]; len(list) > 0 {
		it = list[len(list)-1]
		r.spare[info.index] = list[:len(list)-1]
	} else {
		r.iterations += info.bytes()
		r.grow()
		it = &iteration{state: make([]nodeState, len(info.template)), inputs: make([]kernels.Value, info.slots)}
	}
	copy(it.state, info.template)
	for _, f := range info.fixed {
		it.inputs[f.slot].Tensor = f.value.Retain()
	}
	return it
}

// freeIteration recycles a finished iteration and releases the inputs of nodes that never got all of them.
func (r *run) freeIteration(it *iteration) {
	for i := range it.inputs {
		if it.inputs[i] != (kernels.Value{}) {
			it.inputs[i].Release()
			it.inputs[i] = kernels.Value{}
		}
	}
	index := it.frame.info.index
	it.frame, it.ops, it.frames = nil, 0, 0
	r.spare[index] = append(r.spare[index], it)
}

// Feeds are a step's fed tensors, all available from the beginning.
type Feeds []*tensor.Tensor

// Feed passes on a new reference to the tensor.
func (f *Feeds) Feed(index int, done func(*tensor.Tensor, error)) {
	if index < 0 || index >= len(*f) || (*f)[index] == nil {
		done(nil, status.Internalf("No tensor was fed for argument %d", index))
		return
	}
	done((*f)[index].Retain(), nil)
}

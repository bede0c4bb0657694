package devices

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
)

// frame is a running instance of a loop: a static frame, entered from one iteration of its parent.
type frame struct {
	info       *frameInfo
	id         uint64
	tag        uint64 // the frame's number in the keys of what its nodes send and receive
	parent     *frame
	parentIter *iteration
	// window holds the live iterations at their number modulo its length. count is the number of the last iteration that began, oldest that
	// of the first live one.
	window        []*iteration
	oldest, count int64
	live          int
	pendingEnters int
	invariants    []held
	waiting       []held // values of NextIteration that wait for a free iteration
	deadExits     []*node
}

// held is an output that a frame keeps for later iterations.
type held struct {
	from  *node
	value kernels.Value
}

// iteration is the state of a frame's nodes in one iteration.
type iteration struct {
	frame  *frame
	num    int64
	state  []nodeState
	inputs []kernels.Value
	// ops is the number of nodes that are ready or running, frames the number of live child frames.
	ops, frames int
}

func (f *frame) at(num int64) *iteration {
	if num < f.oldest || num > f.count {
		return nil
	}
	return f.window[num%int64(len(f.window))]
}

// begin creates iteration num of f, the newest one.
func (r *run) begin(f *frame, num int64) *iteration {
	it := r.newIteration(f.info)
	it.frame, it.num = f, num
	f.window[num%int64(len(f.window))] = it
	f.count = num
	f.live++
	return it
}

// maxFrames bounds the loop instances that a run may have at once, and maxWindows the iterations that they have room for: nested loops
// multiply their parallel iterations.
const (
	maxFrames  = 1 << 16
	maxWindows = 1 << 22
)

// admit fails the run if a frame exceeds the limits. The run then fires no more nodes.
func (r *run) admit(n *node) {
	r.windows += n.child.parallel + 1
	if len(r.frames) >= maxFrames || r.windows > maxWindows {
		r.fail(n, status.Errorf(status.ResourceExhausted, "The step has %d loops under way with room for %d iterations in all; the limits are %d and %d: "+
			"lower parallel_iterations of the outer loops", len(r.frames), r.windows, maxFrames, maxWindows))
	}
}

// enter returns the instance of n's child frame for this iteration of n's own frame, creating it if necessary.
func (r *run) enter(n *node, it *iteration) *frame {
	id := mix(it.frame.id, it.num, n.child.hash)
	if f := r.frames[id]; f != nil {
		return f
	}
	r.admit(n)
	f := &frame{info: n.child, id: id, tag: id, parent: it.frame, parentIter: it, pendingEnters: n.child.enters,
		window: make([]*iteration, n.child.parallel+1)}
	if r.step.Foreign {
		f.tag = foreignTag(it.frame.tag, it.num, n.child.name)
	}
	if r.frames == nil {
		r.frames = map[uint64]*frame{}
	}
	r.frames[id] = f
	it.frames++
	r.begin(f, 0)
	return f
}

// propagate passes on a finished node's outputs. The references move to the receivers; outputs without a receiver are released.
func (r *run) propagate(n *node, it *iteration, outs []kernels.Value, dead bool) {
	f := it.frame
	switch n.kind {
	case kindEnter:
		child := r.enter(n, it)
		if n.constant {
			r.invariant(child, n, outs, dead)
		} else {
			r.activate(n, child.at(0), outs, dead)
		}
		child.pendingEnters--
		r.removeFinished(child, child.at(child.oldest))
	case kindExit:
		if !dead {
			r.activate(n, f.parentIter, outs, false)
		} else if it.num == f.count {
			f.deadExits = append(f.deadExits, n)
		}
	case kindNextIteration:
		switch {
		case dead:
		case it.num < f.count:
			r.activate(n, f.at(it.num+1), outs, false)
		case f.live == f.info.parallel:
			f.waiting = append(f.waiting, held{n, outs[0]})
		default:
			r.iterate(f)
			r.activate(n, f.at(f.count), outs, false)
		}
	default:
		r.activate(n, it, outs, dead)
	}
	it.ops--
	if it.ops == 0 && f.parent != nil {
		r.removeFinished(f, it)
	}
}

// iterate begins the next iteration of f with the loop invariants and the waiting values.
func (r *run) iterate(f *frame) {
	f.deadExits = f.deadExits[:0]
	it := r.begin(f, f.count+1)
	it.ops++ // keeps the iteration alive until all its values are delivered
	for _, h := range f.waiting {
		r.activate(h.from, it, []kernels.Value{h.value}, false)
	}
	clear(f.waiting)
	f.waiting = f.waiting[:0]
	for _, h := range f.invariants {
		r.repeat(h, it)
	}
	it.ops--
}

// invariant keeps the value of a constant Enter and delivers it to every live iteration.
func (r *run) invariant(f *frame, n *node, outs []kernels.Value, dead bool) {
	h := held{from: n}
	if !dead {
		h.value = outs[0]
	}
	f.invariants = append(f.invariants, h)
	for num := f.oldest; num <= f.count; num++ {
		if it := f.at(num); it != nil {
			r.repeat(h, it)
		}
	}
}

// repeat delivers a loop invariant to one more iteration.
func (r *run) repeat(h held, it *iteration) {
	v := h.value
	if v.Tensor != nil {
		v.Tensor.Retain()
	}
	r.activate(h.from, it, []kernels.Value{v}, v == kernels.Value{})
}

// removeFinished removes the finished iterations of f, starting with it. With the last one it removes f itself, and continues outwards.
func (r *run) removeFinished(f *frame, it *iteration) {
	for f.parent != nil {
		for it != nil && it.num == f.oldest && it.ops == 0 && it.frames == 0 && (it.num > 0 || f.pendingEnters == 0) {
			f.window[it.num%int64(len(f.window))] = nil
			f.oldest++
			f.live--
			r.freeIteration(it)
			if len(f.waiting) > 0 {
				r.iterate(f)
			}
			it = f.at(f.oldest)
		}
		if f.pendingEnters > 0 || f.live > 0 {
			return
		}
		delete(r.frames, f.id)
		r.windows -= len(f.window)
		for _, h := range f.invariants {
			h.value.Release()
		}
		parent := f.parentIter
		parent.ops++ // as in iterate
		for _, n := range f.deadExits {
			r.activate(n, parent, nil, true)
		}
		parent.ops--
		parent.frames--
		f, it = parent.frame, parent
		if it.ops > 0 {
			return
		}
	}
}

// activate delivers a node's outputs to its consumers in iteration it and makes those ready that have all their inputs. An empty output is
// dead, even if dead is false.
func (r *run) activate(n *node, it *iteration, outs []kernels.Value, dead bool) {
	if !dead {
		for o, v := range outs {
			switch {
			case v.Tensor == nil:
			case n.fanout[o] == 0:
				v.Tensor.Release()
			case n.fanout[o] > 1:
				v.Tensor.RetainN(int(n.fanout[o]) - 1)
			}
		}
	}
	for i := range n.edges {
		e := &n.edges[i]
		state := &it.state[e.dst.local]
		var v kernels.Value
		if !dead {
			v = outs[e.out]
		}
		lost := v == kernels.Value{}
		if e.dst.kind == kindMerge {
			r.merge(n, e, it, state, v, lost)
			continue
		}
		it.inputs[e.slot] = v
		state.pending--
		if lost {
			state.dead++
		}
		if state.pending == 0 {
			r.push(e.dst, it, state.dead > 0 && e.dst.kind != kindControlTrigger)
		}
	}
	for _, dst := range n.ctrl {
		state := &it.state[dst.local]
		if dst.kind == kindMerge {
			state.pending -= 2
			allDead := state.dead == dst.numIn
			if state.pending == 0 || state.pending == 1 && allDead {
				r.push(dst, it, allDead)
			}
			continue
		}
		state.pending--
		if dead {
			state.dead++
		}
		if state.pending == 0 {
			r.push(dst, it, state.dead > 0 && dst.kind != kindControlTrigger)
		}
	}
}

// merge delivers to a Merge, which fires on its first live input, or dead if all inputs are dead. A dead Enter alone also makes it dead:
// the loop is on a branch that was not taken, and the other input comes from inside the loop.
func (r *run) merge(from *node, e *edge, it *iteration, state *nodeState, v kernels.Value, lost bool) {
	if lost {
		state.dead++
		allDead := state.dead == e.dst.numIn || from.kind == kindEnter
		if allDead {
			state.dead = e.dst.numIn
		}
		if state.pending == 1 && allDead {
			r.push(e.dst, it, true)
		}
		return
	}
	if state.pending&1 == 0 { // a live input has already arrived
		v.Release()
		return
	}
	it.inputs[e.slot] = v
	state.pending &^= 1
	if state.pending == 0 {
		r.push(e.dst, it, false)
	}
}

// push makes a node ready.
func (r *run) push(n *node, it *iteration, dead bool) {
	if n.kind == kindRetval && r.deliver(n, it, dead) {
		return
	}
	it.ops++
	r.ready = append(r.ready, task{n, it, dead})
}

// deliver passes on a result directly if its kernel would do nothing else. Otherwise it returns false.
func (r *run) deliver(n *node, it *iteration, dead bool) bool {
	v := &it.inputs[n.base]
	if !n.handed || r.step.Tracer != nil || len(n.ctrl) > 0 || !dead && (v.Ref != nil || v.Tensor.DType() != n.graph.InTypes[0]) {
		return false
	}
	t := v.Tensor
	*v = kernels.Value{}
	if dead && t != nil {
		t.Release()
		t = nil
	}
	r.step.Fetches.Fetch(n.index, t, dead)
	return true
}

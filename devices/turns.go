package devices

import "github.com/troupe-run/troupe/internal/processors"

// turnNodes is how many nodes a run fires, and how many functions it calls, before it looks whether it is others' turn to
// compute.
const turnNodes = 64

// turns is what a run knows of its step's turns on the processors, which the parts and functions of the step have together.
type turns struct {
	left   int  // nodes until the next look
	joined bool // the run of a part is at work; a function's run is as long as a goroutine works on it
}

// enterTurn is called by a goroutine that begins to work on the run. What it gives is left when the goroutine is done: that of
// a function's run, which may go on with the function's caller.
func (r *run) enterTurn() *processors.Work {
	w := r.step.Work
	if w == nil || r.step.Depth == 0 {
		return nil
	}
	if w.Enter()%turnNodes == 0 {
		r.turns.left = 0
	}
	return w
}

// joinTurn makes the owner of a part's run one of those that are at work for its step, if it is not yet. Short runs never
// do. It must be called before functions run on the owner's goroutine, which so share its turn.
func (r *run) joinTurn() {
	if w := r.step.Work; w != nil && r.step.Depth == 0 && !r.turns.joined {
		r.turns.joined = true
		w.Enter()
	}
}

// leaveTurn undoes joinTurn.
func (r *run) leaveTurn() {
	if r.turns.joined {
		r.turns.joined = false
		r.step.Work.Leave()
	}
}

// pause lets others compute if it is their turn. It tells that the run has to go on elsewhere first.
func (r *run) pause() (elsewhere bool) {
	r.turns.left = turnNodes
	r.observe = r.step.Observed.Told()
	r.list()
	w := r.step.Work
	if w == nil || !w.Due() {
		return false
	}
	if r.step.Yield != nil && r.step.Yield() {
		r.yielded = true
		return true
	}
	r.awaitTurn()
	return false
}

// awaitTurn waits for the step's turn before the run computes for long.
func (r *run) awaitTurn() {
	if r.step.Work == nil {
		return
	}
	r.joinTurn()
	if r.step.Flush != nil && processors.Default.Contended() { // what others wait for does not wait for the turn
		r.step.Flush()
	}
	r.step.Work.Wait()
}

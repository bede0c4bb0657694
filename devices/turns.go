package devices

import "github.com/troupe-run/troupe/internal/processors"

// turnNodes is the number of nodes that a run fires, or functions that it calls, before it checks whether other steps have a turn to
// compute.
const turnNodes = 64

// turns is a run's view of its step's turns on the processors, which the parts and functions of the step share.
type turns struct {
	left   int  // nodes until the next check
	joined bool // the run of a part is working; a function's run is while a goroutine works on it
}

// enterTurn is called by a goroutine that begins to work on the run. If the run is a function's, the result must be left when the goroutine
// is done; the run may go on with the function's caller.
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

// joinTurn enters the owner of a part's run into its step's turn, if it has not joined yet. Short runs never join. It must be called before
// functions run on the owner's goroutine, so that they share its turn.
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

// pause lets other steps compute if it is their turn. It reports whether the run must first continue elsewhere.
func (r *run) pause() (elsewhere bool) {
	r.turns.left = turnNodes
	r.observe = r.step.Observed.Told()
	r.list()
	w := r.step.Work
	if w == nil || !w.Due() {
		return false
	}
	if r.step.Yield() {
		r.yielded = true
		return true
	}
	r.awaitTurn()
	return false
}

// awaitTurn waits for the step's turn before the run computes for long.
func (r *run) awaitTurn() {
	r.keep()
	if r.step.Work == nil {
		return
	}
	r.joinTurn()
	if processors.Default.Contended() { // values that others wait for must not wait for the turn
		r.step.Flush()
	}
	r.step.Work.Wait()
}

package lifecycle

import "github.com/troupe-run/troupe/graph/status"

// Part is a step's part on one task. It is over when what it began has ended: its programs, and what else holds it. The zero value is a part
// that has not begun. Its methods must not be called concurrently.
type Part struct {
	left  int
	over  bool
	known bool // its plan
	peers map[string]bool
	err   error
}

// Use is called when the part's plan is known, with the other tasks that it exchanges tensors with.
func (p *Part) Use(peers map[string]bool) { p.known, p.peers = true, peers }

// Meets reports whether the part exchanges tensors with a task, or may do so because its plan is not known.
func (p *Part) Meets(task string) bool { return !p.known || p.peers[task] }

// Known reports whether the part's plan is known.
func (p *Part) Known() bool { return p.known }

// Err returns the part's error: the first one, but a cause rather than its consequences.
func (p *Part) Err() error { return p.err }

// Begin is called before n programs begin, each of which calls Ending and Ended.
func (p *Part) Begin(n int) { p.left += n }

// Hold keeps the part from being over until Ending and Ended are called once more. It must not be over.
func (p *Part) Hold() { p.left++ }

// Ending is called when a program or another holder ends, with its error or nil. last reports that it is the only one left: what the part
// sends its master now may travel with the message about the end.
func (p *Part) Ending(err error) (last bool) {
	p.err = status.Worse(p.err, err)
	return p.left == 1
}

// Ended is called after Ending, and reports whether the part is over.
func (p *Part) Ended() (over bool, err error) {
	p.left--
	p.over = p.left == 0
	return p.over, p.err
}

// Refuse ends a part that cannot begin, and returns its error. It reports false if the part has begun, or is over.
func (p *Part) Refuse(why error) (refused bool, err error) {
	if p.over || p.left > 0 {
		return false, p.err
	}
	p.err, p.over = status.Worse(p.err, why), true
	return true, p.err
}

// Fail is called with an error that ends the part. It reports whether something is to be cancelled: not if the part is over.
func (p *Part) Fail(err error) bool {
	if p.over {
		return false
	}
	p.err = status.Worse(p.err, err)
	return true
}

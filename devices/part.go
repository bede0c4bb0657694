package devices

import (
	"sync"

	"github.com/troupe-run/troupe/devices/internal/wire"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/kernels"
)

// Part is a part of a step for a device: a RunPart message with what lies beside it. Its memory may be used again when
// the part has ended.
type Part struct {
	// Program is what runs, as part of Step.
	Program *Program
	Step    *kernels.Step
	Owner   PartOwner

	message  *wire.RunPart
	done     *wire.PartDone
	executor *Executor
	ended    func(error) // made once, as is elsewhere
	// elsewhere runs the part on the task's pool.
	elsewhere func()
	refusal   error // of a part that the executor did not begin

	// Of a device that may be lost. The list is the executor's own. It may still hold a part that has ended, and that is
	// in use again: until the executor comes to partDone, which is before it comes to the part's next run.
	prev, next *Part
	mu         sync.Mutex
	live       bool // between the executor's look at the part and its end
}

// PartOwner is told how a part gets on.
type PartOwner interface {
	// PartMoved is called before a part runs elsewhere that was to run on the goroutine of the caller of Run.
	PartMoved()
	// PartLost is called when the device of a part that has not ended was lost. The step has to fail with the error;
	// the part ends as it does when its step is cancelled, and not before PartLost returns. PartLost must neither
	// wait nor end the part itself.
	PartLost(error)
	// PartEnded is called once, as by Program.Run, or where the executor refused the part.
	PartEnded(error)
}

var _ roles.Work = (*Part)(nil)

// Do runs the part. It is the executor that calls it.
func (p *Part) Do(here bool) {
	if !here {
		p.Owner.PartMoved()
	}
	p.run()
}

func (p *Part) run() { p.Program.Run(p.Step, p.ended) }

// end tells the executor first: the memory of the part may be used again once its step knows.
func (p *Part) end(err error) {
	p.done = partSucceeded
	if err != nil {
		p.done = partFailed
	}
	if p.executor.losable != nil {
		p.setLive(false)
	}
	p.executor.self.Send((*partDone)(p))
	p.Owner.PartEnded(err)
}

func (p *Part) setLive(live bool) {
	p.mu.Lock()
	p.live = live
	p.mu.Unlock()
}

// lose tells the owner of a part that has not ended that its device was lost.
func (p *Part) lose(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		p.Owner.PartLost(why)
	}
}

// partDone is a PartDone message with the part.
type partDone Part

// refusedPart is what a part leaves to do that was not begun.
type refusedPart Part

// Do ends the part.
func (p *refusedPart) Do(bool) { p.Owner.PartEnded(p.refusal) }

// partList is the parts that run on a device that may be lost.
type partList struct{ first *Part }

func (l *partList) add(p *Part) {
	p.prev, p.next = nil, l.first
	if p.next != nil {
		p.next.prev = p
	}
	l.first = p
}

func (l *partList) remove(p *Part) {
	if p.next != nil {
		p.next.prev = p.prev
	}
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.first = p.next
	}
	p.prev, p.next = nil, nil
}

// lose tells the owners of all parts that have not ended.
func (l *partList) lose(why error) {
	for p := l.first; p != nil; p = p.next {
		p.lose(why)
	}
}

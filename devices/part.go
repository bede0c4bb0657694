package devices

import (
	"sync"

	"github.com/troupe-run/troupe/devices/internal/wire"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/kernels"
)

// Part is a part of a step for a device: a RunPart message with the values that accompany it. Its memory may be reused when the part has
// ended.
type Part struct {
	// Program runs as part of Step.
	Program *Program
	Step    *kernels.Step
	Owner   PartOwner

	message  *wire.RunPart
	done     *wire.PartDone
	executor *Executor
	ended    func(error) // made once, as is elsewhere
	// elsewhere runs the part on the task's pool.
	elsewhere func()
	refusal   error // why the executor did not begin the part

	// For a device that may be lost. Only the executor uses the list. The list may still hold a part that has ended and is in use again,
	// until the executor handles partDone, which is before it handles the part's next run.
	prev, next *Part
	mu         sync.Mutex
	live       bool // from the executor's admission of the part until its end
}

// PartOwner is notified of a part's progress.
type PartOwner interface {
	// PartMoved is called before a part that was to run on the goroutine of the caller of Run runs elsewhere.
	PartMoved()
	// PartLost is called when the device of a part that has not ended was lost. The owner must fail the step with the error. The part ends
	// as it does when its step is cancelled, and not before PartLost returns. PartLost must neither wait nor end the part itself.
	PartLost(error)
	// PartEnded is called once: as by Program.Run, or when the executor has refused the part.
	PartEnded(error)
}

var _ roles.Work = (*Part)(nil)

// Do runs the part. Only the executor calls it.
func (p *Part) Do(here bool) {
	if !here {
		p.Owner.PartMoved()
	}
	p.run()
}

func (p *Part) run() { p.Program.Run(p.Step, p.ended) }

// end notifies the executor first: the memory of the part may be reused as soon as its step knows.
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

// lose notifies the owner of a part that has not ended that its device was lost.
func (p *Part) lose(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		p.Owner.PartLost(why)
	}
}

// partDone is a PartDone message with the part.
type partDone Part

// refusedPart is a part that was not begun; it must still be ended.
type refusedPart Part

// Do ends the part.
func (p *refusedPart) Do(bool) { p.Owner.PartEnded(p.refusal) }

// partList is the list of parts that run on a device that may be lost.
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

// lose notifies the owners of all parts that have not ended.
func (l *partList) lose(why error) {
	for p := l.first; p != nil; p = p.next {
		p.lose(why)
	}
}

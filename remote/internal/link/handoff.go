package link

import (
	"slices"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// handoff joins the two ends of a link between tasks of this process. Tensors pass through it as they
// are: the receiver takes over the sender's reference, and who may write to the memory follows from the
// count of references as within a task. A tensor stays in the account of the pool that it came from,
// which is the sender's: a limit of the receiver's memory does not bound it.
//
// Messages still take the stream, for their order and for what happens when it breaks. Their tensors
// wait on a localQueue under the message's number. Each localQueue is ended by the end that takes from it, when
// it reads no more.
type handoff struct {
	opener *Links
	out    localQueue // of messages to the end that accepted the link
	back   localQueue // of messages to the end that opened it
	hands  handover

	mu           sync.Mutex
	joined, left bool // by the end that opened it; by the other one
}

// residents are the links of this process's tasks by their boot ids.
var residents struct {
	mu     sync.Mutex
	byBoot map[uint64]*Links
}

func (l *Links) moveIn() {
	residents.mu.Lock()
	defer residents.mu.Unlock()
	if residents.byBoot == nil {
		residents.byBoot = map[uint64]*Links{}
	}
	residents.byBoot[l.config.Boot] = l
}

func (l *Links) moveOut() {
	residents.mu.Lock()
	defer residents.mu.Unlock()
	if residents.byBoot[l.config.Boot] == l {
		delete(residents.byBoot, l.config.Boot)
	}
}

// resident finds the links of a task of this process; nil where id is of another one, or where one of
// the two sends to all as to other machines.
func (l *Links) resident(id *wire.Identity) *Links {
	residents.mu.Lock()
	defer residents.mu.Unlock()
	other := residents.byBoot[id.GetBoot()]
	if other == nil || other.self.Task != id.GetTask() || other.config.NoLending || l.config.NoLending {
		return nil
	}
	return other
}

// newHandoff makes the handoff of a link that from has opened; nil where there is none.
func (l *Links) newHandoff(from *wire.Identity) *handoff {
	opener := l.resident(from)
	if opener == nil {
		return nil
	}
	return &handoff{opener: opener, hands: handover{links: l}}
}

// join finds the handoff of a link that this side has opened to the process id; nil where there is none.
func (l *Links) join(id *wire.Identity) *handoff {
	other := l.resident(id)
	if other == nil {
		return nil
	}
	a := other.presence(l.self)
	if a == nil || a.handoff == nil || a.handoff.opener != l {
		return nil
	}
	g := a.handoff
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left {
		return nil
	}
	g.joined = true
	return g
}

// close is the part of the end that opened the link; g may be nil.
func (g *handoff) close() {
	if g != nil {
		g.back.end()
	}
}

// leave is the part of the end that accepted the link; g may be nil.
func (g *handoff) leave() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.left = true
	joined := g.joined
	g.mu.Unlock()
	g.out.end()
	g.hands.end()
	if !joined {
		g.back.end()
	}
}

// idle tells whether no push is on its way; g may be nil.
func (g *handoff) idle() bool {
	if g == nil {
		return true
	}
	g.hands.mu.Lock()
	defer g.hands.mu.Unlock()
	return !g.hands.running
}

// passes tells whether tensors can go as they are. Handles and variants hold what is good in their
// own task alone; encoding them tells what of it may leave.
func passes(tensors []*tensor.Tensor) bool {
	for _, t := range tensors {
		if t.DType().Size() == 0 && t.DType() != tensor.String {
			return false
		}
	}
	return len(tensors) > 0
}

// localQueue keeps the tensors of messages that are on their way, by the messages' numbers.
type localQueue struct {
	mu      sync.Mutex
	ended   bool
	tensors map[uint32][]*tensor.Tensor
}

// put takes over the references of a message's tensors, but not the slice.
func (s *localQueue) put(number uint32, tensors []*tensor.Tensor) {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		if s.tensors == nil {
			s.tensors = map[uint32][]*tensor.Tensor{}
		}
		s.tensors[number] = slices.Clone(tensors)
	}
	s.mu.Unlock()
	if ended {
		releaseAll(tensors)
	}
}

// take hands over the tensors of a message that has arrived.
func (s *localQueue) take(number uint32) ([]*tensor.Tensor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, errClosed
	}
	tensors, ok := s.tensors[number]
	if !ok {
		return nil, status.InvalidArgumentf("A message claims tensors that were not handed over with it.")
	}
	delete(s.tensors, number)
	return tensors, nil
}

// end lets go of what nobody took, now and later.
func (s *localQueue) end() {
	s.mu.Lock()
	left := s.tensors
	s.ended, s.tensors = true, nil
	s.mu.Unlock()
	for _, tensors := range left {
		releaseAll(tensors)
	}
}

func releaseAll(tensors []*tensor.Tensor) {
	for _, t := range tensors {
		t.Release()
	}
}

// handed is a tensor that was pushed to a task of this process.
type handed struct {
	step   uint64
	key    kernels.Key
	tensor *tensor.Tensor
}

// handover gives pushed tensors to the receiver's sink, one after another on a goroutine of the
// receiver's: a step may go on there on the spot, which is not the sender's time to spend. It has no
// bound, as the tensors take no memory that they did not take before.
type handover struct {
	links *Links // of the receiver

	mu      sync.Mutex
	queue   []handed
	running bool
	ended   bool
}

// add takes over a tensor. One for a receiver that is gone is let go of.
func (h *handover) add(x handed) {
	h.mu.Lock()
	gone := h.ended || h.links.config.Sink == nil
	if !gone && !h.running {
		h.running = h.links.start(h.run)
		gone = !h.running
	}
	if !gone {
		h.queue = append(h.queue, x)
	}
	h.mu.Unlock()
	if gone {
		x.tensor.Release()
	}
}

func (h *handover) run() {
	for {
		h.mu.Lock()
		if len(h.queue) == 0 {
			h.queue, h.running = nil, false
			h.mu.Unlock()
			return
		}
		x := h.queue[0]
		h.queue[0], h.queue = handed{}, h.queue[1:]
		h.mu.Unlock()
		h.links.config.Sink.Take(x.step, x.key, x.tensor)
	}
}

// end drops what waits, and what comes later.
func (h *handover) end() {
	h.mu.Lock()
	left := h.queue
	h.queue, h.ended = nil, true
	h.mu.Unlock()
	for _, x := range left {
		x.tensor.Release()
	}
}

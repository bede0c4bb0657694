package link

import (
	"slices"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// handoff joins the two ends of a link between tasks of this process. Tensors pass through it without a
// copy: the receiver takes over the sender's reference, and the reference count decides whether the memory
// may be written, as within a task. A tensor stays accounted to the sender's pool, so a limit of the
// receiver's memory does not apply to it.
//
// Messages still use the stream, to keep their order and their behaviour when it breaks. Their tensors
// wait in a localQueue under the message's number. Each localQueue is ended by the end that takes from it, when
// it stops reading.
type handoff struct {
	opener *Links
	out    localQueue // for messages to the end that accepted the link
	back   localQueue // for messages to the end that opened it
	hands  handover

	mu           sync.Mutex
	joined, left bool // joined by the end that opened the link; left by the other end
}

// localLinks are the links of this process's tasks by their boot IDs.
var localLinks struct {
	mu     sync.Mutex
	byBoot map[uint64]*Links
}

func (l *Links) registerLocal() {
	localLinks.mu.Lock()
	defer localLinks.mu.Unlock()
	if localLinks.byBoot == nil {
		localLinks.byBoot = map[uint64]*Links{}
	}
	localLinks.byBoot[l.config.Boot] = l
}

func (l *Links) unregisterLocal() {
	localLinks.mu.Lock()
	defer localLinks.mu.Unlock()
	if localLinks.byBoot[l.config.Boot] == l {
		delete(localLinks.byBoot, l.config.Boot)
	}
}

// resident returns the links of a task of this process, or nil if id is another process or either of the two
// tasks has NoLending set.
func (l *Links) resident(id *wire.Identity) *Links {
	localLinks.mu.Lock()
	defer localLinks.mu.Unlock()
	other := localLinks.byBoot[id.GetBoot()]
	if other == nil || other.self.Task != id.GetTask() || other.config.NoLending || l.config.NoLending {
		return nil
	}
	return other
}

// newHandoff returns the handoff for a link that from has opened, or nil if from is not a task of this process.
func (l *Links) newHandoff(from *wire.Identity) *handoff {
	opener := l.resident(from)
	if opener == nil {
		return nil
	}
	return &handoff{opener: opener, hands: handover{links: l}}
}

// join returns the handoff of a link that this side has opened to the process id, or nil if there is none.
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

// close is called by the end that opened the link, when it ends; g may be nil.
func (g *handoff) close() {
	if g != nil {
		g.back.end()
	}
}

// leave is called by the end that accepted the link, when it ends; g may be nil.
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

// idle reports whether no push is pending; g may be nil.
func (g *handoff) idle() bool {
	if g == nil {
		return true
	}
	g.hands.mu.Lock()
	defer g.hands.mu.Unlock()
	return !g.hands.running
}

// passes reports whether tensors can be handed over without encoding. The contents of handles and variants may be
// valid only in their own task; encoding them checks what may leave it.
func passes(tensors []*tensor.Tensor) bool {
	for _, t := range tensors {
		if t.DType().Size() == 0 && t.DType() != tensor.String {
			return false
		}
	}
	return len(tensors) > 0
}

// localQueue holds the tensors of messages in flight, by the messages' numbers.
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

// end releases tensors that were not taken, and those that are put later.
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
	key    transfer.Key
	tensor *tensor.Tensor
}

// handover passes pushed tensors to the receiver's sink, one after another, on a goroutine of the
// receiver: the sink may continue a step in the call, which must not delay the sender. It is
// unbounded, because the tensors take no additional memory.
type handover struct {
	links *Links // of the receiver

	mu      sync.Mutex
	queue   []handed
	running bool
	ended   bool
}

// add takes over a tensor. It releases the tensor if the receiver is gone.
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

// end drops what waits, and what is added later.
func (h *handover) end() {
	h.mu.Lock()
	left := h.queue
	h.queue, h.ended = nil, true
	h.mu.Unlock()
	for _, x := range left {
		x.tensor.Release()
	}
}

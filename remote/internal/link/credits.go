package link

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
)

// A sender of messages to programs' actors has a window for each actor, and one for all: so many messages
// and bytes may be sent that were not handled. The receiver tells what was handled in messages of a kind of
// their own (credits), whose body is a field of bytes: for each actor its name, and the numbers of messages
// and bytes as varints. So nothing that was sent finds a full queue, and who sends too fast waits.
//
// Requests' answers and the conversation between the tasks about actors have no window: each belongs to
// somebody who waits for it.

const (
	// windowMessages and windowBytes are the window of one actor.
	windowMessages = cast.MaxQueued
	windowBytes    = cast.MaxQueuedBytes
	// windowAll is the window in bytes of all actors of a task, with cast.Overhead for each message.
	windowAll = cast.MaxBytes / 4
	// creditMessages and creditBytes are how much is handled before that is told. The rest is told with the
	// next beat.
	creditMessages = windowMessages / 4
	creditBytes    = windowBytes / 4
	// maxWindows bounds the actors whose windows are kept though nothing of them is under way.
	maxWindows = 1 << 10
)

// flow is what a sender has on its way to the actors of a task. It is pure.
type flow struct {
	limited bool // the receiver gives credit
	bytes   int  // to all actors, with cast.Overhead for each message
	actors  map[string]*window
	last    *window // that was found; nil: none
}

// window is what was sent to one actor and not handled.
type window struct {
	name            string
	messages, bytes int
}

// window finds an actor's; nil where it has none.
func (f *flow) window(name string) *window {
	if !f.limited || !cast.Counts(name) {
		return nil
	}
	if f.last == nil || f.last.name != name {
		f.last = f.actors[name]
	}
	if f.last == nil {
		f.last = &window{name: name}
		f.keep(f.last)
	}
	return f.last
}

func (f *flow) keep(w *window) {
	if f.actors == nil {
		f.actors = map[string]*window{}
	}
	if len(f.actors) >= maxWindows {
		for name, w := range f.actors {
			if w.messages == 0 {
				delete(f.actors, name)
			}
		}
	}
	f.actors[w.name] = w
}

// room tells whether a message of so many bytes, at most cast.MaxMessage, may be sent.
func (f *flow) room(w *window, size int) bool {
	return w == nil || w.messages < windowMessages && w.bytes+size <= windowBytes && f.bytes+size+cast.Overhead <= windowAll
}

// take notes that a message is sent to the actor whose window has just been found.
func (f *flow) take(w *window, size int) {
	if w == nil {
		return
	}
	w.messages++
	w.bytes += size
	f.bytes += size + cast.Overhead
}

// credit notes what was handled.
func (f *flow) credit(name string, messages, bytes int) {
	w := f.actors[name]
	if w == nil {
		return
	}
	messages, bytes = min(messages, w.messages), min(bytes, w.bytes)
	w.messages -= messages
	w.bytes -= bytes
	f.bytes -= bytes + messages*cast.Overhead
}

var errCredits = status.InvalidArgumentf("A message of credits is malformed.")

// readCredits gives what a message of credits tells to told.
func readCredits(body []byte, told func(name string, messages, bytes int)) error {
	number, data, _, rest, ok := nextField(body)
	if !ok || number != fieldCredits || len(rest) > 0 {
		return errCredits
	}
	for len(data) > 0 {
		name, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return errCredits
		}
		data = data[n:]
		messages, n := protowire.ConsumeVarint(data)
		if n < 0 {
			return errCredits
		}
		data = data[n:]
		bytes, n := protowire.ConsumeVarint(data)
		if n < 0 || messages > 1<<40 || bytes > 1<<40 {
			return errCredits
		}
		data = data[n:]
		told(string(name), int(messages), int(bytes))
	}
	return nil
}

// handled gathers what the actors of this task have handled of another one's messages.
type handled struct {
	messages, bytes atomic.Int64 // of all accounts

	mu    sync.Mutex
	dirty []*account // those that have something
}

// account is where one actor's messages of one stream are counted when they are handled.
type account struct {
	pipe            *pipe
	name            string
	messages, bytes atomic.Int64
	dirty           atomic.Bool // it is in handled.dirty
}

var _ cast.Room = (*account)(nil)

// Handled notes that messages were handled, or dropped.
func (a *account) Handled(messages, bytes int) {
	h := &a.pipe.handled
	a.messages.Add(int64(messages))
	a.bytes.Add(int64(bytes))
	if !a.dirty.Load() && a.dirty.CompareAndSwap(false, true) {
		h.mu.Lock()
		h.dirty = append(h.dirty, a)
		h.mu.Unlock()
	}
	allMessages, allBytes := h.messages.Add(int64(messages)), h.bytes.Add(int64(bytes))
	if allMessages >= creditMessages || allBytes >= creditBytes {
		a.pipe.giveCredits()
	}
}

// take gives what was handled since the last time, encoded; nil if that is nothing.
func (h *handled) take() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b []byte
	h.messages.Store(0)
	h.bytes.Store(0)
	for _, a := range h.dirty {
		a.dirty.Store(false) // before it is read: what comes later is told the next time
		messages, bytes := a.messages.Swap(0), a.bytes.Swap(0)
		if messages > 0 || bytes > 0 {
			b = protowire.AppendString(b, a.name)
			b = protowire.AppendVarint(b, uint64(messages))
			b = protowire.AppendVarint(b, uint64(bytes))
		}
	}
	clear(h.dirty)
	h.dirty = h.dirty[:0]
	return b
}

// giveCredits tells the sender what was handled of its messages.
func (p *pipe) giveCredits() {
	b := p.handled.take()
	if b == nil {
		return
	}
	m := newOutgoing(kindCredits)
	m.buf = appendBytesField(m.buf, fieldCredits, b)
	m.finish(&head{kind: kindCredits})
	p.out.leaveLater(m)
}

// takeCredits makes room for what the other end has handled.
func (p *pipe) takeCredits(body []byte) error {
	o := p.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mailing == nil {
		return errCredits
	}
	err := readCredits(body, o.mailing.flow.credit)
	o.room.Broadcast()
	return err
}

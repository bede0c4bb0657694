package link

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
)

// A sender of messages to programs' actors has a window for each actor, and one for all. A window bounds the
// messages and bytes that were sent but not yet handled. The receiver reports handled messages in credits,
// messages of their own kind, whose body is a bytes field: for each actor its name, and the numbers of messages
// and bytes as varints. Thus no message that was sent finds a full queue, and a fast sender waits.
//
// Answers to requests, and the tasks' own protocol about actors, have no window: a caller waits for each
// of these messages.

const (
	// windowMessages and windowBytes bound the window of one actor.
	windowMessages = cast.MaxQueued
	windowBytes    = cast.MaxQueuedBytes
	// windowAll bounds the window in bytes of all actors of a task, with cast.Overhead for each message.
	windowAll = cast.MaxBytes / 4
	// Once creditMessages or creditBytes are handled, credits are sent. Otherwise they are sent with the
	// next beat.
	creditMessages = windowMessages / 4
	creditBytes    = windowBytes / 4
	// maxWindows is the number of windows from which those with nothing in flight are forgotten.
	maxWindows = 1 << 10
)

// flow accounts for what a sender has in flight to the actors of a task. It is pure.
type flow struct {
	limited bool // the receiver sends credits
	bytes   int  // to all actors, with cast.Overhead for each message
	actors  map[string]*window
	last    *window // the last one found; nil: none
}

// window counts what was sent to one actor and not yet handled.
type window struct {
	name            string
	messages, bytes int
}

// window returns an actor's window, or nil if it has none.
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

// room reports whether a message of size bytes, at most cast.MaxMessage, may be sent.
func (f *flow) room(w *window, size int) bool {
	return w == nil || w.messages < windowMessages && w.bytes+size <= windowBytes && f.bytes+size+cast.Overhead <= windowAll
}

// spend counts a message that is sent to the actor whose window is w.
func (f *flow) spend(w *window, size int) {
	if w == nil {
		return
	}
	w.messages++
	w.bytes += size
	f.bytes += size + cast.Overhead
}

// credit counts messages that the actor has handled.
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

// readCredits decodes a message of credits and calls told for each actor in it.
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

// handled counts the messages of another task that actors of this task have handled.
type handled struct {
	messages, bytes atomic.Int64 // of all accounts

	mu    sync.Mutex
	dirty []*account // those with credits to send
}

// account counts the messages of one stream that one actor has handled.
type account struct {
	pipe            *pipe
	name            string
	messages, bytes atomic.Int64
	dirty           atomic.Bool // it is in handled.dirty
}

var _ cast.Room = (*account)(nil)

// Handled counts messages that were handled, or dropped.
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

// drain returns the credits since the last call, encoded, or nil if there are none.
func (h *handled) drain() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b []byte
	h.messages.Store(0)
	h.bytes.Store(0)
	for _, a := range h.dirty {
		a.dirty.Store(false) // before the counts are read: later ones go into the next credits
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

// giveCredits sends the sender credits for what was handled.
func (p *pipe) giveCredits() {
	b := p.handled.drain()
	if b == nil {
		return
	}
	m := newOutgoing(kindCredits)
	m.buf = appendBytesField(m.buf, fieldCredits, b)
	m.finish(&head{kind: kindCredits})
	p.out.queue(m)
}

// takeCredits handles the other end's credits and wakes waiting senders.
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

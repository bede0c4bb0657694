package link

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxWaiting bounds the bytes of messages that wait for a full stream. Beyond it, senders wait
	// for room.
	maxWaiting = 64 << 20
	// maxErrands is how many messages of other senders a sender writes after its own.
	maxErrands = 4
)

// outbound sends the messages of a link's stream. If no goroutine is writing and the kernel has room,
// a sender writes its message at once, on its own goroutine. If another goroutine is writing, the
// sender queues the message for it. A message that the kernel would not accept at once is left to a
// goroutine that may block. Thus a goroutine that reads a link may send: if it blocked in a write,
// two tasks could each wait for the other one to read.
type outbound struct {
	stream     Stream
	count      *counters
	traffic    atomic.Pointer[traffic] // with the other task, once it is known
	spawn      func(func()) bool
	localQueue *localQueue // for tensors to a task of this process; nil: they are sent

	mu      sync.Mutex
	room    sync.Cond
	waiting []*outgoing
	bytes   int // held by waiting
	writing bool
	mailing *gathering // batches programs' actors' messages; nil: the stream has none
	closed  bool       // no more messages are accepted
	used    bool       // an actor's message was accepted
	then    func()     // called when nothing waits any more
	err     error      // of the stream

	number  uint32       // of the next message; owned by the writer
	letters atomic.Int64 // actors' messages written
	writes  uint64       // messages written; guarded by mu
}

func newOutbound(s Stream, c *counters, spawn func(func()) bool) *outbound {
	o := &outbound{stream: s, count: c, spawn: spawn}
	o.traffic.Store(&traffic{})
	o.room.L = &o.mu
	return o
}

// post sends a message and takes ownership of it. It returns false, and the caller keeps the message,
// if the stream no longer accepts any.
func (o *outbound) post(m *outgoing) bool {
	o.mu.Lock()
	for o.bytes > 0 && o.bytes+m.held > maxWaiting && !o.closed {
		o.room.Wait()
	}
	return o.sendOrQueue(m)
}

// sendOrQueue writes m or queues it for another goroutine. It returns false if messages are no longer accepted.
// The caller holds mu; sendOrQueue releases it.
func (o *outbound) sendOrQueue(m *outgoing) bool {
	if o.closed {
		o.mu.Unlock()
		return false
	}
	o.used = o.used || m.kind == kindMessage
	if o.writing || !o.stream.Takes(m.size) {
		o.queueLocked(m)
		o.mu.Unlock()
		return true
	}
	o.writing = true
	o.mu.Unlock()
	o.write(m)
	o.drain(maxErrands)
	return true
}

// sendLast sends the sendLast message, if it is not nil, after those that wait. It does not block.
// then, if any, is called once, when everything is written or never will be.
func (o *outbound) sendLast(m *outgoing, then func()) {
	o.mu.Lock()
	if o.closed || m == nil {
		o.mu.Unlock()
		if m != nil {
			m.free()
		}
		if then != nil {
			then()
		}
		return
	}
	defer o.mu.Unlock()
	o.finish(m, then)
}

// finish queues the last message. mu is held.
func (o *outbound) finish(m *outgoing, then func()) {
	o.closed, o.then = true, then
	o.room.Broadcast()
	o.queueLocked(m)
}

// idle reports whether the stream accepts messages, and none waits or is being written. mu is held.
func (o *outbound) idle() bool {
	_, some := o.pending()
	return !o.closed && !o.writing && !some
}

// posted reports whether an actor's message was ever accepted.
func (o *outbound) posted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.used
}

// beat sends m and returns true, unless another message is being written or the stream is closed. It does not block.
func (o *outbound) beat(m *outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.writing {
		m.free()
		return false
	}
	o.queueLocked(m)
	return true
}

// append queues m. mu is held.
func (o *outbound) append(m *outgoing) {
	o.waiting = append(o.waiting, m)
	o.bytes += m.held
}

// queueLocked queues m for another goroutine to write. mu is held.
func (o *outbound) queueLocked(m *outgoing) {
	o.append(m)
	if o.writing {
		return
	}
	o.writing = true
	o.spawnDrain()
}

// queue is leave, taking mu. It frees m if the stream is closed.
func (o *outbound) queue(m *outgoing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		m.free()
		return
	}
	o.queueLocked(m)
}

// spawnDrain starts a goroutine that writes what waits. mu is held, and writing is set.
func (o *outbound) spawnDrain() {
	if !o.spawn(func() { o.drain(-1) }) {
		o.writing = false
		o.discard()
	}
}

// drain writes what waits, at most most messages, and leaves the rest to another goroutine. If most is
// negative, it writes everything.
func (o *outbound) drain(most int) {
	for ; ; most-- {
		o.mu.Lock()
		if most < 0 && len(o.waiting) == 0 && o.mailing != nil && o.mailing.isSmall() {
			o.pause()
		}
		size, some := o.pending()
		switch {
		case !some:
			o.writing, o.waiting = false, nil
			then := o.then
			o.then = nil
			o.mu.Unlock()
			if then != nil {
				then()
			}
			return
		case most == 0, most > 0 && !o.stream.Takes(size):
			o.spawnDrain()
			o.mu.Unlock()
			return
		}
		m := o.next()
		o.room.Broadcast()
		o.mu.Unlock()
		o.write(m)
	}
}

// pending reports whether something waits, and returns the size in bytes of what is written next. mu is held.
func (o *outbound) pending() (size int, some bool) {
	if len(o.waiting) > 0 {
		return o.waiting[0].size, true
	}
	if o.mailing == nil {
		return 0, false
	}
	return o.mailing.bytes, o.mailing.bytes > 0
}

// next removes and returns what is written next. Batches of programs' actors come after the stream's own
// messages, but before the last of these. mu is held, and something waits.
func (o *outbound) next() *outgoing {
	if o.mailing != nil && (len(o.waiting) == 0 || o.closed && len(o.waiting) == 1) {
		if m := o.mailing.next(); m != nil {
			return m
		}
	}
	m := o.waiting[0]
	o.waiting[0], o.waiting = nil, o.waiting[1:]
	o.bytes -= m.held
	return m
}

// write sends m; the caller owns writing.
func (o *outbound) write(m *outgoing) {
	switch {
	case m.plain:
	case m.head != nil:
		seal(m.head, o.number)
	default:
		seal(m.buf, o.number)
	}
	if m.handed {
		o.count.tensorsHanded.Add(int64(len(m.tensors)))
		o.localQueue.put(o.number, m.tensors)
		clear(m.tensors)
		m.tensors = m.tensors[:0]
	}
	o.number++
	if m.kind == kindMessage { // counted before an answer can come
		o.letters.Add(int64(m.count))
		o.count.messagesSent.Add(int64(m.count))
		o.count.bytesSent.Add(int64(m.content))
		o.count.bytesCopied.Add(int64(m.copied))
		t := o.traffic.Load()
		t.messagesSent.Add(int64(m.count))
		t.bytesSent.Add(int64(m.content))
	}
	err := o.stream.Send(m.pieces...)
	m.free()
	o.mu.Lock()
	o.writes++
	if o.mailing != nil {
		o.mailing.wrote = time.Now()
	}
	o.mu.Unlock()
	if err != nil {
		o.end(err)
	}
}

// end stops sending and drops what waits.
func (o *outbound) end(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	then := o.then
	o.closed, o.then = true, nil
	o.discard()
	o.room.Broadcast()
	o.mu.Unlock()
	if then != nil {
		then()
	}
}

// discard drops what waits. mu is held.
func (o *outbound) discard() {
	for _, m := range o.waiting {
		m.free()
	}
	o.waiting, o.bytes = nil, 0
	if o.mailing != nil {
		o.mailing.discard()
	}
}

// progress returns how many messages were written, whether one is being written, and the error with
// which writing ended.
func (o *outbound) progress() (writes uint64, writing bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes, o.writing, o.err
}

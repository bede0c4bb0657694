package link

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxWaiting bounds the bytes of messages that wait for a stream which is full; whoever sends
	// more waits for room.
	maxWaiting = 64 << 20
	// maxErrands is how many messages of others a sender writes after its own.
	maxErrands = 4
)

// outbound sends the messages of a link's stream. Whoever has one while nobody writes, and the
// kernel has room for it, writes it at once, on the own goroutine. Who comes while another one
// writes leaves the message to that one; what the kernel would not take at once is left to a
// goroutine that may wait. So a goroutine that reads a link may send: were it to wait in a write,
// two tasks could each wait for the other one to read.
type outbound struct {
	stream     Stream
	count      *counters
	traffic    atomic.Pointer[traffic] // with the other task, once that is known
	spawn      func(func()) bool
	localQueue *localQueue // for tensors to a task of this process; nil: they are sent

	mu      sync.Mutex
	room    sync.Cond
	waiting []*outgoing
	bytes   int // that wait
	writing bool
	mailing *gathering // of programs' actors' messages; nil: the stream has none
	closed  bool       // nothing more is taken
	then    func()     // to be called when nothing waits any more
	err     error      // of the stream

	number  uint32       // of the next message; the writer's
	letters atomic.Int64 // actors' messages written
	writes  uint64       // messages written; mu
}

func newOutbound(s Stream, c *counters, spawn func(func()) bool) *outbound {
	o := &outbound{stream: s, count: c, spawn: spawn}
	o.traffic.Store(&traffic{})
	o.room.L = &o.mu
	return o
}

// post sends a message and takes it over; false, and the message is still the caller's, when the
// stream takes none any more.
func (o *outbound) post(m *outgoing) bool {
	o.mu.Lock()
	for o.bytes > 0 && o.bytes+m.held > maxWaiting && !o.closed {
		o.room.Wait()
	}
	return o.give(m)
}

// give lets m be written, by this goroutine or another one; false if nothing is taken any more. mu is
// held, and is not afterwards.
func (o *outbound) give(m *outgoing) bool {
	if o.closed {
		o.mu.Unlock()
		return false
	}
	if o.writing || !o.stream.Takes(m.size) {
		o.leave(m)
		o.mu.Unlock()
		return true
	}
	o.writing = true
	o.mu.Unlock()
	o.write(m)
	o.drain(maxErrands)
	return true
}

// last sends the last message, if it is not nil, after those that wait, and does not wait itself.
// then, if any, is called once when all is written, or will not be.
func (o *outbound) last(m *outgoing, then func()) {
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
	o.closed, o.then = true, then
	o.room.Broadcast()
	o.leave(m)
}

// beat sends a message if nothing else is on its way, which it tells, and does not wait.
func (o *outbound) beat(m *outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.writing {
		m.free()
		return false
	}
	o.leave(m)
	return true
}

// append lets m wait. mu is held.
func (o *outbound) append(m *outgoing) {
	o.waiting = append(o.waiting, m)
	o.bytes += m.held
}

// leave lets another goroutine write m. mu is held.
func (o *outbound) leave(m *outgoing) {
	o.append(m)
	if o.writing {
		return
	}
	o.writing = true
	o.spawnDrain()
}

// leaveLater is leave for who does not hold mu.
func (o *outbound) leaveLater(m *outgoing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		m.free()
		return
	}
	o.leave(m)
}

// spawnDrain lets another goroutine write what waits. mu is held, and writing is set.
func (o *outbound) spawnDrain() {
	if !o.spawn(func() { o.drain(-1) }) {
		o.writing = false
		o.discard()
	}
}

// drain writes what waits, at most so many messages; another goroutine gets the rest. With a negative
// number it writes all.
func (o *outbound) drain(most int) {
	for ; ; most-- {
		o.mu.Lock()
		if most < 0 && len(o.waiting) == 0 && o.mailing != nil && o.mailing.few() {
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
		m := o.take()
		o.room.Broadcast()
		o.mu.Unlock()
		o.write(m)
	}
}

// pending tells whether something waits, and the size in bytes of what is written next. mu is held.
func (o *outbound) pending() (size int, some bool) {
	if len(o.waiting) > 0 {
		return o.waiting[0].size, true
	}
	if o.mailing == nil {
		return 0, false
	}
	return o.mailing.bytes, o.mailing.bytes > 0
}

// take takes what is written next: batches of programs' actors come after the stream's own messages, but
// before the last of these. mu is held, and something waits.
func (o *outbound) take() *outgoing {
	if o.mailing != nil && (o.closed || len(o.waiting) == 0) {
		if m := o.mailing.next(); m != nil {
			return m
		}
	}
	m := o.waiting[0]
	o.waiting[0], o.waiting = nil, o.waiting[1:]
	o.bytes -= m.held
	return m
}

// write writes m, for the one who writes.
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

// end makes an end of sending: what waits is dropped.
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

// progress tells how many messages were written, whether one is being written, and with what
// error writing ended.
func (o *outbound) progress() (writes uint64, writing bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes, o.writing, o.err
}

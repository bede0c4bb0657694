package http2

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const (
	// requestGrace is how long a request may arrive at any rate. After that it must arrive at requestRate bytes a second
	// or more. Slower requests are evicted when other requests need the memory.
	requestGrace = 2 * time.Second
	requestRate  = 32 << 10
	// muchFaster is how many times as fast as another request of the same client a request must be to get its memory if it
	// has no other claim to it. It needs the memory for less time.
	muchFaster = 4
	// rateTime is the minimum time over which a rate is measured: the first bytes of a request, which arrive at once,
	// do not show how fast the rest arrives.
	rateTime = 10 * time.Millisecond
	// sweepInterval is the minimum time between two searches for slow requests.
	sweepInterval = 100 * time.Millisecond
)

// ledger divides the memory of requests that are being received. While there is enough, one client may use all of it.
// When there is not, slow requests are evicted first. After them, the client with the most memory loses a request,
// on its connection with the most memory. Thus every client can get an equal share.
type ledger struct {
	limit int64
	total atomic.Int64 // changed only with mu held

	mu    sync.Mutex
	conns map[*serverConn]*holding
	swept int64 // time of the last search for slow requests
}

// holding is the memory that the requests of a connection use.
type holding struct {
	bytes    int64
	requests map[*stream]struct{} // requests that can be evicted
	lost     []*stream            // evicted requests whose clients have not been notified
}

func (l *ledger) init(limit int64) { l.limit, l.conns = limit, map[*serverConn]*holding{} }

// reserve counts n bytes for a connection, and evicts requests if necessary. incomplete means that the bytes are for a
// request that is still being received, which may itself be evicted later.
func (l *ledger) reserve(c *serverConn, s *stream, n int64, incomplete bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s != nil && s.owner().lost != nil {
		return s.owner().lost
	}
	if l.total.Load()+n > l.limit && !l.makeRoomLocked(c, s, n) {
		return status.Errorf(codes.ResourceExhausted, "a request is refused for now: the requests that the server is receiving take %d bytes, %d of them those of this client, and the limit is %d. Send fewer or smaller requests at once, or give the server more memory.",
			l.total.Load(), c.client.receiving, l.limit)
	}
	h := l.conns[c]
	if h == nil {
		h = &holding{requests: map[*stream]struct{}{}}
		l.conns[c] = h
	}
	if s != nil {
		s.held += n
	}
	if incomplete {
		o := s.owner()
		if o.began == 0 {
			o.began = clock()
		}
		h.requests[o] = struct{}{}
	}
	l.countLocked(c, h, n)
	return nil
}

func (l *ledger) countLocked(c *serverConn, h *holding, n int64) {
	h.bytes += n
	c.client.receiving += n
	l.total.Add(n)
	if h.bytes == 0 && len(h.requests) == 0 && len(h.lost) == 0 {
		delete(l.conns, c)
	}
}

// release releases n bytes that a connection held for something other than a request.
func (l *ledger) release(c *serverConn, n int64) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(c, l.conns[c], -n)
}

// settle releases what a request held, and its message.
func (l *ledger) settle(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.forgetMessage()
	l.settleLocked(s)
}

func (l *ledger) settleLocked(s *stream) {
	if h := l.conns[s.conn]; h != nil {
		delete(h.requests, s)
		n := s.held
		s.held = 0
		l.countLocked(s.conn, h, -n)
	}
}

// complete marks a request as received, after which it cannot be evicted. It returns an error if it has been.
func (l *ledger) complete(s *stream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.conns[s.conn]; h != nil {
		delete(h.requests, s)
	}
	return s.lost
}

// attach adds memory, which hold has counted, to a request, unless the request was evicted meanwhile.
func (l *ledger) attach(s *stream, b mem.Buffer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost := s.owner().lost; lost != nil {
		b.Free()
		return lost
	}
	s.room = b.ReadOnlyData() // not shared yet
	s.add(b)
	return nil
}

// beginFill returns the memory into which a connection's reader reads n bytes of a request, or an error if the request was
// evicted.
func (l *ledger) beginFill(s *stream, n int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost := s.owner().lost; lost != nil {
		return nil, lost
	}
	s.conn.filling = s
	return s.room[:n], nil
}

// endFill records that n bytes were read. It returns an error if the request was evicted meanwhile.
func (l *ledger) endFill(s *stream, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.conn.filling = nil
	s.room = s.room[n:]
	s.owner().arrived += int64(n)
	return s.owner().lost
}

// queueMessage makes m the message that its call is receiving, or moves that one to the queue of complete messages. It returns an error if the
// call has ended or was evicted. conn.mu is held.
func (l *ledger) queueMessage(m *stream, complete bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := m.of.inbox
	switch {
	case m.of.lost != nil:
		return m.of.lost
	case b.over:
		return errNoReader
	case complete:
		b.part, b.queue = nil, append(b.queue, m)
	default:
		b.part = m
	}
	return nil
}

// takeMessage removes the first message of a call's queue, which is then no longer evicted, or returns why the call was evicted. conn.mu is held.
func (l *ledger) takeMessage(s *stream) (m *stream, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := s.inbox
	if s.lost != nil || len(b.queue) == 0 {
		return nil, s.lost
	}
	m = b.queue[0]
	b.queue[0], b.queue = nil, b.queue[1:]
	m.of = nil
	if len(b.queue) == 0 && b.part == nil {
		delete(l.conns[s.conn].requests, s)
		s.arrived, s.began = 0, 0
	}
	return m, nil
}

// dropMessages frees the messages of a call that are not read any more, while the connection's reader may be receiving one.
func (l *ledger) dropMessages(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.lost == nil && len(s.inbox.messages()) > 0 {
		l.evictLocked(s, errNoReader)
	}
}

// evictionError returns the error of an evicted request, or nil.
func (l *ledger) evictionError(s *stream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.owner().lost
}

// takeEvicted returns the requests of a connection that were evicted since the last call, except for the one that is being
// filled, which the reader handles itself.
func (l *ledger) takeEvicted(c *serverConn) (lost []*stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.conns[c]
	if h == nil {
		return nil
	}
	for _, s := range h.lost {
		if s != c.filling {
			lost = append(lost, s)
		}
	}
	h.lost = nil
	l.countLocked(c, h, 0)
	return lost
}

// forget drops the evicted requests of a connection that has ended, whose client needs no notification.
func (l *ledger) forget(c *serverConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.conns[c]; h != nil {
		h.lost = nil
		l.countLocked(c, h, 0)
	}
}

// makeRoomLocked evicts requests to make room for n more bytes of a connection, for the request s if it is not nil. It returns
// false if the connection has no claim to the memory. If s is nil, the connection's own requests may be evicted too.
func (l *ledger) makeRoomLocked(c *serverConn, s *stream, n int64) bool {
	if now := clock(); now-l.swept > int64(sweepInterval) {
		l.swept = now
		l.sweepLocked(now)
	}
	for l.total.Load()+n > l.limit {
		loser := l.victimLocked(c, n)
		if loser == c && s != nil {
			return l.overtakeLocked(s, n)
		}
		h := l.conns[loser]
		if h == nil || len(h.requests) == 0 {
			return false
		}
		slowest := h.slowest()
		l.evictLocked(slowest, status.Errorf(codes.ResourceExhausted, "%s: others need the memory, and of all clients this one has the most requests on their way. Send fewer or smaller requests at once, or give the server more memory.", slowest.lostPlace()))
	}
	return true
}

// overtakeLocked makes room for n more bytes of a request by evicting much slower ones of the same client. Those of other
// clients stay: a faster client must not keep others from an equal share.
func (l *ledger) overtakeLocked(s *stream, n int64) bool {
	now := clock()
	limit := s.rate(now) / muchFaster
	for c, h := range l.conns {
		if c.client != s.conn.client {
			continue
		}
		for other := range h.requests {
			if l.total.Load()+n <= l.limit {
				return true
			}
			if rate := other.rate(now); other != s && rate < limit {
				l.evictLocked(other, status.Errorf(codes.ResourceExhausted, "%s: %.0f bytes a second came of it, and requests that come faster need the memory. Send fewer or smaller requests at once, or give the server more memory.", other.lostPlace(), rate))
			}
		}
	}
	return l.total.Load()+n <= l.limit
}

// sweepLocked evicts the requests that are slower than requestRate after requestGrace.
func (l *ledger) sweepLocked(now int64) {
	for _, h := range l.conns {
		for s := range h.requests {
			if rate := s.rate(now); now-s.began > int64(requestGrace) && rate < requestRate {
				l.evictLocked(s, status.Errorf(codes.ResourceExhausted, "%s: %.0f bytes a second came of it, which is less than %d, and others need the memory", s.lostPlace(), rate, requestRate))
			}
		}
	}
}

// victimLocked returns the connection that must make room for n more bytes of c: the one with the most memory, of the client
// with the most.
func (l *ledger) victimLocked(c *serverConn, n int64) *serverConn {
	most, mostBytes := c, n
	if h := l.conns[c]; h != nil {
		mostBytes += h.bytes
	}
	for other, h := range l.conns {
		if len(h.requests) == 0 || other == c {
			continue
		}
		theirs, own := other.client.receiving, most.client.receiving
		if most == c {
			own += n
		}
		if other.client != most.client && theirs > own || (other.client == most.client || theirs == own) && h.bytes > mostBytes {
			most, mostBytes = other, h.bytes
		}
	}
	return most
}

// slowest returns the request with the lowest rate.
func (h *holding) slowest() (slowest *stream) {
	now := clock()
	for s := range h.requests {
		if slowest == nil || s.rate(now) < slowest.rate(now) {
			slowest = s
		}
	}
	return slowest
}

// rate returns the average rate at which a request has arrived, in bytes a second.
func (s *stream) rate(now int64) float64 {
	return float64(s.arrived) / max(time.Duration(now-s.began), rateTime).Seconds()
}

// lostPlace describes a request, or the unread messages of a call, that is evicted.
func (s *stream) lostPlace() string {
	if s.inbox != nil {
		return fmt.Sprintf("the call's unread messages, of which %d bytes arrived, lost their place", s.arrived)
	}
	return fmt.Sprintf("a request lost its place after %d of its %d bytes", s.arrived, s.size)
}

// evictLocked frees the memory of a request, or of the unread messages of a call, and interrupts the reader of its connection. The buffer into
// which that reader is reading stays until the reader notices.
func (l *ledger) evictLocked(s *stream, why error) {
	h := l.conns[s.conn]
	s.lost = why
	delete(h.requests, s)
	h.lost = append(h.lost, s)
	if s.inbox == nil {
		l.freeLocked(s, h)
	} else {
		for _, m := range s.inbox.messages() {
			l.freeLocked(m, h)
		}
		s.inbox.queue, s.inbox.part = nil, nil
	}
	s.conn.in.interrupt()
}

// freeLocked frees the memory of an evicted request or message.
func (l *ledger) freeLocked(s *stream, h *holding) {
	if c := s.conn; c.filling == s {
		kept := len(s.message) - 1
		for _, b := range s.message[:kept] {
			n := int64(pieceSize(b.Len()))
			b.Free()
			s.held -= n
			l.countLocked(c, h, -n)
		}
		s.message = s.message[kept:]
	} else {
		s.forgetMessage()
		l.settleLocked(s)
	}
}

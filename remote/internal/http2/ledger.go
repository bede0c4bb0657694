package http2

import (
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const (
	// requestGrace is how long a request may take however little of it comes, and requestRate how many bytes a second
	// have to come of one that takes longer, where its memory is needed for others.
	requestGrace = 2 * time.Second
	requestRate  = 32 << 10
	// muchFaster is how many times as fast as another one a request has to be to get its memory, where its client has
	// no other claim to it: it needs the memory for less time.
	muchFaster = 4
	// sweepInterval is the least time between two looks for requests that are slower.
	sweepInterval = 100 * time.Millisecond
)

// ledger shares out the memory of requests that are on their way. As long as there is enough, anybody may have all of it.
// When there is not, slow requests lose their place first. After them it is the client with the most memory that
// loses a request, and of its connections that with the most: nobody can be kept from an equal part.
type ledger struct {
	limit int64
	total atomic.Int64 // only changed with mu

	mu    sync.Mutex
	conns map[*serverConn]*holding
	swept int64 // when slow requests were looked for
}

// holding is what the requests of a connection take.
type holding struct {
	bytes    int64
	requests map[*stream]struct{} // those that can lose their place
	lost     []*stream            // those that did, and whose clients do not know
}

func (l *ledger) init(limit int64) { l.limit, l.conns = limit, map[*serverConn]*holding{} }

// hold counts n bytes for a connection, and makes room where there is none. incomplete tells that they are for a
// request that is being received, whose place they may cost.
func (l *ledger) hold(c *serverConn, s *stream, n int64, incomplete bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s != nil && s.lost != nil {
		return s.lost
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
		if s.began == 0 {
			s.began = clock()
		}
		h.requests[s] = struct{}{}
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

// release gives n bytes back that a connection held for something that is no request.
func (l *ledger) release(c *serverConn, n int64) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(c, l.conns[c], -n)
}

// settle gives back what a request held, and lets its message go.
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

// complete notes that a request is there and cannot lose its place any more, unless it has.
func (l *ledger) complete(s *stream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.conns[s.conn]; h != nil {
		delete(h.requests, s)
	}
	return s.lost
}

// attach gives a request more memory, which was counted before, unless it has lost its place since.
func (l *ledger) attach(s *stream, b mem.Buffer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.lost != nil {
		b.Free()
		return s.lost
	}
	s.room = b.ReadOnlyData() // nobody else has it yet
	s.add(b)
	return nil
}

// beginFill gives the memory that the reader of a connection reads n bytes of a request into, or the error of one that
// lost its place.
func (l *ledger) beginFill(s *stream, n int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.lost != nil {
		return nil, s.lost
	}
	s.conn.filling = s
	return s.room[:n], nil
}

// endFill notes that so many bytes were read.
func (l *ledger) endFill(s *stream, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.conn.filling = nil
	s.room = s.room[n:]
	s.arrived += int64(n)
	return s.lost
}

// lost gives the error of a request that lost its place.
func (l *ledger) lost(s *stream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.lost
}

// takeLost gives the requests of a connection that lost their place since it was called last, but the one that is being
// filled, which its reader sees to.
func (l *ledger) takeLost(c *serverConn) (lost []*stream) {
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

// forget drops the requests of a connection that ended of which nobody is to be told.
func (l *ledger) forget(c *serverConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.conns[c]; h != nil {
		h.lost = nil
		l.countLocked(c, h, 0)
	}
}

// makeRoomLocked makes room for n more bytes of a connection, those of s where they are a request's; false where it has
// no claim to it. What is no request's may cost one of the connection itself.
func (l *ledger) makeRoomLocked(c *serverConn, s *stream, n int64) bool {
	if now := clock(); now-l.swept > int64(sweepInterval) {
		l.swept = now
		l.sweepLocked(now)
	}
	for l.total.Load()+n > l.limit {
		loser := l.loserLocked(c, n)
		if loser == c && s != nil {
			return l.overtakeLocked(s, n)
		}
		h := l.conns[loser]
		if h == nil || len(h.requests) == 0 {
			return false
		}
		slowest := h.slowest()
		l.evictLocked(slowest, status.Errorf(codes.ResourceExhausted, "a request lost its place after %d of its %d bytes: others need the memory, and of all clients this one has the most requests on their way. Send fewer or smaller requests at once, or give the server more memory.", slowest.arrived, slowest.size))
	}
	return true
}

// overtakeLocked makes room for n more bytes of a request by ending much slower ones.
func (l *ledger) overtakeLocked(s *stream, n int64) bool {
	now := clock()
	limit := s.rate(now) / muchFaster
	for _, h := range l.conns {
		for other := range h.requests {
			if l.total.Load()+n <= l.limit {
				return true
			}
			if rate := other.rate(now); other != s && rate < limit {
				l.evictLocked(other, status.Errorf(codes.ResourceExhausted, "a request lost its place after %d of its %d bytes: %.0f bytes a second came of it, and requests that come faster need the memory. Send fewer or smaller requests at once, or give the server more memory.", other.arrived, other.size, rate))
			}
		}
	}
	return l.total.Load()+n <= l.limit
}

// sweepLocked ends the requests that are slower than requestRate.
func (l *ledger) sweepLocked(now int64) {
	for _, h := range l.conns {
		for s := range h.requests {
			if rate := s.rate(now); now-s.began > int64(requestGrace) && rate < requestRate {
				l.evictLocked(s, status.Errorf(codes.ResourceExhausted, "a request lost its place after %d of its %d bytes: %.0f bytes a second came of it, which is less than %d, and others need the memory", s.arrived, s.size, rate, requestRate))
			}
		}
	}
}

// loserLocked gives the connection that makes room for n more bytes of c: the one with the most memory, of the client
// with the most.
func (l *ledger) loserLocked(c *serverConn, n int64) *serverConn {
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

// slowest gives the request of which the least came in its time.
func (h *holding) slowest() (slowest *stream) {
	now := clock()
	for s := range h.requests {
		if slowest == nil || s.rate(now) < slowest.rate(now) {
			slowest = s
		}
	}
	return slowest
}

// rate is how many bytes of a request came in a second.
func (s *stream) rate(now int64) float64 {
	return float64(s.arrived) / time.Duration(now-s.began+1).Seconds()
}

// evictLocked takes the memory of a request, and tells the reader of its connection. What that is reading into stays
// until it sees it.
func (l *ledger) evictLocked(s *stream, why error) {
	c, h := s.conn, l.conns[s.conn]
	s.lost = why
	delete(h.requests, s)
	h.lost = append(h.lost, s)
	if c.filling == s {
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
	c.in.interrupt()
}

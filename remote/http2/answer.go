package http2

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const (
	// quantum is how many bytes go to the kernel at once, so that a small answer does not stand
	// behind a large one.
	quantum = 512 << 10
	// chunkSize is the memory that a request beyond smallRequest grows by.
	chunkSize    = 1 << 20
	smallRequest = 64 << 10
)

// stream is a unary call on a connection: its request on the way in, its answer on the way out.
type stream struct {
	conn   *serverConn
	id     uint32
	method *Method
	call   call
	ended  bool // the headers said that nothing follows

	// Of the reader, and of the call's goroutine until it detaches.
	encoding   string
	compressed bool
	declined   bool // answered before the request was there
	begun      bool
	prefix     [prefixSize]byte
	have       int // of prefix
	size       int
	got        int
	held       int64 // what the request counts for in Server.receiving
	message    mem.BufferSlice
	room       []byte // of the last chunk
	aliased    bool   // the message lies where it was read
	credit     int    // bytes that the client may send
	consumed   int    // bytes that it was not given credit for again

	// Guarded by conn.mu.
	window int64
	body   mem.BufferSlice // from off in the first buffer on
	off    int
	left   int
	queued bool // in the list of those that can send
	gone   bool
	next   *stream
}

// take reads n bytes of the request; whole tells that it is complete. Where alias is set a request
// that came in one piece stays where it was read, until the next frame is.
func (s *stream) take(n int, alias bool) (whole bool, err error) {
	in := &s.conn.in
	if s.credit -= n; s.credit < 0 {
		return false, broken(codeFlowControl, "more DATA than the window of stream %d", s.id)
	}
	for n > 0 {
		if s.have < prefixSize {
			k := min(n, prefixSize-s.have)
			if err := in.fill(k); err != nil {
				return false, err
			}
			s.have += copy(s.prefix[s.have:], in.next(k))
			n -= k
			if s.have == prefixSize {
				if err := s.announced(); err != nil {
					return false, firstError(s.conn.decline(s, err), in.skip(n))
				}
			}
			continue
		}
		left := s.size - s.got
		switch {
		case left == 0:
			err := status.Error(codes.Internal, "the call has more than one request")
			return false, firstError(s.conn.decline(s, err), in.skip(n))
		case alias && s.got == 0 && n == left && n <= inputSize:
			if err := in.fill(n); err != nil {
				return false, err
			}
			s.message = append(s.message, mem.SliceBuffer(in.next(n)))
			s.got, n, s.aliased = s.size, 0, true
		default:
			if len(s.room) == 0 {
				s.grow(left)
			}
			k := min(n, len(s.room))
			if err := in.readFull(s.room[:k]); err != nil {
				return false, err
			}
			s.room = s.room[k:]
			s.got += k
			n -= k
		}
	}
	return s.have == prefixSize && s.got == s.size, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// announced decides whether a request of the size that its prefix tells is taken in.
func (s *stream) announced() error {
	s.compressed = s.prefix[0]&1 != 0
	s.size = length(s.prefix[:])
	if s.size > maxMessage {
		return status.Errorf(codes.ResourceExhausted, "a request of %d bytes is too large: at most %d are taken", s.size, maxMessage)
	}
	if s.size <= smallRequest {
		return nil
	}
	if sum := s.conn.server.receiving.Add(int64(s.size)); sum > maxReceiving {
		s.conn.server.receiving.Add(-int64(s.size))
		return status.Errorf(codes.ResourceExhausted, "a request of %d bytes is not taken now: with those that are on their way to the server it would take more than %d", s.size, int64(maxReceiving))
	}
	s.held = int64(s.size)
	return nil
}

// grow makes room for more of the request. Memory is taken as bytes come, not as they are claimed.
func (s *stream) grow(left int) {
	if s.size <= smallRequest {
		b := make([]byte, left)
		s.message = append(s.message, mem.SliceBuffer(b))
		s.room = b
		return
	}
	b := *chunks.Get(chunkSize)
	b = b[:min(left, chunkSize)]
	s.message = append(s.message, mem.NewBuffer(&b, chunks))
	s.room = b
}

// keep makes a message that was not decoded outlast the reading of the next frame.
func (s *stream) keep() {
	if s.aliased && s.message != nil {
		s.message = mem.BufferSlice{mem.SliceBuffer(s.message.Materialize())}
	}
}

// settle lets go of what the request took on its way.
func (s *stream) settle() {
	if s.held > 0 {
		s.conn.server.receiving.Add(-s.held)
		s.held = 0
	}
	s.message.Free()
	s.message, s.room = nil, nil
}

// chunks are the pooled memory of large requests.
var chunks = &chunkPool{}

type chunkPool struct{ pool sync.Pool }

// Get gives a chunk with arbitrary contents.
func (p *chunkPool) Get(int) *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, chunkSize)
	return &b
}

// Put takes a chunk back.
func (p *chunkPool) Put(b *[]byte) {
	*b = (*b)[:cap(*b)]
	p.pool.Put(b)
}

// answer sends what a call ended with.
func (c *serverConn) answer(s *stream, reply any, err error) {
	var body mem.BufferSlice
	if err == nil {
		body, err = c.server.config.Codec.Marshal(reply)
	}
	size := body.Len()
	if size > maxMessage {
		body.Free()
		err = status.Errorf(codes.ResourceExhausted, "an answer of %d bytes is too large: at most %d are sent", size, maxMessage)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.begun {
		c.running--
	}
	if c.err != nil || s.gone || c.streams[s.id] != s {
		body.Free()
		c.written.Broadcast()
		return
	}
	if err != nil {
		c.encode(s.id, flagEndStream, append([]hpackField{fieldOK, fieldGRPC}, trailer(err)...)...)
		if s.declined && !s.ended {
			c.queue.buf = appendReset(c.queue.buf, s.id, codeNone) // no need to send the rest
		}
		delete(c.streams, s.id)
	} else {
		c.encode(s.id, 0, fieldOK, fieldGRPC, fieldAccept)
		s.left = prefixSize + size
		s.body = append(mem.BufferSlice{mem.SliceBuffer(appendPrefix(nil, size))}, body...)
		c.push(s)
	}
	c.flush()
}

// push puts a stream behind the others that can send. mu is held.
func (c *serverConn) push(s *stream) {
	s.queued, s.next = true, nil
	if c.first == nil {
		c.first = s
	} else {
		c.tail.next = s
	}
	c.tail = s
}

// pop takes the first stream that can send. mu is held.
func (c *serverConn) pop() {
	s := c.first
	c.first, s.next, s.queued = s.next, nil, false
}

// fill queues as much of the answers as the windows allow and the kernel should get at once, a frame
// of each in turn. mu is held.
func (c *serverConn) fill() {
	for c.first != nil && c.queue.bytes() < quantum {
		s := c.first
		if s.gone || s.left > 0 && s.window <= 0 {
			c.pop() // until there is window
			continue
		}
		if s.left > 0 {
			n := int(min(int64(s.left), s.window, c.window, int64(c.maxFrame)))
			if n <= 0 {
				return
			}
			c.queue.buf = appendHeader(c.queue.buf, n, frameData, 0, s.id)
			s.window -= int64(n)
			c.window -= int64(n)
			s.left -= n
			s.put(n)
		}
		c.pop()
		if s.left > 0 {
			c.push(s)
			continue
		}
		c.encode(s.id, flagEndStream, fieldFinished)
		delete(c.streams, s.id)
	}
}

// put queues the next n bytes of the body.
func (s *stream) put(n int) {
	q := &s.conn.queue
	for n > 0 {
		b := s.body[0].ReadOnlyData()[s.off:]
		k := min(n, len(b))
		q.content(b[:k])
		s.off += k
		n -= k
		if k == len(b) {
			q.owned = append(q.owned, s.body[0])
			s.body, s.off = s.body[1:], 0
		}
	}
	for s.left == 0 && len(s.body) > 0 { // buffers without bytes
		q.owned = append(q.owned, s.body[0])
		s.body = s.body[1:]
	}
}

// drop gives up the answer. The kernel may be reading from it, so that it is let go with the next
// batch. mu is held.
func (s *stream) drop() {
	s.gone = true
	s.conn.queue.owned = append(s.conn.queue.owned, s.body...)
	s.body, s.left = nil, 0
	if s.conn.err != nil && !s.conn.busy {
		s.conn.queue.done()
	}
}

// widen gives a stream more window. mu is held.
func (c *serverConn) widen(id uint32, n int64) error {
	s := c.streams[id]
	if s == nil {
		return nil
	}
	if s.window += n; s.window > maxWindow {
		return broken(codeFlowControl, "the window of stream %d is too large", id)
	}
	if s.left > 0 && s.window > 0 && !s.queued {
		c.push(s)
	}
	return nil
}

// resize changes the window of all streams. mu is held.
func (c *serverConn) resize(by int64) error {
	for id := range c.streams {
		if err := c.widen(id, by); err != nil {
			return err
		}
	}
	return nil
}

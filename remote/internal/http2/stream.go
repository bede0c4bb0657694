package http2

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type hpackField = hpack.HeaderField

// Stream is either end of a gRPC stream on a dedicated connection. Messages flow in
// both directions. One goroutine reads; Send and Close may be called concurrently. The reader may go on after a server's
// handler has returned: its read then fails.
type Stream struct {
	conn  *conn
	id    uint32
	limit int // bytes of a frame that the other end may send

	// Owned by the reader.
	frame    int // unread bytes of the frame
	padding  int
	left     int // unread bytes of the message
	consumed int
	ending   bool // the headers that are being read end the stream
	over     bool // the other end sends no more
	client   bool
	answered bool  // the response's headers have arrived
	outcome  error // the call's error according to the other end

	// reading is held while the connection's input is read: a server's handler may return while its reader still reads.
	reading sync.Mutex
	settled atomic.Bool // the server's SETTINGS have arrived

	// Guarded by conn.mu.
	window  int64
	partial bool // a message is being queued
	closed  bool // this end sends no more
}

func newStream(c *conn, id uint32, limit int) *Stream { return &Stream{conn: c, id: id, limit: limit} }

// Open opens a stream on a connection that was dialled for it. It takes over the connection, even if it
// fails. The scheme is http or https. ctx bounds the opening, not the stream. Open does not wait for the other end, which learns of the stream
// with the first message, or with Next: only then does a server turn out not to speak HTTP/2.
func Open(ctx context.Context, nc net.Conn, scheme, authority, path string) (*Stream, error) {
	c := &conn{}
	c.init(nc, nil, 0)
	s := newStream(c, 1, largestFrame)
	s.client = true
	c.widened, c.resized = s.widen, s.resize
	stop := context.AfterFunc(ctx, func() { c.shut(ctx.Err()) })
	err := s.begin(scheme, authority, path)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		c.shut(err)
		return nil, unavailable(err)
	}
	return s, nil
}

// begin greets the server, and queues the call of the method.
func (s *Stream) begin(scheme, authority, path string) error {
	c := s.conn
	if err := c.greet(largestFrame); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.window = c.initial
	c.encode(s.id, 0, hpackField{Name: ":method", Value: "POST"}, hpackField{Name: ":scheme", Value: scheme},
		hpackField{Name: ":path", Value: path}, hpackField{Name: ":authority", Value: authority},
		fieldGRPC, hpackField{Name: "te", Value: "trailers"})
	return c.err
}

// settle waits for the server's settings, once the call has been sent.
func (s *Stream) settle() error {
	c := s.conn
	c.mu.Lock()
	c.flush()
	err := c.err
	c.mu.Unlock()
	if err == nil {
		err = c.settle(largestFrame)
	}
	s.settled.Store(err == nil)
	return err
}

// unavailable converts a connection's error to a gRPC status error.
func unavailable(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	var foreign *connError
	if errors.As(err, &foreign) {
		return &foreignError{status.New(codes.Unavailable, err.Error()), foreign}
	}
	return status.Errorf(codes.Unavailable, "%v", err)
}

// foreignError is the gRPC error of a connection whose other end broke the protocol.
type foreignError struct {
	grpc  *status.Status
	cause *connError
}

func (e *foreignError) Error() string { return e.grpc.Err().Error() }

// GRPCStatus returns the error's code and message.
func (e *foreignError) GRPCStatus() *status.Status { return e.grpc }

func (e *foreignError) Unwrap() error { return e.cause }

// IsForeign reports whether a call or stream failed because the other end does not speak HTTP/2, or not as it should.
func IsForeign(err error) bool {
	var e *connError
	return errors.As(err, &e)
}

// Next waits for the next message and returns its length in bytes. After the other end's last message, it returns
// io.EOF or the error with which the other end ended. It skips what was not read of the previous message.
func (s *Stream) Next() (int, error) {
	if s.left > 0 { // skip has a buffer, which other calls need not allocate
		if err := s.skip(); err != nil {
			return 0, s.failed(err)
		}
	}
	var prefix [prefixSize]byte
	for have := 0; have < prefixSize; {
		n, err := s.bytes(prefix[have:])
		if err != nil {
			if errors.Is(err, io.EOF) && have > 0 {
				err = io.ErrUnexpectedEOF
			}
			return 0, s.failed(err)
		}
		have += n
	}
	if prefix[0] != 0 {
		return 0, s.failed(broken(codeProtocol, "a compressed message"))
	}
	s.left = length(prefix[:])
	return s.left, nil
}

// failed converts an error of reading to the one to return, and closes the connection unless the stream ended regularly.
func (s *Stream) failed(err error) error {
	if errors.Is(err, io.EOF) {
		if s.outcome != nil {
			return s.outcome
		}
		return io.EOF
	}
	if errors.Is(err, net.ErrClosed) {
		err = s.conn.why(err)
	}
	var e *connError
	if errors.As(err, &e) {
		c := s.conn
		c.mu.Lock()
		_ = c.nc.SetWriteDeadline(time.Now().Add(drainTime)) // fails if the connection is closed
		c.queue.buf = appendGoAway(c.queue.buf, maxWindow, e.code, e.why)
		c.flush()
		c.mu.Unlock()
	}
	s.conn.shut(err)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return unavailable(err)
}

// Read reads some bytes of the message, and returns io.EOF at its end. Large reads go directly from the socket into p.
func (s *Stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if len(p) > s.left {
		p = p[:s.left]
	}
	n, err := s.bytes(p)
	s.left -= n
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return n, s.failed(err)
	}
	return n, nil
}

func (s *Stream) skip() error {
	var waste [4 << 10]byte
	for s.left > 0 {
		n, err := s.bytes(waste[:min(len(waste), s.left)])
		if err != nil {
			return err
		}
		s.left -= n
	}
	return nil
}

// bytes reads some bytes of the stream, whatever frames they come in.
func (s *Stream) bytes(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for s.frame == 0 {
		if s.over {
			return 0, io.EOF
		}
		if err := s.nextFrame(); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the connection ended before the stream did
			}
			return 0, err
		}
	}
	n, err := s.conn.in.read(p[:min(len(p), s.frame)])
	s.frame -= n
	if s.frame == 0 && err == nil {
		err = s.unpad()
	}
	s.giveCredit(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// giveCredit sends window updates, if due. The windows are large, and only the kernel's buffers bound what the other
// end sends: nothing is read before the reader asks for it.
func (s *Stream) giveCredit(n int) {
	if s.consumed += n; s.consumed < maxWindow/2 {
		return
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.buf = appendWindow(c.queue.buf, 0, s.consumed)
	c.queue.buf = appendWindow(c.queue.buf, s.id, s.consumed)
	s.consumed = 0
	c.flush()
}

// nextFrame reads one frame. Of a DATA frame, it reads only the head.
func (s *Stream) nextFrame() error {
	c := s.conn
	if s.client && !s.settled.Load() {
		if err := s.settle(); err != nil {
			return err
		}
	}
	h, err := c.nextHeader()
	if err != nil {
		return err
	}
	if h.length > s.limit {
		return broken(codeFrameSize, "a frame of %d bytes", h.length)
	}
	switch h.kind {
	case frameData:
		return s.data(h)
	case frameHeaders, frameContinuation:
		return s.headers(h)
	case frameReset:
		if _, err := c.payload(h, 4); err != nil {
			return err
		}
		if h.stream != s.id {
			return nil
		}
		return status.Error(codes.Unavailable, "the other end gave the stream up")
	}
	return c.control(h)
}

// data begins a DATA frame. Its contents are read later, by bytes.
func (s *Stream) data(h header) error {
	if h.stream != s.id || s.client && !s.answered {
		return broken(codeProtocol, "DATA of stream %d", h.stream)
	}
	var err error
	if s.frame, s.padding, err = s.conn.dataSize(h); err != nil {
		return err
	}
	s.over = h.flags&flagEndStream != 0
	s.giveCredit(h.length - s.frame)
	if s.frame == 0 {
		return s.unpad()
	}
	return nil
}

// unpad skips the padding after a frame's contents.
func (s *Stream) unpad() error {
	n := s.padding
	s.padding = 0
	return s.conn.in.skip(n)
}

// headers handles the headers that begin and end an answer, and a client's trailers, whose contents are ignored.
func (s *Stream) headers(h header) error {
	c := s.conn
	switch {
	case h.stream != s.id && !s.client:
		return broken(codeRefused, "a second call on a stream's connection")
	case h.stream != s.id:
		return broken(codeProtocol, "headers of stream %d", h.stream)
	case h.kind == frameHeaders:
		s.ending = h.flags&flagEndStream != 0
	}
	whole, err := c.headers(h)
	if err != nil || !whole {
		return err
	}
	s.over = s.ending
	if !s.client {
		return nil
	}
	f := &c.fields
	if f.size > maxHeaderList {
		return f.tooLarge()
	}
	if s.over {
		s.outcome = f.outcome()
	} else if !s.answered && (f.status != "200" || !strings.HasPrefix(f.contentType, "application/grpc")) {
		return status.Errorf(codes.Unavailable, "the server is not a gRPC server: HTTP status %.20q, content %.100q", f.status, f.contentType)
	}
	s.answered = true
	return nil
}

// Close ends the connection: Next, Read and Send fail at once, including blocked calls.
func (s *Stream) Close() error {
	s.conn.shut(net.ErrClosed)
	return nil
}

// widen and resize update the window. conn.mu is held.
func (s *Stream) widen(id uint32, n int64) error {
	if id == s.id {
		if s.window += n; s.window > maxWindow {
			return broken(codeFlowControl, "the window of stream %d is too large", id)
		}
	}
	return nil
}

func (s *Stream) resize(by int64) error { return s.widen(s.id, by) }

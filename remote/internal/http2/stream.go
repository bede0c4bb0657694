package http2

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type hpackField = hpack.HeaderField

// Stream is a gRPC stream that has its connection for itself, seen from either end. Messages go in
// both directions. One goroutine reads; Send and Close may be called concurrently.
type Stream struct {
	conn  *conn
	id    uint32
	limit int // bytes of a frame that the other end may send

	// Of the reader.
	frame    int // bytes of the frame that are not read
	padding  int
	left     int // bytes of the message that are not read
	consumed int
	ending   bool // the headers that are being read are its last ones
	over     bool // the other end sends no more
	client   bool
	answered bool  // the response's headers came
	outcome  error // what the other end says of the call's end

	// Guarded by conn.mu.
	window  int64
	partial bool // a message is under way
	closed  bool // this end sends no more
}

func newStream(c *conn, id uint32, limit int) *Stream { return &Stream{conn: c, id: id, limit: limit} }

// Open makes a stream on a connection that was dialled for it, which it takes over, also when it
// fails. The scheme is http or https. ctx bounds the opening and not the stream.
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

// begin greets the server, learns how it wants to be spoken to, and calls the method.
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
	c.flush()
	return c.err
}

// unavailable gives a connection's failure the form of a call's.
func unavailable(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Errorf(codes.Unavailable, "%v", err)
}

// Next waits for the next message and gives its length in bytes; io.EOF after the other end's last
// one, where that ended well, else its error. What was not read of the message before is skipped.
func (s *Stream) Next() (int, error) {
	if s.left > 0 { // else nothing takes memory for what is skipped
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

// failed gives an error of reading its form; the connection is of no use after it.
func (s *Stream) failed(err error) error {
	if errors.Is(err, io.EOF) {
		if s.outcome != nil {
			return s.outcome
		}
		return io.EOF
	}
	var e *connError
	if errors.As(err, &e) {
		c := s.conn
		c.mu.Lock()
		_ = c.nc.SetWriteDeadline(time.Now().Add(drainTime)) // it fails where the connection is closed
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

// Read reads some bytes of the message, io.EOF at its end. Large reads go from the socket into p.
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

// giveCredit lets the other end send on. What it may send is only bounded by what the kernel takes
// for this end: nothing is read before somebody asks for it.
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

// nextFrame reads on to the next frame with data, or the end.
func (s *Stream) nextFrame() error {
	c := s.conn
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

// data begins a DATA frame, whose contents are read when somebody asks for them.
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

// unpad skips the padding behind a frame's contents.
func (s *Stream) unpad() error {
	n := s.padding
	s.padding = 0
	return s.conn.in.skip(n)
}

// headers takes the headers that begin and end an answer, and trailers of a client, which tell nothing.
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

// Close ends the connection: Next, Read and Send fail at once, waiting ones too.
func (s *Stream) Close() error {
	s.conn.shut(net.ErrClosed)
	return nil
}

// widen and resize keep the window of what may be sent. conn.mu is held.
func (s *Stream) widen(id uint32, n int64) error {
	if id == s.id {
		if s.window += n; s.window > maxWindow {
			return broken(codeFlowControl, "the window of stream %d is too large", id)
		}
	}
	return nil
}

func (s *Stream) resize(by int64) error { return s.widen(s.id, by) }

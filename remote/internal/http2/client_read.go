package http2

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errInterrupted means that the reader's call was cancelled. The connection remains usable.
var errInterrupted = errors.New("http2: the call was cancelled")

// frame handles one frame. The caller is the reader. Of a DATA frame of own, the reader's call, it reads only the head.
func (c *Client) frame(own *clientCall) error {
	c.mu.Lock()
	if own != nil && own.cancelled {
		c.mu.Unlock()
		return errInterrupted
	}
	c.between = true
	c.mu.Unlock()
	h, err := c.nextHeader()
	c.mu.Lock()
	c.between = false
	if c.hurried {
		c.hurried = false
		if e := c.nc.SetReadDeadline(time.Time{}); e != nil && err == nil {
			err = e
		}
	}
	cancelled := own != nil && own.cancelled
	if err == nil && !c.settled {
		err = c.beginning(h, frameSize)
	}
	if err == nil && cancelled {
		c.expediteReader() // the rest of this frame
	}
	c.mu.Unlock()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if cancelled {
			return errInterrupted
		}
		return nil // the deadline was meant for an earlier reader
	}
	if err != nil {
		return err
	}
	if h.length > frameSize {
		return broken(codeFrameSize, "a frame of %d bytes", h.length)
	}
	switch h.kind {
	case frameData:
		return c.data(h, own)
	case frameHeaders:
		c.current, c.ending = c.find(h.stream), h.flags&flagEndStream != 0
		return c.headersOf(h)
	case frameContinuation:
		return c.headersOf(h)
	case frameReset:
		return c.resetBy(h)
	case frameGoAway:
		return c.goesAway(h)
	}
	return c.control(h)
}

// find returns the call of a stream, or nil if there is none or it is over.
func (c *Client) find(id uint32) *clientCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.calls[id]; p != nil && !p.over {
		return p
	}
	return nil
}

// data handles a DATA frame. The contents are kept in memory, unless they belong to the reader's own call, which reads
// them itself.
func (c *Client) data(h header, own *clientCall) error {
	n, padding, err := c.dataSize(h)
	if err != nil {
		return err
	}
	p := c.find(h.stream)
	c.giveCredit(p, h.length)
	if p == nil {
		return c.in.skip(n + padding) // in flight when the call ended
	}
	a := &p.answer
	if !a.answered {
		return broken(codeProtocol, "DATA of stream %d before its headers", h.stream)
	}
	a.frame, a.padding, a.last = n, padding, h.flags&flagEndStream != 0
	if p == own {
		return nil
	}
	if err := a.keep(); err != nil {
		return c.endCall(p, err)
	}
	return a.frameRead()
}

// giveCredit sends window updates, if due. What the server sends is bounded by the calls' answers.
func (c *Client) giveCredit(p *clientCall, n int) {
	c.consumed += n
	ofCall := false
	if p != nil {
		p.answer.consumed += n
		ofCall = p.answer.consumed >= maxWindow/2
	}
	if c.consumed < maxWindow/2 && !ofCall {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.consumed >= maxWindow/2 {
		c.queue.buf = appendWindow(c.queue.buf, 0, c.consumed)
		c.consumed = 0
	}
	if ofCall {
		c.queue.buf = appendWindow(c.queue.buf, p.id, p.answer.consumed)
		p.answer.consumed = 0
	}
	c.flush()
}

// headersOf handles the headers that begin and end an answer.
func (c *Client) headersOf(h header) error {
	whole, err := c.headers(h)
	if err != nil || !whole {
		return err
	}
	p := c.current
	c.current = nil
	if p == nil {
		return nil // its call is over
	}
	f := &c.fields
	switch {
	case f.size > maxHeaderList:
		return c.endCall(p, f.tooLarge())
	case c.ending:
		err = f.outcome()
		if err == nil && !p.answer.complete() {
			err = status.Error(codes.Internal, "the server's answer is not complete")
		}
		return c.endCall(p, err)
	case f.status != "200" || !strings.HasPrefix(f.contentType, "application/grpc"):
		return c.endCall(p, status.Errorf(codes.Unavailable, "the server is not a gRPC server: HTTP status %.20q, content %.100q", f.status, f.contentType))
	}
	p.answer.answered = true
	return nil
}

// endCall ends a call, with an error or nil. It always returns nil.
func (c *Client) endCall(p *clientCall, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endCallLocked(p, err)
	return nil
}

func (c *Client) endCallLocked(p *clientCall, err error) {
	if p.over {
		return
	}
	p.over, p.err = true, err
	p.wake()
	c.written.Broadcast()
}

// resetBy handles the server's reset of a call.
func (c *Client) resetBy(h header) error {
	b, err := c.payload(h, 4)
	if err != nil {
		return err
	}
	if h.length != 4 {
		return broken(codeFrameSize, "a malformed RST_STREAM")
	}
	p := c.find(h.stream)
	if p == nil {
		return nil
	}
	switch code := errorCode(binary.BigEndian.Uint32(b)); code {
	case codeRefused:
		err = ErrNotSent
	case codeCancel:
		err = status.Error(codes.Canceled, "the server cancelled the call")
	case codeCalm:
		err = status.Error(codes.ResourceExhausted, "the server turned the call away")
	default:
		err = status.Errorf(codes.Internal, "the server reset the call (HTTP/2 code %d)", code)
	}
	return c.endCall(p, err)
}

// goesAway handles a GOAWAY: the server accepts no more calls, and names the last one that it accepted.
func (c *Client) goesAway(h header) error {
	b, err := c.payload(h, inputSize)
	if err != nil {
		return err
	}
	if h.stream != 0 {
		return broken(codeProtocol, "a GOAWAY on stream %d", h.stream)
	}
	if h.length < 8 {
		return broken(codeFrameSize, "a malformed GOAWAY")
	}
	last := binary.BigEndian.Uint32(b) & maxWindow
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving = true
	for id, p := range c.calls {
		if id > last {
			c.endCallLocked(p, ErrNotSent)
		}
	}
	c.written.Broadcast()
	return nil
}

// lost ends the connection with the reader's error.
func (c *Client) lost(err error) {
	var e *connError
	if errors.As(err, &e) && c.nc.SetWriteDeadline(time.Now().Add(closeTime)) == nil {
		c.mu.Lock()
		c.queue.buf = appendGoAway(c.queue.buf, maxWindow, e.code, e.why)
		c.flush()
		c.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the server closed the connection")
	}
	c.shut(err)
}

// failed ends all calls when the connection is gone. A call whose request was not sent completely cannot have run. A write in progress, which
// the end of the connection ends, decides that.
func (c *Client) failed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.prober != nil {
		c.prober.Stop()
	}
	for c.busy {
		c.written.Wait()
	}
	for _, p := range c.calls {
		if p.whole == 0 || c.neverSent(p.whole) {
			c.endCallLocked(p, ErrNotSent)
		} else {
			c.endCallLocked(p, unavailable(c.err))
		}
	}
}

// checkIdle has everything handled that the server has sent while the connection was idle, its end included, before a request of p goes out on it:
// a request that is written to a connection that had ended before may have run, as far as its client knows. If the connection's goroutine is
// reading, it may not have run since the end came, so it hands over first. mu is held, but released meanwhile.
func (c *Client) checkIdle(p *clientCall) {
	idle := func() bool { return len(c.calls) == 0 && c.err == nil && !p.cancelled }
	for c.reading && idle() {
		if !c.hurried {
			c.expediteReader()
		}
		c.checkers++
		c.written.Wait()
		c.checkers--
	}
	if idle() {
		c.pollInput()
	}
}

// pollInput handles what the server has sent since the last read, such as a GOAWAY. mu is held, but released
// meanwhile.
func (c *Client) pollInput() {
	c.reading = true
	c.mu.Unlock()
	var err error
	for err == nil {
		waiting, alive := c.peek()
		if !alive {
			err = io.EOF
		} else if waiting {
			err = c.frame(nil)
		} else {
			break
		}
	}
	if err != nil {
		c.lost(err)
	}
	c.mu.Lock()
	c.passReader()
	c.written.Broadcast()
}

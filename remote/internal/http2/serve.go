package http2

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxSpares bounds the idle goroutines that wait to become a connection's reader.
const maxSpares = 2

// serverConn is a client's connection. One goroutine at a time reads it. A call that runs on it may
// hand reading to another one.
type serverConn struct {
	conn
	server   *Server
	client   *client
	peer     Peer
	handover chan struct{} // makes a waiting goroutine the reader
	spares   atomic.Int32
	called   atomic.Bool  // it has had a call
	owes     atomic.Int64 // unread bytes of answers of a client that has stopped reading

	// Owned by the reader.
	ids        streamIDs
	opening    *stream // whose headers are being read
	misplaced  error   // why the headers that are being read are not allowed on their stream
	consumed   int     // bytes read for which the client has not been given new credit
	creditLeft int     // bytes that the client may send
	overhead   overheadBudget
	dedicated  *Stream // to which the connection is dedicated; nil if to none

	// Guarded by Server.receiving.
	filling *stream // whose memory the reader is reading into

	// Guarded by mu.
	streams   map[uint32]*stream // calls that are not over: being received, running or being answered
	running   int                // handlers
	unsent    int64              // bytes of answers that are not queued
	taken     int64              // total bytes of answers that were queued
	first     *stream            // list of streams that have an answer to send and window for it
	tail      *stream
	exclusive bool        // the connection is dedicated to a stream
	streaming atomic.Bool // exclusive, readable without mu
	leaving   bool        // a GOAWAY was sent
}

var (
	errSilent = errors.New("http2: the client did not answer a ping")
	errStuck  = errors.New("http2: the client does not read")
	errOver   = errors.New("http2: the stream is over")
	errGone   = errors.New("http2: the client gave the call up")

	errStopping = status.Error(codes.Unavailable, "The server is stopping.")
)

// serve greets the client and reads its connection.
func (c *serverConn) serve() {
	err := c.greet()
	if err != nil {
		c.end(err)
		return
	}
	c.read()
}

// greet reads the client's preface and SETTINGS and sends the server's SETTINGS. It waits for the client. An HTTP/1 client
// is answered and refused.
func (c *serverConn) greet() error {
	if err := c.nc.SetReadDeadline(time.Now().Add(prefaceTimeout)); err != nil {
		return err
	}
	if err := c.takePreface(); err != nil {
		return err
	}
	c.mu.Lock()
	c.queue.buf = appendSettings(c.queue.buf, setting{settingMaxStreams, maxStreams}, setting{settingInitialWindow, streamWindow},
		setting{settingMaxFrame, frameSize}, setting{settingMaxHeaderList, maxHeaderList}, setting{settingPings, uint32(pingIdle / time.Second)})
	c.queue.buf = appendWindow(c.queue.buf, 0, connWindow-defaultWindow)
	if c.in.buffered() < headerSize { // else it is sent with the acknowledgement of the client's settings
		c.flush()
	}
	c.mu.Unlock()
	h, err := c.nextHeader()
	if err != nil {
		return err
	}
	if h.kind != frameSettings || h.flags&flagAck != 0 {
		return broken(codeProtocol, "the client does not begin with SETTINGS")
	}
	if err := c.takeSettings(h); err != nil {
		return err
	}
	return c.nc.SetReadDeadline(time.Time{})
}

// takePreface reads HTTP/2's preface. If the connection begins differently, it is answered as HTTP/1.
func (c *serverConn) takePreface() error {
	for {
		if err := c.in.fill(c.in.buffered() + 1); err != nil {
			return err
		}
		b := c.in.peek()
		n := min(len(b), len(preface))
		if string(b[:n]) != preface[:n] {
			return c.answerHTTP1()
		}
		if n == len(preface) {
			c.in.next(n)
			return nil
		}
	}
}

// read reads frames until the connection ends, or a call has detached on this goroutine and it is no longer
// needed as a reader.
func (c *serverConn) read() {
	for {
		kept, err := c.frame()
		if err != nil {
			if err = c.survive(err); err == nil {
				continue
			}
			c.end(err)
			return
		}
		if !kept && !c.spare() {
			return
		}
	}
}

// survive ends the call that a stream error belongs to. It returns the error that ends the connection, if any. Streams that the
// client has not opened cannot be reset.
func (c *serverConn) survive(err error) error {
	var e *streamError
	if !errors.As(err, &e) || c.ids.idle(e.stream) {
		return err
	}
	if err := c.chargeOverhead(); err != nil {
		return err
	}
	c.server.config.Logger.Debug("a call was ended", "client", c.peer.Address, "stream", e.stream, "error", err)
	c.reset(e.stream, func() {
		c.queue.buf = appendReset(c.queue.buf, e.stream, e.code)
		c.reply()
	})
	return nil
}

// spare waits to become the reader again. It returns false if the goroutine is not needed.
func (c *serverConn) spare() bool {
	defer c.spares.Add(-1)
	if c.spares.Add(1) > maxSpares {
		return false
	}
	select {
	case <-c.handover:
		return true
	case <-c.ended:
		return false
	}
}

// handOver makes another goroutine the reader.
func (c *serverConn) handOver() {
	select {
	case c.handover <- struct{}{}:
	default:
		c.server.work.Go(c.read)
	}
}

// end ends the connection, and sends the client the reason, if it still reads.
func (c *serverConn) end(err error) {
	c.in.work.exempt() // what follows may block
	var e *connError
	if errors.As(err, &e) {
		c.server.config.Logger.Debug("a connection was ended", "client", c.peer.Address, "error", err)
		if c.nc.SetDeadline(time.Now().Add(closeTime)) == nil {
			c.mu.Lock()
			c.leaving = true
			c.queue.buf = appendGoAway(c.queue.buf, c.ids.last, e.code, e.why)
			c.awaitSent(c.serial) // another goroutine may be writing
			c.mu.Unlock()
			c.linger()
		}
	}
	c.shut(err)
	c.forgetLast()
	c.mu.Lock()
	var open []*stream
	for _, s := range c.streams {
		open = append(open, s)
		c.endMessages(s)
	}
	for _, s := range open {
		c.forgetCall(s)
		s.drop()
	}
	c.flush()
	c.mu.Unlock()
	for _, s := range open {
		if !s.begun {
			s.releaseRequest()
		}
		s.call.end(context.Canceled)
	}
	c.server.receiving.forget(c)
	c.server.forget(c)
}

// forgetLast releases a header list that was not received completely. A stream's reader may still read what has arrived.
func (c *serverConn) forgetLast() {
	if c.dedicated != nil {
		c.dedicated.reading.Lock() // a read that waits for more has failed
		defer c.dedicated.reading.Unlock()
	}
	c.forgetBlock()
}

// goAway tells the client to make no more calls on this connection.
func (c *serverConn) goAway(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving {
		return
	}
	c.leaving = true
	c.queue.buf = appendGoAway(c.queue.buf, maxWindow, codeNone, why)
	for _, s := range c.streams {
		if s.inbox != nil && !s.inbox.closed { // it might not end for days
			s.failMessages(errStopping)
		}
	}
	c.flush()
}

// awaitIdle waits until all calls are answered and written, or ctx ends. It does not wait for a Stream.
func (c *serverConn) awaitIdle(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.written.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && ctx.Err() == nil && !c.exclusive && (len(c.streams) > 0 || c.running > 0 || c.busy) {
		c.written.Wait()
	}
}

// frame handles one frame. kept reports whether this goroutine is still the reader.
func (c *serverConn) frame() (kept bool, err error) {
	c.in.work.yield()
	h, err := c.nextHeader()
	if err != nil {
		return false, err
	}
	if h.length > frameSize {
		return false, broken(codeFrameSize, "a frame of %d bytes", h.length)
	}
	switch h.kind {
	case frameData:
		return c.data(h)
	case frameHeaders:
		return true, c.open(h)
	}
	if err := c.chargeOverhead(); err != nil {
		return false, err
	}
	switch h.kind {
	case frameContinuation:
		return true, c.opened(h)
	case frameReset:
		if _, err := c.payload(h, 4); err != nil {
			return false, err
		}
		if h.length != 4 {
			return false, broken(codeFrameSize, "a malformed RST_STREAM")
		}
		if c.ids.idle(h.stream) {
			return false, broken(codeProtocol, "RST_STREAM of stream %d, which was never opened", h.stream)
		}
		c.ids.end(h.stream)
		c.reset(h.stream, c.flush)
		return true, nil
	}
	return true, c.control(h)
}

// reset drops a call that the client cancelled, or that will not be answered. It calls flush with mu held.
func (c *serverConn) reset(id uint32, flush func()) {
	c.mu.Lock()
	s := c.streams[id]
	if s != nil {
		c.forgetCall(s)
		s.drop()
		c.endMessages(s)
	}
	c.written.Broadcast()
	flush()
	c.mu.Unlock()
	if s == nil {
		return
	}
	if !s.begun {
		s.releaseRequest()
	}
	s.call.end(context.Canceled)
}

// holdBlock counts the memory of headers that come in parts like that of requests.
func (c *serverConn) holdBlock(n int) error {
	if n < 0 {
		c.server.receiving.release(c, int64(-n))
		return nil
	}
	if err := c.server.receiving.reserve(c, nil, int64(n), false); err != nil {
		return broken(codeCalm, "%s", status.Convert(err).Message())
	}
	return nil
}

// declineLost answers the requests that were evicted. Only the reader calls it.
func (c *serverConn) declineLost() {
	for _, s := range c.server.receiving.takeEvicted(c) {
		if !s.declined {
			c.decline(s, c.server.receiving.evictionError(s))
		}
	}
}

// data handles a DATA frame.
func (c *serverConn) data(h header) (kept bool, err error) {
	if c.ids.idle(h.stream) {
		return false, broken(codeProtocol, "DATA of stream %d, which was never opened", h.stream)
	}
	if c.creditLeft -= h.length; c.creditLeft < 0 {
		return false, broken(codeFlowControl, "more DATA than the connection's window")
	}
	c.consumed += h.length
	n, padding, err := c.dataSize(h)
	if err != nil {
		return false, err
	}
	s, whole, last := c.find(h.stream), false, h.flags&flagEndStream != 0
	misplaced := c.dataFault(s, h.stream, n, last)
	if last {
		c.ids.end(h.stream)
	}
	if misplaced != nil {
		s = nil
	}
	if s != nil && !c.spend(s, h.length, n) {
		return false, broken(codeFlowControl, "more DATA than the window of stream %d", s.id)
	}
	awaited := s != nil && s.awaited()
	if !awaited || h.length < tinyData && !last {
		if err := c.chargeOverhead(); err != nil {
			return false, err
		}
	} else {
		c.earnOverhead(h.length / overheadBytes)
	}
	if awaited {
		s.ended = last
		if s.inbox != nil {
			err = c.receiveMessages(s, n)
		} else {
			whole, err = s.receive(n, padding == 0)
		}
	} else {
		err = c.in.skip(n) // in flight when the call ended
	}
	if err == nil {
		err = c.in.skip(padding)
	}
	if err != nil {
		return false, err
	}
	c.giveCredit(s, h.length, whole)
	if whole {
		return c.start(s), nil
	}
	if s != nil && last {
		c.over(s)
	}
	return true, misplaced
}

// awaited reports whether further bytes of the request are needed.
func (s *stream) awaited() bool { return !s.declined && (!s.begun || s.inbox != nil) && s.refusal == 0 }

// dataFault returns the stream error of n bytes of data that are not allowed on the stream id, or nil. s is the stream's
// call, or nil if it is over.
func (c *serverConn) dataFault(s *stream, id uint32, n int, last bool) error {
	switch {
	case s == nil && (c.ids.over(id) || c.ids.skipped(id)), s != nil && s.ended:
		return streamBroken(id, codeStreamClosed, "DATA after the end of stream %d", id)
	case s != nil && s.due >= 0:
		if s.due -= int64(n); s.due < 0 || last && s.due > 0 {
			return s.lengthFault()
		}
	}
	return nil
}

// giveCredit sends window updates, if due. For the windows of calls with many messages, see openWindow.
func (c *serverConn) giveCredit(s *stream, n int, whole bool) {
	stream := s != nil && !whole && !s.declined && s.inbox == nil
	if stream {
		s.consumed += n
		stream = s.consumed >= streamWindow/2
	}
	if c.consumed < connWindow/2 && !stream {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.consumed >= connWindow/2 {
		c.queue.buf = appendWindow(c.queue.buf, 0, c.consumed)
		c.creditLeft += c.consumed
		c.consumed = 0
	}
	if stream {
		c.queue.buf = appendWindow(c.queue.buf, s.id, s.consumed)
		s.credit += s.consumed
		s.consumed = 0
	}
	c.flush()
}

// start runs a call's handler on this goroutine and reports whether the goroutine is still the reader afterwards.
func (c *serverConn) start(s *stream) (kept bool) {
	s.begun = true
	c.mu.Lock()
	refused := c.runs()
	full := c.unsent > c.server.maxUnsent/16
	c.mu.Unlock()
	var reply any
	err := errGone
	switch {
	case refused != nil:
		err = refused
	case full && !c.awaitRoom(s):
	case s.method.ServerStream != nil:
		c.serveServerStream(s)
		return false
	default:
		reply, err = s.method.Unary(&s.call, s.call.read)
	}
	kept = s.call.ended()
	s.releaseRequest()
	c.answer(s, reply, err)
	s.call.end(context.Canceled)
	return kept
}

// awaitRoom delays a call until the client has read enough of earlier answers. It returns false if the
// client cancels the call or the connection ends before.
func (c *serverConn) awaitRoom(s *stream) bool {
	s.call.detach()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && !s.gone && c.unsent > c.server.maxUnsent/16 {
		c.written.Wait()
	}
	return c.err == nil && !s.gone
}

// serveStream dedicates the connection to a stream and serves it.
func (c *serverConn) serveStream(s *stream) error {
	c.mu.Lock()
	alone := len(c.streams) == 1
	if alone {
		c.exclusive = true
		c.streaming.Store(true)
		c.in.work.exempt()
		c.queue.buf = appendWindow(c.queue.buf, 0, maxWindow-c.creditLeft)
		c.queue.buf = appendWindow(c.queue.buf, s.id, maxWindow-streamWindow)
		c.encode(s.id, 0, fieldOK, fieldGRPC)
		// Clients make further calls on another connection.
		c.queue.buf = appendGoAway(c.queue.buf, s.id, codeNone, "this connection is a stream's")
		c.flush()
	}
	c.mu.Unlock()
	if !alone {
		c.decline(s, status.Error(codes.FailedPrecondition, "a stream needs a connection of its own"))
		return nil
	}
	s.call.detached = true // no other goroutine reads
	st := newStream(&c.conn, s.id, frameSize)
	c.dedicated = st
	c.mu.Lock()
	st.window = s.window
	c.widened, c.resized = st.widen, st.resize
	c.broken = func() { s.call.end(context.Canceled) } // the handler may wait for things other than messages
	c.mu.Unlock()
	st.over = s.ended
	st.finish(s.method.Stream(&s.call, st))
	return errOver
}

// length returns the length of a gRPC message from its prefix.
func length(prefix []byte) int { return int(binary.BigEndian.Uint32(prefix[1:])) }

package http2

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// Peer is the caller of a call.
type Peer struct {
	// Connection is a number that no other connection of the server has.
	Connection uint64
	Address    net.Addr
	TLS        *tls.ConnectionState // nil without encryption
}

type peerKey struct{}

// PeerOf returns the caller of the call whose context is ctx.
func PeerOf(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(*Peer)
	if !ok {
		return Peer{}, false
	}
	return *p, true
}

type callKey struct{}

// Detach tells the server that the call is about to block or to compute for long: another goroutine
// continues reading the client's connection. It does nothing if the call is detached already, or if ctx is
// not a call's context. It must be called on the goroutine that the call runs on, after
// the request was read.
func Detach(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.detach()
	}
}

// OnCancel arranges for f to be called when the client cancels the call whose context is ctx, or its connection ends; at once if that has
// happened. f runs before anything that the client sent later is read, and must not block. stop withdraws f, unless f has begun. It may be
// called several times. If ctx is not a call's context, f is never called.
func OnCancel(ctx context.Context, f func()) (stop func()) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return func() {}
	}
	return c.onCancel(f)
}

func (c *call) onCancel(f func()) (stop func()) {
	h := &hook{func() {
		if errors.Is(c.Err(), context.Canceled) {
			f()
		}
	}}
	c.mu.Lock()
	ended := c.err != nil
	if !ended {
		c.hookLocked(h)
	}
	c.mu.Unlock()
	if ended {
		h.f()
	}
	return func() { c.unhook(h) }
}

// AuthorizationOf returns the authorization header of the unary call whose context is ctx, or "" if there is none.
func AuthorizationOf(ctx context.Context) string {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c.authorization
	}
	return ""
}

// TraceContextOf returns the headers traceparent and tracestate of the unary call whose context is ctx. They are empty if there are none.
func TraceContextOf(ctx context.Context) (traceparent, tracestate string) {
	c, ok := ctx.Value(callKey{}).(*call)
	switch {
	case !ok || c.trace == nil:
		return "", ""
	case len(c.trace.state) > maxTracestate:
		return c.trace.parent, ""
	}
	return c.trace.parent, c.trace.state
}

// Bounds of a trace's context in bytes. A traceparent of the current version has 55 bytes. At least 512 bytes of tracestate should be
// propagated (W3C Trace Context, 3.3.1.5).
const (
	maxTraceparent = 128
	maxTracestate  = 2048
)

// traceHeaders is the context of a trace, as received.
type traceHeaders struct{ parent, state string }

// record records one of the headers. Several tracestate headers are joined, until they exceed the limit.
func (t *traceHeaders) record(name, value string) {
	switch {
	case name == "traceparent":
		if len(value) <= maxTraceparent { // malformed values are ignored
			t.parent = value
		}
	case t.state == "":
		t.state = value
	case len(t.state) <= maxTracestate:
		t.state += "," + value
	}
}

// call is the context of a unary call. It ends when the client cancels the call, the connection ends, the
// deadline passes, or the call is answered.
type call struct {
	conn     *serverConn
	stream   *stream
	deadline time.Time // zero for none

	authorization string
	trace         *traceHeaders // nil: there are none

	mu       sync.Mutex
	detached bool        // the goroutine that runs the call no longer reads the connection
	overdue  *time.Timer // detaches the call later; nil unless that is due

	done  chan struct{} // made by the first Done
	timer *time.Timer   // of the deadline; started when its end can be observed
	err   error
	hooks map[*hook]struct{}
}

type hook struct{ f func() }

var _ context.Context = (*call)(nil)

func (c *call) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
		c.armLocked()
	}
	return c.done
}

// armLocked starts the deadline's timer, if necessary.
func (c *call) armLocked() {
	if c.timer == nil && c.err == nil && !c.deadline.IsZero() {
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.end(context.DeadlineExceeded) })
	}
}

func (c *call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return c.err
}

func (c *call) Value(key any) any {
	switch key.(type) {
	case peerKey:
		return &c.conn.peer
	case callKey:
		return c
	}
	return nil
}

// AfterFunc allows package context to derive contexts without a goroutine. f must not block; the functions that package context registers do not.
func (c *call) AfterFunc(f func()) (stop func() bool) {
	h := &hook{f}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	c.hookLocked(h)
	c.armLocked()
	return func() bool { return c.unhook(h) }
}

func (c *call) hookLocked(h *hook) {
	if c.hooks == nil {
		c.hooks = map[*hook]struct{}{}
	}
	c.hooks[h] = struct{}{}
}

func (c *call) unhook(h *hook) (pending bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, pending = c.hooks[h]
	delete(c.hooks, h)
	return pending
}

// end ends the context, once, and runs its hooks, which do not block. When a client cancels a call, the connection's reader calls end, so the
// hooks run before it reads on.
func (c *call) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.done != nil {
		close(c.done)
	}
	hooks := c.hooks
	c.hooks = nil
	c.mu.Unlock()
	for h := range hooks {
		h.f()
	}
}

// detach hands reading of the connection to another goroutine.
func (c *call) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.detached {
		return
	}
	c.detached = true
	c.stream.keep()
	c.conn.handOver()
}

// detachSoon is detach for a call that may end soon. While calls of a connection that takes turns are quick, they run one after
// another, and thus use at most one processor.
func (c *call) detachSoon() {
	c.mu.Lock()
	reads := !c.detached
	c.mu.Unlock()
	if !reads {
		return
	}
	work := &c.conn.in.work // owned by the reader
	patience := work.patience()
	if patience <= 0 {
		c.detach()
		return
	}
	c.detachAfter(patience, patience)
}

// detachAfter detaches the call after d, unless stay is called before. wasted is how much of it others may have waited for nothing.
func (c *call) detachAfter(d, wasted time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.detached && c.overdue == t {
			c.detached = true
			c.conn.in.work.wasted += int64(wasted)
			c.conn.handOver()
		}
	})
	c.overdue = t
}

// stay undoes detachAfter, if the call was not detached yet.
func (c *call) stay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.overdue != nil {
		c.overdue.Stop()
		c.overdue = nil
	}
}

// ended reports whether the goroutine that ran the call still reads the connection.
func (c *call) ended() (reads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reads = !c.detached
	c.detached = true
	if c.overdue != nil {
		c.overdue.Stop()
	}
	return reads
}

// decodeTime is how long decoding a request may delay what its client sends next.
const decodeTime = 2 * time.Millisecond

// quickRequest is the size in bytes up to which a request is decoded to its end, which takes microseconds.
const quickRequest = 16 << 10

// read decodes the request. A message that is still in the input buffer is small, and is decoded before more is read from the connection. A
// larger one may take seconds: another goroutine then continues reading, so that other calls go on, and the end of this one is noticed.
func (c *call) read(request any) error {
	s := c.stream
	if s.compressed {
		s.keep()
	}
	message := s.message
	s.message = nil
	large := !s.aliased
	if large {
		c.detachAfter(decodeTime, 0)
	}
	err := c.conn.decode(s, message, request)
	if large {
		c.stay()
	}
	s.releaseRequest()
	if !s.method.Inline {
		c.detachSoon()
	}
	return err
}

// gone returns the status that the call has ended with, or nil while its client waits for the answer.
func (c *call) gone() error {
	if err := c.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// decode decodes a request from its message and frees the message.
func (c *serverConn) decode(s *stream, message mem.BufferSlice, request any) error {
	defer func() { message.Free() }() // even if decoding panics
	if s.compressed {
		plain, err := expand(s.encoding, message, func(n int) error {
			if err := s.owner().call.gone(); err != nil {
				return err
			}
			return s.reserve(n, false)
		})
		if err != nil {
			return err
		}
		message.Free()
		message = plain
	}
	var ended func() error
	if message.Len() > quickRequest {
		ended = s.owner().call.gone
	}
	err := c.server.config.Codec.UnmarshalUntil(message, request, ended)
	if _, ok := status.FromError(err); !ok {
		return status.Errorf(codes.Internal, "the request cannot be read: %v", err)
	}
	return err
}

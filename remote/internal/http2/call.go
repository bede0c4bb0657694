package http2

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// Peer is who makes a call.
type Peer struct {
	// Connection is a number that no other connection of the server has.
	Connection uint64
	Address    net.Addr
	TLS        *tls.ConnectionState // nil without encryption
}

type peerKey struct{}

// PeerOf gives who makes the call that ctx is of.
func PeerOf(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(*Peer)
	if !ok {
		return Peer{}, false
	}
	return *p, true
}

type callKey struct{}

// Detach tells the server that the call is about to wait or to compute for long: another goroutine
// goes on reading the client's connection. It does nothing where that is so already, and for
// contexts that are not of a call. It is to be called by the goroutine that the call runs on, after
// the request was read.
func Detach(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.detach()
	}
}

// AuthorizationOf is the authorization header of the unary call that ctx is of; empty if it has none.
func AuthorizationOf(ctx context.Context) string {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c.authorization
	}
	return ""
}

// TraceContextOf is the headers traceparent and tracestate of the unary call that ctx is of; empty where it has none.
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

// Bounds of what is taken of a trace's context, in bytes. Values of traceparent have 55 in the version that there is; at least 512
// of tracestate are to be carried on (W3C Trace Context, 3.3.1.5).
const (
	maxTraceparent = 128
	maxTracestate  = 2048
)

// traceHeaders is the context of a trace, as it came.
type traceHeaders struct{ parent, state string }

// take notes one of the headers. The lists of several tracestate headers are joined, until they are too long to be taken.
func (t *traceHeaders) take(name, value string) {
	switch {
	case name == "traceparent":
		if len(value) <= maxTraceparent { // of what is malformed, no trace is told
			t.parent = value
		}
	case t.state == "":
		t.state = value
	case len(t.state) <= maxTracestate:
		t.state += "," + value
	}
}

// call is the context of a unary call. It ends when the client cancels the call or is gone, when its
// deadline comes, and when the call is answered.
type call struct {
	conn     *serverConn
	stream   *stream
	deadline time.Time // zero for none

	authorization string
	trace         *traceHeaders // nil: there are none

	mu       sync.Mutex
	detached bool        // the goroutine that runs the call does not read the connection any more
	overdue  *time.Timer // detaches the call; nil if it was to be detached at once

	done  chan struct{} // made when somebody asks
	timer *time.Timer   // runs when somebody could learn of it
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

// armLocked lets the deadline come, now that somebody could see it.
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

// AfterFunc lets package context derive contexts without a goroutine.
func (c *call) AfterFunc(f func()) (stop func() bool) {
	h := &hook{f}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.hooks == nil {
		c.hooks = map[*hook]struct{}{}
	}
	c.hooks[h] = struct{}{}
	c.armLocked()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, pending := c.hooks[h]
		delete(c.hooks, h)
		return pending
	}
}

// end ends the context, once.
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
		go h.f()
	}
}

// detach hands the reading of the connection to another goroutine.
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

// detachSoon is detach for a call that may be about to end. Calls of a connection that takes turns run one after another as
// long as they are quick, so that they have one processor at most.
func (c *call) detachSoon() {
	c.mu.Lock()
	reads := !c.detached
	c.mu.Unlock()
	if !reads {
		return
	}
	work := &c.conn.in.work // which is of who reads
	patience := work.patience()
	if patience <= 0 {
		c.detach()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.overdue = time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.detached {
			c.detached = true
			work.wasted += int64(patience)
			c.conn.handOver()
		}
	})
}

// ended tells whether the goroutine that ran the call still reads the connection.
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

// read fills the request. The message lies where it was read, so that nothing may be read before.
func (c *call) read(request any) error {
	s := c.stream
	message := s.message
	s.message = nil
	err := c.conn.decode(s, message, request)
	s.settle()
	if !s.method.Inline {
		c.detachSoon()
	}
	return err
}

// decode fills a request from its message and lets the message go.
func (c *serverConn) decode(s *stream, message mem.BufferSlice, request any) error {
	defer func() { message.Free() }() // also where decoding panics
	if s.compressed {
		plain, err := expand(s.encoding, message, func(n int) error { return s.hold(n, false) })
		if err != nil {
			return err
		}
		message.Free()
		message = plain
	}
	err := c.server.config.Codec.Unmarshal(message, request)
	if _, ok := status.FromError(err); !ok {
		return status.Errorf(codes.Internal, "the request cannot be read: %v", err)
	}
	return err
}

package http2

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/troupe-run/troupe/remote/internal/standstill"
)

const (
	// maxStreams is how many calls a client may have on one connection.
	maxStreams = 1 << 14
	// streamWindow and connWindow are the initial flow-control windows. They are wide enough that a
	// large request never waits on a fast network.
	streamWindow = 16 << 20
	connWindow   = 32 << 20
	// frameSize is the largest frame that a client may send.
	frameSize = 1 << 20
	// maxMessage is the largest request and answer. TensorFlow's client cannot represent larger sizes.
	maxMessage = 1<<31 - 1
	// maxReceiving bounds the memory in bytes of the requests that the server is receiving.
	maxReceiving = 8 << 30
	// maxUnsent bounds the bytes of the answers that wait for one client to read. While more than a
	// sixteenth of that waits for a client, its calls wait before they run. maxUnsentAll is for all clients together.
	maxUnsent    = 4 << 30
	maxUnsentAll = 8 << 30

	prefaceTimeout = 5 * time.Second
	pingIdle       = 30 * time.Second // after this long without input, a connection is pinged
	pingAnswer     = 10 * time.Second
	pingData       = "troupe\r\n"
	// stall is how long the kernel may accept none of a batch, which is at most
	// some quantums for a call and streamQuantum for a stream, and how long a client may leave all of its answers unread.
	stall = time.Minute
	// closeTime is how long a client has to read its last answers and close its connection.
	closeTime = 250 * time.Millisecond
)

// Method serves the calls of a method. Exactly one of Unary, ServerStream, Bidi and Stream is set.
type Method struct {
	Unary Handler
	// Inline runs Unary on the goroutine that reads the client's connection: Unary must call
	// Detach before it blocks or computes for long. Other methods are detached once the request
	// is read.
	Inline bool
	// ServerStream answers a call with any number of messages, on a separate goroutine. send waits until the previous
	// message was read. It returns an error if the client cancelled the call or its deadline has passed. Server.Stop
	// waits for ServerStream as for Unary; a long-running one must return then.
	ServerStream func(ctx context.Context, read func(any) error, send func(any) error) error
	// Bidi serves a call with any number of messages in both directions, on a separate goroutine. recv waits for the next message and
	// decodes it; after the client's last one it returns io.EOF. While the handler does not receive, the window of this call stops the client,
	// and other calls of the connection continue. send is that of ServerStream. Both return an error once the call is over: ctx ends when the
	// client resets it, its deadline passes, or the connection ends. recv and send may be called concurrently, each by one goroutine at a time,
	// and not after Bidi has returned. Server.Stop makes recv return UNAVAILABLE after the messages that have arrived.
	Bidi func(ctx context.Context, recv, send func(any) error) error
	// Stream serves a stream on a dedicated connection; both end when it returns. Its error is sent
	// to the caller.
	Stream func(ctx context.Context, s *Stream) error
}

// Handler answers a call of a unary method. It calls read once, with the request to fill.
type Handler func(ctx context.Context, read func(any) error) (any, error)

// Service is the unary methods of a service, by their names.
type Service struct {
	Name    string
	Methods map[string]Handler
}

// Registrar is where services are added.
type Registrar interface {
	Register(Service)
}

// Codec decodes requests and encodes answers.
type Codec interface {
	encoding.CodecV2
	// UnmarshalUntil is like Unmarshal, but fails with ended's error soon after ended returns one.
	UnmarshalUntil(data mem.BufferSlice, v any, ended func() error) error
}

// Config configures a server.
type Config struct {
	// Lookup returns the method of a path, such as /tensorflow.MasterService/RunStep, or nil if there
	// is none.
	Lookup func(path string) *Method
	// Codec decodes requests and encodes answers. An answer's buffers are freed when the kernel has
	// accepted them. A request's buffers are valid only during Unmarshal.
	Codec Codec
	// About is the line of text that answers requests that are not gRPC, including HTTP/1.
	About string
	// MaxReceiving bounds the memory in bytes of the requests that the server is receiving, of header lists that come in
	// parts, and of what requests decompress to. 0 means maxReceiving.
	MaxReceiving int64
	// MaxUnsent bounds the memory in bytes of the answers that wait for clients to read them. 0 means maxUnsentAll.
	MaxUnsent int64
	// MaxConnections bounds the number of connections; 0 means maxConnections. Idle ones are closed to make room for new ones.
	MaxConnections int
	// Closed, if set, is called with the number of every connection that ended. It must not block.
	Closed func(connection uint64)
	Logger *slog.Logger
}

// Server serves connections accepted elsewhere. All methods may be called concurrently.
type Server struct {
	config                  Config
	receiving               ledger // of requests
	turns                   *turns
	maxUnsent, maxUnsentAll int64
	maxConnections          int
	unsent                  atomic.Int64 // bytes of answers that wait for clients
	calls                   atomic.Int64 // bytes of calls: see serverConn.takeBytes
	maxCalls                int64

	mu       sync.Mutex
	conns    map[*serverConn]struct{}
	clients  map[string]*client
	stopping bool
	work     sync.WaitGroup
	quit     chan struct{}
}

// NewServer returns a server; Stop ends it.
func NewServer(config Config) *Server {
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	config.MaxReceiving = cmp.Or(config.MaxReceiving, maxReceiving)
	config.MaxUnsent = cmp.Or(config.MaxUnsent, maxUnsentAll)
	s := &Server{config: config, turns: newTurns(), maxUnsent: min(maxUnsent, config.MaxUnsent/2), maxUnsentAll: config.MaxUnsent, maxConnections: cmp.Or(config.MaxConnections, maxConnections), maxCalls: config.MaxReceiving, conns: map[*serverConn]struct{}{}, clients: map[string]*client{}, quit: make(chan struct{})}
	s.receiving.init(config.MaxReceiving)
	s.work.Go(s.watch)
	return s
}

// Connections returns the number of open connections for calls, which excludes those of streams.
func (s *Server) Connections() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if !c.streaming.Load() {
			n++
		}
	}
	return n
}

// Serve starts to serve a connection on goroutines of the server, which close it in the end. read, at most 64
// bytes, has been read from it already. number is the Peer.Connection of its calls.
func (s *Server) Serve(nc net.Conn, read []byte, number uint64, tls *tls.ConnectionState) {
	c := &serverConn{server: s, peer: Peer{Connection: number, Address: nc.RemoteAddr(), TLS: tls},
		streams: map[uint32]*stream{}, handover: make(chan struct{})}
	c.init(nc, read, number)
	c.widened, c.resized, c.more, c.reserve = c.widen, c.resize, c.fill, c.holdBlock
	c.creditLeft = connWindow
	c.in.interrupted = c.declineLost
	c.overhead = overheadBudget{left: overheadBurst, filled: clock()}
	s.mu.Lock()
	stopping := s.stopping
	var idle []*serverConn
	if len(s.conns) >= s.maxConnections {
		idle = s.idleLocked()
	}
	full := len(s.conns) >= s.maxConnections
	if !stopping && !full {
		c.client = s.clientLocked(c.peer)
		c.in.work = worker{turns: s.turns, owner: c.client, now: clock()}
		s.conns[c] = struct{}{}
		s.work.Go(c.serve)
	}
	s.mu.Unlock()
	s.closeAll(idle, errTooManyConnections)
	if stopping || full {
		c.shut(net.ErrClosed)
		s.closed(c)
	}
}

func (s *Server) closed(c *serverConn) {
	if s.config.Closed != nil {
		s.config.Closed(c.number)
	}
}

// forget removes a connection that has ended.
func (s *Server) forget(c *serverConn) {
	s.mu.Lock()
	known := s.dropLocked(c)
	s.mu.Unlock()
	if known {
		s.closed(c)
	}
}

// dropLocked removes a connection. It returns false if it was removed already.
func (s *Server) dropLocked(c *serverConn) bool {
	if _, known := s.conns[c]; !known {
		return false
	}
	delete(s.conns, c)
	if c.client.conns--; c.client.conns == 0 {
		delete(s.clients, c.client.key)
	}
	return true
}

func (s *Server) all() []*serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*serverConn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// watch pings quiet connections, and ends those that do not answer.
func (s *Server) watch() {
	seen := map[*serverConn]quiet{}
	ticker := time.NewTicker(pingAnswer / 2)
	defer ticker.Stop()
	for {
		select {
		case <-s.quit:
			return
		case now := <-ticker.C:
			s.turns.adapt()
			next := make(map[*serverConn]quiet, len(seen))
			for _, c := range s.all() {
				next[c] = c.check(seen[c], now)
			}
			seen = next
		}
	}
}

// quiet records for how long a connection has received nothing, and for how long its client has accepted nothing.
type quiet struct {
	reads  standstill.Watch[uint64]
	pinged time.Time                // when a ping was sent; zero if none was
	sent   standstill.Watch[uint64] // while a batch is being written
	taken  standstill.Watch[int64]  // while answers wait
}

// check pings or closes a connection if necessary. q is the state of the previous check; check returns the new one.
func (c *serverConn) check(q quiet, now time.Time) quiet {
	c.mu.Lock()
	busy, sent, unsent, taken := c.busy, c.sent, c.unsent, c.taken
	c.mu.Unlock()
	q = c.checkUnread(q, now, unsent, taken)
	if since := c.blocked.Load(); since != 0 && clock()-since > int64(headerTimeout) {
		c.shut(errSlow)
	}
	if q.sent.Look(now, sent, busy) >= stall {
		c.shut(errStuck)
	}
	silent := q.reads.Look(now, c.in.reads.Load(), c.in.listening.Load())
	switch {
	case silent == 0:
		q.pinged = time.Time{}
	case !q.pinged.IsZero() && now.Sub(q.pinged) >= pingAnswer:
		c.shut(errSilent)
	case q.pinged.IsZero() && silent >= pingIdle && c.ping():
		q.pinged = now
	}
	return q
}

// checkUnread closes the connection of a client that leaves its answers unread.
func (c *serverConn) checkUnread(q quiet, now time.Time, unsent, taken int64) quiet {
	unread := q.taken.Look(now, taken, unsent > 0)
	if unread == 0 {
		c.owes.Store(0)
		return q
	}
	c.owes.Store(unsent)
	if unread >= stall {
		c.shut(errStuck)
	}
	return q
}

// ping sends a ping to the client. It returns false, without a ping, while something is being written, and for
// a stream's connection: its owner controls reads, and has its own heartbeats.
func (c *serverConn) ping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy || c.exclusive {
		return false
	}
	c.queue.buf = appendHeader(c.queue.buf, 8, framePing, 0, 0)
	c.queue.buf = append(c.queue.buf, pingData...)
	c.server.work.Go(func() { // other connections must not wait for a client that does not read
		c.mu.Lock()
		defer c.mu.Unlock()
		c.flush()
	})
	return true
}

// Stop refuses new calls and waits until the running ones are answered or ctx ends. Then it closes all
// connections and waits for the server's goroutines, including the last handler. It gives up waiting
// after grace.
func (s *Server) Stop(ctx context.Context, grace time.Duration) error {
	s.mu.Lock()
	first := !s.stopping
	s.stopping = true
	s.mu.Unlock()
	if first {
		close(s.quit)
	}
	// A client that does not read delays only its own connection, until ctx ends.
	var leaving sync.WaitGroup
	for _, c := range s.all() {
		leaving.Go(func() { c.drain(ctx) })
	}
	leaving.Wait()
	done := make(chan struct{})
	go func() { // ends with the last handler
		s.work.Wait()
		close(done)
	}()
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-done:
		return nil
	case <-limit.C:
		return errors.New("http2: calls go on after their connections were closed")
	}
}

// drain ends a connection when its calls are answered or ctx ends.
func (c *serverConn) drain(ctx context.Context) {
	defer c.shut(net.ErrClosed)
	stop := context.AfterFunc(ctx, func() { c.shut(net.ErrClosed) })
	defer stop()
	c.goAway("the server is stopping")
	c.awaitIdle(ctx)
	// Closing a connection with unread input resets it, which may discard answers in flight.
	c.mu.Lock()
	alone := c.exclusive
	c.mu.Unlock()
	if half, ok := c.nc.(interface{ CloseWrite() error }); alone || !ok || half.CloseWrite() != nil {
		return
	}
	limit := time.NewTimer(closeTime)
	defer limit.Stop()
	select {
	case <-c.ended:
	case <-ctx.Done():
	case <-limit.C:
	}
}

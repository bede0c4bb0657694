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
)

const (
	// maxStreams is how many calls a client may have on one connection.
	maxStreams = 1 << 14
	// streamWindow and connWindow are what a client may send before it is told that it was read.
	// They are wide enough that a large request never waits on a fast network.
	streamWindow = 16 << 20
	connWindow   = 32 << 20
	// frameSize is what a client may put into one frame.
	frameSize = 1 << 20
	// maxMessage is the largest request and answer: what TensorFlow's client can count.
	maxMessage = 1<<31 - 1
	// maxReceiving bounds the memory in bytes of the requests that are on their way to the server.
	maxReceiving = 8 << 30
	// maxUnsent bounds the bytes of the answers that wait for one client to read. Calls of a client
	// that owes the reading of a sixteenth of that wait before they run. maxUnsentAll is for all clients together.
	maxUnsent    = 4 << 30
	maxUnsentAll = 8 << 30

	prefaceTimeout = 5 * time.Second
	pingIdle       = 30 * time.Second // a connection on which nothing came for so long is pinged
	pingAnswer     = 10 * time.Second
	// stall is how long the kernel may take none of what is written at once, which is not more than
	// some quantums for a call and streamQuantum for a stream, and how long a client may leave all of its answers unread.
	stall = time.Minute
	// closeTime is what a client gets to read its last answers and close its connection.
	closeTime = 250 * time.Millisecond
)

// Method is how a server answers the calls of a method: one of Unary, ServerStream and Stream is set.
type Method struct {
	// Unary answers a call. It calls read once, with the request to fill.
	Unary func(ctx context.Context, read func(any) error) (any, error)
	// Inline runs Unary on the goroutine that reads the client's connection: Unary must call
	// Detach before it waits or computes for long. Other methods are detached once the request
	// is read.
	Inline bool
	// ServerStream answers a call with any number of messages, on a goroutine of its own. send gives the error of a call
	// that the client gave up or whose time is over; before that it waits until the message before was read. A server
	// that stops waits for ServerStream as for Unary: who serves for long has to end it then.
	ServerStream func(ctx context.Context, read func(any) error, send func(any) error) error
	// Stream serves a stream, which has its connection for itself; both end when it returns. The
	// caller is told of the error.
	Stream func(ctx context.Context, s *Stream) error
}

// Config says how a server answers.
type Config struct {
	// Lookup finds a method by its path, such as /tensorflow.MasterService/RunStep; nil if there
	// is none.
	Lookup func(path string) *Method
	// Codec reads requests and writes answers. Buffers of an answer are let go when the kernel has
	// them. A request's buffers are only valid during Unmarshal.
	Codec encoding.CodecV2
	// About is the line of text that requests get which are not gRPC's, those of HTTP/1 too.
	About string
	// MaxReceiving bounds the memory in bytes of the requests that are on their way to the server, headers that come in
	// parts, and what requests decompress to. 0 is maxReceiving.
	MaxReceiving int64
	// MaxUnsent bounds the memory in bytes of the answers that wait for clients to read them. 0 is maxUnsentAll.
	MaxUnsent int64
	// MaxConnections is how many connections there may be; 0 is maxConnections. An idle one is closed for one more.
	MaxConnections int
	// Closed, if set, is told the number of every connection that ended. It must not block.
	Closed func(connection uint64)
	Logger *slog.Logger
}

// Server serves connections that somebody else accepts. All methods may be called concurrently.
type Server struct {
	config                  Config
	receiving               ledger // of requests
	turns                   *turns
	maxUnsent, maxUnsentAll int64
	maxConnections          int
	unsent                  atomic.Int64 // bytes of answers that wait for clients

	mu       sync.Mutex
	conns    map[*serverConn]struct{}
	clients  map[string]*client
	stopping bool
	work     sync.WaitGroup
	quit     chan struct{}
}

// NewServer makes a server; Stop ends it.
func NewServer(config Config) *Server {
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	config.MaxReceiving = cmp.Or(config.MaxReceiving, maxReceiving)
	config.MaxUnsent = cmp.Or(config.MaxUnsent, maxUnsentAll)
	s := &Server{config: config, turns: newTurns(), maxUnsent: min(maxUnsent, config.MaxUnsent/2), maxUnsentAll: config.MaxUnsent, maxConnections: cmp.Or(config.MaxConnections, maxConnections), conns: map[*serverConn]struct{}{}, clients: map[string]*client{}, quit: make(chan struct{})}
	s.receiving.init(config.MaxReceiving)
	s.work.Go(s.watch)
	return s
}

// Connections is how many connections for calls are open: those that no stream has taken.
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

// Serve serves a connection on goroutines of the server, and closes it. The bytes in read, at most
// 64, have been read from it already. number is what calls get as the Connection of their context.
func (s *Server) Serve(nc net.Conn, read []byte, number uint64, tls *tls.ConnectionState) {
	c := &serverConn{server: s, peer: Peer{Connection: number, Address: nc.RemoteAddr(), TLS: tls},
		streams: map[uint32]*stream{}, handover: make(chan struct{})}
	c.init(nc, read, number)
	c.widened, c.resized, c.more, c.reserve = c.widen, c.resize, c.fill, c.holdBlock
	c.creditLeft = connWindow
	c.in.interrupted = c.declineLost
	c.calm = calm{left: calmBurst, filled: clock()}
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
	s.closeAll(idle, errCrowded)
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

// forget drops a connection that has ended.
func (s *Server) forget(c *serverConn) {
	s.mu.Lock()
	known := s.dropLocked(c)
	s.mu.Unlock()
	if known {
		s.closed(c)
	}
}

// dropLocked takes a connection off those that are there; false if it is not.
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

// watch pings the connections that are quiet, and ends those that do not answer.
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

// quiet is since when nothing came from a connection, and since when it takes nothing.
type quiet struct {
	reads  uint64
	since  time.Time
	pinged time.Time // when it was asked; zero if it was not
	sent   uint64
	stuck  time.Time // since when the kernel has a batch; zero if it has none
	taken  int64
	unread time.Time // since when answers wait; zero if there are none
}

// check decides what to do with a connection that was quiet before.
func (c *serverConn) check(q quiet, now time.Time) quiet {
	c.mu.Lock()
	busy, sent, unsent, taken := c.busy, c.sent, c.unsent, c.taken
	c.mu.Unlock()
	q = c.checkUnread(q, now, unsent, taken)
	if since := c.blocked.Load(); since != 0 && clock()-since > int64(headerTimeout) {
		c.shut(errSlow)
	}
	switch {
	case !busy:
		q.stuck = time.Time{}
	case sent != q.sent || q.stuck.IsZero():
		q.sent, q.stuck = sent, now
	case now.Sub(q.stuck) >= stall:
		c.shut(errStuck)
	}
	if reads := c.in.reads.Load(); reads != q.reads || q.since.IsZero() {
		q.reads, q.since, q.pinged = reads, now, time.Time{}
		return q
	}
	switch {
	case !q.pinged.IsZero() && now.Sub(q.pinged) >= pingAnswer:
		c.shut(errSilent)
	case q.pinged.IsZero() && now.Sub(q.since) >= pingIdle && c.ping():
		q.pinged = now
	}
	return q
}

// checkUnread gives a client up that has left its answers unread.
func (c *serverConn) checkUnread(q quiet, now time.Time, unsent, taken int64) quiet {
	switch {
	case unsent == 0:
		q.unread = time.Time{}
	case taken != q.taken || q.unread.IsZero():
		q.taken, q.unread = taken, now
	default:
		c.owes.Store(unsent)
		if now.Sub(q.unread) >= stall {
			c.shut(errStuck)
		}
		return q
	}
	c.owes.Store(0)
	return q
}

// ping asks the client for a sign of life; false if there is still something on its way to it, and
// where a stream is: who reads one reads when it wants to, and has heartbeats of its own.
func (c *serverConn) ping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy || c.exclusive {
		return false
	}
	c.queue.buf = appendHeader(c.queue.buf, 8, framePing, 0, 0)
	c.queue.buf = append(c.queue.buf, "troupe\r\n"...)
	c.server.work.Go(func() { // the others are not to wait for a client that does not read
		c.mu.Lock()
		defer c.mu.Unlock()
		c.flush()
	})
	return true
}

// Stop refuses new calls, waits for the running ones to be answered until ctx ends, closes all
// connections and waits for the server's goroutines, which is until the last handler returns; it
// gives up when that takes longer than ctx and grace.
func (s *Server) Stop(ctx context.Context, grace time.Duration) error {
	s.mu.Lock()
	first := !s.stopping
	s.stopping = true
	s.mu.Unlock()
	if first {
		close(s.quit)
	}
	// One that does not read holds up nothing but itself, and that until ctx ends.
	var leaving sync.WaitGroup
	for _, c := range s.all() {
		leaving.Go(func() { c.leave(ctx) })
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

// leave ends a connection when its calls are answered, or ctx ends.
func (c *serverConn) leave(ctx context.Context) {
	defer c.shut(net.ErrClosed)
	stop := context.AfterFunc(ctx, func() { c.shut(net.ErrClosed) })
	defer stop()
	c.goAway("the server is stopping")
	c.awaitIdle(ctx)
	// A connection that is closed with something unread takes answers back that are on their way.
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

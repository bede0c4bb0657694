package http2

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// watchIdle is the interval at which an idle connection is read, for what the server sends
	// beside answers, such as a ping.
	watchIdle = 5 * time.Second
	// quietTime is how long a connection is unused before it is checked ahead of a call.
	quietTime = 10 * time.Millisecond
	// cutTime bounds how long the rest of a frame may take to arrive after the call that reads it was cancelled.
	cutTime = 10 * time.Second
)

// ErrNotSent is the error of a call that the server has not seen and will not see. The call may be
// retried on another connection.
var ErrNotSent = errors.New("http2: the connection takes no more calls")

// Client is a connection to a server on which many goroutines make unary calls. It has no dedicated reader.
// One of the goroutines that wait for an answer reads for all: its own answer directly to its destination,
// until it is complete and another goroutine takes over. Thus a single call writes its request and reads its
// answer itself. While no call waits, a goroutine of the connection reads it occasionally.
type Client struct {
	conn
	scheme, authority string
	authorization     func() string // nil: none
	watching          chan struct{} // asks the connection's goroutine to read
	work              sync.WaitGroup
	spare             sync.Pool // of *clientCall

	// Owned by the reader.
	current  *clientCall // whose headers are being read
	ending   bool        // they are its last ones
	consumed int         // bytes read for which the server has not been given new credit

	// Guarded by mu.
	next          uint32
	calls         map[uint32]*clientCall
	most          int  // concurrent calls that the server accepts
	leaving       bool // the connection accepts no more calls
	reading       bool // some goroutine is the reader
	between       bool // the reader waits for a frame, and may be interrupted
	hurried       bool // the reader has a deadline
	windowWaiters int  // goroutines that wait for window
	checkers      int  // goroutines that wait until the connection's goroutine no longer reads
	used          time.Time
	prober        *time.Timer // of probe; nil before the greeting
	silence       silence
}

// NewClient takes over a connection, even if it fails, and waits for the server's greeting. The scheme is http or https. ctx bounds only the
// greeting.
func NewClient(ctx context.Context, nc net.Conn, scheme, authority string) (*Client, error) {
	return startClient(ctx, nc, scheme, authority, true)
}

// NewCaller is NewClient for a connection on which a call follows at once: it does not wait for the greeting. Whether the other end speaks HTTP/2
// turns out with the first call.
func NewCaller(ctx context.Context, nc net.Conn, scheme, authority string) (*Client, error) {
	return startClient(ctx, nc, scheme, authority, false)
}

func startClient(ctx context.Context, nc net.Conn, scheme, authority string, wait bool) (*Client, error) {
	c := &Client{scheme: scheme, authority: authority, watching: make(chan struct{}, 1), next: 1, calls: map[uint32]*clientCall{}, most: maxStreams, used: time.Now()}
	c.init(nc, nil, 0)
	c.widened, c.resized, c.limited = c.widen, c.resize, func(n int) { c.most = n }
	c.broken = c.failed
	stop := context.AfterFunc(ctx, func() { c.shut(ctx.Err()) })
	err := c.greet(frameSize)
	if err == nil && wait {
		err = c.settle(frameSize)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		c.shut(err)
		return nil, unavailable(err)
	}
	c.work.Go(c.watch)
	c.startProbe()
	return c, nil
}

// Authorize makes each call send the authorization header that header returns at that time. It must be called before the
// first call.
func (c *Client) Authorize(header func() string) { c.authorization = header }

// Close ends the connection and its pending calls.
func (c *Client) Close() error {
	c.shut(net.ErrClosed)
	c.work.Wait()
	return nil
}

// Retire makes the connection accept no more calls. It ends with the last pending call.
func (c *Client) Retire() {
	c.mu.Lock()
	c.leaving = true
	unused := len(c.calls) == 0
	c.written.Broadcast()
	c.mu.Unlock()
	if unused {
		c.shut(net.ErrClosed)
	}
}

// Ready reports whether the connection accepts calls, as far as is known.
func (c *Client) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && !c.leaving
}

// clientCall is a call of a client.
type clientCall struct {
	answer Answer
	id     uint32
	woken  chan struct{} // capacity 1: the call's state has changed

	// Guarded by conn.mu.
	window    int64 // bytes of the request that the server accepts
	over      bool  // the answer is complete, or never will be
	waiting   bool  // the call's goroutine waits on woken, and can become the reader
	leads     bool  // it is the reader
	cancelled bool
	err       error // why the call failed
	last      uint64
	whole     uint64 // serial number of the batch with the end of the request; 0 while that is not queued
	pinned    bool   // the batch with serial number last refers to the request's memory
}

// Call makes a unary call. The request is a message in pieces, in order, which belong to the caller again when Call
// returns. read reads the answer on the caller's goroutine. Its result is invalid if Call returns an error.
// The errors are gRPC status errors, except for ErrNotSent and those of read.
func (c *Client) Call(ctx context.Context, path string, request [][]byte, read func(*Answer) error) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	p, _ := c.spare.Get().(*clientCall)
	if p == nil {
		p = &clientCall{woken: make(chan struct{}, 1)}
	}
	p.answer.client, p.answer.call = c, p
	var stop func() bool
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { c.interrupt(p) })
	}
	err := c.begin(ctx, p, path, request)
	if err == nil {
		if err = c.await(p); err == nil && p.answer.begun() {
			err = p.answer.finish(read)
		}
		if p.leads {
			p.answer.skipRest()
		}
	}
	cancelled, err := c.end(p, err)
	if err == nil && (stop == nil || stop()) {
		c.recycle(p)
	} else if stop != nil {
		stop()
	}
	if err != nil && (cancelled || status.Code(err) == codes.Canceled) {
		if cause := ended(ctx); cause != nil {
			return unavailable(cause)
		}
	}
	return err
}

// ended returns why a context has ended. A server that knows its deadline may notice it before the context's timer does.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// recycle makes the memory of a successful call available for reuse. Nothing else refers to it any more.
func (c *Client) recycle(p *clientCall) {
	select {
	case <-p.woken:
	default:
	}
	p.answer.reset()
	*p = clientCall{woken: p.woken, answer: p.answer}
	c.spare.Put(p)
}

// begin sends the request.
func (c *Client) begin(ctx context.Context, p *clientCall, path string, request [][]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 && time.Since(c.used) > quietTime {
		c.checkIdle(p)
	}
	for c.err == nil && !c.leaving && !p.cancelled && len(c.calls) >= c.most {
		c.written.Wait()
	}
	if p.cancelled {
		return errGone
	}
	if c.err != nil || c.leaving || c.next > maxWindow-2 {
		c.leaving = true
		return ErrNotSent
	}
	p.id, p.window = c.next, c.initial
	c.next += 2
	c.calls[p.id] = p
	var room [8]hpack.HeaderField
	fields := append(room[:0], fieldPost, hpack.HeaderField{Name: ":scheme", Value: c.scheme}, hpack.HeaderField{Name: ":path", Value: path},
		hpack.HeaderField{Name: ":authority", Value: c.authority}, fieldGRPC, fieldTrailers)
	if deadline, ok := ctx.Deadline(); ok {
		// Each value is different: none is worth a place in the table.
		fields = append(fields, hpack.HeaderField{Name: "grpc-timeout", Value: timeout(time.Until(deadline)), Sensitive: true})
	}
	if c.authorization != nil {
		// It goes into the compression table, so it is sent only once. It cannot be guessed from the sizes of header lists,
		// because no one else controls headers on this connection.
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: c.authorization()})
	}
	c.encode(p.id, 0, fields...)
	c.send(p, request)
	return nil
}

var (
	fieldPost     = hpack.HeaderField{Name: ":method", Value: "POST"}
	fieldTrailers = hpack.HeaderField{Name: "te", Value: "trailers"}
)

// timeout formats a grpc-timeout: at most eight digits and a unit.
func timeout(d time.Duration) string {
	ms := max(1, (d + time.Millisecond - 1).Milliseconds())
	if ms < 1e8 {
		return strconv.FormatInt(ms, 10) + "m"
	}
	return strconv.FormatInt(min(ms/1000, 1e8-1), 10) + "S"
}

// await waits until the call has an answer to read or is over. If there is no reader, the call's goroutine becomes
// the reader.
func (c *Client) await(p *clientCall) error {
	c.mu.Lock()
	for !p.over && !p.cancelled {
		if !c.reading {
			c.reading, p.leads = true, true
			break
		}
		if p.leads {
			break
		}
		p.waiting = true
		c.mu.Unlock()
		<-p.woken
		c.mu.Lock()
		p.waiting = false
	}
	leads, err := p.leads, p.err
	if p.cancelled && err == nil {
		err = errGone
	}
	c.mu.Unlock()
	if err != nil || !leads {
		return err
	}
	return p.answer.start()
}

// end removes a call, and hands over the role of the reader.
func (c *Client) end(p *clientCall, err error) (cancelled bool, _ error) {
	c.mu.Lock()
	if p.err != nil { // more specific than the reader's error
		err = p.err
	}
	if c.calls[p.id] == p {
		delete(c.calls, p.id)
		if !p.over && c.err == nil {
			c.queue.buf = appendReset(c.queue.buf, p.id, codeCancel)
			c.flush()
		}
	}
	if p.pinned {
		c.awaitSent(p.last) // the kernel may be reading from the request
	}
	if p.leads {
		c.passReader()
	}
	c.used = time.Now()
	c.written.Broadcast()
	cancelled = p.cancelled
	unused := c.leaving && len(c.calls) == 0
	c.mu.Unlock()
	if unused {
		c.shut(net.ErrClosed)
	}
	return cancelled, err
}

// passReader makes another waiting call's goroutine the reader, if there is one. mu is held.
func (c *Client) passReader() {
	c.reading = false
	for _, p := range c.calls {
		if p.waiting && !p.over && !p.cancelled {
			c.reading, p.leads, p.waiting = true, true, false
			p.wake()
			return
		}
	}
	if c.windowWaiters > 0 {
		c.askWatcher()
	}
}

func (p *clientCall) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// interrupt wakes a call whose context has ended.
func (c *Client) interrupt(p *clientCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.cancelled = true
	p.wake()
	c.written.Broadcast()
	if p.leads && !p.over {
		c.expediteReader()
	}
	if sent := c.sent; c.busy { // perhaps writing the request, to a server that does not read
		time.AfterFunc(cutTime, func() {
			c.mu.Lock()
			stuck := c.busy && c.sent == sent
			c.mu.Unlock()
			if stuck {
				c.shut(errUnread)
			}
		})
	}
}

var errUnread = errors.New("the server does not read")

// expediteReader makes the reader return: at once if it waits for a frame, otherwise after the rest of its
// frame, which must arrive within cutTime. mu is held.
func (c *Client) expediteReader() {
	limit := time.Now()
	if !c.between {
		limit = limit.Add(cutTime)
	}
	c.hurried = c.nc.SetReadDeadline(limit) == nil
}

// askWatcher makes the connection's goroutine read, unless there is a reader. mu is held.
func (c *Client) askWatcher() {
	select {
	case c.watching <- struct{}{}:
	default:
	}
}

// watch reads while no call does: when a call waits for window to send its request, and every watchIdle.
// It hands over to the first call that waits.
func (c *Client) watch() {
	ticker := time.NewTicker(watchIdle)
	defer ticker.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-c.watching:
		case <-ticker.C:
		}
		c.mu.Lock()
		mine := !c.reading && c.err == nil
		c.reading = c.reading || mine
		c.mu.Unlock()
		for mine {
			err := c.frame(nil)
			c.mu.Lock()
			if err != nil {
				c.mu.Unlock()
				c.lost(err)
				return
			}
			c.passReader()
			if mine = !c.reading && c.checkers == 0; mine {
				c.reading = true
			} else {
				c.written.Broadcast()
			}
			c.mu.Unlock()
		}
	}
}

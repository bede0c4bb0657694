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
	// watchIdle is how long a connection may be quiet before somebody listens to what the server says
	// beside answers, such as a ping.
	watchIdle = 5 * time.Second
	// quietTime is after how long a connection is looked at before a call is made on it.
	quietTime = 10 * time.Millisecond
	// cutTime is what the rest of a frame may take to come when the call that reads it was cancelled.
	cutTime = 10 * time.Second
)

// ErrNotSent is the error of a call that the server did not and will not see, so that it may be made
// again on another connection.
var ErrNotSent = errors.New("http2: the connection takes no more calls")

// Client is a connection to a server on which many goroutines make unary calls. There is no goroutine that
// reads for them: one of those that wait for an answer reads for all, its own answer straight to where it is
// wanted, and hands the role on when it has it. So a call that is alone writes its request and reads its
// answer itself. While no call waits, a goroutine of the connection's looks after it now and then.
type Client struct {
	conn
	scheme, authority string
	authorization     func() string // nil: none
	watching          chan struct{} // asks the connection's goroutine to read
	work              sync.WaitGroup

	// Of the reader.
	current  *clientCall // whose headers are being read
	ending   bool        // and they are its last ones
	consumed int         // bytes that the server was not given credit for again

	// Guarded by mu.
	next    uint32
	calls   map[uint32]*clientCall
	most    int  // calls that the server takes at once
	leaving bool // it takes no more
	reading bool // somebody is the reader
	between bool // the reader waits for a frame, and may be interrupted
	hurried bool // the reader has a deadline
	starved int  // goroutines that wait for window
	used    time.Time
}

// NewClient takes over a connection, also when it fails. The scheme is http or https. ctx bounds the
// greeting alone.
func NewClient(ctx context.Context, nc net.Conn, scheme, authority string) (*Client, error) {
	c := &Client{scheme: scheme, authority: authority, watching: make(chan struct{}, 1), next: 1, calls: map[uint32]*clientCall{}, most: maxStreams, used: time.Now()}
	c.init(nc, nil, 0)
	c.widened, c.resized, c.limited = c.widen, c.resize, func(n int) { c.most = n }
	c.broken = c.failed
	stop := context.AfterFunc(ctx, func() { c.shut(ctx.Err()) })
	err := c.greet(frameSize)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		c.shut(err)
		return nil, unavailable(err)
	}
	c.work.Go(c.watch)
	return c, nil
}

// Authorize gives each call from now on the authorization header that header tells at the time. It is called before the
// first call.
func (c *Client) Authorize(header func() string) { c.authorization = header }

// Close ends the connection, and with it the calls that wait.
func (c *Client) Close() error {
	c.shut(net.ErrClosed)
	c.work.Wait()
	return nil
}

// Retire takes no more calls: the connection ends with the last of those that it has.
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

// Ready tells whether the connection takes calls, as far as is known.
func (c *Client) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && !c.leaving
}

// clientCall is a call as its client sees it.
type clientCall struct {
	answer Answer
	id     uint32
	woken  chan struct{} // one place: there is news for the call's goroutine

	// Guarded by conn.mu.
	window    int64 // bytes that the server takes of the request
	over      bool  // the answer is complete, or never will be
	waiting   bool  // the call's goroutine waits for news, and can become the reader
	leads     bool  // it is the reader
	cancelled bool
	err       error // why the call failed
	last      uint64
	pinned    bool // the batch of serial number last refers to the request's memory
}

var clientCalls = sync.Pool{New: func() any { return &clientCall{woken: make(chan struct{}, 1)} }}

// Call makes a unary call. The request is a message in pieces, in order, which are the caller's again when Call
// returns. read reads the answer on the caller's goroutine; what it made is void where Call gives another error
// than its own. The errors are gRPC's, but for ErrNotSent.
func (c *Client) Call(ctx context.Context, path string, request [][]byte, read func(*Answer) error) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	p := clientCalls.Get().(*clientCall)
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
			p.answer.leave()
		}
	}
	cancelled, err := c.end(p, err)
	if err == nil && (stop == nil || stop()) {
		p.recycle()
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

// ended is why a context has ended. A server that heard of its deadline may notice it before the context's timer does.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// recycle lets the memory of a call be used again that ended well: nobody else knows it any more.
func (p *clientCall) recycle() {
	select {
	case <-p.woken:
	default:
	}
	p.answer.reset()
	*p = clientCall{woken: p.woken, answer: p.answer}
	clientCalls.Put(p)
}

// begin sends the request.
func (c *Client) begin(ctx context.Context, p *clientCall, path string, request [][]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reading && len(c.calls) == 0 && time.Since(c.used) > quietTime {
		c.look()
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
		// Each value is another one: none is worth a place in the table.
		fields = append(fields, hpack.HeaderField{Name: "grpc-timeout", Value: timeout(time.Until(deadline)), Sensitive: true})
	}
	if c.authorization != nil {
		// It goes into the table, so that it is sent once: nobody else writes headers on the connection, from whose sizes
		// it could be guessed.
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

// timeout is a grpc-timeout: at most eight digits and a unit.
func timeout(d time.Duration) string {
	ms := max(1, (d + time.Millisecond - 1).Milliseconds())
	if ms < 1e8 {
		return strconv.FormatInt(ms, 10) + "m"
	}
	return strconv.FormatInt(min(ms/1000, 1e8-1), 10) + "S"
}

// await waits until the call has an answer to read, or is over, on the goroutine that reads or on
// another one.
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

// end forgets a call, and hands on the role of the reader.
func (c *Client) end(p *clientCall, err error) (cancelled bool, _ error) {
	c.mu.Lock()
	if err == nil {
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
		c.handOn()
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

// handOn makes another call's goroutine the reader. mu is held.
func (c *Client) handOn() {
	c.reading = false
	for _, p := range c.calls {
		if p.waiting && !p.over && !p.cancelled {
			c.reading, p.leads, p.waiting = true, true, false
			p.wake()
			return
		}
	}
	if c.starved > 0 {
		c.askWatcher()
	}
}

func (p *clientCall) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// interrupt ends the waiting of a call whose context has ended.
func (c *Client) interrupt(p *clientCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.cancelled = true
	p.wake()
	c.written.Broadcast()
	if p.leads && !p.over {
		c.hurry()
	}
	if sent := c.sent; c.busy { // maybe with the request, to a server that does not read
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

// hurry makes the reader return: at once where it waits for a frame, and else soon after the rest of its
// frame, which may not take for ever. mu is held.
func (c *Client) hurry() {
	limit := time.Now()
	if !c.between {
		limit = limit.Add(cutTime)
	}
	c.hurried = c.nc.SetReadDeadline(limit) == nil
}

// askWatcher lets the connection's goroutine read, unless somebody does. mu is held.
func (c *Client) askWatcher() {
	select {
	case c.watching <- struct{}{}:
	default:
	}
}

// watch reads while no call does: when one waits for window to send its request, and when the connection has
// been quiet. It hands on to the first call that waits.
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
			c.handOn()
			mine = !c.reading
			c.reading = true
			c.mu.Unlock()
		}
	}
}

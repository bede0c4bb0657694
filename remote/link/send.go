package link

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/wire"
)

const (
	// maxInFlight bounds the bytes that the transport holds of one peer's pushes.
	maxInFlight = 64 << 20
	// letGo bounds how long the transport may hold memory after its connection was closed.
	letGo = time.Second
)

// Push hands data to the peer's Sink beside all other traffic, with a header of at most 64 KiB
// that tells the sink what it is. It returns at once; pushes arrive in their order. data must
// not change until release is called, which is once, when the transport needs it no longer,
// sent or not. A push that fails later takes the peer down with it: the sink may miss it. The
// error, if any, is that of a peer that is down already, and then release was called.
func (p *Peer) Push(step uint64, header, data []byte, release func()) error {
	if release == nil {
		release = func() {}
	}
	if len(header) > maxHeader || len(data) > maxTotal {
		release()
		return status.InvalidArgumentf("A push with a header of %d bytes and %d bytes of data is too large.", len(header), len(data))
	}
	p.mu.Lock()
	err := p.err
	if err == nil && p.leaving {
		err = errClosed
	}
	if err == nil && p.bulk == nil {
		b := newBulk(p)
		if p.link.links.start(b.run) {
			p.bulk = b
		} else {
			err = errClosed
		}
	}
	b := p.bulk
	p.used = time.Now()
	p.mu.Unlock()
	if err != nil {
		release()
		return err
	}
	b.add(&push{bulk: b, step: step, header: header, data: data, release: release})
	return nil
}

// Drop forgets the queued pushes of a step that is over, the one that is being sent included.
func (p *Peer) Drop(step uint64) {
	p.mu.Lock()
	b := p.bulk
	p.mu.Unlock()
	if b != nil {
		b.drop(step)
	}
}

// push is one tensor on its way.
type push struct {
	bulk    *bulk
	step    uint64
	header  []byte
	data    []byte
	release func()

	// Guarded by bulk.mu.
	dropped bool
	pending int  // bytes that the transport holds
	sent    bool // nothing more goes to the transport
	over    bool // release was called, or is about to be
}

// bulk is the queue of a peer's pushes, and the one goroutine that sends them.
type bulk struct {
	peer   *Peer
	ctx    context.Context // ends with stop: a send waits in the transport for a peer that reads
	cancel context.CancelFunc

	mu       sync.Mutex
	queue    []*push
	live     map[*push]struct{} // not released yet
	inFlight int
	stopped  bool
	wake     chan struct{} // capacity 1: something of the above has changed
}

func newBulk(p *Peer) *bulk {
	b := &bulk{peer: p, live: map[*push]struct{}{}, wake: make(chan struct{}, 1)}
	b.ctx, b.cancel = context.WithCancel(p.link.links.ctx)
	return b
}

func (b *bulk) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *bulk) add(p *push) {
	b.mu.Lock()
	stopped := b.stopped
	if !stopped {
		b.queue = append(b.queue, p)
		b.live[p] = struct{}{}
	}
	b.mu.Unlock()
	if stopped {
		p.release() // the peer went down meanwhile, which its watchers learn
		return
	}
	b.signal()
}

func (b *bulk) drop(step uint64) {
	b.mu.Lock()
	for _, p := range b.queue {
		if p.step == step {
			p.dropped = true
		}
	}
	for p := range b.live {
		if p.step == step {
			p.dropped = true
		}
	}
	b.mu.Unlock()
	b.signal()
}

func (b *bulk) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.live) == 0
}

// stop ends the sender; run releases what is left.
func (b *bulk) stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.cancel()
	b.signal()
}

// next waits for the next push; nil when the sender is to end.
func (b *bulk) next() *push {
	for {
		b.mu.Lock()
		if b.stopped {
			b.mu.Unlock()
			return nil
		}
		if len(b.queue) > 0 {
			p := b.queue[0]
			b.queue[0] = nil
			b.queue = b.queue[1:]
			b.mu.Unlock()
			return p
		}
		b.mu.Unlock()
		<-b.wake
	}
}

// reserve waits until the transport may be given n bytes more of p; false when p is not wanted
// any more or the sender is to end.
func (b *bulk) reserve(p *push, n int) bool {
	for {
		b.mu.Lock()
		if b.stopped || p.dropped {
			b.mu.Unlock()
			return false
		}
		if b.inFlight == 0 || b.inFlight+n <= maxInFlight {
			b.inFlight += n
			p.pending += n
			b.mu.Unlock()
			return true
		}
		b.mu.Unlock()
		<-b.wake
	}
}

// piece gives a part of a push's memory to the transport, which puts it back when it is written.
type piece struct {
	push *push
	n    int
}

// Get is never asked for memory of pieces.
func (c piece) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put is called by the transport, from any goroutine.
func (c piece) Put(*[]byte) { c.push.freed(c.n) }

func (p *push) freed(n int) {
	b := p.bulk
	b.mu.Lock()
	b.inFlight -= n
	p.pending -= n
	release := p.finish()
	b.mu.Unlock()
	b.signal()
	if release != nil {
		release()
	}
}

// end notes that nothing more of the push goes to the transport.
func (p *push) end() {
	b := p.bulk
	b.mu.Lock()
	p.sent = true
	release := p.finish()
	b.mu.Unlock()
	if release != nil {
		release()
	}
}

// finish gives the function to call if the push needs its memory no longer. bulk.mu is held.
func (p *push) finish() func() {
	if !p.sent || p.pending > 0 || p.over {
		return nil
	}
	p.over = true
	delete(p.bulk.live, p)
	return p.release
}

// run connects and sends until the peer is down.
func (b *bulk) run() {
	p := b.peer
	defer b.clear()
	defer b.cancel()
	conn, err := p.link.links.config.Dial(p.link.task.Address)
	if err != nil {
		p.lose("its tensors could not be sent: " + err.Error())
		return
	}
	defer conn.Close()
	if err := b.send(conn); err != nil {
		p.lose("a tensor could not be sent: " + explain(err))
	}
}

func (b *bulk) send(conn *grpc.ClientConn) error {
	unhook := context.AfterFunc(b.ctx, b.stop)
	defer unhook()
	stream, err := conn.NewStream(b.ctx, &bulkDesc, bulkMethod)
	if err != nil {
		return wire.FromGRPC(err)
	}
	// A send into a stream that the other end has ended gives only io.EOF; this has the reason,
	// also when nothing is being sent.
	failed, read := make(chan error, 1), make(chan struct{})
	defer func() {
		b.cancel()
		<-read
	}()
	go func() {
		defer close(read)
		err := stream.RecvMsg(&frame{})
		if err == nil || errors.Is(err, io.EOF) {
			err = status.New(status.Unavailable, "it ended the stream of tensors")
		}
		failed <- wire.FromGRPC(err)
		b.stop()
	}()
	why := func(err error) error {
		if errors.Is(err, io.EOF) {
			return <-failed
		}
		return wire.FromGRPC(err)
	}
	hello, err := proto.Marshal(b.peer.link.links.greeting(b.peer.link.task))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&frame{kind: frameHello, header: hello}); err != nil {
		return why(err)
	}
	for {
		p := b.next()
		if p == nil {
			select {
			case err := <-failed:
				return err
			default:
				return nil
			}
		}
		err := p.send(stream)
		p.end()
		if err != nil {
			return why(err)
		}
	}
}

// send sends one push, in pieces.
func (p *push) send(stream grpc.ClientStream) error {
	f := &frame{kind: frameBegin, step: p.step, header: p.header, total: uint64(len(p.data))}
	for {
		n := min(pieceSize, len(p.data)-int(f.offset))
		if !p.bulk.reserve(p, n) {
			if f.kind == frameBegin {
				return nil
			}
			return stream.SendMsg(&frame{kind: frameAbandon, step: p.step, total: f.total, offset: f.offset})
		}
		f.piece, f.freed = p.data[f.offset:int(f.offset)+n], piece{p, n}
		if err := stream.SendMsg(f); err != nil {
			return err
		}
		f.offset += uint64(n)
		if f.offset == f.total {
			return nil
		}
		f.kind, f.header = frameMore, nil
	}
}

// clear releases what is left when the sender ends. The connection is closed; the transport
// drops what it still holds without saying so if its writer ends with an error.
func (b *bulk) clear() {
	b.mu.Lock()
	b.stopped = true
	for _, p := range b.queue {
		p.sent = true
	}
	b.queue = nil
	b.mu.Unlock()
	limit := time.NewTimer(letGo)
	defer limit.Stop()
	for {
		b.mu.Lock()
		for p := range b.live {
			p.sent = true
		}
		held := false
		for p := range b.live {
			held = held || p.pending > 0
		}
		b.mu.Unlock()
		if !held {
			break
		}
		select {
		case <-b.wake:
			continue
		case <-limit.C:
		}
		break
	}
	b.mu.Lock()
	var releases []func()
	for p := range b.live {
		p.over = true
		releases = append(releases, p.release)
	}
	b.live = nil
	b.mu.Unlock()
	for _, release := range releases {
		release()
	}
}

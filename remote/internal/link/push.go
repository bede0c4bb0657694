package link

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
	"github.com/troupe-run/troupe/remote/compress"
)

// Push sends data to the peer's Sink beside all other traffic, with a header of at most 64 KiB
// that describes it to the sink. It returns at once. data must not change until release is
// called. release is called once, when data is no longer needed, sent or not. Pushes may overtake each
// other. A push that fails later takes the peer down, because the sink may miss it. Push returns an
// error if the peer is down or the push too large; then release has been called.
func (p *Peer) Push(step uint64, header, data []byte, release func()) error {
	return p.PushCompressed(step, header, data, compress.None, 0, release)
}

// PushCompressed is Push with compression. Pieces are compressed if they are sent rather than lent,
// and only if that makes them smaller. width is the size in bytes of data's elements.
func (p *Peer) PushCompressed(step uint64, header, data []byte, by compress.Algorithm, width int, release func()) error {
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
	b.add(&push{step: step, header: header, data: data, by: by, width: width, release: release})
	return nil
}

// Hand passes a tensor to a step of the peer's task without copying it, if the task runs in this process.
// It then takes over the caller's reference. Otherwise it does nothing and returns false. It returns
// at once. Room, Drop and the counts of bytes do not apply to it. The error is that of a peer that is down.
func (p *Peer) Hand(step uint64, key transfer.Key, t *tensor.Tensor) (taken bool, err error) {
	if p.handoff == nil {
		return false, nil
	}
	p.mu.Lock()
	err = p.err
	if err == nil && p.leaving {
		err = errClosed
	}
	p.used = time.Now()
	p.mu.Unlock()
	if err != nil {
		t.Release()
		return true, err
	}
	p.link.links.counters.tensorsHanded.Add(1)
	p.handoff.hands.add(handed{step, key, t})
	return true, nil
}

// Room reports whether n more bytes may be pushed now. If not, ready is called once, when they may
// or the peer is down; the caller then asks again. At most 256 MiB should wait for a peer
// and 1 GiB for all peers of the task, but there is always room if nothing waits for the peer.
func (p *Peer) Room(n int, ready func()) bool { return p.share.room(int64(n), ready) }

// backlog returns how many bytes wait, and for how long the peer has accepted none, if it is stalled.
func (p *Peer) backlog() (bytes int64, stalled time.Duration) {
	p.mu.Lock()
	b := p.bulk
	p.mu.Unlock()
	if b == nil {
		return 0, 0
	}
	return p.share.queued(), time.Duration(b.stall.stalled.Load())
}

// Drop drops the queued pushes of a step that is over, including the one that is being sent.
func (p *Peer) Drop(step uint64) {
	p.mu.Lock()
	b := p.bulk
	p.mu.Unlock()
	if b != nil {
		b.drop(step)
	}
}

// push is one tensor to be sent or lent.
type push struct {
	step    uint64
	header  []byte
	data    []byte
	by      compress.Algorithm
	width   int
	release func()
	ticket  uint64 // while it is lent
	dropped bool   // bulk.mu
}

// bulk is the queue of a peer's pushes, and the goroutine that sends them.
type bulk struct {
	peer   *Peer
	ctx    context.Context // ends with stop
	cancel context.CancelFunc
	stall  stall
	number uint32 // of the next frame; owned by the sender, like buf
	buf    []byte
	packed []byte // the compressed piece that is being sent

	lending

	mu      sync.Mutex
	queue   []*push
	sending *push
	stream  Stream
	stopped bool
	cause   error // why the stream ended, set by its reader

	wake chan struct{} // capacity 1: one of the fields above, or of lending, has changed
}

func newBulk(p *Peer) *bulk {
	b := &bulk{peer: p, wake: make(chan struct{}, 1)}
	b.lent = map[uint32]*push{}
	b.ctx, b.cancel = context.WithCancel(p.link.links.ctx)
	return b
}

func (b *bulk) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// add queues a push, or releases it if the peer went down meanwhile. Its watchers learn of that.
func (b *bulk) add(p *push) {
	b.peer.share.reserve(int64(len(p.data)))
	b.mu.Lock()
	stopped := b.stopped
	if !stopped {
		b.queue = append(b.queue, p)
	}
	b.mu.Unlock()
	if stopped {
		b.over(p)
		return
	}
	b.signal()
}

// over releases a push. It updates the budget first, so the released push is no longer counted when release runs.
func (b *bulk) over(p *push) {
	b.peer.share.release(int64(len(p.data)))
	p.release()
}

func (b *bulk) drop(step uint64) {
	b.mu.Lock()
	var dropped []*push
	kept := b.queue[:0]
	for _, p := range b.queue {
		if p.step == step {
			dropped = append(dropped, p)
		} else {
			kept = append(kept, p)
		}
	}
	clear(b.queue[len(kept):])
	b.queue = kept
	if b.sending != nil && b.sending.step == step {
		b.sending.dropped = true
	}
	b.mu.Unlock()
	for _, p := range dropped {
		b.over(p)
	}
}

// idle reports whether nothing is queued, being sent or lent.
func (b *bulk) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) == 0 && b.sending == nil && len(b.lent) == 0
}

// next waits for the next push, and reports whether to lend it. If p is nil and lend is true, the sender
// must tell the peer that it may read memory. If p is nil and lend is false, the sender must end.
func (b *bulk) next() (p *push, lend bool) {
	for {
		b.mu.Lock()
		if b.stopped {
			b.mu.Unlock()
			return nil, false
		}
		if b.allowed {
			b.allowed = false
			b.mu.Unlock()
			return nil, true
		}
		if len(b.queue) > 0 {
			p := b.queue[0]
			lend := b.lends(p)
			if !lend || b.lentRoom(p) {
				b.queue[0] = nil
				b.queue = b.queue[1:]
				b.sending = p
				b.mu.Unlock()
				return p, lend
			}
		}
		b.mu.Unlock()
		<-b.wake
	}
}

// sent marks a push as sent. Unless it is lent, it is released.
func (b *bulk) sent(p *push, lent bool) {
	b.mu.Lock()
	b.sending = nil
	b.mu.Unlock()
	if !lent {
		b.over(p)
	}
}

// wanted reports whether sending of the current push should continue.
func (b *bulk) wanted(p *push) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !p.dropped && !b.stopped
}

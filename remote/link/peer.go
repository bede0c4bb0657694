package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/wire"
)

// goodbye bounds how long a side that leaves waits for the other one to see it.
const goodbye = 500 * time.Millisecond

// Peer is one process of another task, reached over a link. It is up until Err is not nil, and
// then down for ever. All methods may be called concurrently.
type Peer struct {
	link   *link
	id     *wire.Identity
	since  time.Time
	conn   *grpc.ClientConn
	stream grpc.ClientStream
	cancel context.CancelFunc
	done   chan struct{}
	ended  chan struct{} // the stream was read to its end

	sending sync.Mutex // of stream: one sender at a time, and none after CloseSend

	mu       sync.Mutex
	pulse    *pulse
	err      error
	used     time.Time
	holds    int
	watchers map[int]func(error)
	nextID   int
	bulk     *bulk
	leaving  bool
	parting  error // of a peer that is leaving
}

// open makes one attempt to connect and shake hands.
func (k *link) open(ctx context.Context) (_ *Peer, err error) {
	conn, err := k.links.config.Dial(k.task.Address)
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "%v", err)
	}
	// The stream outlives the attempt, and so does its context.
	streamCtx, cancel := context.WithCancel(k.links.ctx)
	defer func() {
		if err != nil {
			cancel()
			conn.Close()
		}
	}()
	ctx, stop := context.WithTimeout(ctx, k.links.timing.Handshake)
	defer stop()
	unhook := context.AfterFunc(ctx, cancel)
	defer unhook()
	stream, err := conn.NewStream(streamCtx, &attachDesc, attachMethod)
	if err != nil {
		return nil, wire.FromGRPC(err)
	}
	hello := &wire.FromCaller{Kind: &wire.FromCaller_Hello{Hello: k.links.greeting(k.task)}}
	if err := stream.SendMsg(hello); err != nil && !errors.Is(err, io.EOF) {
		return nil, wire.FromGRPC(err) // io.EOF: the reason is what RecvMsg gives
	}
	var answer wire.ToCaller
	if err := stream.RecvMsg(&answer); err != nil {
		return nil, wire.FromGRPC(err)
	}
	id := answer.GetWelcome()
	if id == nil {
		return nil, status.Errorf(status.Unavailable, "it is leaving: %s", answer.GetLeaving())
	}
	if err := checkWelcome(k.links.self, k.links.config.Spec, k.task, id); err != nil {
		return nil, err
	}
	if !unhook() {
		return nil, status.New(status.DeadlineExceeded, "the handshake took too long")
	}
	now := time.Now()
	return &Peer{link: k, id: id, since: now, conn: conn, stream: stream, cancel: cancel, done: make(chan struct{}), ended: make(chan struct{}),
		pulse: newPulse(k.links.timing, now), used: now, watchers: map[int]func(error){}}, nil
}

// Task is the full name of the task.
func (p *Peer) Task() string { return p.link.task.Name() }

// Address is the task's host:port as declared, which the PIDs of its actors carry.
func (p *Peer) Address() string { return p.link.task.Address }

// Boot is a random number of the process's start: whoever meets another one knows that all
// which lived in the process is gone.
func (p *Peer) Boot() uint64 { return p.id.Boot }

// Devices are the devices that the process offers. They must not be changed.
func (p *Peer) Devices() []*wire.Device { return p.id.Devices }

// Identity tells more about the process, for people. It must not be changed.
func (p *Peer) Identity() *wire.Identity { return p.id }

// Since is when the link came up.
func (p *Peer) Since() time.Time { return p.since }

// Done is closed when the peer is down.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Err is nil while the peer is up, and then tells why it is not: UNAVAILABLE, naming the task,
// its address, why and since when; CANCELLED if this side closed the link.
func (p *Peer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// OnDown calls f once when the peer goes down, at once if it is down already. f must not block.
// While f is registered the link counts as used. cancel takes f off, but does not wait for a
// call under way.
func (p *Peer) OnDown(f func(err error)) (cancel func()) {
	p.mu.Lock()
	if err := p.err; err != nil {
		p.mu.Unlock()
		f(err)
		return func() {}
	}
	id := p.nextID
	p.nextID++
	p.watchers[id] = f
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watchers, id)
		p.used = time.Now()
	}
}

// Hold keeps the link from being closed as unused until release is called, once.
func (p *Peer) Hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.holds--
		p.used = time.Now()
	})
}

func (p *Peer) touch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = time.Now()
}

// run starts the goroutines of a peer that came up.
func (p *Peer) run() {
	started := p.link.links.start(p.read)
	if started {
		started = p.link.links.start(p.beat)
	} else {
		close(p.ended)
	}
	if !started {
		p.fail("this server is stopping", errClosed)
	}
}

// read takes what the peer sends until the stream ends.
func (p *Peer) read() {
	defer close(p.ended)
	for {
		m := &wire.ToCaller{}
		if err := p.stream.RecvMsg(m); err != nil {
			if errors.Is(err, io.EOF) {
				p.lose("it ended the link")
			} else {
				p.lose(explain(wire.FromGRPC(err)))
			}
			return
		}
		if why := m.GetLeaving(); why != "" {
			p.lose("it is leaving: " + why)
			return
		}
		p.mu.Lock()
		p.pulse.hear(time.Now())
		p.mu.Unlock()
	}
}

// beat sends heartbeats, and ends the link when the peer is silent or nobody needs it.
func (p *Peer) beat() {
	timing := p.link.links.timing
	ticker := time.NewTicker(timing.Beat)
	defer ticker.Stop()
	for number := uint64(1); ; number++ {
		select {
		case <-p.done:
			return
		case now := <-ticker.C:
			p.mu.Lock()
			lost, leaving := p.pulse.lost(now), p.leaving
			p.mu.Unlock()
			switch {
			case leaving:
				return // whoever leaves has seen to it
			case lost:
				p.lose(fmt.Sprintf("nothing was heard from it for %v", timing.Silence))
				return
			case p.link.links.mayClose(p.Task()) && p.link.retire(p, func() bool { return p.unused(now) }):
				p.depart("", status.Errorf(status.Cancelled, "The link to %v was closed because it was not used.", p.link.task))
				return
			}
			m := &wire.FromCaller{Kind: &wire.FromCaller_Beat{Beat: &wire.Beat{Number: number}}}
			if p.send(m) != nil {
				return // read gets the reason
			}
		}
	}
}

func (p *Peer) send(m *wire.FromCaller) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	select {
	case <-p.done:
		return errClosed
	default:
		return p.stream.SendMsg(m)
	}
}

// unused tells whether nobody holds or has lately used the peer. p.mu is held.
func (p *Peer) unused(now time.Time) bool {
	return p.holds == 0 && len(p.watchers) == 0 && now.Sub(p.used) > p.link.links.timing.Idle && (p.bulk == nil || p.bulk.idle())
}

// lose ends the peer as lost.
func (p *Peer) lose(why string) {
	now := time.Now()
	p.fail(why, status.Errorf(status.Unavailable, "worker %v was lost: %s, since %s", p.link.task, why, stamp(now)))
}

// leave ends the link from this side, because the server stops.
func (p *Peer) leave(err error) {
	if p.link.retire(p, func() bool { return true }) {
		p.depart("this server is stopping", err)
	}
}

// depart half-closes the stream of a retired peer, so that the other end sees no failure, and
// waits a bounded time for it to do the same. Then the peer counts as failed with err.
func (p *Peer) depart(reason string, err error) {
	p.mu.Lock()
	p.parting = err
	p.mu.Unlock()
	p.sending.Lock()
	closed := p.stream.CloseSend()
	p.sending.Unlock()
	if closed == nil {
		limit := time.NewTimer(goodbye)
		defer limit.Stop()
		select {
		case <-p.ended:
		case <-p.done:
		case <-limit.C:
		}
	}
	p.fail(reason, err)
}

// fail ends the peer, once, and tells those who watch it.
func (p *Peer) fail(reason string, err error) {
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return
	}
	if p.parting != nil {
		err = p.parting // what comes now is the other end's half of the goodbye: not a loss
	}
	p.err = err
	bulk := p.bulk
	ids := make([]int, 0, len(p.watchers))
	for id := range p.watchers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var calls []func(error)
	for _, id := range ids {
		calls = append(calls, p.watchers[id])
	}
	p.watchers = map[int]func(error){}
	lost := status.CodeOf(err) == status.Unavailable
	close(p.done)
	p.mu.Unlock()

	p.link.gone(p, reason, time.Now())
	for _, f := range calls {
		f(err)
	}
	if lost {
		p.link.links.tell(p.Task(), err)
	}
	p.cancel()
	if bulk != nil {
		bulk.stop()
	}
	if err := p.conn.Close(); err != nil {
		p.link.links.log.Debug("closing a link's connection", "task", p.Task(), "error", err)
	}
}

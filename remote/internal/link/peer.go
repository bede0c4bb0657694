package link

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// goodbye bounds how long a side that leaves waits for the other side to notice.
const goodbye = 500 * time.Millisecond

// Peer is one process of another task, reached over a link. It is up until Err is not nil, and
// then permanently down. All methods may be called concurrently.
type Peer struct {
	link  *link
	id    *wire.Identity
	since time.Time
	pipe  *pipe
	key   []byte // for streams of tensors
	bond  trust.Bond
	share share
	done  chan struct{}
	// handoff is nil if the peer is another process.
	handoff *handoff

	mu       sync.Mutex
	err      error
	used     time.Time
	letters  int64 // actors' messages at the last beat
	holds    int
	watchers map[int]func(error)
	nextID   int
	bulk     *bulk
	programs *programStream
	spare    *spare // for programs; nil if none was made
	bonded   bool   // a link of the peer's was admitted by the bond
	leaving  bool
	parting  error // of a peer that is leaving
}

// open makes one attempt to connect and shake hands. If programs is set, it makes the connection for the messages of programs' actors meanwhile.
func (k *link) open(ctx context.Context, programs bool) (*Peer, error) {
	l := k.links
	var s *spare
	if programs {
		s = k.newSpare()
	}
	h, err := k.shake(ctx)
	if err != nil {
		s.discard()
		return nil, err
	}
	now := time.Now()
	p := &Peer{link: k, id: h.id, key: h.key, bond: h.bond, spare: s, since: now, done: make(chan struct{}), used: now, watchers: map[int]func(error){}, handoff: l.join(h.id)}
	p.share.budget = &l.budget
	if p.handoff != nil {
		h.in.localQueue, h.out.localQueue = &p.handoff.back, &p.handoff.out
	}
	p.pipe = newPipe(k, h.id.GetBoot(), h.stream, h.in, h.out, p)
	return p, nil
}

// handshake is a stream whose other end has identified itself.
type handshake struct {
	stream Stream
	in     *inbound
	out    *outbound
	id     *wire.Identity
	key    []byte
	bond   trust.Bond
}

// shake opens a stream to the task and exchanges hello and welcome, within timing.Handshake.
func (k *link) shake(ctx context.Context) (_ *handshake, err error) {
	l := k.links
	ctx, stop := distance.Within(ctx, l.timing.Handshake)
	defer stop()
	stream, err := l.config.Open(ctx, k.task.Address, Method)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the network's own text differs from system to system
		}
		return nil, wire.FromGRPC(err)
	}
	shut := sync.OnceFunc(func() {
		if err := stream.Close(); err != nil {
			l.log.Debug("closing a connection", "task", k.task.Name(), "error", err)
		}
	})
	defer func() {
		if err != nil {
			shut()
		}
	}()
	// The stream outlives the attempt.
	unhook := context.AfterFunc(ctx, shut)
	defer unhook()
	in, out := newInbound(stream, l.config.Pool, &l.counters, l.self.Address, k.task.Address), newOutbound(stream, &l.counters, l.start)
	welcome, bond, err := k.introduce(in, out)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, wire.FromGRPC(err)
	}
	if !unhook() {
		return nil, status.New(status.DeadlineExceeded, "the handshake took too long")
	}
	called := cmp.Or(welcome.GetOpener(), l.self.Address)
	l.called.Store(&called)
	in.here.written, in.there.written = called, welcome.GetIdentity().GetAddress()
	return &handshake{stream, in, out, welcome.GetIdentity(), welcome.GetKey(), bond}, nil
}

// introduce says hello, answers a challenge, if any, and returns the welcome and the link's bond.
func (k *link) introduce(in *inbound, out *outbound) (*wire.Welcome, trust.Bond, error) {
	l := k.links
	nonce, done := l.openings.add(k.task.Name())
	defer done()
	hello := &wire.Hello{Greeting: l.greeting(k.task, 0), Nonce: nonce}
	returning := k.returning()
	if returning != nil {
		hello.Key = returning.Sign(forReturn, nonce)
	}
	m, err := encodeControl(kindHello, 0, hello)
	if err != nil {
		return nil, nil, err
	}
	out.post(m)
	var prover *wire.Identity // has proved that it knows the secret
	var bond trust.Bond
	h, body, err := in.spoken(out)
	if err == nil && h.kind == kindChallenge {
		if prover, bond, err = k.answer(out, hello, body); err == nil {
			h, body, err = in.spoken(out)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	welcome := &wire.Welcome{}
	if h.kind != kindWelcome || decodeControl(body, welcome) != nil {
		return nil, nil, status.New(status.Unavailable, "it answered a hello with something else than a welcome")
	}
	if r := welcome.GetRefusal(); r != nil {
		return nil, nil, status.New(status.Code(r.Code), r.Message)
	}
	id := welcome.GetIdentity()
	if err := checkWelcome(l.self, l.config.Spec, k.task, id); err != nil {
		return nil, nil, err
	}
	if returning.Check(forWelcome, nonce, welcome.GetKey()) {
		return welcome, returning.Sign(forBond, nonce), nil
	}
	if l.config.Secret != nil && prover.GetBoot() != id.GetBoot() {
		return nil, nil, status.Errorf(status.Unauthenticated, "%s does not prove that it knows the cluster's secret. Start all tasks with the same --secret-file.", Describe(id))
	}
	if l.config.Secret == nil {
		bond = trust.Bond(welcome.GetKey())
	}
	return welcome, bond, nil
}

// spoken reads a message of a handshake. If the stream ended because sending failed, it returns the error of sending.
func (in *inbound) spoken(out *outbound) (head, []byte, error) {
	h, body, _, err := in.next()
	if errors.Is(err, io.EOF) {
		if _, _, sent := out.progress(); sent != nil {
			err = sent
		}
	}
	return h, body, err
}

// Task returns the full name of the task.
func (p *Peer) Task() string { return p.link.task.Name() }

// Address returns the task's host:port as declared, which the PIDs of its actors carry.
func (p *Peer) Address() string { return p.link.task.Address }

// Boot returns the random number that the process chose when it started. A different number means
// that the process was restarted and its state is lost.
func (p *Peer) Boot() uint64 { return p.id.Boot }

// Devices returns the devices that the process offers.
func (p *Peer) Devices() []device.Attributes { return p.id.DeviceAttributes() }

// Identity returns details of the process, for people. It must not be changed.
func (p *Peer) Identity() *wire.Identity { return p.id }

// Since returns the time at which the link came up.
func (p *Peer) Since() time.Time { return p.since }

// Done returns a channel that is closed when the peer is down.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Err returns nil while the peer is up, and then why it is down: UNAVAILABLE with the task,
// its address, the reason and the time, or CANCELLED if this side closed the link.
func (p *Peer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// OnDown calls f once when the peer goes down, at once if it is down already. f must not block.
// While f is registered, the link counts as used. cancel unregisters f but does not wait for a
// call in progress.
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

// run starts the reader and the heartbeats of a peer that came up.
func (p *Peer) run() {
	l := p.link.links
	if !l.start(p.pipe.read) {
		close(p.pipe.ended)
		p.fail("this server is stopping", errClosed)
		return
	}
	p.pipe.beat(time.Now()) // the other end counts the link as up once something has come
	l.clock.add(p)
}

// tick sends heartbeats, and ends the link if it is unused or the peer is silent.
func (p *Peer) tick(now time.Time) {
	l := p.link.links
	p.mu.Lock()
	leaving := p.leaving || p.err != nil
	if n := p.pipe.letters() + p.programs.letters(); n != p.letters {
		p.letters, p.used = n, now
	}
	bulk := p.bulk
	p.mu.Unlock()
	if leaving {
		return // depart or fail ends it
	}
	why := func() error {
		return status.Errorf(status.Cancelled, "the link to %v was closed because it was not used", p.link.task)
	}
	if l.mayClose(p.Task()) && p.link.detachPeer(p, why, func() bool { return p.unused(now) && p.closeIfIdle() }) {
		if !l.start(func() { p.awaitGoodbye("", l.timing.Stall) }) {
			p.fail("this server is stopping", errClosed)
		}
		return
	}
	if bulk != nil {
		bulk.tick(now)
	}
	p.pipe.tick(now)
}

// Leaving begins the reason of a loss that the task had announced.
const Leaving = "it is leaving"

// left handles the peer's goodbye.
func (p *Peer) left(leaving string) {
	if leaving == "" {
		leaving = "it ended the link"
	} else {
		leaving = Leaving + ": " + leaving
	}
	p.mu.Lock()
	answered := p.parting != nil
	p.mu.Unlock()
	if !answered { // else depart continues
		p.lost(leaving)
	}
}

// unused reports whether nothing holds the peer, depends on it, or has used it within timing.Idle. p.mu is held.
func (p *Peer) unused(now time.Time) bool {
	return p.holds == 0 && len(p.watchers) == 0 && now.Sub(p.used) > p.link.links.timing.Idle && (p.bulk == nil || p.bulk.idle()) && p.handoff.idle() && p.link.watches.none()
}

// lost ends the peer as lost.
func (p *Peer) lost(why string) {
	p.fail(why, status.Errorf(status.Unavailable, "worker %v was lost: %s, since %s", p.link.task, why, stamp(time.Now())))
}

// closeIfIdle says goodbye on the streams of an unused peer, if no message is pending in them, and reports whether it did.
// From then on they accept no messages; later messages use another link. Every message that they accepted was written
// long ago. p.mu is held.
func (p *Peer) closeIfIdle() bool {
	pipes := []*pipe{p.pipe}
	if p.programs != nil {
		way, ready := p.programs.current()
		if !ready {
			return false // a caller waits for it
		}
		if way != nil {
			pipes = append(pipes, way)
		}
	}
	var words []*outgoing
	for range pipes {
		m, err := encodeGoodbye("")
		if err != nil {
			p.link.links.log.Error("a goodbye could not be encoded", "error", err)
			return false
		}
		words = append(words, m)
	}
	for _, way := range pipes {
		way.out.mu.Lock()
		defer way.out.mu.Unlock()
	}
	count := int64(0)
	for _, way := range pipes {
		if !way.out.idle() {
			return false
		}
		count += way.letters()
	}
	if count != p.letters {
		return false
	}
	for i, way := range pipes {
		way.out.finish(words[i], nil)
	}
	return true
}

// shutdown ends the link from this side because the server stops.
func (p *Peer) shutdown(err error) {
	if p.link.detachPeer(p, func() error { return err }, func() bool { return true }) {
		p.pipe.goodbye("", nil)
		if way := p.posts(); way != nil {
			way.goodbye(stoppingServer, nil)
		}
		p.awaitGoodbye("this server is stopping", goodbye)
	}
}

// stoppingServer is why a task leaves whose server stops.
const stoppingServer = "its server is stopping"

// posts returns the stream of programs' actors that this side has opened, if any.
func (p *Peer) posts() *pipe {
	p.mu.Lock()
	s := p.programs
	p.mu.Unlock()
	if s == nil {
		return nil
	}
	way, _ := s.current()
	return way
}

// awaitGoodbye waits at most bound for the other end's goodbyes, after a retired peer has said its own. Until then its messages
// are read. Then the peer fails with p.parting.
func (p *Peer) awaitGoodbye(reason string, bound time.Duration) {
	limit := time.NewTimer(bound)
	defer limit.Stop()
	ending, ended := p.link.links.ending, p.pipe.ended
	way := p.posts()
	for waiting := true; waiting; {
		select {
		case <-ended:
			if waiting = way != nil; waiting {
				ended, way = way.ended, nil
			}
		case <-p.done:
			waiting = false
		case <-limit.C:
			waiting = false
		case <-ending: // the server stops
			ending = nil
			limit.Reset(goodbye)
		}
	}
	p.fail(reason, nil)
}

// Ended reports whether the peer no longer accepts messages: it is down, or about to be closed as unused.
func (p *Peer) Ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil || p.leaving
}

// fail ends the peer, once, and notifies its watchers.
func (p *Peer) fail(reason string, err error) {
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return
	}
	if p.parting != nil {
		err = p.parting // the end of the stream is the other side's part of the goodbye, not a loss
	}
	p.err = err
	bulk, programs := p.bulk, p.programs
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
		p.link.links.notify(p.Task(), err)
	}
	p.link.links.clock.remove(p)
	if bulk != nil {
		bulk.stop()
	}
	if programs != nil {
		programs.stop()
	}
	p.share.end()
	p.pipe.close()
	p.handoff.close()
}

package link

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// goodbye bounds how long a side that leaves waits for the other one to see it.
const goodbye = 500 * time.Millisecond

// Peer is one process of another task, reached over a link. It is up until Err is not nil, and
// then down for ever. All methods may be called concurrently.
type Peer struct {
	link  *link
	id    *wire.Identity
	since time.Time
	pipe  *pipe
	key   []byte // for streams of tensors
	share share
	done  chan struct{}
	// handoff is nil where the peer is of another process.
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
	leaving  bool
	parting  error // of a peer that is leaving
}

// open makes one attempt to connect and shake hands.
func (k *link) open(ctx context.Context) (*Peer, error) {
	l := k.links
	h, err := k.shake(ctx, 0)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	p := &Peer{link: k, id: h.id, key: h.key, since: now, done: make(chan struct{}), used: now, watchers: map[int]func(error){}, handoff: l.join(h.id)}
	p.share.budget = &l.budget
	if p.handoff != nil {
		h.in.localQueue, h.out.localQueue = &p.handoff.back, &p.handoff.out
	}
	p.pipe = newPipe(k, h.stream, h.in, h.out, p)
	return p, nil
}

// handshake is a stream whose other end has said who it is.
type handshake struct {
	stream Stream
	in     *inbound
	out    *outbound
	id     *wire.Identity
	key    []byte
}

// shake opens a stream to the task and exchanges hello and welcome, in bounded time. The flags are those
// of the hello.
func (k *link) shake(ctx context.Context, flags byte) (_ *handshake, err error) {
	l := k.links
	ctx, stop := context.WithTimeout(ctx, l.timing.Handshake)
	defer stop()
	stream, err := l.config.Open(ctx, k.task.Address, Method)
	if err != nil {
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
	welcome, err := k.introduce(in, out, flags)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, wire.FromGRPC(err)
	}
	if !unhook() {
		return nil, status.New(status.DeadlineExceeded, "the handshake took too long")
	}
	return &handshake{stream, in, out, welcome.GetIdentity(), welcome.GetKey()}, nil
}

// introduce says hello, answers a challenge, and gives the welcome.
func (k *link) introduce(in *inbound, out *outbound, flags byte) (*wire.Welcome, error) {
	l := k.links
	nonce, done := l.openings.add(k.task.Name())
	defer done()
	hello := &wire.Hello{Greeting: l.greeting(k.task, 0), Nonce: nonce}
	m, err := speak(kindHello, flags, hello)
	if err != nil {
		return nil, err
	}
	out.post(m)
	var prover *wire.Identity // has shown that it knows the secret
	h, body, err := in.spoken(out)
	if err == nil && h.kind == kindChallenge {
		if prover, err = k.answer(out, hello, body); err == nil {
			h, body, err = in.spoken(out)
		}
	}
	if err != nil {
		return nil, err
	}
	welcome := &wire.Welcome{}
	if h.kind != kindWelcome || decodeSpeech(body, welcome) != nil {
		return nil, status.New(status.Unavailable, "it answered a hello with something else than a welcome")
	}
	if r := welcome.GetRefusal(); r != nil {
		return nil, status.New(status.Code(r.Code), r.Message)
	}
	id := welcome.GetIdentity()
	if err := checkWelcome(l.self, l.config.Spec, k.task, id); err != nil {
		return nil, err
	}
	if l.config.Secret != nil && prover.GetBoot() != id.GetBoot() {
		return nil, status.Errorf(status.Unauthenticated, "%s does not prove that it knows the cluster's secret. Start all tasks with the same --secret-file.", Describe(id))
	}
	return welcome, nil
}

// spoken reads a message of a handshake. If the stream has ended because nothing could be sent, the error tells that.
func (in *inbound) spoken(out *outbound) (head, []byte, error) {
	h, body, _, err := in.next()
	if errors.Is(err, io.EOF) {
		if _, _, sent := out.progress(); sent != nil {
			err = sent
		}
	}
	return h, body, err
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

// run lets a peer that came up read and beat.
func (p *Peer) run() {
	l := p.link.links
	if !l.start(p.pipe.read) {
		close(p.pipe.ended)
		p.fail("this server is stopping", errClosed)
		return
	}
	l.clock.add(p)
}

// tick ends the link when the peer is silent or nobody needs it, and lets it beat.
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
		return // whoever leaves has seen to it
	}
	if l.mayClose(p.Task()) && p.link.retire(p, func() bool { return p.unused(now) }) {
		why := status.Errorf(status.Cancelled, "The link to %v was closed because it was not used.", p.link.task)
		if !l.start(func() { p.depart("", why) }) {
			p.fail("this server is stopping", errClosed)
		}
		return
	}
	if bulk != nil {
		bulk.tick(now)
	}
	p.pipe.tick(now)
}

// left is told that the peer said goodbye.
func (p *Peer) left(leaving string) {
	if leaving == "" {
		leaving = "it ended the link"
	} else {
		leaving = "it is leaving: " + leaving
	}
	p.mu.Lock()
	answered := p.parting != nil
	p.mu.Unlock()
	if !answered { // else depart goes on
		p.lost(leaving)
	}
}

// unused tells whether nobody holds or has lately used the peer. p.mu is held.
func (p *Peer) unused(now time.Time) bool {
	return p.holds == 0 && len(p.watchers) == 0 && now.Sub(p.used) > p.link.links.timing.Idle && (p.bulk == nil || p.bulk.idle()) && p.handoff.idle() && p.link.watches.none()
}

// lost ends the peer as lost.
func (p *Peer) lost(why string) {
	p.fail(why, status.Errorf(status.Unavailable, "worker %v was lost: %s, since %s", p.link.task, why, stamp(time.Now())))
}

// leave ends the link from this side, because the server stops.
func (p *Peer) leave(err error) {
	if p.link.retire(p, func() bool { return true }) {
		p.depart("this server is stopping", err)
	}
}

// depart says goodbye for a retired peer, so that the other end sees no failure, and waits a
// bounded time for it to do the same: until then its messages are read. Then the peer counts as
// failed with err.
func (p *Peer) depart(reason string, err error) {
	p.mu.Lock()
	p.parting = err
	p.mu.Unlock()
	p.pipe.bye("", nil)
	limit := time.NewTimer(goodbye)
	defer limit.Stop()
	select {
	case <-p.pipe.ended:
	case <-p.done:
	case <-limit.C:
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
		p.link.links.tell(p.Task(), err)
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

package link

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// accepted is the end of a link that another task has opened.
type accepted struct {
	*pipe
	link    *link
	from    *wire.Identity
	handoff *handoff // nil: from is another process
	key     []byte   // required of streams of tensors
	bond    trust.Bond
	once    sync.Once
	joined  atomic.Bool // it has its stream of programs' actors

	// Guarded by link.mu.
	over     bool // it has ended
	departed bool // it has ended with a goodbye
}

// Handle registers the functions that serve the streams of other tasks' links and those from outside the cluster.
// An error that serve returns is sent to the caller of the stream.
func (l *Links) Handle(register func(method string, serve func(ctx context.Context, s Stream) error)) {
	register(Method, l.attached)
	register(BulkMethod, func(ctx context.Context, s Stream) error {
		l.receive(ctx, s)
		return nil
	})
}

// attached serves a stream of actors' messages from any kind of peer.
func (l *Links) attached(ctx context.Context, s Stream) error {
	var h *hello
	var denied error
	out := newOutbound(s, &l.counters, l.start)
	if !l.inTime(ctx, s, out, func(ctx context.Context) (err error) {
		h, err = l.greet(ctx, s, out)
		if errors.As(err, new(notAdmitted)) { // it does not speak the link protocol and could not read a refusal
			denied, err = err, nil
		}
		return err
	}) {
		return nil
	}
	switch {
	case denied != nil:
		l.log.Warn("a process outside the cluster was turned away", "error", denied)
		return wire.ToGRPC(denied)
	case h.outside != "":
		return l.serveOutside(ctx, s, h.outside)
	case h.flags == flagPrograms:
		l.servePrograms(s, out, h)
	default:
		l.serveLink(l.accept(s, out, h))
	}
	return nil
}

// serveLink serves this end of a link that a peer has opened, until it ends or the server stops.
func (l *Links) serveLink(a *accepted) {
	if !l.enter(a) {
		return
	}
	defer l.remove(a)
	select {
	case <-a.done:
	case <-l.ending:
		a.sendGoodbye()
		limit := time.NewTimer(goodbye)
		defer limit.Stop()
		select {
		case <-a.ended: // the peer closes the link after it has read the goodbye
		case <-a.done:
		case <-limit.C:
		}
	}
}

// hurry closes a stream unless early is called within timing.Handshake. The hello must be checked within the returned
// context. early reports whether it came in time, so that the stream is still open.
func (l *Links) hurry(ctx context.Context, s Stream) (_ context.Context, early func() bool) {
	ctx, cancel := distance.Within(ctx, l.timing.Handshake)
	unhook := context.AfterFunc(ctx, func() {
		if err := s.Close(); err != nil {
			l.log.Debug("closing a connection that said no hello", "error", err)
		}
	})
	return ctx, func() bool {
		early := unhook()
		cancel()
		return early
	}
}

// inTime reads the beginning of a stream and reports whether it came in time and is valid. It closes a stream that
// begins too late and refuses one that begins wrongly.
func (l *Links) inTime(ctx context.Context, s Stream, out *outbound, read func(ctx context.Context) error) bool {
	ctx, early := l.hurry(ctx, s)
	err := read(ctx)
	inTime := early()
	if err != nil {
		l.refuse(out, err)
	}
	return inTime && err == nil
}

// accept makes this end of a link that another task has opened.
func (l *Links) accept(s Stream, out *outbound, h *hello) *accepted {
	a := &accepted{link: h.link, from: h.from, handoff: l.newHandoff(h.from), key: h.key, bond: h.bond}
	if a.key == nil {
		a.key = fresh(keySize)
	}
	if a.bond == nil {
		a.bond = trust.Bond(a.key)
	}
	if a.handoff != nil {
		h.in.localQueue, out.localQueue = &a.handoff.out, &a.handoff.back
	}
	a.pipe = newPipe(h.link, h.from.GetBoot(), s, h.in, out, a)
	return a
}

// hello describes the beginning of a stream from another process.
type hello struct {
	in    *inbound
	link  *link
	from  *wire.Identity
	flags byte
	key   []byte     // of a link that answers one of this side's; else nil
	bond  trust.Bond // of such a link, or if there is a secret; else nil
	owner *accepted  // of a stream of programs' actors
	// outside is the address of a process outside the cluster; if set, the other fields are not.
	outside string
}

// greet reads the hello that a stream begins with, and authenticates its sender.
func (l *Links) greet(ctx context.Context, s Stream, out *outbound) (*hello, error) {
	in := newInbound(s, l.config.Pool, &l.counters, l.self.Address, "")
	n, err := s.Next()
	if err != nil {
		return nil, err
	}
	first := in.head[:min(n, headSize)]
	if err := readAll(s, first); err != nil {
		return nil, err
	}
	if !hasHead(first) {
		if len(first) > 0 && first[0] == fieldConnect<<3|2 {
			return l.greetOutside(ctx, s, first, n)
		}
	}
	h, body, _, err := in.rest(n)
	if err != nil {
		return nil, err
	}
	m := &wire.Hello{}
	if h.kind != kindHello || decodeControl(body, m) != nil || h.flags == flagPrograms && l.config.Programs == nil {
		return nil, status.InvalidArgumentf("A link must begin with a hello.")
	}
	if err := l.admit(m.GetGreeting()); err != nil {
		return nil, err
	}
	from := m.GetGreeting().GetFrom()
	begun := &hello{in: in, from: from, flags: h.flags}
	if h.flags == flagPrograms {
		if begun.owner, err = l.owner(ctx, m); err != nil {
			return nil, err
		}
		begun.link = begun.owner.link
	} else {
		k, err := l.caller(ctx, from)
		if err != nil {
			return nil, err
		}
		if err := l.identify(ctx, begun, out, m, k); err != nil {
			return nil, err
		}
		if begun.link, err = l.register(k); err != nil {
			return nil, err
		}
	}
	address := m.GetGreeting().GetAddress()
	l.called.Store(&address)
	in.there.address, in.there.written = begun.link.task.Address, from.GetAddress()
	in.here.written = address
	return begun, nil
}

// refuse sends the other end the reason why there is no link.
func (l *Links) refuse(out *outbound, why error) {
	switch status.CodeOf(why) {
	case status.DataLoss, status.InvalidArgument:
		l.counters.framesRefused.Add(1)
		l.log.Warn("a connection was refused", "error", why)
	}
	e := status.From(why)
	m, err := encodeControl(kindWelcome, 0, &wire.Welcome{Refusal: &wire.Refusal{Code: int32(e.Code), Message: e.Message}})
	if err != nil {
		l.log.Error("a refusal could not be encoded", "error", err)
		return
	}
	written := make(chan struct{})
	out.sendLast(m, func() { close(written) })
	limit := time.NewTimer(goodbye)
	defer limit.Stop()
	select {
	case <-written:
	case <-limit.C: // the other end may be gone
	}
}

// enter adds a to the links and sends its welcome. It returns false if the links are closed.
func (l *Links) enter(a *accepted) bool {
	m, err := encodeControl(kindWelcome, 0, &wire.Welcome{Identity: l.self, Key: a.key, Opener: a.link.task.Address})
	if err != nil {
		l.log.Error("a welcome could not be encoded", "error", err)
		a.close()
		return false
	}
	l.mu.Lock()
	l.callers[process{a.from.GetTask(), a.from.GetBoot()}] = a // before the welcome: tensors may follow it
	l.mu.Unlock()
	a.out.post(m)
	a.link.accepted.Store(a.pipe) // after the welcome, which is the first message
	if !l.start(a.read) {
		l.remove(a)
		return false
	}
	l.clock.add(a.pipe)
	l.changed(a.from.GetTask())
	return true
}

func (l *Links) remove(a *accepted) {
	l.clock.remove(a.pipe)
	a.link.accepted.CompareAndSwap(a.pipe, nil)
	key := process{a.from.GetTask(), a.from.GetBoot()}
	l.mu.Lock()
	if l.callers[key] == a {
		delete(l.callers, key)
	}
	l.mu.Unlock()
	a.close()
	a.handoff.leave()
}

// sendGoodbye says goodbye because the server stops; the second time it does nothing.
func (a *accepted) sendGoodbye() {
	a.once.Do(func() {}) // from now on the end is not a loss
	a.goodbye(stoppingServer, nil)
}

// lost ends the link and notifies its watchers. It is not a loss if the other end closes a link that neither side has used: its time for the
// attempt may have been over before the welcome came, and its process is up.
func (a *accepted) lost(why string) {
	a.once.Do(func() {
		a.link.accepted.CompareAndSwap(a.pipe, nil)
		a.retire(false)
		a.out.end(errLinkGone) // nothing is posted from now on
		if !a.heard.Load() && a.why.Load() == nil && !a.out.posted() {
			a.links.changed(a.from.GetTask())
			a.close()
			return
		}
		a.link.missed(a.boot, why, time.Now())
		a.links.notify(a.from.GetTask(), a.gone(why))
		a.close()
	})
}

// gone returns the error for a link that was lost.
func (a *accepted) gone(why string) error {
	return status.Errorf(status.Unavailable, "worker %s (%s) was lost: %s, since %s", a.from.GetTask(), a.from.GetAddress(), why, stamp(time.Now()))
}

// retire marks the link as ended. If it was lost, nothing more is posted on its stream of programs' actors: its watchers learn of what is.
func (a *accepted) retire(departed bool) {
	k := a.link
	k.mu.Lock()
	a.over, a.departed = true, departed
	back := k.back
	if back == nil || back.owner != a {
		back = nil
	} else if !departed {
		k.back = nil
	}
	k.mu.Unlock()
	if back != nil && !departed {
		back.out.end(errLinkGone)
	}
}

// left answers a goodbye with one, after all posted messages.
func (a *accepted) left(string) {
	a.once.Do(func() {
		a.link.accepted.CompareAndSwap(a.pipe, nil)
		a.retire(true)
		a.goodbye("", a.close)
		a.links.changed(a.from.GetTask())
	})
}

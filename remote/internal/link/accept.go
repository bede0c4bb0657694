package link

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// accepted is the end of a link that another task has opened.
type accepted struct {
	*pipe
	link    *link
	from    *wire.Identity
	handoff *handoff // nil: from is of another process
	key     []byte   // that streams of tensors must carry
	once    sync.Once
}

// Handle registers what serves the streams of other tasks' links, and those from outside the cluster. The caller
// of a stream is told of an error that serve returns.
func (l *Links) Handle(register func(method string, serve func(ctx context.Context, s Stream) error)) {
	register(Method, l.attached)
	register(BulkMethod, func(ctx context.Context, s Stream) error {
		l.receive(ctx, s)
		return nil
	})
}

// attached serves a stream of actors' messages, whoever has opened it.
func (l *Links) attached(ctx context.Context, s Stream) error {
	var h *hello
	var denied error
	out := newOutbound(s, &l.counters, l.start)
	if !l.inTime(s, out, func() (err error) {
		h, err = l.greet(ctx, s, out)
		if errors.As(err, new(notAdmitted)) { // it speaks no links, and would not read a refusal
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

// serveLink serves the other end of a peer's link, and tells who watches if it ends without a goodbye.
func (l *Links) serveLink(a *accepted) {
	if !l.enter(a) {
		return
	}
	defer l.leave(a)
	select {
	case <-a.done:
	case <-l.ending:
		a.part()
		limit := time.NewTimer(goodbye)
		defer limit.Stop()
		select {
		case <-a.ended: // the peer closes the link when it has read that
		case <-a.done:
		case <-limit.C:
		}
	}
}

// hurry closes a stream that has not said hello, and stopped the timer, in time.
func (l *Links) hurry(s Stream) *time.Timer {
	return time.AfterFunc(l.timing.Handshake, func() {
		if err := s.Close(); err != nil {
			l.log.Debug("closing a connection that said no hello", "error", err)
		}
	})
}

// inTime reads what a stream begins with. It closes one that begins too late and refuses one that begins wrongly; then it
// gives false.
func (l *Links) inTime(s Stream, out *outbound, read func() error) bool {
	late := l.hurry(s)
	err := read()
	early := late.Stop()
	if err != nil {
		l.refuse(out, err)
	}
	return early && err == nil
}

// accept makes an end of a link of the other task's.
func (l *Links) accept(s Stream, out *outbound, h *hello) *accepted {
	a := &accepted{link: h.link, from: h.from, handoff: l.newHandoff(h.from), key: fresh(keySize)}
	if a.handoff != nil {
		h.in.localQueue, out.localQueue = &a.handoff.out, &a.handoff.back
	}
	a.pipe = newPipe(h.link, s, h.in, out, a)
	return a
}

// hello is what a stream of another task begins with.
type hello struct {
	in    *inbound
	link  *link
	from  *wire.Identity
	flags byte
	// outside is the address of a process outside the cluster; then the rest is not set.
	outside string
}

// greet reads the hello that a stream begins with, and makes sure whose it is.
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
	if h.kind != kindHello || decodeSpeech(body, m) != nil || h.flags == flagPrograms && l.config.Programs == nil {
		return nil, status.InvalidArgumentf("A link must begin with a hello.")
	}
	if err := l.admit(m.GetGreeting()); err != nil {
		return nil, err
	}
	from := m.GetGreeting().GetFrom()
	k := l.tasks[from.GetTask()]
	if k == nil {
		return nil, status.Errorf(status.FailedPrecondition, "%s opened a link to itself.", Describe(from))
	}
	if err := l.identify(ctx, in, out, m, k); err != nil {
		return nil, err
	}
	in.there.address = from.GetAddress()
	return &hello{in: in, link: k, from: from, flags: h.flags}, nil
}

// refuse tells the other end why there is no link.
func (l *Links) refuse(out *outbound, why error) {
	switch status.CodeOf(why) {
	case status.DataLoss, status.InvalidArgument:
		l.counters.framesRefused.Add(1)
		l.log.Warn("a connection was refused", "error", why)
	}
	e := status.From(why)
	m, err := speak(kindWelcome, 0, &wire.Welcome{Refusal: &wire.Refusal{Code: int32(e.Code), Message: e.Message}})
	if err != nil {
		l.log.Error("a refusal could not be encoded", "error", err)
		return
	}
	written := make(chan struct{})
	out.last(m, func() { close(written) })
	limit := time.NewTimer(goodbye)
	defer limit.Stop()
	select {
	case <-written:
	case <-limit.C: // who is gone needs no answer
	}
}

// enter makes a an end of the links; false if they are closed.
func (l *Links) enter(a *accepted) bool {
	m, err := speak(kindWelcome, 0, &wire.Welcome{Identity: l.self, Key: a.key})
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
		l.leave(a)
		return false
	}
	l.clock.add(a.pipe)
	return true
}

func (l *Links) leave(a *accepted) {
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

// part says goodbye because the server stops; the second time it does nothing.
func (a *accepted) part() {
	a.once.Do(func() {}) // what comes now is no loss
	a.bye("its server is stopping", nil)
}

// lost ends the link, and tells who watches.
func (a *accepted) lost(why string) {
	a.once.Do(func() {
		a.link.accepted.CompareAndSwap(a.pipe, nil)
		err := status.Errorf(status.Unavailable, "worker %s (%s) was lost: %s, since %s", a.from.GetTask(), a.from.GetAddress(), why, stamp(time.Now()))
		a.links.tell(a.from.GetTask(), err)
		a.close()
	})
}

// left answers a goodbye with one, behind all that was posted.
func (a *accepted) left(string) {
	a.once.Do(func() {
		a.link.accepted.CompareAndSwap(a.pipe, nil)
		a.bye("", a.close)
	})
}

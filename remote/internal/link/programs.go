package link

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// programStream carries the messages of programs' actors to a peer, and back. It is a stream like the link's own, on a
// separate connection, so the link's messages do not queue behind them. It is opened with the first
// such message and ends with the peer. If it breaks, the link breaks too, so no caller waits for a lost
// message. It begins with a hello, which shows that it belongs to the link, and messages follow at once: the other end answers only if it
// refuses the stream.
type programStream struct {
	peer  *Peer
	ready chan struct{} // closed when pipe or err is set

	mu      sync.Mutex
	pipe    *pipe
	err     error
	stopped bool
}

var _ end = (*programStream)(nil)

var errLinkGone = status.New(status.Unavailable, "the link has just broken")

// epochBits is the number of bits that count the messages of one stream. The bits above number the stream, in the order of the streams' first
// messages, so the numbers of a process's messages to another one always grow.
const epochBits = 40

// Post sends a message to a program's actor on the peer's task, beside the link's own messages. Messages
// that one goroutine posts arrive in order, or not at all. While the actor's backlog is too large, or too
// much waits to be written, Post waits until ctx ends. It returns UNAVAILABLE if the peer is down.
func (p *Peer) Post(ctx context.Context, m *cast.Letter) error { return p.mail(ctx, m, true) }

// TryPost is Post without waiting: if there is no room, it returns RESOURCE_EXHAUSTED.
func (p *Peer) TryPost(ctx context.Context, m *cast.Letter) error { return p.mail(ctx, m, false) }

func (p *Peer) mail(ctx context.Context, m *cast.Letter, wait bool) error {
	way, err := p.way(ctx)
	if err == nil {
		err = way.out.mail(ctx, m, wait)
	}
	if !errors.Is(err, errLinkGone) {
		return err
	}
	if err := p.Err(); err != nil {
		return err
	}
	return p.link.unreached("its link has just ended")
}

// way returns the stream of programs' actors. The first call opens it.
func (p *Peer) way(ctx context.Context) (*pipe, error) {
	p.mu.Lock()
	if p.err != nil || p.leaving {
		defer p.mu.Unlock()
		return nil, cmp.Or(p.err, errLinkGone)
	}
	s := p.openLocked()
	p.mu.Unlock()
	if s == nil {
		return nil, errClosed
	}
	select {
	case <-s.ready:
		return s.pipe, s.err
	default:
	}
	select {
	case <-s.ready:
		return s.pipe, s.err
	case <-ctx.Done():
		return nil, status.From(ctx.Err())
	}
}

// openLocked returns the stream of programs' actors, which it opens if there is none; nil if the links are closed. p.mu is held.
func (p *Peer) openLocked() *programStream {
	if p.programs == nil {
		s := &programStream{peer: p, ready: make(chan struct{})}
		if !p.link.links.start(s.open) {
			return nil
		}
		p.programs = s
	}
	return p.programs
}

// beginPosting opens the stream of programs' actors before the first message.
func (p *Peer) beginPosting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.leaving || p.openLocked() == nil {
		p.spare.discard()
	}
}

// settled returns nil: a peer that ended was unused for long, or lost.
func (p *Peer) settled() <-chan struct{} { return nil }

// spare is a connection for the stream of programs' actors, made while the link's handshake goes on.
type spare struct {
	links  *Links
	ready  chan struct{} // closed when stream or err is set
	stream Stream
	err    error
}

// newSpare begins to make a connection. It returns nil if the links are closed.
func (k *link) newSpare() *spare {
	l := k.links
	s := &spare{links: l, ready: make(chan struct{})}
	if !l.start(func() {
		defer close(s.ready)
		s.stream, s.err = k.openPrograms()
	}) {
		return nil
	}
	return s
}

// openPrograms makes a connection to the task for a stream of programs' actors.
func (k *link) openPrograms() (Stream, error) {
	l := k.links
	ctx, cancel := distance.Within(l.ctx, l.timing.Handshake)
	defer cancel()
	return l.config.Open(ctx, k.task.Address, Method)
}

// discard closes a connection that is not used; s may be nil.
func (s *spare) discard() {
	if s == nil {
		return
	}
	shut := func() {
		if <-s.ready; s.err == nil {
			shutStream(s.links, s.stream)
		}
	}
	if !s.links.start(shut) {
		shut() // its context has ended
	}
}

// connect returns the spare connection, if there is one, or another one.
func (s *programStream) connect() (Stream, error) {
	if spare := s.peer.spare; spare != nil {
		if <-spare.ready; spare.err == nil {
			return spare.stream, nil
		}
	}
	return s.peer.link.openPrograms()
}

// open opens the stream and starts reading it: heartbeats, credits and the peer's messages come back on it.
func (s *programStream) open() {
	l, k, p := s.peer.link.links, s.peer.link, s.peer
	stream, err := s.connect()
	var hello *outgoing
	if err == nil {
		nonce := fresh(nonceSize)
		hello, err = encodeControl(kindHello, flagPrograms, &wire.Hello{Greeting: l.greeting(k.task, p.Boot()), Nonce: nonce, Key: p.bond.Sign(forPrograms, nonce)})
		if err != nil {
			shutStream(l, stream)
		}
	}
	if err != nil {
		why := explain(err)
		s.err = k.unreached(why)
		close(s.ready)
		s.lost(why)
		return
	}
	in, out := newInbound(stream, l.config.Pool, &l.counters, l.self.Address, k.task.Address), newOutbound(stream, &l.counters, l.start)
	in.here.written, in.there.written = p.pipe.in.here.written, p.pipe.in.there.written
	way := newPipe(k, p.Boot(), stream, in, out, s)
	way.programs = l.receiver(way, k.task.Name())
	out.post(hello)
	out.gatherWith(l.gathering(k))
	s.mu.Lock()
	s.pipe = way
	stopped := s.stopped
	s.mu.Unlock()
	close(s.ready)
	if stopped || !l.start(way.read) {
		way.close()
		return
	}
	l.clock.add(way)
}

// gathering returns what gathers the messages that are posted on a stream to a task.
func (l *Links) gathering(k *link) *gathering {
	return &gathering{from: l.self.Address, to: k.task.Address, numbered: true, epochs: &l.epochs, flow: flow{limited: true}}
}

// receiver returns the function that handles the batches of a stream of a task's programs' actors.
func (l *Links) receiver(p *pipe, task string) func(body []byte) error {
	if l.config.Programs == nil {
		return func([]byte) error { return status.InvalidArgumentf("%s has no actors of programs.", l.self.GetTask()) }
	}
	return (&arrivals{in: p.in, pipe: p, task: task, boot: p.boot}).receive
}

// stop ends the stream with its peer.
func (s *programStream) stop() {
	s.mu.Lock()
	s.stopped = true
	way := s.pipe
	s.mu.Unlock()
	if way != nil {
		s.peer.link.links.clock.remove(way)
		way.close()
	}
}

// current returns the stream's pipe, if any. ready is false while it is being opened.
func (s *programStream) current() (way *pipe, ready bool) {
	select {
	case <-s.ready:
		return s.pipe, true
	default:
		return nil, false
	}
}

// letters returns the number of messages sent and received; s may be nil.
func (s *programStream) letters() int64 {
	if s == nil {
		return 0
	}
	way, _ := s.current()
	if way == nil {
		return 0
	}
	return way.letters()
}

// lost ends the link, unless it is ending already.
func (s *programStream) lost(why string) {
	if !s.peer.Ended() {
		s.peer.pipe.cut("its actors could not be sent messages: " + why)
	}
}

// left does nothing: the peer says goodbye on its link too.
func (s *programStream) left(string) {}

// programs is this end of such a stream that another task has opened. This side may post messages on it, too.
type programs struct {
	*pipe
	owner   *accepted
	adopted bool // messages are posted on it; guarded by link.mu
}

var _ way = (*programs)(nil)

// servePrograms serves a stream of another task's programs' actors.
func (l *Links) servePrograms(s Stream, out *outbound, h *hello) {
	p := &programs{owner: h.owner}
	p.pipe = newPipe(h.link, h.from.GetBoot(), s, h.in, out, p)
	p.programs = l.receiver(p.pipe, h.from.GetTask())
	defer p.close()
	defer p.withdraw()
	p.offer() // before a message is read, whose answer would open a link otherwise
	if !l.start(p.read) {
		return
	}
	l.clock.add(p.pipe)
	defer l.clock.remove(p.pipe)
	select {
	case <-p.done:
	case <-l.ending:
		// The goodbye on its link says why the stream ends: the other end must have read that first.
		limit := time.NewTimer(goodbye)
		defer limit.Stop()
		select {
		case <-p.done:
		case <-p.owner.ended:
		case <-limit.C:
		}
	}
}

// offer makes the stream one on which messages may be posted, unless its link has ended.
func (p *programs) offer() {
	k := p.task
	k.mu.Lock()
	defer k.mu.Unlock()
	if !p.owner.over {
		k.back = p
	}
}

// withdraw undoes offer, and reports whether messages have been posted.
func (p *programs) withdraw() (adopted bool) {
	k := p.task
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.back == p {
		k.back = nil
	}
	return p.adopted
}

// Post sends a message; see Peer.Post.
func (p *programs) Post(ctx context.Context, m *cast.Letter) error { return p.mail(ctx, m, true) }

// TryPost is Post without waiting for room.
func (p *programs) TryPost(ctx context.Context, m *cast.Letter) error { return p.mail(ctx, m, false) }

func (p *programs) mail(ctx context.Context, m *cast.Letter, wait bool) error {
	if err := p.out.mail(ctx, m, wait); !errors.Is(err, errLinkGone) {
		return err
	}
	return p.owner.gone("its link has just ended")
}

// Ended reports whether the stream accepts no more messages.
func (p *programs) Ended() bool {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return p.out.closed
}

// settled returns the end of the connection: the other end closes it when it has read everything.
func (p *programs) settled() <-chan struct{} { return p.done }

// lost closes the stream. The link itself reports the loss, unless it has ended before.
func (p *programs) lost(why string) {
	adopted := p.withdraw()
	p.close()
	if adopted {
		p.fail("its actors could not be sent messages: " + why)
	}
}

// fail reports a loss to those who wait for answers to what was posted.
func (p *programs) fail(why string) {
	k := p.task
	k.mu.Lock()
	departed := p.owner.departed
	k.mu.Unlock()
	if departed {
		p.links.notify(k.task.Name(), p.owner.gone(why))
		return
	}
	p.owner.cut(why)
}

// left answers a goodbye with one, after all posted messages, and waits until the other end has read them and closes the connection. If this side
// still needs the task, it opens a link of its own.
func (p *programs) left(leaving string) {
	adopted := p.withdraw()
	p.goodbye("", nil)
	var err error
	for err == nil {
		_, _, _, err = p.in.next() // the clock ends this if the other end is silent
	}
	p.close()
	l, k := p.links, p.task
	switch {
	case !adopted || l.ctx.Err() != nil:
	case leaving != "":
		p.fail(Leaving + ": " + leaving)
	case p.why.Load() != nil:
		p.fail(*p.why.Load())
	case !isEnd(err): // the last messages may be lost
		p.fail(explain(err))
	case !l.mayClose(k.task.Name()):
		l.start(func() {
			if _, err := k.ensure(l.ctx, anything); err != nil {
				l.notify(k.task.Name(), err)
			}
		})
	}
}

// isEnd reports whether reading failed because the other end has closed the connection, and had read everything: otherwise the connection is reset. A
// stream's errors are statuses, of which the text alone tells this.
func isEnd(err error) bool { return strings.HasSuffix(status.From(err).Message, io.EOF.Error()) }

// reachWay returns the way for messages to programs' actors of the task.
func (k *link) reachWay(ctx context.Context) (cast.Way, error) {
	w, settled := k.currentWay()
	if settled != nil {
		select {
		case <-settled: // within timing.Silence
		case <-ctx.Done():
			return nil, status.From(ctx.Err())
		}
		w, _ = k.currentWay()
	}
	if w != nil {
		return w, nil
	}
	if _, err := k.ensure(ctx, forMail); err != nil {
		return nil, err
	}
	if w, _ = k.currentWay(); w != nil {
		return w, nil
	}
	return nil, k.unreached("its link has just ended")
}

// currentWay returns the way in use, or chooses one. It returns nil if there is none, and what to wait for before another one is used, if anything.
func (k *link) currentWay() (_ way, settled <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.way != nil {
		if !k.way.Ended() {
			return k.way, nil
		}
		if settled := k.way.settled(); settled != nil {
			select {
			case <-settled:
			default:
				return nil, settled
			}
		}
		k.way = nil
	}
	switch {
	case k.back != nil && !k.back.Ended():
		k.back.adopted = true
		k.back.out.gatherWith(k.links.gathering(k))
		k.way = k.back
	case k.peer != nil && !k.peer.Ended():
		k.peer.touch()
		k.way = k.peer
	}
	return k.way, nil
}

// try makes one attempt to open the link. It joins one that goes on until the task comes only if the task is there.
func (k *link) try(ctx context.Context, what purpose) error {
	k.mu.Lock()
	awaited := k.attempt != nil && !k.attempt.once
	k.mu.Unlock()
	if awaited {
		if _, err := k.links.Greet(ctx, k.task); err != nil {
			return err
		}
	}
	_, err := k.ensure(ctx, what)
	switch {
	case err == nil || isPermanent(err):
		return err
	case ctx.Err() != nil:
		return status.From(ctx.Err())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.seen && k.reason != "" {
		return status.New(status.CodeOf(err), k.reason)
	}
	return err
}

// arrivals decodes the batches of one stream. It is used by the stream's reader.
type arrivals struct {
	in       *inbound
	pipe     *pipe
	task     string
	boot     uint64
	letters  []cast.Letter
	kinds    kinds
	accounts map[string]*account
	senders  map[string]string
}

// receive hands the messages of a batch to their actors.
func (a *arrivals) receive(body []byte) error {
	number, data, _, rest, ok := nextField(body)
	if !ok || number != fieldBatch || len(rest) > 0 {
		return errBatch
	}
	a.in.buf = nil // the messages retain it
	b := &a.in.batch
	err := b.read(data)
	if err != nil {
		return err
	}
	clear(a.letters)
	a.letters = a.letters[:0]
	var e envelope
	for i, data := range b.envelopes {
		if err := e.read(b, data); err != nil {
			return err
		}
		m := cast.Letter{Number: b.first + uint64(i), Kind: a.kinds.find(e.kind), Data: e.data}
		if string(e.target.host) != a.in.here.written || len(e.sender.name) > 0 && string(e.sender.host) != a.in.there.written {
			return errBatch
		}
		account := a.account(e.target.name)
		m.To = account.name
		if cast.Counts(m.To) {
			m.Room = account
		}
		m.From = a.sender(e.sender.name)
		if m.Trace, m.Client, err = readLetterHeader(e.header); err != nil {
			return err
		}
		if m.Kind.System {
			a.pipe.links.refuseSystem(m.To, m.Kind.Name, a.task)
			if m.Room != nil {
				m.Room.Handled(1, len(m.Data))
			}
			continue
		}
		a.letters = append(a.letters, m)
	}
	n := int64(len(a.letters))
	a.pipe.links.counters.messagesReceived.Add(n)
	a.pipe.task.traffic.messagesReceived.Add(n)
	a.pipe.received.Add(n)
	a.pipe.links.config.Programs.Receive(a.task, a.boot, a.letters)
	return nil
}

// maxNames bounds the names that a stream caches.
const maxNames = 1 << 10

func (a *arrivals) account(name []byte) *account {
	known := a.accounts[string(name)]
	if known == nil {
		if a.accounts == nil || len(a.accounts) >= maxNames {
			a.accounts = map[string]*account{}
		}
		known = &account{pipe: a.pipe, name: string(name)}
		a.accounts[known.name] = known
	}
	return known
}

// sender returns an actor's name as a string. Names of requests occur once and are not cached.
func (a *arrivals) sender(name []byte) string {
	if len(name) == 0 || !cast.Counts(string(name)) {
		return string(name)
	}
	known, there := a.senders[string(name)]
	if !there {
		if a.senders == nil || len(a.senders) >= maxNames {
			a.senders = map[string]string{}
		}
		known = string(name)
		a.senders[known] = known
	}
	return known
}

// kinds caches the types of the messages of a stream.
type kinds map[string]*cast.Kind

// find returns a message's type.
func (k *kinds) find(name []byte) *cast.Kind {
	known := (*k)[string(name)]
	if known == nil {
		known = &cast.Kind{Name: string(name)}
		// An unknown type affects only its own messages.
		if t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name)); err == nil {
			known.Type, known.System = t, system(t.Zero().Interface())
		}
		if *k == nil || len(*k) >= maxNames {
			*k = kinds{}
		}
		(*k)[known.Name] = known
	}
	return known
}

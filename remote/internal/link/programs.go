package link

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// programStream carries the messages of programs' actors to a peer. It is a stream like the link's own, on a
// separate connection, so the link's messages do not queue behind them. It is opened with the first
// such message and ends with the peer. If it breaks, the link breaks too, so no caller waits for a lost
// message.
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

// epochBits is the number of bits that count the messages of one stream. The bits above number the stream, so
// the numbers of a process's messages to another one always grow.
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
	s := p.programs
	if s == nil {
		s = &programStream{peer: p, ready: make(chan struct{})}
		if !p.link.links.start(s.open) {
			p.mu.Unlock()
			return nil, errClosed
		}
		p.programs = s
	}
	p.mu.Unlock()
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

// open opens the stream and starts reading it: heartbeats and credits come back on it.
func (s *programStream) open() {
	l, k := s.peer.link.links, s.peer.link
	h, err := k.shake(l.ctx, flagPrograms)
	if err == nil && h.id.GetBoot() != s.peer.Boot() {
		err = status.New(status.Unavailable, "another process is there")
		if e := h.stream.Close(); e != nil {
			l.log.Debug("closing a connection", "error", e)
		}
	}
	if err != nil {
		why := explain(err)
		s.err = k.unreached(why)
		close(s.ready)
		s.lost(why)
		return
	}
	// Later streams, such as that of a reopened link, have higher numbers.
	h.out.gatherWith(&gathering{from: l.self.Address, to: k.task.Address, numbered: true, number: l.epochs.Add(1) << epochBits, flow: flow{limited: true}})
	s.mu.Lock()
	s.pipe = newPipe(k, h.id.GetBoot(), h.stream, h.in, h.out, s)
	stopped := s.stopped
	s.mu.Unlock()
	close(s.ready)
	if stopped || !l.start(s.pipe.read) {
		s.pipe.close()
		return
	}
	l.clock.add(s.pipe)
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

// programs is this end of such a stream that another task has opened.
type programs struct{ *pipe }

// servePrograms serves a stream of another task's programs' actors.
func (l *Links) servePrograms(s Stream, out *outbound, h *hello) {
	m, err := encodeControl(kindWelcome, 0, &wire.Welcome{Identity: l.self, Opener: h.link.task.Address})
	if err != nil {
		l.log.Error("a welcome could not be encoded", "error", err)
		return
	}
	p := &programs{}
	p.pipe = newPipe(h.link, h.from.GetBoot(), s, h.in, out, p)
	p.programs = (&arrivals{in: h.in, pipe: p.pipe, task: h.from.GetTask(), boot: h.from.GetBoot()}).receive
	p.out.post(m)
	defer p.close()
	if !l.start(p.read) {
		return
	}
	l.clock.add(p.pipe)
	defer l.clock.remove(p.pipe)
	select {
	case <-p.done:
	case <-l.ctx.Done():
	}
}

// lost closes the stream. The link itself reports the loss.
func (p *programs) lost(string) { p.close() }

func (p *programs) left(string) { p.goodbye("", p.close) }

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
	if err := b.read(data); err != nil {
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

package cast

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// lane is the mail to and from one other task.
type lane struct {
	way atomic.Pointer[Way] // to the task, while its link is there

	mu      sync.Mutex // of what has arrived; whoever has it delivers, so that order is kept
	boot    uint64
	last    uint64
	to      string       // the actor that has items
	items   queue        // messages to it that are being delivered
	waiting atomic.Int64 // bytes of messages from the task that wait for actors

	// Of errands to the task; Cast.mu.
	errands  []func(ctx context.Context)
	couriers int
}

// maxLane bounds the bytes that came from one task and wait for actors. Those that send keep far below it;
// what broken links have left may add up.
const maxLane = MaxBytes

// post sends a message to another task.
func (s *Cast) post(ctx context.Context, task string, m *Letter, wait bool) error {
	l := s.lane(task)
	if l == nil {
		return s.unknown(task)
	}
	if way := l.way.Load(); way != nil {
		err := send(ctx, *way, m, wait)
		if status.CodeOf(err) != status.Unavailable {
			return err
		}
		l.way.CompareAndSwap(way, nil)
	}
	way, err := s.config.Transport.Reach(ctx, task)
	if err != nil {
		return err
	}
	l.way.Store(&way)
	return send(ctx, way, m, wait)
}

func send(ctx context.Context, way Way, m *Letter, wait bool) error {
	if wait {
		return way.Post(ctx, m)
	}
	return way.TryPost(ctx, m)
}

// mail sends another task what casts have to say to each other.
func (s *Cast) mail(ctx context.Context, task string, m *wire.Mail) error {
	return s.post(ctx, task, &Letter{To: Conversation, Message: m}, true)
}

// Receive takes the letters of a task's process. It does not wait.
func (s *Cast) Receive(task string, boot uint64, letters []Letter) {
	l := s.lanes[task]
	if l == nil {
		s.log.Warn("mail of a task that the cluster does not have was dropped", "task", task)
		for i := range letters {
			letters[i].drop()
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range letters {
		m := &letters[i]
		if l.boot == boot && m.Number <= l.last {
			s.log.Debug("mail that was overtaken was dropped", "task", task, "from", m.From, "to", m.To)
			m.drop()
			continue
		}
		l.boot, l.last = boot, m.Number
		switch {
		case m.To == Conversation:
			s.flush(l) // which it may be about
			s.converse(task, m)
		case isAsk(m.To):
			s.settle(m.To, content{kind: m.Kind, data: m.Data}, nil)
		default:
			if m.To != l.to {
				s.flush(l)
				l.to = m.To
			}
			sender := Ref{task, m.From}
			if m.From == "" {
				sender = Ref{}
			}
			l.items.push(&item{sender: sender, content: content{kind: m.Kind, data: m.Data}, size: len(m.Data), room: m.Room, lane: l})
		}
	}
	s.flush(l)
}

// drop tells whoever waits for room that the message takes none.
func (m *Letter) drop() {
	if m.Room != nil {
		m.Room.Handled(1, len(m.Data))
	}
}

// flush gives an actor the messages that have gathered for it. The lane's mu is held.
func (s *Cast) flush(l *lane) {
	if l.items.empty() {
		return
	}
	s.mu.Lock()
	p, err := s.findLocked(l.to)
	if err == nil {
		for i := range l.items.all {
			s.expectLocked(p, i.sender)
		}
	}
	s.mu.Unlock()
	if err == nil {
		err = p.take(l, &l.items)
	}
	if err == nil {
		return
	}
	for i := range l.items.all {
		i.free()
		s.refuse(Ref{s.config.Self, l.to}, i.sender, err)
	}
	l.items.clear()
}

// converse does what another task's cast has to say.
func (s *Cast) converse(task string, m *Letter) {
	mail, err := content{kind: m.Kind, data: m.Data}.open()
	said, ok := mail.(*wire.Mail)
	if err != nil || !ok {
		s.log.Warn("what another task said about actors makes no sense", "task", task, "error", err)
		return
	}
	s.take(task, said)
}

// take does what a task's cast asks for, this task's included. It does not wait.
func (s *Cast) take(task string, m *wire.Mail) {
	from := Ref{task, m.GetFrom()}
	if m.GetFrom() == "" {
		from = Ref{}
	}
	switch what := m.GetWhat().(type) {
	case *wire.Mail_Content: // an answer without a message
		s.settle(m.GetTo(), content{}, nil)
	case *wire.Mail_Failure:
		s.settle(m.GetTo(), content{}, failed(what.Failure))
	case *wire.Mail_Spawn:
		s.spawn(m.GetTo(), what.Spawn, from)
	case *wire.Mail_End:
		p, err := s.find(m.GetTo())
		if err == nil {
			err = p.notify(item{end: true, sender: from})
		}
		if err != nil {
			s.answer(from, err)
		}
	case *wire.Mail_Watch:
		s.watched(m.GetTo(), from, what.Watch.GetId())
	case *wire.Mail_Ended:
		s.ended(Ref{task, m.GetTo()}, what.Ended.GetWatch(), failed(what.Ended.GetFailure()))
		s.answer(from, nil)
	case *wire.Mail_Withdraw:
		s.withdraw(from)
	default:
		s.answer(from, status.Unimplementedf("%s does not know the request: it is of another version", s.config.Self))
	}
}

// put puts a message of this task into an actor's queue. Where that is full it waits until ctx ends, or
// else is RESOURCE_EXHAUSTED.
func (s *Cast) put(ctx context.Context, name string, i item, wait bool) error {
	s.mu.Lock()
	p, err := s.findLocked(name)
	if err == nil {
		s.expectLocked(p, i.sender)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := p.post(ctx, i, wait); err != nil {
		s.withdraw(i.sender)
		return err
	}
	return nil
}

// withdraw forgets a request that is answered, or not waited for any more.
func (s *Cast) withdraw(asker Ref) {
	if !isAsk(asker.Name) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.asked[asker]; p != nil {
		delete(p.pending, asker)
		delete(s.asked, asker)
	}
}

// refuse tells who asked, or else the log, that a message did not reach its actor.
func (s *Cast) refuse(to, sender Ref, err error) {
	if isAsk(sender.Name) {
		s.withdraw(sender)
		s.answer(sender, err)
		return
	}
	s.deadLetter(to.Name, sender)
	if n := s.drops.note(time.Now()); n > 0 {
		s.log.Warn("messages to actors of the program were dropped", "count", n, "last", to.Name, "sender", sender.Name, "task", sender.Task, "error", err)
	}
}

// drops counts messages that were dropped, to tell of them once a second.
type drops struct {
	mu    sync.Mutex
	count int
	told  time.Time
}

// note counts one more, and gives how many are to be told of now.
func (d *drops) note(now time.Time) (tell int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	if now.Sub(d.told) < time.Second {
		return 0
	}
	tell, d.count, d.told = d.count, 0, now
	return tell
}

// answer answers a request of this or another task, without a message, or with a failure if err is not nil. It does
// not wait.
func (s *Cast) answer(asker Ref, err error) {
	if !isAsk(asker.Name) {
		return
	}
	if asker.Task == s.config.Self {
		s.settle(asker.Name, content{}, err)
		return
	}
	m := &wire.Mail{To: asker.Name, What: &wire.Mail_Content{Content: &wire.Content{}}}
	if err != nil {
		m.What = &wire.Mail_Failure{Failure: failure(err)}
	}
	s.errand(asker.Task, func(ctx context.Context) {
		if err := s.mail(ctx, asker.Task, m); err != nil {
			s.log.Debug("an answer was lost", "task", asker.Task, "error", err) // with the link, which ends the request too
		}
	})
}

// Send sends a message to an actor, from another one or from nobody. It waits, until ctx ends, while too
// much waits for the actor or is to be sent to its task.
func (s *Cast) Send(ctx context.Context, from, to Ref, message proto.Message) error {
	return s.send(ctx, from, to, message, true)
}

// TrySend is Send that does not wait for room: RESOURCE_EXHAUSTED.
func (s *Cast) TrySend(ctx context.Context, from, to Ref, message proto.Message) error {
	return s.send(ctx, from, to, message, false)
}

func (s *Cast) send(ctx context.Context, from, to Ref, message proto.Message, wait bool) error {
	to, err := s.resolve(to)
	if err != nil {
		return err
	}
	size, err := measure(message)
	if err != nil {
		return err
	}
	answers := isAsk(to.Name)
	if answers {
		s.withdraw(to)
	}
	switch {
	case to.Task != s.config.Self:
		return s.postTo(ctx, from, to, message, size, wait)
	case answers:
		s.settle(to.Name, content{message: message}, nil)
		return nil
	}
	return s.put(ctx, to.Name, item{sender: from, content: content{message: message}, size: size}, wait)
}

// measure gives a message's encoded size, and refuses what is none or too large.
func measure(m proto.Message) (int, error) {
	if m == nil || !m.ProtoReflect().IsValid() {
		return 0, status.InvalidArgumentf("A message to an actor must not be nil")
	}
	switch m.(type) {
	case actor.SystemMessage, *actor.PoisonPill, *actor.Touch:
		return 0, status.InvalidArgumentf("A message %s belongs to the actor system, not to programs", m.ProtoReflect().Descriptor().FullName())
	}
	size := proto.Size(m)
	if size > MaxMessage {
		return 0, status.Errorf(status.ResourceExhausted, "A message %s to an actor takes %d bytes, the limit is %d: send it in parts, or as tensors through a queue",
			m.ProtoReflect().Descriptor().FullName(), size, MaxMessage)
	}
	return size, nil
}

// enclose encodes a message; nil stays none.
func enclose(m proto.Message) (*wire.Content, error) {
	if m == nil {
		return nil, nil
	}
	if _, err := measure(m); err != nil {
		return nil, err
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, status.InvalidArgumentf("A message to an actor cannot be encoded: %v", err)
	}
	return &wire.Content{Type: string(m.ProtoReflect().Descriptor().FullName()), Value: b}, nil
}

// isAsk tells whether a name is a request's, which answers go to.
func isAsk(name string) bool { return strings.HasPrefix(name, "?") }

func failure(err error) *wire.Failure {
	if err == nil {
		return nil
	}
	e := status.From(err)
	return &wire.Failure{Code: int32(e.Code), Message: e.Message}
}

func failed(f *wire.Failure) error {
	if f == nil {
		return nil
	}
	return status.New(status.Code(f.Code), f.Message)
}

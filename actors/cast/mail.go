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
	way atomic.Pointer[Way] // to the task, while its link exists

	mu      sync.Mutex // guards arrived messages: the goroutine that holds it delivers them, which keeps their order
	boot    uint64
	former  uint64 // boot of the previous process
	last    uint64
	to      string       // the actor that has items
	client  string       // that they come from
	items   queue        // messages to it that are being delivered
	waiting atomic.Int64 // bytes of messages from the task that wait for actors

	// Cast.mu guards them. Answers have couriers of their own: two tasks whose errands all wait for each other's answers would wait forever otherwise.
	errands, answers errands
}

// errands are what waits to be sent to a task, and how many goroutines send it.
type errands struct {
	waiting  []func(ctx context.Context)
	couriers int
}

// maxLane bounds the bytes from one task that wait for actors. Senders stay far below it;
// leftovers of broken links may add up.
const maxLane = MaxBytes

// post sends a message to another task.
func (s *Cast) post(ctx context.Context, task string, m *Letter, wait bool) error {
	l := s.lane(task)
	if l == nil {
		return s.unknown(task)
	}
	if m.To != Conversation && Counts(m.To) {
		m.Trace, m.Client = s.traceOf(ctx), clientOf(ctx).Name
	}
	for tries := 1; ; tries++ {
		way := l.way.Load()
		if way == nil {
			reached, err := s.config.Transport.Reach(ctx, task)
			if err != nil {
				return unsent(err)
			}
			way = &reached
			l.way.Store(way)
		}
		err := send(ctx, *way, m, wait)
		if err == nil || !(*way).Ended() {
			return unsent(err)
		}
		l.way.CompareAndSwap(way, nil)
		if tries == maxWays {
			return unsent(err)
		}
	}
}

// linked reports whether a message can be sent to the task without opening a link first.
func (l *lane) linked() bool {
	if l == nil {
		return false
	}
	way := l.way.Load()
	return way != nil && !(*way).Ended()
}

// maxWays bounds the ways that are tried for a letter. The first may have been idle or lost, and the second may be lost meanwhile.
const maxWays = 3

func send(ctx context.Context, way Way, m *Letter, wait bool) error {
	if wait {
		return way.Post(ctx, m)
	}
	return way.TryPost(ctx, m)
}

// mail sends mail between casts to another task.
func (s *Cast) mail(ctx context.Context, task string, m *wire.Mail) error {
	return s.post(ctx, task, &Letter{To: Conversation, Message: m}, true)
}

// tryMail sends mail between casts to a task, this one included, if that does not have to wait. If it reports false, nothing was sent.
func (s *Cast) tryMail(task string, m *wire.Mail) (sent bool) {
	switch {
	case task == s.config.Self:
		s.take(task, s.config.Boot, m)
		return true
	case s.lane(task).linked():
		return s.post(s.life, task, &Letter{To: Conversation, Message: m}, false) == nil // the caller tries again, and reports the error
	}
	return false
}

// Receive accepts the letters of a task's process. It does not block.
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
		if boot == l.former || boot == l.boot && m.Number <= l.last {
			s.log.Debug("mail that was overtaken was dropped", "task", task, "from", m.From, "to", m.To)
			m.drop()
			continue
		}
		if l.boot != boot {
			l.boot, l.former = boot, l.boot
		}
		l.last = m.Number
		switch {
		case m.To == Conversation:
			s.flush(l) // the mail may refer to these messages
			s.converse(task, boot, m)
		case isAsk(m.To):
			s.settle(m.To, content{kind: m.Kind, data: m.Data}, nil)
		default:
			if m.To != l.to || m.Client != l.client {
				s.flush(l)
				l.to, l.client = m.To, m.Client
			}
			sender := Ref{task, m.From}
			if m.From == "" {
				sender = Ref{}
			}
			l.items.push(&item{sender: sender, content: content{kind: m.Kind, data: m.Data}, size: len(m.Data), room: m.Room, lane: l, trace: s.known(m.Trace)})
		}
	}
	s.flush(l)
}

// drop reports to Room that a message needs no room.
func (m *Letter) drop() {
	if m.Room != nil {
		m.Room.Handled(1, len(m.Data))
	}
}

// flush delivers the messages that have been collected for an actor. The caller holds the lane's mu.
func (s *Cast) flush(l *lane) {
	if l.items.empty() {
		return
	}
	s.mu.Lock()
	p, err := s.receiverLocked(l.to, l.client)
	if err == nil {
		for i := range l.items.all {
			s.expectLocked(p, i.sender)
		}
	}
	s.mu.Unlock()
	if err == nil {
		s.launch(p)
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

// converse handles the mail of another task's cast.
func (s *Cast) converse(task string, boot uint64, m *Letter) {
	mail, err := content{kind: m.Kind, data: m.Data}.open()
	said, ok := mail.(*wire.Mail)
	if err != nil || !ok {
		s.log.Warn("malformed mail about actors from another task", "task", task, "error", err)
		return
	}
	s.take(task, boot, said)
}

// take handles mail of a cast, this task's included. It does not block.
func (s *Cast) take(task string, boot uint64, m *wire.Mail) {
	from := Ref{task, m.GetFrom()}
	if m.GetFrom() == "" {
		from = Ref{}
	}
	switch what := m.GetWhat().(type) {
	case *wire.Mail_Content: // an answer without a message
		s.settle(m.GetTo(), content{}, nil)
	case *wire.Mail_Failure:
		s.settle(m.GetTo(), content{}, outcome{failed(what.Failure), m.GetOwn(), m.GetUnbegun()})
	case *wire.Mail_Spawn:
		s.spawn(m.GetTo(), what.Spawn, from, nil)
	case *wire.Mail_End:
		p, err := s.find(m.GetTo())
		if err == nil && p.kind.name == topicKind {
			err = status.InvalidArgumentf("%s cannot be ended: it ends with the last subscriber of its topic", m.GetTo())
		}
		if err == nil {
			err = p.notify(item{end: true, sender: from})
		}
		if err != nil {
			s.answer(from, err)
		}
	case *wire.Mail_Watch:
		s.watched(m.GetTo(), from, watching{boot, what.Watch.GetId()})
	case *wire.Mail_Ended:
		s.ended(Ref{task, m.GetTo()}, what.Ended.GetWatch(), failed(what.Ended.GetFailure()))
		s.answer(from, nil)
	case *wire.Mail_Withdraw:
		s.withdraw(from)
	case *wire.Mail_Placement:
		s.placer.receive(task, boot, what.Placement)
	case *wire.Mail_Follow:
		s.topics.followed(task, what.Follow.GetId())
		s.answer(from, nil)
	case *wire.Mail_Topics:
		s.answer(from, s.topics.learn(task, what.Topics))
	case *wire.Mail_Transcode:
		s.transcoded(from, what.Transcode)
	default:
		s.answer(from, status.Unimplementedf("%s does not know the request: it is of another version", s.config.Self))
	}
}

// put enqueues a message of this task for an actor. If the queue is full, it waits until ctx ends or
// fails with RESOURCE_EXHAUSTED.
func (s *Cast) put(ctx context.Context, name string, i item, wait bool) error {
	if i.trace == nil {
		i.trace = s.traceOf(ctx)
	}
	s.mu.Lock()
	p, err := s.receiverLocked(name, clientOf(ctx).Name)
	if err == nil {
		s.expectLocked(p, i.sender)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.launch(p)
	if err := p.post(ctx, i, wait); err != nil {
		s.withdraw(i.sender)
		return err
	}
	return nil
}

// withdraw forgets a request that has been answered, or whose sender no longer waits, and reports whether it was still open.
func (s *Cast) withdraw(asker Ref) (pending bool) {
	if !isAsk(asker.Name) {
		return false
	}
	s.mu.Lock()
	h := s.asked[asker]
	if pending = h != nil; pending {
		s.forgetLocked(h)
		if c, ok := s.contexts[asker]; ok && !c.request.isAnswering() {
			s.endContextLocked(asker)
		}
	}
	r, relayed := s.relays[asker]
	delete(s.relays, asker)
	s.mu.Unlock()
	if relayed {
		s.abandon(r.name, r.task)
	}
	return pending || relayed
}

// refuse reports to the requester, or else to the log, that a message did not reach its actor.
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

// drops counts dropped messages, which are logged once a second.
type drops struct {
	mu    sync.Mutex // guards the rest: messages are dropped on the goroutines of their senders
	count int
	told  time.Time
}

// note counts one more, and returns how many to report now.
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
// not block.
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
		o := outcomeOf(err)
		m.What, m.Unbegun, m.Own = &wire.Mail_Failure{Failure: failure(o.error)}, o.unbegun, o.own
	}
	s.answerBy(asker.Task, func(ctx context.Context) error { return s.mail(ctx, asker.Task, m) })
}

// answerBy sends an answer to another task. If it cannot be sent, the task's links are broken. It does not block.
func (s *Cast) answerBy(task string, send func(ctx context.Context) error) {
	if !s.dispatch(task, func(ctx context.Context) {
		if err := send(ctx); err != nil {
			s.giveUp(ctx, task, err)
		}
	}) {
		s.giveUp(s.life, task, status.Errorf(status.ResourceExhausted, "too many answers wait to be sent"))
	}
}

// giveUp breaks the links that a task has opened, since it waits for an answer that could not be delivered: its requests and watches end
// with the links.
func (s *Cast) giveUp(ctx context.Context, task string, err error) {
	if ctx.Err() == nil { // otherwise all links end anyway
		s.log.Warn("an answer or notice that a task waits for could not be delivered", "task", task, "error", err)
		s.config.Transport.Break(task, "it could not be answered: "+status.From(err).Message)
	}
}

// Send sends a message to an actor, from another actor or without a sender. It waits, until ctx ends, while too
// many messages wait for the actor or for being sent to its task.
func (s *Cast) Send(ctx context.Context, from, to Ref, message proto.Message) error {
	return s.send(ctx, from, to, message, true)
}

// TrySend is Send that does not wait for room: RESOURCE_EXHAUSTED.
func (s *Cast) TrySend(ctx context.Context, from, to Ref, message proto.Message) error {
	return s.send(ctx, from, to, message, false)
}

func (s *Cast) send(ctx context.Context, from, to Ref, message proto.Message, wait bool) error {
	if IsVirtual(to.Task) {
		return s.sendVirtual(ctx, from, to, message, wait)
	}
	return plain(s.sendOnce(ctx, from, to, message, wait))
}

func (s *Cast) sendVirtual(ctx context.Context, from, to Ref, message proto.Message, wait bool) error {
	return s.anew(ctx, wait, func() error { return s.sendOnce(ctx, from, to, message, wait) })
}

func (s *Cast) sendOnce(ctx context.Context, from, to Ref, message proto.Message, wait bool) error {
	to, err := s.resolve(to)
	if err != nil {
		return err
	}
	size, err := measure(message)
	if err != nil {
		return err
	}
	answers := isAsk(to.Name)
	switch {
	case to.Task != s.config.Self:
		err := s.postTo(ctx, from, to, message, size, wait)
		if answers && err == nil { // otherwise it is still open, and fails with its actor
			s.withdraw(to)
		}
		return err
	case answers:
		s.withdraw(to)
		s.settle(to.Name, content{message: message}, nil)
		return nil
	}
	return s.put(ctx, to.Name, item{sender: from, content: content{message: message}, size: size}, wait)
}

// measure returns a message's encoded size. It rejects nil and oversized messages.
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
		return 0, tooLarge(string(m.ProtoReflect().Descriptor().FullName()), size)
	}
	return size, nil
}

func tooLarge(kind string, size int) error {
	return status.Errorf(status.ResourceExhausted, "A message %s to an actor takes %d bytes, the limit is %d: send it in parts, or as tensors through a queue",
		kind, size, MaxMessage)
}

// enclose encodes a message. It returns nil for nil.
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

// isAsk reports whether a name is that of a request, to which answers are sent.
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

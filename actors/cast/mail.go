package cast

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// lane is the mail to and from one other task.
type lane struct {
	turn chan struct{} // whoever has it sends: numbers must grow in the order of sending
	sent uint64

	mu   sync.Mutex // of what has arrived; whoever has it delivers, so that order is kept
	boot uint64
	last uint64

	// Of errands to the task; Cast.mu.
	errands  []func(ctx context.Context)
	couriers int
}

func newLane() *lane {
	l := &lane{turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// mail sends mail to another task.
func (s *Cast) mail(ctx context.Context, task string, m *wire.Mail) error {
	l := s.lanes[task]
	if l == nil {
		return status.InvalidArgumentf("%s is not a task of the cluster", task)
	}
	way, err := s.config.Transport.Reach(ctx, task)
	if err != nil {
		return err
	}
	select {
	case <-l.turn:
	case <-ctx.Done():
		return status.From(ctx.Err())
	}
	defer func() { l.turn <- struct{}{} }()
	l.sent++
	m.Task, m.Boot, m.Number = s.config.Self, s.config.Boot, l.sent
	return way.Post(ctx, m)
}

// inlet is where mail arrives: an address without a mailbox, so that the goroutine that reads the link
// puts it where it belongs.
type inlet struct{ cast *Cast }

var _ actor.Process = (*inlet)(nil)

// SendUserMessage takes mail in. It does not wait.
func (in *inlet) SendUserMessage(_ *actor.PID, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	mail, ok := m.(*wire.Mail)
	if !ok {
		return
	}
	s := in.cast
	l := s.lanes[mail.GetTask()]
	if l == nil {
		s.log.Warn("mail of a task that the cluster does not have was dropped", "task", mail.GetTask())
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.boot == mail.GetBoot() && mail.GetNumber() <= l.last {
		s.log.Debug("mail that was overtaken was dropped", "task", mail.GetTask(), "from", mail.GetFrom(), "to", mail.GetTo())
		return
	}
	l.boot, l.last = mail.GetBoot(), mail.GetNumber()
	s.take(mail)
}

// SendSystemMessage does nothing: an inlet is neither watched nor supervised.
func (in *inlet) SendSystemMessage(*actor.PID, any) {}

// Stop does nothing: an inlet ends with its actor system.
func (in *inlet) Stop(*actor.PID) {}

// take does what mail asks for, mail of this task included. It does not wait.
func (s *Cast) take(m *wire.Mail) {
	from := Ref{m.GetTask(), m.GetFrom()}
	if m.GetFrom() == "" {
		from = Ref{}
	}
	switch what := m.GetWhat().(type) {
	case *wire.Mail_Content:
		if isAsk(m.GetTo()) {
			s.settle(m.GetTo(), what.Content, nil)
			return
		}
		s.deliver(m.GetTo(), item{sender: from, content: what.Content, size: len(what.Content.GetValue())})
	case *wire.Mail_Failure:
		s.settle(m.GetTo(), nil, failed(what.Failure))
	case *wire.Mail_Spawn:
		s.spawn(m.GetTo(), what.Spawn, from)
	case *wire.Mail_End:
		p, err := s.find(m.GetTo())
		if err == nil {
			err = p.post(item{end: true, sender: from})
		}
		if err != nil {
			s.answer(from, nil, err)
		}
	case *wire.Mail_Watch:
		s.watched(m.GetTo(), from, what.Watch.GetId())
	case *wire.Mail_Ended:
		s.ended(Ref{m.GetTask(), m.GetTo()}, what.Ended.GetWatch(), failed(what.Ended.GetFailure()))
		s.answer(from, nil, nil)
	case *wire.Mail_Withdraw:
		s.withdraw(from)
	default:
		s.answer(from, nil, status.Unimplementedf("%s does not know the request: it is of another version", s.config.Self))
	}
}

// deliver puts a message of another task, or of nobody who waits, into an actor's queue.
func (s *Cast) deliver(name string, i item) {
	if err := s.put(name, i); err != nil {
		s.refuse(Ref{s.config.Self, name}, i.sender, err)
	}
}

// put puts a message into an actor's queue. A request is kept in mind until it is answered.
func (s *Cast) put(name string, i item) error {
	p, err := s.find(name)
	if err != nil {
		return err
	}
	if isAsk(i.sender.Name) {
		s.mu.Lock()
		if p.pending != nil {
			p.pending[i.sender], s.asked[i.sender] = struct{}{}, p
		}
		s.mu.Unlock()
	}
	if err := p.post(i); err != nil {
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
		s.answer(sender, nil, err)
		return
	}
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

// answer answers a request of this or another task, with a failure if err is not nil. It does not wait.
func (s *Cast) answer(asker Ref, content *wire.Content, err error) {
	if !isAsk(asker.Name) {
		return
	}
	if asker.Task == s.config.Self {
		s.settle(asker.Name, content, err)
		return
	}
	m := &wire.Mail{To: asker.Name, What: &wire.Mail_Content{Content: content}}
	if content == nil {
		m.What = &wire.Mail_Content{Content: &wire.Content{}}
	}
	if err != nil {
		m.What = &wire.Mail_Failure{Failure: failure(err)}
	}
	s.errand(asker.Task, func(ctx context.Context) {
		if err := s.mail(ctx, asker.Task, m); err != nil {
			s.log.Debug("an answer was lost", "task", asker.Task, "error", err) // with the link, which ends the request too
		}
	})
}

// Send sends a message to an actor, from another one or from nobody. It waits, until ctx ends, only while
// too much waits to be sent to the actor's task.
func (s *Cast) Send(ctx context.Context, from, to Ref, message proto.Message) error {
	to, err := s.resolve(to)
	if err != nil {
		return err
	}
	size, err := measure(message)
	if err != nil {
		return err
	}
	if isAsk(to.Name) {
		s.withdraw(to)
	}
	if to.Task == s.config.Self && !isAsk(to.Name) {
		return s.put(to.Name, item{sender: from, message: message, size: size})
	}
	content, err := enclose(message)
	if err != nil {
		return err
	}
	if to.Task == s.config.Self {
		s.settle(to.Name, content, nil)
		return nil
	}
	return s.mail(ctx, to.Task, &wire.Mail{From: from.Name, To: to.Name, What: &wire.Mail_Content{Content: content}})
}

// measure gives a message's encoded size, and refuses what is none or too large.
func measure(m proto.Message) (int, error) {
	if m == nil || !m.ProtoReflect().IsValid() {
		return 0, status.InvalidArgumentf("A message to an actor must not be nil")
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

// open decodes a message; none is nil.
func open(c *wire.Content) (proto.Message, error) {
	if c.GetType() == "" {
		return nil, nil
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(c.Type))
	if err != nil {
		return nil, status.InvalidArgumentf("The program does not know messages of type %q", c.Type)
	}
	m := t.New().Interface()
	if err := proto.Unmarshal(c.Value, m); err != nil {
		return nil, status.InvalidArgumentf("A message is no %s: %v", c.Type, err)
	}
	return m, nil
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

package cast

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// ask is a request that waits for its answer.
type ask struct {
	task string // the task that answers
	asking
	// tell, if set, gets the answer. It must not block. Otherwise done is closed when content and err can be read.
	tell    func(content, error)
	done    chan struct{}
	content content
	err     error
}

// settle ends the wait. It is called once, by the goroutine that removed the ask from Cast.asks.
func (a *ask) settle(c content, err error) {
	if a.tell != nil {
		a.tell(c, err)
		return
	}
	a.content, a.err = c, err
	close(a.done)
}

// Ask sends a message to an actor and waits for its answer, until ctx ends, the actor ends or its task is
// lost. A nil answer is one without a message.
func (s *Cast) Ask(ctx context.Context, to Ref, message proto.Message) (proto.Message, error) {
	ctx, end := s.beginAsk(ctx, to, func() string { return messageType(message) })
	answer, err := s.ask(ctx, to, message, true)
	end(err)
	return answer, err
}

// ask is Ask without a span. blocks says that an actor whose context ctx is handles nothing else meanwhile.
func (s *Cast) ask(ctx context.Context, to Ref, message proto.Message, blocks bool) (answer proto.Message, err error) {
	if IsVirtual(to.Task) {
		return s.askVirtual(ctx, to, message, blocks)
	}
	answer, err = s.askOnce(ctx, to, message, blocks)
	return answer, plain(err)
}

func (s *Cast) askVirtual(ctx context.Context, to Ref, message proto.Message, blocks bool) (answer proto.Message, err error) {
	err = s.anew(ctx, true, func() error {
		answer, err = s.askOnce(ctx, to, message, blocks)
		return err
	})
	return answer, plain(err)
}

func (s *Cast) askOnce(ctx context.Context, to Ref, message proto.Message, blocks bool) (proto.Message, error) {
	to, size, err := s.checkAsk(to, message)
	if err != nil {
		return nil, err
	}
	answer, err := s.await(ctx, to.Task, asking{by: handlerOf(ctx), blocks: blocks, to: to.Name, kind: messageType(message), began: time.Now()}, func(asker Ref) error {
		if to.Task == s.config.Self {
			return s.put(ctx, to.Name, item{sender: asker, content: content{message: message}, size: size}, true)
		}
		return s.postTo(ctx, asker, to, message, size, true)
	})
	if err != nil {
		return nil, err
	}
	return answer.open()
}

// checkAsk rejects invalid requests. It returns the resolved reference and the size of the message.
func (s *Cast) checkAsk(to Ref, message proto.Message) (Ref, int, error) {
	to, err := s.resolve(to)
	if err != nil {
		return to, 0, err
	}
	if err := s.checkRef(to); err != nil {
		return to, 0, err
	}
	size, err := measure(message)
	return to, size, err
}

// request sends mail that expects an answer, to this task or another one.
func (s *Cast) request(ctx context.Context, to Ref, m *wire.Mail) error {
	if Outside(to.Task) {
		return status.InvalidArgumentf("%s is outside the cluster: its actors can be sent to, asked and watched, but not spawned or ended", to.Task)
	}
	m.To = to.Name
	_, err := s.await(ctx, to.Task, asking{}, func(asker Ref) error {
		m.From = asker.Name
		if to.Task == s.config.Self {
			s.take(to.Task, s.config.Boot, m)
			return nil
		}
		return s.mail(ctx, to.Task, m)
	})
	return err
}

// await names a request, sends it, and waits for the answer.
func (s *Cast) await(ctx context.Context, task string, what asking, send func(asker Ref) error) (content, error) {
	a := &ask{task: task, asking: what, done: make(chan struct{})}
	name, err := s.register(a)
	if err != nil {
		return content{}, err
	}
	if err := send(Ref{s.config.Self, name}); err != nil {
		s.drop(name)
		return content{}, err
	}
	return s.answered(ctx, a, name)
}

// answered waits for the answer to a request that was sent.
func (s *Cast) answered(ctx context.Context, a *ask, name string) (content, error) {
	select {
	case <-a.done:
		return a.content, a.err
	case <-ctx.Done():
	}
	if !s.abandon(name, a.task) {
		<-a.done // the answer has just come
		return a.content, a.err
	}
	return content{}, status.From(ctx.Err())
}

// register names a request.
func (s *Cast) register(a *ask) (name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return "", s.stopping
	}
	return s.registerLocked(a), nil
}

func (s *Cast) registerLocked(a *ask) (name string) {
	s.nextAsk++
	name = numbered("?", s.nextAsk, 36)
	s.asks[name] = a
	return name
}

// abandon gives up a request that has been sent to a task, and makes the task forget it. It returns false if the request has been settled.
func (s *Cast) abandon(name, task string) bool {
	if !s.drop(name) {
		return false
	}
	if task == s.config.Self {
		s.withdraw(Ref{task, name})
	} else if !Outside(task) {
		s.errand(task, func(ctx context.Context) {
			if err := s.mail(ctx, task, &wire.Mail{From: name, What: &wire.Mail_Withdraw{Withdraw: &wire.Withdraw{}}}); err != nil {
				s.log.Debug("a request could not be withdrawn", "task", task, "error", err) // it ends with the link
			}
		})
	}
	return true
}

// drop withdraws an unanswered request.
func (s *Cast) drop(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asks[name] == nil {
		return false
	}
	delete(s.asks, name)
	return true
}

// settle passes an answer to its request, if that still waits.
func (s *Cast) settle(name string, c content, err error) {
	s.mu.Lock()
	a := s.asks[name]
	delete(s.asks, name)
	s.mu.Unlock()
	if a != nil {
		a.settle(c, err)
	}
}

// Uses reports whether the link to a task is needed although it is idle.
func (s *Cast) Uses(task string) bool {
	if s.topics.uses(task) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asks {
		if a.task == task {
			return true
		}
	}
	for ref := range s.watches {
		if ref.Task == task {
			return true
		}
	}
	return false
}

// down ends everything that waits for a task whose link broke.
func (s *Cast) down(task string, why error) {
	var asks []*ask
	s.mu.Lock()
	for name, a := range s.asks {
		if a.task == task {
			asks = append(asks, a)
			delete(s.asks, name)
		}
	}
	lost := map[Ref]uint64{}
	for ref, w := range s.watches {
		if ref.Task == task {
			lost[ref] = w.id
		}
	}
	for asker, h := range s.asked {
		if asker.Task == task {
			s.forgetLocked(h)
			s.endContextLocked(asker)
		}
	}
	var relays []relay
	for asker, r := range s.relays {
		if asker.Task == task {
			delete(s.relays, asker)
			relays = append(relays, r)
		}
	}
	s.mu.Unlock()
	var all []*performer
	s.each(func(p *performer) {
		if p.rare.Load() != nil { // others have no watchers
			all = append(all, p)
		}
	})
	if Outside(task) {
		s.outsidersMu.Lock()
		delete(s.outsiders, task)
		s.outsidersMu.Unlock()
	} else if l := s.lanes[task]; l != nil {
		l.way.Store(nil)
	}
	s.topics.down(task)
	for _, a := range asks {
		a.settle(content{}, why)
	}
	for _, r := range relays {
		s.abandon(r.name, r.task)
	}
	for ref, id := range lost {
		s.ended(ref, id, why)
	}
	for _, p := range all {
		r := p.rare.Load()
		p.mu.Lock()
		delete(r.watchers, task)
		for w := range r.outsiders {
			if w.Task == task {
				delete(r.outsiders, w)
			}
		}
		p.mu.Unlock()
	}
}

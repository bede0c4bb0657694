package cast

import (
	"context"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// ask is a request that waits for its answer.
type ask struct {
	task string // where the answer comes from
	done chan struct{}

	content content // readable when done is closed
	err     error
}

// settle ends the wait; it is called once, by whoever takes the ask off Cast.asks.
func (a *ask) settle(c content, err error) {
	a.content, a.err = c, err
	close(a.done)
}

// Ask sends a message to an actor and waits for its answer, until ctx ends, the actor ends or its task is
// lost. A nil answer is one without a message.
func (s *Cast) Ask(ctx context.Context, to Ref, message proto.Message) (proto.Message, error) {
	to, err := s.resolve(to)
	if err != nil {
		return nil, err
	}
	if err := s.checkRef(to); err != nil {
		return nil, err
	}
	size, err := measure(message)
	if err != nil {
		return nil, err
	}
	answer, err := s.await(ctx, to.Task, func(asker Ref) error {
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

// request sends mail that is answered, to this task or another one.
func (s *Cast) request(ctx context.Context, to Ref, m *wire.Mail) error {
	if Outside(to.Task) {
		return status.InvalidArgumentf("%s is outside the cluster: its actors can be sent to, asked and watched, but not spawned or ended", to.Task)
	}
	m.To = to.Name
	_, err := s.await(ctx, to.Task, func(asker Ref) error {
		m.From = asker.Name
		if to.Task == s.config.Self {
			s.take(to.Task, m)
			return nil
		}
		return s.mail(ctx, to.Task, m)
	})
	return err
}

// await gives a request a name, sends it, and waits for the answer.
func (s *Cast) await(ctx context.Context, task string, send func(asker Ref) error) (content, error) {
	a := &ask{task: task, done: make(chan struct{})}
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return content{}, s.stopping()
	}
	s.nextAsk++
	name := "?" + strconv.FormatUint(s.nextAsk, 36)
	s.asks[name] = a
	s.mu.Unlock()
	if err := send(Ref{s.config.Self, name}); err != nil {
		s.drop(name)
		return content{}, err
	}
	select {
	case <-a.done:
		return a.content, a.err
	case <-ctx.Done():
	}
	if !s.drop(name) {
		<-a.done // the answer has just come
		return a.content, a.err
	}
	asker := Ref{s.config.Self, name}
	if task == s.config.Self {
		s.withdraw(asker)
	} else if !Outside(task) {
		s.errand(task, func(ctx context.Context) {
			if err := s.mail(ctx, task, &wire.Mail{From: name, What: &wire.Mail_Withdraw{Withdraw: &wire.Withdraw{}}}); err != nil {
				s.log.Debug("a request could not be withdrawn", "task", task, "error", err) // it ends with the link
			}
		})
	}
	return content{}, status.From(ctx.Err())
}

// drop takes a request back that nobody has answered.
func (s *Cast) drop(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asks[name] == nil {
		return false
	}
	delete(s.asks, name)
	return true
}

// settle gives a request its answer, if it still waits.
func (s *Cast) settle(name string, c content, err error) {
	s.mu.Lock()
	a := s.asks[name]
	delete(s.asks, name)
	s.mu.Unlock()
	if a != nil {
		a.settle(c, err)
	}
}

// Uses tells whether the link to a task is needed though nothing passes over it.
func (s *Cast) Uses(task string) bool {
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

// down ends what waits for a task whose link broke.
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
	for asker, p := range s.asked {
		if asker.Task == task {
			delete(s.asked, asker)
			delete(p.pending, asker)
		}
	}
	all := make([]*performer, 0, len(s.actors))
	for _, p := range s.actors {
		all = append(all, p)
	}
	s.mu.Unlock()
	if Outside(task) {
		s.outsidersMu.Lock()
		delete(s.outsiders, task)
		s.outsidersMu.Unlock()
	} else if l := s.lanes[task]; l != nil {
		l.way.Store(nil)
	}
	for _, a := range asks {
		a.settle(content{}, why)
	}
	for ref, id := range lost {
		s.ended(ref, id, why)
	}
	for _, p := range all {
		p.mu.Lock()
		delete(p.watchers, task)
		for w := range p.outsiders {
			if w.Task == task {
				delete(p.outsiders, w)
			}
		}
		p.mu.Unlock()
	}
}

package cast

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

const (
	// announceTries is how often an end is sent to a task that does not acknowledge it, and announceTime
	// how long it has each time.
	announceTries = 5
	announceTime  = 3 * time.Second
)

// watch holds this task's watchers of an actor.
type watch struct {
	id   uint64
	told map[*watcher]struct{}
	sent chan struct{} // closed when the watch is in flight to the actor's task, or cannot be sent
	set  chan struct{} // closed when the actor's task has accepted or rejected the watch
}

type watcher struct{ tell func(Ended) }

// Watch calls tell once when an actor ends, or at once if the actor does not exist or its task is out of reach. tell
// must not block. set is closed when the actor's task knows the watch. cancel removes the watch, but does not
// wait for a call in progress.
func (s *Cast) Watch(ref Ref, tell func(Ended)) (set <-chan struct{}, cancel func(), err error) {
	w, cancel, err := s.watch(ref, tell)
	if err != nil {
		return nil, nil, err
	}
	return w.set, cancel, nil
}

// watch is Watch. It returns this task's watch of the actor, and does not wait for a link to the actor's task.
func (s *Cast) watch(ref Ref, tell func(Ended)) (w *watch, cancel func(), err error) {
	if IsVirtual(ref.Task) {
		return nil, nil, status.InvalidArgumentf("The virtual actor %s of %s cannot be watched: it ends when it is idle, and begins again with its next message", ref.Name, ref.Task)
	}
	if ref, err = s.resolve(ref); err != nil {
		return nil, nil, err
	}
	if err := s.checkRef(ref); err != nil {
		return nil, nil, err
	}
	me, begin := &watcher{tell}, func() {}
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return nil, nil, s.stopping
	}
	w = s.watches[ref]
	if w == nil {
		s.nextID++
		w = &watch{id: s.nextID, told: map[*watcher]struct{}{}, sent: make(chan struct{}), set: make(chan struct{})}
		s.watches[ref] = w
		begin = s.beginWatchLocked(ref, w)
	}
	w.told[me] = struct{}{}
	s.mu.Unlock()
	begin()
	return w, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(w.told, me)
		if len(w.told) == 0 && s.watches[ref] == w {
			delete(s.watches, ref) // later messages about it find no watch
		}
	}, nil
}

// beginWatchLocked makes an errand of a watch: later errands to the task find it sent, or being sent. The caller calls begin at once when it has
// released mu, which sends the watch if that does not have to wait: it then comes before what the caller sends to the task later.
func (s *Cast) beginWatchLocked(ref Ref, w *watch) (begin func()) {
	var a *ask // none outside: an actor there reports its end, and nothing before
	m := &wire.Mail{To: ref.Name, What: &wire.Mail_Watch{Watch: &wire.Watch{Id: w.id}}}
	if !Outside(ref.Task) {
		a = &ask{task: ref.Task, done: make(chan struct{})}
		m.From = s.registerLocked(a)
	}
	begun := make(chan bool, 1) // whether it was sent at once
	under := s.errandLocked(ref.Task, func(ctx context.Context) {
		defer close(w.set)
		var err error
		if !<-begun {
			if a == nil {
				err = s.watchOutside(ctx, ref, w.id)
			} else if err = s.mail(ctx, ref.Task, m); err != nil {
				s.drop(m.GetFrom())
			}
			close(w.sent)
		}
		if err == nil && a != nil {
			_, err = s.answered(ctx, a, m.GetFrom())
		}
		if err != nil {
			s.ended(ref, w.id, err)
		}
	})
	if !under {
		return func() {
			s.drop(m.GetFrom())
			close(w.sent)
			close(w.set)
			s.ended(ref, w.id, queueFull(ref.Task))
		}
	}
	return func() {
		sent := a != nil && s.tryMail(ref.Task, m)
		if sent {
			close(w.sent)
		}
		begun <- sent
	}
}

// watching is another task's watch of an actor of this one. A task has one watch of an actor at a time, and numbers its watches in order, but
// they may arrive out of order.
type watching struct{ boot, id uint64 }

// watched makes a task a watcher of an actor of this one.
func (s *Cast) watched(name string, by Ref, w watching) {
	p, err := s.find(name)
	if err == nil {
		p.mu.Lock()
		r := p.needRare()
		if p.ended {
			err = status.Errorf(status.NotFound, "There is no actor %s on %s: it has ended", name, s.config.Self)
		} else if old := r.watchers[by.Task]; old.boot != w.boot || old.id < w.id {
			if r.watchers == nil {
				r.watchers = map[string]watching{}
			}
			r.watchers[by.Task] = w
		}
		p.mu.Unlock()
	}
	s.answer(by, err)
}

// ended notifies an actor's watchers.
func (s *Cast) ended(ref Ref, id uint64, why error) {
	s.mu.Lock()
	w := s.watches[ref]
	if w == nil || w.id != id {
		s.mu.Unlock()
		return
	}
	delete(s.watches, ref)
	told := w.told
	w.told = map[*watcher]struct{}{}
	s.mu.Unlock()
	for me := range told {
		me.tell(Ended{ref, why})
	}
}

// announce sends a task the end of an actor which it watches, until the task acknowledges it.
func (s *Cast) announce(task string, ref Ref, id uint64, why error) {
	if task == s.config.Self {
		s.ended(ref, id, why)
		return
	}
	tell := func(ctx context.Context) {
		m := &wire.Mail{What: &wire.Mail_Ended{Ended: &wire.Ended{Watch: id, Failure: failure(why)}}}
		err := s.insist(ctx, Ref{task, ref.Name}, m, func(error) bool { return false })
		if err != nil && ctx.Err() == nil {
			s.giveUp(ctx, task, err)
		}
	}
	if !s.errand(task, tell) {
		s.giveUp(s.life, task, status.Errorf(status.ResourceExhausted, "too many answers wait to be sent"))
	}
}

// insist sends mail until another task acknowledges it. It gives up after some tries, when ctx ends, and when over returns true for the error of a
// try.
func (s *Cast) insist(ctx context.Context, to Ref, m *wire.Mail, over func(err error) bool) (err error) {
	for range announceTries {
		try, cancel := context.WithTimeout(ctx, announceTime)
		err = s.request(try, to, &wire.Mail{What: m.GetWhat()}) // the mail of the last try may still be on its way
		cancel()
		if err == nil || ctx.Err() != nil || over(err) {
			return err
		}
		s.log.Debug("a task did not acknowledge a notification", "task", to.Task, "actor", to.Name, "error", err)
	}
	return err
}

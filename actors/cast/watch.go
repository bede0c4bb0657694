package cast

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

const (
	// announceTries is how often a task is told of an end that it does not acknowledge, and announceTime
	// how long it has each time.
	announceTries = 5
	announceTime  = 3 * time.Second
)

// watch is who of this task wants to know of an actor's end.
type watch struct {
	id   uint64
	told map[*watcher]struct{}
	set  chan struct{} // closed when the actor's task knows of it, or has refused
}

type watcher struct{ tell func(Ended) }

// Watch calls tell once when an actor ends, at once if it is not there or its task is out of reach. tell
// must not wait. set is closed when the actor's task has heard of it. cancel takes it off, but does not
// wait for a call under way.
func (s *Cast) Watch(ref Ref, tell func(Ended)) (set <-chan struct{}, cancel func(), err error) {
	if ref, err = s.resolve(ref); err != nil {
		return nil, nil, err
	}
	if err := s.checkRef(ref); err != nil {
		return nil, nil, err
	}
	me := &watcher{tell}
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return nil, nil, s.stopping()
	}
	w := s.watches[ref]
	first := w == nil
	if first {
		s.nextID++
		w = &watch{id: s.nextID, told: map[*watcher]struct{}{}, set: make(chan struct{})}
		s.watches[ref] = w
	}
	w.told[me] = struct{}{}
	id := w.id
	s.mu.Unlock()
	if first {
		under := s.errand(ref.Task, func(ctx context.Context) {
			defer close(w.set)
			var err error
			if Outside(ref.Task) {
				err = s.watchOutside(ctx, ref, id)
			} else {
				err = s.request(ctx, ref, &wire.Mail{What: &wire.Mail_Watch{Watch: &wire.Watch{Id: id}}})
			}
			if err != nil {
				s.ended(ref, id, err)
			}
		})
		if !under {
			close(w.set)
			s.ended(ref, id, status.Errorf(status.ResourceExhausted, "The send queue to %s is full", ref.Task))
		}
	}
	return w.set, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(w.told, me)
		if len(w.told) == 0 && s.watches[ref] == w {
			delete(s.watches, ref) // and what the actor's task tells of it finds nobody
		}
	}, nil
}

// watched makes a task a watcher of an actor of this one.
func (s *Cast) watched(name string, by Ref, id uint64) {
	p, err := s.find(name)
	if err == nil {
		p.mu.Lock()
		if p.ended {
			err = status.Errorf(status.NotFound, "There is no actor %s on %s: it has ended", name, s.config.Self)
		} else {
			p.watchers[by.Task] = id
		}
		p.mu.Unlock()
	}
	s.answer(by, err)
}

// ended tells those who watch an actor.
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

// announce tells a task that an actor which it watches has ended, until it has heard of it.
func (s *Cast) announce(task string, ref Ref, id uint64, why error) {
	if task == s.config.Self {
		s.ended(ref, id, why)
		return
	}
	s.errand(task, func(ctx context.Context) {
		for range announceTries {
			try, cancel := context.WithTimeout(ctx, announceTime)
			err := s.request(try, Ref{task, ref.Name}, &wire.Mail{What: &wire.Mail_Ended{Ended: &wire.Ended{Watch: id, Failure: failure(why)}}})
			cancel()
			if err == nil || ctx.Err() != nil {
				return
			}
			s.log.Debug("a task did not hear of an actor's end", "task", task, "actor", ref.Name, "error", err)
		}
	})
}

package cast

import "sync"

// TaskChange is what there is to tell of a task: its name, and what its owner makes of it.
type TaskChange struct {
	Task string
	What any
}

// hub tells who wants to know of the cluster's tasks.
type hub struct {
	mu          sync.Mutex
	subscribers map[*Subscription]struct{}
}

// Subscription is somebody who wants to know of tasks. Of each it keeps the last change that was not
// taken yet, so that who is slow misses what was meanwhile, and never what is.
type Subscription struct {
	hub     *hub
	wake    func(*Subscription)
	pending map[string]any
	order   []string
	woken   bool
}

// taskNotice tells an actor that its subscription has something.
type taskNotice struct{ subscription *Subscription }

// Subscribe calls wake, which must not wait, when there is something to take: first of all tasks that
// Config.Present knows, then of each that changes.
func (s *Cast) Subscribe(wake func(*Subscription)) *Subscription {
	sub := &Subscription{hub: &s.tasks, wake: wake, pending: map[string]any{}}
	s.tasks.mu.Lock()
	s.tasks.subscribers[sub] = struct{}{}
	s.tasks.mu.Unlock()
	if s.config.Present != nil { // after the entry: what changes in between is told twice, not never
		for _, t := range s.config.Present() {
			sub.add(t, false)
		}
	}
	return sub
}

// TaskChanged tells all who want to know.
func (s *Cast) TaskChanged(t TaskChange) {
	s.tasks.mu.Lock()
	all := make([]*Subscription, 0, len(s.tasks.subscribers))
	for sub := range s.tasks.subscribers {
		all = append(all, sub)
	}
	s.tasks.mu.Unlock()
	for _, sub := range all {
		sub.add(t, true)
	}
}

// add keeps a change; a newer one replaces what was not taken.
func (s *Subscription) add(t TaskChange, newer bool) {
	s.hub.mu.Lock()
	_, there := s.pending[t.Task]
	if !there {
		s.order = append(s.order, t.Task)
	}
	if !there || newer {
		s.pending[t.Task] = t.What
	}
	wake := !s.woken
	s.woken = true
	s.hub.mu.Unlock()
	if wake {
		s.wake(s)
	}
}

// Take gives what has changed since the last time.
func (s *Subscription) Take() []any {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	var all []any
	for _, task := range s.order {
		all = append(all, s.pending[task])
	}
	clear(s.pending)
	s.order, s.woken = nil, false
	return all
}

// Cancel ends the subscription.
func (s *Subscription) Cancel() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subscribers, s)
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.subscribers)
}

package cast

import "sync"

// TaskChange is a change of a task's status: the task's name, whether it is up, its process, and a value of the cast's owner.
type TaskChange struct {
	Task string
	Up   bool
	Boot uint64
	What any
}

// same reports whether two changes of a task say the same of it.
func (t TaskChange) same(other TaskChange) bool { return t.Up == other.Up && t.Boot == other.Boot }

// hub distributes changes of the cluster's tasks to subscribers.
type hub struct {
	watched func(bool) // called with true for the first subscriber, and with false after the last; may be nil

	mu          sync.Mutex // guards subscribers: programs subscribe on their own goroutines
	subscribers map[*Subscription]struct{}
}

// add adds a subscriber.
func (h *hub) add(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers[s] = struct{}{}
	if len(h.subscribers) == 1 && h.watched != nil {
		h.watched(true)
	}
}

// remove removes a subscriber.
func (h *hub) remove(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, there := h.subscribers[s]
	delete(h.subscribers, s)
	if there && len(h.subscribers) == 0 && h.watched != nil {
		h.watched(false)
	}
}

// Subscription is a subscriber to changes of tasks. For each task it keeps the last change that was not
// taken yet: a slow subscriber misses intermediate changes, but never the latest one.
type Subscription struct {
	hub     *hub
	wake    func(*Subscription)
	pending map[string]TaskChange
	taken   map[string]TaskChange // the last one of each task
	order   []string
	woken   bool
}

// taskNotice notifies an actor that its subscription has changes.
type taskNotice struct{ subscription *Subscription }

// Subscribe calls wake, which must not block, when there are changes to take: first for all tasks of
// Config.Present, then for each change.
func (s *Cast) Subscribe(wake func(*Subscription)) *Subscription {
	sub := &Subscription{hub: &s.tasks, wake: wake, pending: map[string]TaskChange{}, taken: map[string]TaskChange{}}
	s.tasks.add(sub)
	if s.config.Present != nil { // after subscribing, so that no change in between is missed
		for _, t := range s.config.Present() {
			sub.add(t, false)
		}
	}
	return sub
}

// TaskChanged notifies all subscribers.
func (s *Cast) TaskChanged(t TaskChange) {
	s.topics.taskChanged(t)
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

// add stores a change, which replaces an older one that was not taken.
func (s *Subscription) add(t TaskChange, newer bool) {
	s.hub.mu.Lock()
	_, there := s.pending[t.Task]
	if !there {
		s.order = append(s.order, t.Task)
	}
	if !there || newer {
		s.pending[t.Task] = t
	}
	wake := !s.woken
	s.woken = true
	s.hub.mu.Unlock()
	if wake {
		s.wake(s)
	}
}

// Take returns the changes since the last call. There may be none: a task that was down for a moment, and is up again, has not changed.
func (s *Subscription) Take() []any {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	var all []any
	for _, task := range s.order {
		t := s.pending[task]
		if last, known := s.taken[task]; known && t.same(last) {
			continue
		}
		s.taken[task] = t
		all = append(all, t.What)
	}
	clear(s.pending)
	s.order, s.woken = nil, false
	return all
}

// Cancel ends the subscription.
func (s *Subscription) Cancel() { s.hub.remove(s) }

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.subscribers)
}

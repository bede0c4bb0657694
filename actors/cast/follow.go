package cast

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// route returns the tasks with subscribers of a topic. It asks tasks that have not been asked yet, and waits until they answer or ctx ends.
func (t *topics) route(ctx context.Context, topic string) ([]string, error) {
	for {
		tasks, unknown := t.routeOrAsk(topic)
		if unknown == nil {
			return tasks, nil
		}
		select {
		case <-unknown:
		case <-ctx.Done():
			return nil, status.From(ctx.Err())
		case <-t.cast.life.Done():
			return nil, t.cast.stopping
		}
	}
}

// routeOrAsk returns the tasks with subscribers of a topic, or a channel that is closed when more is known.
func (t *topics) routeOrAsk(topic string) (tasks []string, unknown <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.published = now
	if !t.settled {
		t.settled = true
		for task := range t.up {
			f := t.following[task]
			if f == nil || !f.failed.IsZero() && now.Sub(f.failed) >= followRest {
				f = t.followLocked(task)
			}
			if !f.known {
				t.settled = false
			}
			if !f.known && f.failed.IsZero() {
				unknown = f.ready
			}
		}
		for task, looked := range t.unseen {
			f := t.following[task]
			if !looked {
				t.unseen[task] = true
				f = t.followLocked(task)
			}
			if f != nil && !f.known && f.failed.IsZero() {
				t.settled, unknown = false, f.ready
			}
		}
		if unknown != nil { // all that are unknown have been asked by now
			return nil, unknown
		}
	}
	return t.where[topic], nil
}

// followLocked asks a task for its topics. It first looks for one that was never seen.
func (t *topics) followLocked(task string) *followed {
	t.lastID++
	f := &followed{id: t.lastID, topics: map[string]struct{}{}, ready: make(chan struct{})}
	t.following[task] = f
	_, unseen := t.unseen[task]
	fail := func() {
		f.failed = time.Now()
		close(f.ready)
	}
	if !t.cast.errand(task, func(ctx context.Context) {
		try, cancel := context.WithTimeout(ctx, followTime)
		defer cancel()
		var err error
		if unseen {
			err = t.cast.config.Find(try, task)
		}
		if err == nil {
			err = t.cast.request(try, Ref{Task: task}, &wire.Mail{What: &wire.Mail_Follow{Follow: &wire.Follow{Id: f.id}}})
		}
		if err == nil {
			return // its topics follow, or its links are broken
		}
		t.cast.log.Debug("a task could not be asked for the topics that its actors subscribe to", "task", task, "error", err)
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.following[task] == f && !f.known {
			fail()
		}
	}) {
		fail()
	}
	return f
}

// learn takes a notification of a task that this one follows. The error is NOT_FOUND if it does not follow it.
func (t *topics) learn(task string, m *wire.Topics) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.following[task]
	if f == nil || f.id != m.GetFollow() || !f.failed.IsZero() {
		return status.Errorf(status.NotFound, "%s does not follow the topics of %s", t.cast.config.Self, task)
	}
	for _, topic := range m.GetAdded() {
		if _, known := f.topics[topic]; !known {
			f.topics[topic] = struct{}{}
			t.hasLocked(topic, task)
		}
	}
	for _, topic := range m.GetRemoved() {
		if _, known := f.topics[topic]; known {
			delete(f.topics, topic)
			t.hasNoLongerLocked(topic, task)
		}
	}
	if !f.known {
		f.known = true
		close(f.ready)
	}
	return nil
}

// hasLocked notes that a task has subscribers of a topic.
func (t *topics) hasLocked(topic, task string) {
	t.where[topic] = append(slices.Clip(t.where[topic]), task)
}

// hasNoLongerLocked notes that a task has no subscribers of a topic any more.
func (t *topics) hasNoLongerLocked(topic, task string) {
	t.where[topic] = slices.DeleteFunc(slices.Clone(t.where[topic]), func(other string) bool { return other == task })
	if len(t.where[topic]) == 0 {
		delete(t.where, topic)
	}
}

// forgetLocked forgets the topics of a task. If it is up, it is asked again with the next message to a topic.
func (t *topics) forgetLocked(task string) {
	t.settled = false
	f := t.following[task]
	if f == nil {
		return
	}
	delete(t.following, task)
	for topic := range f.topics {
		t.hasNoLongerLocked(topic, task)
	}
	if !f.known && f.failed.IsZero() {
		close(f.ready)
	}
}

// down is called when a link to a task has broken: it may have lost notifications.
func (t *topics) down(task string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(task)
}

// taskChanged is called when a task comes up or goes down, or is another process.
func (t *topics) taskChanged(c TaskChange) {
	if c.Task == t.cast.config.Self {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled = false
	delete(t.unseen, c.Task)
	if c.Up {
		t.up[c.Task] = true
		if f := t.following[c.Task]; f != nil && !f.failed.IsZero() {
			delete(t.following, c.Task) // what failed before it was up says nothing
		}
		return
	}
	delete(t.up, c.Task)
	t.forgetLocked(c.Task)
	if f := t.followers[c.Task]; f != nil {
		f.lost = true
		f.arrived()
	}
}

// uses reports whether the link to a task is needed, since this task follows it. A task that has not published for a while no longer does.
func (t *topics) uses(task string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.following[task] == nil {
		return false
	}
	if time.Since(t.published) < unpublished {
		return true
	}
	t.forgetLocked(task)
	return false
}

// followed makes a task a follower of this one, in place of an earlier request of it.
func (t *topics) followed(task string, id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.followers[task]; old != nil {
		old.arrived()
	}
	f := &follower{task: task, id: id, changes: map[string]bool{}, sent: newArrival()}
	for topic := range t.subscribers {
		f.changes[topic] = true
	}
	t.followers[task] = f
	t.notifyLocked(f)
}

// arrived ends the waits for the follower.
func (f *follower) arrived() {
	for _, a := range []*arrival{f.sent, f.sending} {
		if a != nil {
			a.end()
		}
	}
}

// changedLocked notifies the followers that a topic has subscribers now, or none any more.
func (t *topics) changedLocked(topic string, has bool) {
	for _, f := range t.followers {
		if f.sent == nil {
			f.sent = newArrival()
		}
		f.changes[topic] = has
		t.notifyLocked(f)
	}
}

// notifyLocked begins to notify a follower of what it does not know.
func (t *topics) notifyLocked(f *follower) {
	if f.busy {
		return
	}
	f.busy = true
	if !t.cast.errand(f.task, func(ctx context.Context) { t.notify(ctx, f) }) {
		delete(t.followers, f.task) // this task is stopping
		f.arrived()
	}
}

// notify notifies a follower until it knows everything. If that fails, its links are broken, so that it asks anew.
func (t *topics) notify(ctx context.Context, f *follower) {
	for {
		m, sending := t.next(f)
		if m == nil {
			return
		}
		err := t.sendTopics(ctx, f, m)
		sending.end()
		if err == nil {
			continue
		}
		t.mu.Lock()
		current := t.followers[f.task] == f
		if current {
			delete(t.followers, f.task)
		}
		f.arrived()
		lost := f.lost
		t.mu.Unlock()
		if current && !lost && status.CodeOf(err) != status.NotFound {
			t.cast.giveUp(ctx, f.task, err)
		}
		return
	}
}

// next returns what a follower does not know; nil if it knows everything.
func (t *topics) next(f *follower) (*wire.Topics, *arrival) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.sent == nil || t.followers[f.task] != f {
		f.busy = false
		return nil, nil
	}
	m := &wire.Topics{Follow: f.id}
	for topic, has := range f.changes {
		if has {
			m.Added = append(m.Added, topic)
		} else {
			m.Removed = append(m.Removed, topic)
		}
	}
	f.sending, f.sent = f.sent, nil
	clear(f.changes)
	return m, f.sending
}

// sendTopics sends a notification until the follower acknowledges it, or for some times.
func (t *topics) sendTopics(ctx context.Context, f *follower, m *wire.Topics) error {
	return t.cast.insist(ctx, Ref{Task: f.task}, &wire.Mail{What: &wire.Mail_Topics{Topics: m}}, func(err error) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return status.CodeOf(err) == status.NotFound || f.lost || t.followers[f.task] != f
	})
}

package cast

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
)

// A message to a topic is sent once to each task that has subscribers of it. There, an actor of the runtime, the topic's, passes it on to them, and waits
// for room in their queues. Its own queue is bounded as any actor's, so that publishers wait for slow subscribers.
//
// Each task knows the topics that its own actors subscribe to. A task that publishes follows the other tasks that are up: it asks each of them for its
// topics with its next message, and is then notified of changes. Its first message also looks for the tasks that it has not seen yet: they may be up, and
// have subscribers. Subscribe waits until the followers have acknowledged the topic. A follower forgets a task when
// a link between them breaks, and asks anew. If it cannot be notified, its links are broken, so that it does.

// Limits of topics.
const (
	// MaxTopics bounds the topics that the actors of a task subscribe to, and maxTopic the bytes of a topic's name.
	MaxTopics = 4096
	maxTopic  = 200
	// unpublished is how long a task without messages to topics goes on following others.
	unpublished = time.Minute
	// followRest is how long a task that could not be asked for its topics is not asked again, and followTime how long it has to
	// answer: with a round trip of 400 ms, links in both directions take 10 s to open.
	followRest = time.Second
	followTime = 20 * time.Second
)

// topicKind is the kind of the topics' actors, and topicPrefix begins their names.
const (
	topicKind   = "troupe.topic"
	topicPrefix = topicKind + "/"
)

// topics holds the topics that the task's actors subscribe to, and those of the tasks that it follows.
type topics struct {
	cast *Cast

	mu          sync.Mutex              // guards the rest: programs publish on their own goroutines, and a topic has to be there when Subscribe returns
	subscribers map[string]*subscribers // of this task, by topic
	followers   map[string]*follower    // by task
	up          map[string]bool         // the other tasks that are up
	unseen      map[string]bool         // the other tasks that were never seen; true: they have been looked for
	following   map[string]*followed    // by task
	where       map[string][]string     // by topic, this and the followed tasks with subscribers; the slices are not changed
	settled     bool                    // all tasks that are up have been asked
	published   time.Time               // the last message to a topic
	lastID      uint64
}

// subscription is an actor that subscribes to a topic.
type subscription struct {
	source    *source
	performer *performer
}

// subscribers are the actors of a task that subscribe to a topic, one at least.
type subscribers struct {
	members map[*source]struct{}
	// list has them in their order, and perhaps others that have left. Publishers keep it as it is: it is only appended to, or replaced.
	list []subscription
}

// remove removes a subscriber, and reports whether it was one. The list is replaced when half of it has left, so that the time does not depend on
// how many others there are.
func (s *subscribers) remove(by *source) bool {
	if _, ok := s.members[by]; !ok {
		return false
	}
	delete(s.members, by)
	if len(s.list) > 2*len(s.members) {
		left := make([]subscription, 0, len(s.members))
		for _, other := range s.list {
			if _, ok := s.members[other.source]; ok {
				left = append(left, other)
			}
		}
		s.list = left
	}
	return true
}

// followed is a task that this one follows.
type followed struct {
	id     uint64
	topics map[string]struct{}
	known  bool          // its topics are
	ready  chan struct{} // closed when they are, or when it could not be asked
	failed time.Time     // when it could not be asked
}

// follower is a task that follows this one.
type follower struct {
	task string
	id   uint64
	lost bool // it is not up: Subscribe does not wait for it
	busy bool // a goroutine notifies it
	// What it has not been notified of: topics, and whether they have subscribers. sent ends when it has acknowledged that; nil if there is nothing.
	// sending ends when it has acknowledged what has been sent.
	changes       map[string]bool
	sent, sending *arrival
}

// arrival is something that is waited for.
type arrival struct {
	context.Context
	end context.CancelFunc
}

func newArrival() *arrival {
	ctx, end := context.WithCancel(context.Background())
	return &arrival{ctx, end}
}

func newTopics(s *Cast) *topics {
	t := &topics{cast: s, subscribers: map[string]*subscribers{}, followers: map[string]*follower{}, up: map[string]bool{}, unseen: map[string]bool{},
		following: map[string]*followed{}, where: map[string][]string{}}
	for _, task := range s.config.Tasks {
		if task != s.config.Self {
			t.unseen[task] = false
		}
	}
	return t
}

// checkTopic rejects invalid names of topics.
func checkTopic(topic string) error {
	if len(topic) > maxTopic || checkName(topic) != nil {
		return status.InvalidArgumentf("%.300q is not a name of a topic: it has 1 to %d bytes, and no space, control character, ? or #", topic, maxTopic)
	}
	return nil
}

// Subscribe makes the actor receive the messages to a topic, until its life ends. It waits until all tasks that follow this one know. It does nothing
// if the actor subscribes to the topic already.
func (c *Context) Subscribe(topic string) error {
	l, t := c.life, c.Cast().topics
	if l.tied().topics[topic] != nil {
		return nil
	}
	s := &source{life: l}
	ties := l.needTies()
	if ties.topics == nil {
		ties.topics = map[string]*source{}
	}
	ties.topics[topic] = s
	l.hold(s, func() {
		delete(ties.topics, topic)
		t.unsubscribe(topic, s)
	})
	err := t.subscribe(l.ctx(), topic, subscription{s, l.performer})
	if err != nil {
		s.end()
	}
	return err
}

// Unsubscribe ends a subscription. Messages that wait for the actor already still arrive.
func (c *Context) Unsubscribe(topic string) {
	if s := c.life.tied().topics[topic]; s != nil {
		s.end()
	}
}

func (t *topics) subscribe(ctx context.Context, topic string, by subscription) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	arrivals, err := t.add(topic, by)
	if err != nil {
		return err
	}
	if _, err := t.cast.ensure(ctx, topicKind, Ref{t.cast.config.Self, topicPrefix + topic}, nil); err != nil {
		return err
	}
	for _, a := range arrivals {
		select {
		case <-a.Done():
		case <-ctx.Done():
			return status.From(ctx.Err())
		}
	}
	return nil
}

// add adds a subscriber, and returns what it has to wait for.
func (t *topics) add(topic string, by subscription) (arrivals []*arrival, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.subscribers[topic]
	switch {
	case by.source.ended.Load(): // and unsubscribe has been called
		return nil, by.performer.over()
	case all == nil && len(t.subscribers) >= MaxTopics:
		return nil, status.Errorf(status.ResourceExhausted, "The actors of %s subscribe to %d topics, which is the limit", t.cast.config.Self, MaxTopics)
	}
	isNew := all == nil
	if isNew {
		all = &subscribers{members: map[*source]struct{}{}}
		t.subscribers[topic] = all
	}
	all.members[by.source] = struct{}{}
	all.list = append(all.list, by)
	if isNew {
		t.hasLocked(topic, t.cast.config.Self)
		t.changedLocked(topic, true)
	}
	for _, f := range t.followers {
		if f.lost {
			continue
		}
		for _, a := range []*arrival{f.sent, f.sending} {
			if a != nil {
				arrivals = append(arrivals, a)
			}
		}
	}
	return arrivals, nil
}

// unsubscribe removes a subscriber. The topic's actor ends with the last one.
func (t *topics) unsubscribe(topic string, by *source) {
	if last := t.remove(topic, by); last != nil {
		last.dismiss(nil)
	}
}

// remove removes a subscriber, and returns the actor of a topic that has no others. It is marked as ending already, so that a new subscriber gets another one.
func (t *topics) remove(topic string, by *source) (last *performer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.subscribers[topic]
	if all == nil || !all.remove(by) || len(all.members) > 0 {
		return nil
	}
	delete(t.subscribers, topic)
	t.hasNoLongerLocked(topic, t.cast.config.Self)
	t.changedLocked(topic, false)
	p, err := t.cast.find(topicPrefix + topic)
	if err != nil || p.kind.name != topicKind {
		return nil // it has not begun, and will not
	}
	p.stopping.Store(true)
	return p
}

// topicOf returns the topic of an actor.
func topicOf(name string) string { return strings.TrimPrefix(name, topicPrefix) }

// kind returns the kind of a topic's actor.
func (t *topics) kind(name string) *actorKind {
	return &actorKind{topicKind, Maker{Make: func(*Context, proto.Message) (Actor, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.subscribers[topicOf(name)] == nil {
			return nil, status.Errorf(status.NotFound, "No actor of %s subscribes to the topic of %s", t.cast.config.Self, name)
		}
		return &topicActor{t}, nil
	}}}
}

// topicActor is the actor of a topic.
type topicActor struct{ topics *topics }

func (*topicActor) Receive(*Context, any) {} // messages go to pass
func (*topicActor) Close() error          { return nil }

// pass passes a message on, as it has arrived, to the subscribers of the topic, first to those with room.
func (a *topicActor) pass(p *performer, i *item) {
	t := a.topics
	if isAsk(i.sender.Name) {
		t.cast.refuse(p.ref(), i.sender, status.InvalidArgumentf("%s cannot be asked: it is of a topic", p.name))
		return
	}
	t.mu.Lock()
	var all []subscription
	if s := t.subscribers[topicOf(p.name)]; s != nil {
		all = s.list
	}
	t.mu.Unlock()
	m := item{sender: i.sender, content: i.content, size: i.size, trace: i.trace}
	var full []*performer
	for _, s := range all {
		if s.source.ended.Load() {
			continue
		}
		if err := s.performer.post(p.life.ctx(), m, false); status.CodeOf(err) == status.ResourceExhausted {
			full = append(full, s.performer)
		}
	}
	for _, s := range full {
		if err := s.post(p.life.ctx(), m, true); status.CodeOf(err) == status.ResourceExhausted { // too much waits for all actors of the task
			t.cast.refuse(s.ref(), Ref{}, err)
		}
	}
}

// Publish sends a message to a topic, from an actor or without a sender. With wait, it waits for room as Send does; otherwise tasks and subscribers without room
// do not get the message, and if there are such tasks, the error is RESOURCE_EXHAUSTED. Tasks that are lost meanwhile are no error.
func (s *Cast) Publish(ctx context.Context, from Ref, topic string, message proto.Message, wait bool) error {
	size, err := measure(message)
	if err != nil {
		return err
	}
	return s.publish(ctx, topic, wait, func(to Ref, wait bool) error {
		if to.Task == s.config.Self {
			return s.put(ctx, to.Name, item{sender: from, content: content{message: message}, size: size}, wait)
		}
		return s.postTo(ctx, from, to, message, size, wait)
	})
}

// PublishRaw is Publish of an encoded message without a sender, and waits.
func (s *Cast) PublishRaw(ctx context.Context, topic string, message Raw) error {
	c, err := message.content()
	if err != nil {
		return err
	}
	return s.publish(ctx, topic, true, func(to Ref, wait bool) error { return s.postRaw(ctx, Ref{}, to, c, wait) })
}

// publish passes the actors of a topic to post.
func (s *Cast) publish(ctx context.Context, topic string, wait bool, post func(to Ref, wait bool) error) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	tasks, err := s.topics.route(ctx, topic)
	if err != nil {
		return err
	}
	var full []string // tasks without room
	var failed error  // the first that concerns the publisher
	check := func(task string, err error) {
		switch status.CodeOf(err) {
		case status.OK:
		case status.NotFound, status.Unavailable:
			s.log.Debug("a task that is lost or has no subscribers any more did not get a message to a topic", "topic", topic, "task", task, "error", err)
		default:
			if failed == nil {
				failed = err
			}
		}
	}
	for _, task := range tasks {
		err := post(Ref{task, topicPrefix + topic}, false)
		if wait && status.CodeOf(err) == status.ResourceExhausted {
			full = append(full, task)
			continue
		}
		check(task, err)
	}
	for _, task := range full {
		check(task, post(Ref{task, topicPrefix + topic}, true))
	}
	return plain(failed)
}

// Publish sends a message to a topic from this actor.
func (c *Context) Publish(topic string, message proto.Message, wait bool) error {
	return c.Cast().Publish(c.ctx(), c.life.performer.ref(), topic, message, wait)
}

// listenerKind is the kind of the actors of Listen.
const listenerKind = "troupe.subscriber"

// listener passes the messages to a topic to the program.
type listener struct {
	receive func(ctx context.Context, message any)
	ended   func()
}

func (l *listener) Receive(c *Context, message any) { l.receive(c.ctx(), message) }

func (l *listener) Close() error {
	l.ended()
	return nil
}

// Listen subscribes the program to a topic. Messages are passed to receive one at a time, and wait meanwhile. Its context ends when stop is called and
// when the cast stops; afterwards ended is called. stop does not wait for that. It may be called after an error, too.
func (s *Cast) Listen(ctx context.Context, topic string, receive func(ctx context.Context, message any), ended func()) (stop func(), err error) {
	kind := &actorKind{listenerKind, Maker{Make: func(c *Context, _ proto.Message) (Actor, error) {
		if err := c.Subscribe(topic); err != nil {
			return nil, err
		}
		return &listener{receive, ended}, nil
	}}}
	var p *performer
	_, err = s.await(ctx, s.config.Self, asking{}, func(asker Ref) error {
		s.mu.Lock()
		if s.stopped {
			s.mu.Unlock()
			return s.stopping
		}
		s.nextID++
		p, err = s.addLocked(generated(listenerKind, s.nextID), nil, kind, asker, nil, "")
		s.mu.Unlock()
		if err == nil {
			s.start(p)
		}
		return err
	})
	if err != nil && p != nil {
		p.dismiss(nil) // if it has begun, or will
	}
	if err != nil {
		return nil, err
	}
	return func() { p.dismiss(nil) }, nil
}

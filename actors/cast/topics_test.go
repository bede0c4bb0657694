package cast

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// topical returns a network whose tasks know that all are up.
func topical(t *testing.T, tasks ...string) *network {
	n, _ := newNetwork(t, tasks...)
	for _, s := range n.casts {
		for _, task := range tasks {
			s.TaskChanged(TaskChange{Task: task, Up: true})
		}
	}
	return n
}

// subscriber spawns an actor that subscribes to a topic. It returns what the actor receives.
func subscriber(t *testing.T, s *Cast, name, topic string) *record {
	t.Helper()
	got := play(t, s, name, nil)
	tell(t, s, name, func(c *Context) {
		if err := c.Subscribe(topic); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return got
}

// loses sets the messages that cannot be sent from now on.
func (n *network) loses(which func(m proto.Message) bool) {
	synctest.Wait()
	n.lose = which
}

func publish(t *testing.T, s *Cast, topic, text string) {
	t.Helper()
	if err := s.Publish(deadline(t), Ref{}, topic, wrapperspb.String(text), true); err != nil {
		t.Errorf("%s: %v", text, err)
	}
}

// state returns what the tasks know of topics: their own, those of others, and their followers.
func (t *topics) state() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	elsewhere := 0
	for _, f := range t.following {
		elsewhere += len(f.topics)
	}
	return fmt.Sprintf("%d topics here, %d elsewhere, %d followers, follows %d", len(t.subscribers), elsewhere, len(t.followers), len(t.following))
}

func wantState(t *testing.T, s *Cast, want string) {
	t.Helper()
	synctest.Wait()
	if got := s.topics.state(); got != want {
		t.Errorf("%s: %s, want %s", s.Self(), got, want)
	}
}

// A message to a topic reaches all of its subscribers, in order, and crosses to each task once.
func TestTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a", "b", "c")
		a := n.casts["a"]
		letters := map[string]int{}
		n.pass = func(_, to string, m proto.Message, deliver func()) {
			if _, ok := m.(*wrapperspb.StringValue); ok {
				letters[to]++
			}
			deliver()
		}
		publish(t, a, "news", "before anybody subscribes")
		var all []*record
		for _, task := range []string{"a", "a", "b", "b", "b"} {
			all = append(all, subscriber(t, n.casts[task], fmt.Sprint("reader", len(all)), "news"))
		}
		other := subscriber(t, n.casts["c"], "other", "weather")
		var want []string
		for i := range 300 {
			text := fmt.Sprint(i)
			want = append(want, text)
			publish(t, a, "news", text)
		}
		for i, got := range all {
			if list := got.take(); !slices.Equal(list, want) {
				t.Errorf("reader %d has got %d messages: %.200v", i, len(list), list)
			}
		}
		equal(t, "messages", other)
		if fmt.Sprint(letters) != "map[b:300]" {
			t.Errorf("letters: %v", letters)
		}
		wantState(t, a, "1 topics here, 2 elsewhere, 0 followers, follows 2")
		wantState(t, n.casts["b"], "1 topics here, 0 elsewhere, 1 followers, follows 0")
	})
}

// A message that is published after Subscribe has returned arrives, though the publisher has asked before.
func TestSubscribeWaitsForPublishers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		publish(t, a, "news", "nobody's")
		got := play(t, b, "reader", nil)
		hold := make(chan struct{})
		synctest.Wait()
		n.pass = func(_, _ string, m proto.Message, deliver func()) {
			if mail, ok := m.(*wire.Mail); ok && mail.GetTopics() != nil {
				go func() {
					<-hold
					deliver()
				}()
				return
			}
			deliver()
		}
		returned := false
		later(t, b, "reader", func(c *Context) {
			if err := c.Subscribe("news"); err != nil {
				t.Error(err)
			}
			returned = true
		})
		synctest.Wait()
		if returned {
			t.Error("Subscribe has not waited")
		}
		close(hold)
		synctest.Wait()
		publish(t, a, "news", "first")
		equal(t, "messages", got, "first")
	})
}

// The sender of a message to a topic is the actor that published it.
func TestTopicSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		got := play(t, a, "writer", nil)
		for _, s := range []*Cast{a, b} {
			play(t, s, "reader", func(c *Context, message any) {
				if err := c.Reply(wrapperspb.String("read on " + s.Self())); err != nil {
					t.Error(err)
				}
			})
			tell(t, s, "reader", func(c *Context) {
				if err := c.Subscribe("news"); err != nil {
					t.Error(err)
				}
			})
		}
		tell(t, a, "writer", func(c *Context) {
			if err := c.Publish("news", wrapperspb.String("x"), true); err != nil {
				t.Error(err)
			}
		})
		list := got.take()
		slices.Sort(list)
		if fmt.Sprint(list) != "[read on a read on b]" {
			t.Errorf("%v", list)
		}
	})
}

// Subscribers that end, restart or unsubscribe get nothing more, and nothing is left of a topic without subscribers.
func TestSubscribersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		b.kinds["phoenix"] = &actorKind{"phoenix", Maker{Make: func(c *Context, _ proto.Message) (Actor, error) { return player{got: &record{}}, nil },
			Restart: &Restart{Most: 1, Within: time.Hour, Backoff: time.Second, MaxBackoff: time.Second}}}
		spawn(t, b, "phoenix", Ref{Name: "bird"})
		tell(t, b, "bird", func(c *Context) {
			if err := c.Subscribe("news"); err != nil {
				t.Error(err)
			}
		})
		leaver, ender, reader := subscriber(t, b, "leaver", "news"), subscriber(t, b, "ender", "news"), subscriber(t, a, "reader", "news")
		publish(t, a, "news", "1")
		synctest.Wait() // until it has been passed on
		tell(t, b, "leaver", func(c *Context) {
			if err := c.Subscribe("news"); err != nil { // again
				t.Error(err)
			}
			c.Unsubscribe("news")
			c.Unsubscribe("news")
		})
		if err := a.End(deadline(t), Ref{"b", "ender"}); err != nil {
			t.Error(err)
		}
		wantState(t, a, "1 topics here, 1 elsewhere, 0 followers, follows 1")
		tell(t, b, "bird", func(c *Context) { c.Crash(nil) })
		wantState(t, a, "1 topics here, 0 elsewhere, 0 followers, follows 1")
		publish(t, a, "news", "2")
		equal(t, "messages", leaver, "1")
		equal(t, "messages", ender, "1")
		equal(t, "messages", reader, "1", "2")
		if _, err := b.find(topicPrefix + "news"); err == nil {
			t.Error("the topic's actor is left")
		}
		tell(t, b, "leaver", func(c *Context) {
			if err := c.Subscribe("news"); err != nil { // anew
				t.Error(err)
			}
		})
		publish(t, a, "news", "3")
		equal(t, "messages", leaver, "3")
	})
}

// A subscriber that is slow makes publishers wait, and TryPublish fail.
func TestSlowSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a")
		a := n.casts["a"]
		fast, slow := subscriber(t, a, "fast", "news"), subscriber(t, a, "slow", "news")
		busy := make(chan struct{})
		later(t, a, "slow", func(*Context) { <-busy })
		sent := 0
		for ; ; sent++ {
			synctest.Wait()
			err := a.Publish(deadline(t), Ref{}, "news", wrapperspb.String(""), false)
			if status.CodeOf(err) == status.ResourceExhausted {
				break
			}
			if err != nil || sent > 4*MaxQueued {
				t.Fatal(sent, err)
			}
		}
		if sent < 2*MaxQueued { // in the queues of the topic and of the subscriber
			t.Errorf("after %d messages there is no room", sent)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Publish(ctx, Ref{}, "news", wrapperspb.String(""), true); status.CodeOf(err) != status.DeadlineExceeded {
			t.Errorf("a message without room: %v", err)
		}
		fast.take()
		published := make(chan error, 1)
		go func() { published <- a.Publish(deadline(t), Ref{}, "news", wrapperspb.String("last"), true) }()
		close(busy)
		if err := <-published; err != nil {
			t.Error(err)
		}
		if list := slow.take(); len(list) != sent+1 || list[sent] != "last" {
			t.Errorf("%d messages of %d have arrived", len(list), sent+1)
		}
	})
}

// After a link has broken, a publisher asks anew. A task that comes later is asked too, and one that cannot be asked is left out for a while.
func TestTopicsAndLostTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a", "b")
		a := n.casts["a"]
		got := subscriber(t, n.casts["b"], "reader", "news")
		publish(t, a, "news", "1")
		n.cut("a", "b")
		wantState(t, a, "0 topics here, 0 elsewhere, 0 followers, follows 0")
		publish(t, a, "news", "2")
		equal(t, "messages", got, "1", "2")
		a.TaskChanged(TaskChange{Task: "b"})
		publish(t, a, "news", "while b is not up")
		a.TaskChanged(TaskChange{Task: "b", Up: true})
		n.loses(func(m proto.Message) bool { _, mail := m.(*wire.Mail); return mail })
		publish(t, a, "news", "while b cannot be asked")
		n.loses(nil)
		publish(t, a, "news", "soon after")
		time.Sleep(followRest) // simulated
		publish(t, a, "news", "3")
		equal(t, "messages", got, "3")
		n.loses(func(m proto.Message) bool { _, text := m.(*wrapperspb.StringValue); return text })
		publish(t, a, "news", "lost") // no error
		equal(t, "messages", got)
	})
}

// A publisher that cannot be notified of a subscriber loses its links, and so asks anew. One that is not up is not waited for.
func TestPublisherThatCannotBeNotified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a", "b")
		n.broken = make(chan string, 1)
		a, b := n.casts["a"], n.casts["b"]
		publish(t, a, "news", "1")
		n.loses(func(m proto.Message) bool { mail, ok := m.(*wire.Mail); return ok && mail.GetTopics() != nil })
		got := subscriber(t, b, "reader", "news")
		if task := <-n.broken; task != "a" {
			t.Errorf("the links of %s are broken", task)
		}
		n.loses(nil)
		n.cut("a", "b")
		publish(t, a, "news", "2")
		equal(t, "messages", got, "2")

		synctest.Wait()
		n.pass = func(_, _ string, m proto.Message, deliver func()) {
			if mail, ok := m.(*wire.Mail); !ok || mail.GetTopics() == nil { // which are lost without a sign
				deliver()
			}
		}
		play(t, b, "other", nil)
		begun := time.Now()
		later(t, b, "other", func(c *Context) {
			if err := c.Subscribe("weather"); err != nil {
				t.Error(err)
			}
			if waited := time.Since(begun); waited != time.Second {
				t.Errorf("it has waited %v for a task that is not up", waited)
			}
		})
		time.Sleep(time.Second) // simulated
		b.TaskChanged(TaskChange{Task: "a"})
		synctest.Wait()
		n.cut("a", "b")
		wantState(t, b, "2 topics here, 0 elsewhere, 0 followers, follows 0")
	})
}

// A task that publishes nothing for a while no longer follows others.
func TestFollowingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		got := subscriber(t, b, "reader", "news")
		publish(t, a, "news", "1")
		time.Sleep(unpublished - 1) // simulated
		if !a.Uses("b") {
			t.Error("the link is not used")
		}
		time.Sleep(time.Nanosecond) // simulated
		if a.Uses("b") {
			t.Error("the link is used")
		}
		wantState(t, a, "0 topics here, 0 elsewhere, 0 followers, follows 0")
		subscriber(t, b, "other", "weather") // of which a does not want to know
		wantState(t, b, "2 topics here, 0 elsewhere, 0 followers, follows 0")
		publish(t, a, "news", "2")
		equal(t, "messages", got, "1", "2")
	})
}

func TestTopicsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a")
		a := n.casts["a"]
		play(t, a, "reader", nil)
		tell(t, a, "reader", func(c *Context) {
			for _, topic := range []string{"", "a b", "a?", strings.Repeat("x", maxTopic+1)} {
				for _, err := range []error{c.Subscribe(topic), c.Publish(topic, wrapperspb.String(""), true)} {
					if status.CodeOf(err) != status.InvalidArgument {
						t.Errorf("the topic %q: %v", topic, err)
					}
				}
			}
			for i := range MaxTopics {
				if err := c.Subscribe(fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Subscribe("more"); status.CodeOf(err) != status.ResourceExhausted {
				t.Error(err)
			}
			if err := c.Publish("0", wrapperspb.String(strings.Repeat("x", MaxMessage)), true); status.CodeOf(err) != status.ResourceExhausted {
				t.Error(err)
			}
		})
		if err := a.End(deadline(t), Ref{"a", topicPrefix + "0"}); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("the end of a topic's actor: %v", err)
		}
		if _, err := a.Ask(deadline(t), Ref{"a", topicPrefix + "0"}, wrapperspb.String("")); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("an ask of a topic: %v", err)
		}
		if _, err := a.Ensure(deadline(t), topicKind, Ref{"a", topicPrefix + "none"}, nil); status.CodeOf(err) != status.NotFound {
			t.Errorf("the actor of a topic without subscribers: %v", err)
		}
	})
}

// A program's subscription ends when it wants, also while it handles a message, and with the cast.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a")
		a := n.casts["a"]
		got := make(chan string)
		listen := func() (stop func(), ended chan struct{}) {
			t.Helper()
			ended = make(chan struct{})
			stop, err := a.Listen(deadline(t), "news", func(ctx context.Context, message any) {
				select {
				case got <- message.(*wrapperspb.StringValue).Value:
				case <-ctx.Done():
				}
			}, func() { close(ended) })
			if err != nil {
				t.Fatal(err)
			}
			return stop, ended
		}
		stop, ended := listen()
		publish(t, a, "news", "1")
		publish(t, a, "news", "2")
		if text := <-got; text != "1" {
			t.Errorf("got %s", text)
		}
		synctest.Wait() // until it handles the second message
		stop()
		stop()
		<-ended
		wantState(t, a, "0 topics here, 0 elsewhere, 0 followers, follows 0")
		if _, err := a.Listen(deadline(t), "a b", nil, func() {}); status.CodeOf(err) != status.InvalidArgument {
			t.Error(err)
		}
		_, ended = listen()
		if err := a.Stop(deadline(t)); err != nil {
			t.Error(err)
		}
		<-ended
		if _, err := a.Listen(deadline(t), "news", nil, func() {}); status.CodeOf(err) != status.Cancelled {
			t.Error(err)
		}
		if err := a.Publish(deadline(t), Ref{}, "news", wrapperspb.String(""), true); status.CodeOf(err) != status.Cancelled && err != nil {
			t.Error(err)
		}
	})
}

// Actors subscribe and unsubscribe while others publish. Afterwards each one gets what it subscribes to.
func TestTopicsInMotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := topical(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		var got []*record
		for i := range 4 {
			got = append(got, play(t, b, fmt.Sprint("reader", i), nil))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 2000 {
				publish(t, a, "news", "noise")
			}
		}()
		for range 50 {
			for i := range got {
				later(t, b, fmt.Sprint("reader", i), func(c *Context) {
					if err := c.Subscribe("news"); err != nil {
						t.Error(err)
					}
					if i > 0 {
						c.Unsubscribe("news")
					}
				})
			}
			later(t, b, "reader0", func(c *Context) { c.Unsubscribe("news") })
		}
		later(t, b, "reader3", func(c *Context) {
			if err := c.Subscribe("news"); err != nil {
				t.Error(err)
			}
		})
		<-done
		for _, g := range got {
			g.take()
		}
		publish(t, a, "news", "last")
		equal(t, "messages", got[0])
		equal(t, "messages", got[3], "last")
	})
}

// TestSubscribersComeAndGoInLinearTime adds many subscribers to one topic, removes them in any order, and counts the memory that is allocated: the
// list must not be copied for each of them. Publishers that have the list already see it as it was.
func TestSubscribersComeAndGoInLinearTime(t *testing.T) {
	const many, most = 100_000, 500 // bytes for each
	topics := newTopics(&Cast{})
	first := &source{}
	topics.subscribers["news"] = &subscribers{members: map[*source]struct{}{first: {}}, list: []subscription{{first, nil}}}
	lists := map[int][]subscription{}
	allocated := func(do func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / many
	}
	var all []*source
	if n := allocated(func() {
		for i := range many {
			s := &source{}
			all = append(all, s)
			if _, err := topics.add("news", subscription{s, nil}); err != nil {
				t.Fatal(err)
			}
			if i%(many/10) == 0 {
				lists[i+2] = topics.subscribers["news"].list
			}
		}
	}); n > most {
		t.Errorf("each of %d subscribers that come takes %d bytes, more than %d", many, n, most)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(many, func(i, j int) { all[i], all[j] = all[j], all[i] })
	if n := allocated(func() {
		for i, s := range all {
			for range 2 { // the second time does nothing
				if topics.remove("news", s) != nil {
					t.Fatal("the topic has ended")
				}
			}
			if left := topics.subscribers["news"]; i%(many/10) == 0 && (len(left.members) != many-i || len(left.list) > 2*len(left.members)) {
				t.Errorf("after %d have gone, %d are left, in a list of %d", i+1, len(left.members), len(left.list))
			}
		}
	}); n > most {
		t.Errorf("each of %d subscribers that go takes %d bytes, more than %d", many, n, most)
	}
	if left := topics.subscribers["news"]; len(left.list) > 2 || left.list[0].source != first {
		t.Errorf("%d are left", len(left.list))
	}
	for n, list := range lists {
		if len(list) != n || list[0].source != first {
			t.Errorf("a list of %d subscribers has %d later", n, len(list))
		}
	}
}

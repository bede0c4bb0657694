package cast

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network joins casts without links. Each letter is encoded and decoded in transit.
type network struct {
	t     *testing.T
	order sync.Mutex // letters arrive in the order in which they are numbered

	mu    sync.Mutex
	casts map[string]*Cast
	downs map[string][]func(string, error)                       // by the watching task
	pass  func(from, to string, m proto.Message, deliver func()) // nil delivers all
	sent  map[string]uint64                                      // by the sending task
	lose  func(m proto.Message) bool                             // reports whether a message cannot be sent; nil: all can
	reach func(ctx context.Context) error                        // waits for a link; nil: there is one at once
	full  func() bool                                            // reports whether there is no room for a message that must not wait; nil: there is
	// broken gets the tasks whose links are broken; nil: none are to be.
	broken chan string
}

// end is one task's end of the network.
type end struct {
	net  *network
	self string
}

func (e end) Reach(ctx context.Context, task string) (Way, error) {
	if e.net.reach != nil {
		if err := e.net.reach(ctx); err != nil {
			return nil, err
		}
	}
	return path{e, task}, nil
}

func (e end) Watch(down func(string, error)) {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	e.net.downs[e.self] = append(e.net.downs[e.self], down)
}

func (e end) Break(task, why string) {
	if e.net.broken == nil {
		e.net.t.Errorf("%s broke the links of %s: %s", e.self, task, why)
		return
	}
	e.net.broken <- task
}

type path struct {
	end
	to string
}

func (p path) Post(_ context.Context, m *Letter) error {
	data, err := proto.Marshal(m.Message)
	if err != nil {
		return err
	}
	p.net.order.Lock()
	defer p.net.order.Unlock()
	p.net.mu.Lock()
	if p.net.lose != nil && p.net.lose(m.Message) {
		p.net.mu.Unlock()
		return status.Errorf(status.Unavailable, "%s cannot be reached", p.to)
	}
	to, pass := p.net.casts[p.to], p.net.pass
	p.net.sent[p.self]++
	came := Letter{To: m.To, From: m.From, Number: p.net.sent[p.self], Kind: kindOf(m.Message), Data: data}
	p.net.mu.Unlock()
	deliver := func() { to.Receive(p.self, p.net.casts[p.self].config.Boot, []Letter{came}) }
	if pass != nil {
		pass(p.self, p.to, m.Message, deliver)
	} else {
		deliver()
	}
	return nil
}

func (p path) Ended() bool { return false }

func (p path) TryPost(ctx context.Context, m *Letter) error {
	p.net.mu.Lock()
	full := p.net.full
	p.net.mu.Unlock()
	if full != nil && full() {
		return status.Errorf(status.ResourceExhausted, "the way to %s is full", p.to)
	}
	return p.Post(ctx, m)
}

func kindOf(m proto.Message) *Kind {
	t := m.ProtoReflect().Type()
	return &Kind{Name: string(t.Descriptor().FullName()), Type: t}
}

// cut notifies both ends that the link between two tasks broke.
func (n *network) cut(a, b string) {
	for _, ends := range [][2]string{{a, b}, {b, a}} {
		for _, down := range n.downs[ends[0]] {
			down(ends[1], status.Errorf(status.Unavailable, "worker %s was lost", ends[1]))
		}
	}
}

// echo sends each message to got and answers with it; if hold is set, it keeps the message and does not answer.
type echo struct {
	got  chan<- any
	hold bool
}

func (e *echo) Receive(c *Context, message any) {
	if e.hold {
		c.Keep()
	}
	e.got <- message
	if m, ok := message.(proto.Message); ok && !e.hold && c.Sender() != (Ref{}) {
		if err := c.Reply(m); err != nil {
			panic(err)
		}
	}
}
func (e *echo) Close() error { return nil }

// sink takes messages.
type sink struct{}

func (sink) Receive(*Context, any) {}
func (sink) Close() error          { return nil }

func newNetwork(t *testing.T, tasks ...string) (*network, chan any) {
	t.Helper()
	n := &network{t: t, casts: map[string]*Cast{}, downs: map[string][]func(string, error){}, sent: map[string]uint64{}}
	got := make(chan any, 1000)
	var systems []*actor.ActorSystem
	for i, task := range tasks {
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }),
			actor.WithDeadLetterThrottleInterval(time.Millisecond))
		s := New(Config{System: system, Self: task, Tasks: tasks, Boot: uint64(i + 1), Transport: end{n, task}, Log: log,
			Kinds: map[string]Maker{
				"echo":  {Make: func(*Context, proto.Message) (Actor, error) { return &echo{got: got}, nil }},
				"stone": {Make: func(*Context, proto.Message) (Actor, error) { return &echo{got: got, hold: true}, nil }},
			}})
		n.casts[task] = s
		systems = append(systems, system)
	}
	t.Cleanup(func() {
		for _, s := range n.casts {
			if err := s.Stop(deadline(t)); err != nil {
				t.Error(err)
			}
		}
		for task, s := range n.casts {
			s.mu.Lock()
			if left := s.bytes.Load(); left != 0 || len(s.actors)+len(s.virtual)+len(s.asked)+len(s.asks)+len(s.relays)+len(s.watches) > 0 {
				t.Errorf("%s keeps %d bytes, %d actors, %d and %d requests, %d watches", task, left, len(s.actors), len(s.asked), len(s.asks), len(s.watches))
			}
			s.mu.Unlock()
			if left := len(s.topics.subscribers); left > 0 {
				t.Errorf("%s keeps %d topics", task, left)
			}
		}
		for _, system := range systems {
			system.Shutdown()
		}
	})
	return n, got
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func spawn(t *testing.T, s *Cast, kind string, ref Ref) Ref {
	t.Helper()
	ref, err := s.Spawn(deadline(t), kind, ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// A message of a type that the program does not know, or of no type, fails alone.
func TestMessagesThatMakeNoSense(t *testing.T) {
	n, _ := newNetwork(t, "a", "b")
	a := n.casts["a"]
	ref := spawn(t, a, "echo", Ref{"b", "echo"})
	b, number := n.casts["b"], uint64(1<<40)
	for _, c := range []struct {
		kind *Kind
		want string
	}{
		{&Kind{Name: "no.such.Message"}, "does not know messages of type"},
		{kindOf(&wrapperspb.StringValue{}), "is not a google.protobuf.StringValue"},
	} {
		number++
		_, err := a.await(deadline(t), ref.Task, asking{}, func(asker Ref) error {
			b.Receive("a", 1, []Letter{{To: ref.Name, From: asker.Name, Number: number, Kind: c.kind, Data: []byte{0xff}}})
			return nil
		})
		if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.kind.Name, err)
		}
	}
	n.mu.Lock()
	n.sent["a"] = number + 1
	n.mu.Unlock()
	if answer, err := a.Ask(deadline(t), ref, wrapperspb.Int64(7)); err != nil || !proto.Equal(answer, wrapperspb.Int64(7)) {
		t.Errorf("%v, %v", answer, err)
	}
	if err := a.request(deadline(t), ref, &wire.Mail{}); status.CodeOf(err) != status.Unimplemented {
		t.Errorf("a request of another version: %v", err)
	}
	for _, m := range []Letter{{To: "nobody", Kind: kindOf(&emptypb.Empty{})}, {To: Conversation, Kind: kindOf(&emptypb.Empty{})}, {To: "?1", Kind: kindOf(&emptypb.Empty{})}} {
		for _, task := range []string{"a", "c"} {
			number += 1 << 40
			m.Number = number
			b.Receive(task, 1, []Letter{m}) // dropped
		}
	}
}

// Overtaken mail is dropped: what arrives is in order.
func TestOvertakenMail(t *testing.T) {
	n, got := newNetwork(t, "a", "b")
	a := n.casts["a"]
	ref := spawn(t, a, "echo", Ref{"b", "echo"})
	var held []func()
	n.pass = func(_, _ string, _ proto.Message, deliver func()) { held = append(held, deliver) }
	for i := range 4 {
		if err := a.Send(deadline(t), Ref{}, ref, wrapperspb.Int64(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	n.mu.Lock()
	n.pass = nil
	n.mu.Unlock()
	for _, i := range []int{0, 2, 1, 2, 3} {
		held[i]()
	}
	for _, want := range []int64{0, 2, 3} {
		if m := (<-got).(*wrapperspb.Int64Value); m.Value != want {
			t.Errorf("%d came for %d", m.Value, want)
		}
	}
	if len(got) > 0 {
		t.Errorf("%d messages more", len(got))
	}
}

// All waiting callers learn of a broken link, whatever was lost with it.
func TestLostTasks(t *testing.T) {
	n, got := newNetwork(t, "a", "b")
	a, b := n.casts["a"], n.casts["b"]
	stone := spawn(t, a, "stone", Ref{"b", "stone"})
	watcher := spawn(t, a, "echo", Ref{"a", "echo"})
	p, err := a.find(watcher.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.life.context.Watch(stone, stone); err != nil {
		t.Fatal(err)
	}
	ended := make(chan Ended, 2)
	set, _, err := a.Watch(stone, func(e Ended) { ended <- e })
	if err != nil {
		t.Fatal(err)
	}
	<-set
	asked := make(chan error, 1)
	go func() {
		_, err := a.Ask(deadline(t), stone, &emptypb.Empty{})
		asked <- err
	}()
	<-got // it has the question
	if !a.Uses("b") || b.Uses("a") {
		t.Error("who waits needs the link")
	}
	n.cut("a", "b")
	if err := <-asked; status.CodeOf(err) != status.Unavailable {
		t.Errorf("the request: %v", err)
	}
	if e := <-ended; e.Ref != stone || status.CodeOf(e.Err) != status.Unavailable {
		t.Errorf("the watch: %v", e)
	}
	if e := (<-got).(Ended); e.Ref != stone || status.CodeOf(e.Err) != status.Unavailable {
		t.Errorf("the actor's watch: %v", e)
	}
	if a.Uses("b") {
		t.Error("nobody waits any more")
	}
	b.mu.Lock()
	if len(b.asked) > 0 {
		t.Error("a lost task's request is kept")
	}
	b.mu.Unlock()
	// A late notification of the old watch does not end the new one.
	if set, _, err = a.Watch(stone, func(e Ended) { ended <- e }); err != nil {
		t.Fatal(err)
	}
	<-set
	late, err := proto.Marshal(&wire.Mail{From: "?late", To: stone.Name, What: &wire.Mail_Ended{Ended: &wire.Ended{Watch: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	a.Receive("b", 2, []Letter{{To: Conversation, Number: 1 << 40, Kind: kindOf(&wire.Mail{}), Data: late}})
	select {
	case e := <-ended:
		t.Errorf("%v", e)
	default:
	}
}

// A lost notice of an end is sent again.
func TestLostNotice(t *testing.T) {
	n, _ := newNetwork(t, "a", "b")
	a := n.casts["a"]
	ref := spawn(t, a, "echo", Ref{"b", "echo"})
	ended := make(chan Ended, 1)
	set, _, err := a.Watch(ref, func(e Ended) { ended <- e })
	if err != nil {
		t.Fatal(err)
	}
	<-set
	var lost atomic.Int32
	n.mu.Lock()
	n.pass = func(_, _ string, m proto.Message, deliver func()) {
		mail, _ := m.(*wire.Mail)
		if _, ok := mail.GetWhat().(*wire.Mail_Ended); ok && lost.CompareAndSwap(0, 1) {
			return
		}
		deliver()
	}
	n.mu.Unlock()
	if err := a.End(deadline(t), ref); err != nil {
		t.Fatal(err)
	}
	if e := <-ended; e.Err != nil || e.Ref != ref || lost.Load() != 1 {
		t.Errorf("%v", e)
	}
}

// A watch that is withdrawn and set again learns of the end, though the two messages may arrive in the wrong order. So it does beside a flood of
// messages to the same task, which fills the way there again and again: what cannot be sent at once waits for a courier.
func TestWatchesThatOvertakeEachOther(t *testing.T) {
	for name, beside := range map[string]struct{ floods, rounds int }{"alone": {0, 1}, "a flood": {4, 300}} {
		t.Run(name, func(t *testing.T) {
			n, _ := newNetwork(t, "a", "b")
			a, b := n.casts["a"], n.casts["b"]
			b.kinds["sink"] = &actorKind{"sink", Maker{Make: func(*Context, proto.Message) (Actor, error) { return sink{}, nil }}}
			spawn(t, b, "sink", Ref{Name: "sink"})
			full := new(atomic.Int64) // counts what wants to be sent at once
			n.mu.Lock()
			n.full = func() bool { return beside.floods > 0 && full.Add(1)%3 != 0 }
			n.mu.Unlock()
			over, stop := context.WithCancel(t.Context())
			var floods sync.WaitGroup
			for range beside.floods {
				floods.Go(func() {
					for over.Err() == nil {
						if err := a.Send(over, Ref{}, Ref{"b", "sink"}, wrapperspb.Int64(1)); err != nil && over.Err() == nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for range beside.rounds {
				ref := spawn(t, a, "echo", Ref{Task: "b"})
				_, withdraw, err := a.Watch(ref, func(e Ended) { t.Errorf("a watch that was withdrawn: %v", e) })
				if err != nil {
					t.Fatal(err)
				}
				withdraw()
				ended := make(chan Ended, 1)
				set, _, err := a.Watch(ref, func(e Ended) { ended <- e })
				if err != nil {
					t.Fatal(err)
				}
				<-set
				p, err := b.find(ref.Name)
				if err != nil {
					t.Fatal(err)
				}
				p.mu.Lock()
				w := p.needRare().watchers["a"]
				p.mu.Unlock()
				b.watched(ref.Name, Ref{Task: "a"}, watching{w.boot, w.id - 1}) // the first message arrives once more, and last
				if err := b.End(deadline(t), ref); err != nil {
					t.Fatal(err)
				}
				select {
				case e := <-ended:
					if e.Err != nil || e.Ref != ref {
						t.Errorf("%v", e)
					}
				case <-deadline(t).Done():
					t.Fatalf("nobody hears of the end of %v", ref)
				}
			}
			stop()
			floods.Wait()
			if err := a.End(deadline(t), Ref{"b", "sink"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A task that cannot receive its answer learns that the link is broken, rather than nothing.
func TestAnswersThatCannotBeSent(t *testing.T) {
	n, _ := newNetwork(t, "a", "b")
	a := n.casts["a"]
	ref := spawn(t, a, "echo", Ref{"b", "echo"})
	n.mu.Lock()
	n.broken = make(chan string, 1)
	n.lose = func(m proto.Message) bool {
		mail, _ := m.(*wire.Mail)
		_, answers := mail.GetWhat().(*wire.Mail_Failure)
		return answers
	}
	n.mu.Unlock()
	asked := make(chan error, 1)
	go func() {
		_, err := a.Ask(context.Background(), Ref{"b", "nobody"}, &emptypb.Empty{})
		asked <- err
	}()
	if task := <-n.broken; task != "a" {
		t.Errorf("the links of %s are broken", task)
	}
	n.cut("a", "b")
	if err := <-asked; status.CodeOf(err) != status.Unavailable {
		t.Error(err)
	}
	if err := a.End(deadline(t), ref); err != nil {
		t.Error(err)
	}
}

// An abandoned request is forgotten where it waits.
func TestWithdrawnRequests(t *testing.T) {
	n, got := newNetwork(t, "a", "b")
	for _, task := range []string{"a", "b"} {
		stone := spawn(t, n.casts["a"], "stone", Ref{task, "stone"})
		ctx, cancel := context.WithCancel(context.Background())
		asked := make(chan error, 1)
		go func() {
			_, err := n.casts["a"].Ask(ctx, stone, &emptypb.Empty{})
			asked <- err
		}()
		<-got
		cancel()
		if err := <-asked; status.CodeOf(err) != status.Cancelled {
			t.Errorf("%v", err)
		}
		n.casts["a"].work.Wait()
		s := n.casts[task]
		s.mu.Lock()
		if len(s.asked) > 0 {
			t.Errorf("task %s keeps %d requests", task, len(s.asked))
		}
		s.mu.Unlock()
	}
}

// A slow subscriber learns of each task's last change and is woken once for all of them.
func TestSlowSubscribers(t *testing.T) {
	n, _ := newNetwork(t, "a")
	a := n.casts["a"]
	woken := 0
	sub := a.Subscribe(func(*Subscription) { woken++ })
	for i := range 3 {
		a.TaskChanged(TaskChange{"x", true, uint64(i), i})
		a.TaskChanged(TaskChange{"y", true, uint64(i), -i})
	}
	if got := sub.Take(); len(got) != 2 || got[0] != 2 || got[1] != -2 || woken != 1 {
		t.Errorf("%v after %d times woken", got, woken)
	}
	a.TaskChanged(TaskChange{"y", true, 7, 7})
	if got := sub.Take(); len(got) != 1 || got[0] != 7 || woken != 2 {
		t.Errorf("%v after %d times woken", got, woken)
	}
	a.TaskChanged(TaskChange{"y", false, 7, 6}) // missed
	a.TaskChanged(TaskChange{"y", true, 7, 5})
	if got := sub.Take(); len(got) != 0 || woken != 3 {
		t.Errorf("%v, though nothing has changed, after %d times woken", got, woken)
	}
	sub.Cancel()
	a.TaskChanged(TaskChange{"y", true, 8, 8})
	if got := sub.Take(); len(got) != 0 || woken != 3 {
		t.Errorf("%v after the end", got)
	}
}

// gate is an actor whose messages wait until it is open.
type gate struct{ came, open chan struct{} }

func (g gate) Receive(*Context, any) {
	g.came <- struct{}{}
	<-g.open
}
func (gate) Close() error { return nil }

// TestList: an actor is listed while it runs, with the numbers of messages that it has handled and that wait.
func TestList(t *testing.T) {
	n, _ := newNetwork(t, "a")
	a, g := n.casts["a"], gate{make(chan struct{}, 10), make(chan struct{})}
	a.kinds["gate"] = &actorKind{"gate", Maker{Make: func(*Context, proto.Message) (Actor, error) { return g, nil }}}
	before := time.Now()
	ref := spawn(t, a, "gate", Ref{"a", "g"})
	for range 3 {
		if err := a.Send(deadline(t), Ref{}, ref, &emptypb.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	<-g.came
	list := a.List()
	if len(list) != 1 || list[0].Name != "g" || list[0].Kind != "program/gate" || list[0].State != "running" || list[0].Handled != 1 ||
		list[0].Waiting != 2 || list[0].Panics != 0 || list[0].Since.Before(before) {
		t.Errorf("%+v", list)
	}
	close(g.open)
	if err := a.End(deadline(t), ref); err != nil {
		t.Fatal(err)
	}
	if list := a.List(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

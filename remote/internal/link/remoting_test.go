package link

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	actorswire "github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/tensor"
)

// withActors gives the node an actor system.
func withActors(c *Config) {
	c.System = actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond))
}

// near enables handing over of tensors between nodes, which are in one process.
func near(c *Config) { c.NoLending = false }

// talkers returns two nodes with actors, and a link that the first has opened. Their tensors are sent, unless
// they are near.
func talkers(t testing.TB, options ...option) (a, b *node, p *Peer) {
	t.Helper()
	s := testSpec(t, 2)
	options = append([]option{withActors, func(c *Config) { c.NoLending = true }}, options...)
	a, b = startNode(t, s, 0, "", options...), startNode(t, s, 1, "", options...)
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	waitAccepted(t, b.link(task0))
	return a, b, p
}

// hear spawns an actor that calls f with each user message, on the goroutine that delivers it.
func hear(t testing.TB, n *node, name string, f func(c actor.Context)) *actor.PID {
	t.Helper()
	props := actor.PropsFromFunc(func(c actor.Context) {
		switch c.Message().(type) {
		case *actor.Started, *actor.Stopping, *actor.Stopped:
			return
		}
		f(c)
	}, actor.WithDispatcher(actor.NewSynchronizedDispatcher(1<<20)))
	pid, err := n.system.Root.SpawnNamed(props, name)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func random(t testing.TB, dtype tensor.DType, shape ...int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.New(tensor.Host, dtype, shape)
	if err != nil {
		t.Fatal(err)
	}
	copy(v.Data(), randomBytes(len(v.Data())))
	return v
}

func equal(x, y *tensor.Tensor) bool {
	if x.DType() != y.DType() || !x.Shape().Equal(y.Shape()) {
		return false
	}
	if x.DType() == tensor.String {
		return slices.Equal(x.Strings(), y.Strings())
	}
	return bytes.Equal(x.Data(), y.Data())
}

// A request is sent over the link that this side opened, and the answer comes back on the same one.
func TestMessagesGoBothWaysOverOneLink(t *testing.T) {
	a, b, _ := talkers(t)
	hear(t, b, "echo", func(c actor.Context) {
		c.Respond(&wrapperspb.StringValue{Value: c.Message().(*wrapperspb.StringValue).Value + " back"})
	})
	for i := range 100 {
		got, err := a.system.Root.RequestFuture(actor.NewPID(b.self.Address, "echo"), &wrapperspb.StringValue{Value: fmt.Sprint(i)}, patience).Result()
		if err != nil || got.(*wrapperspb.StringValue).Value != fmt.Sprint(i, " back") {
			t.Fatalf("%v %v", got, err)
		}
	}
	if b.Reached(task0) != nil {
		t.Error("the answers opened a link of their own")
	}
	for _, s := range []Stats{a.Stats(), b.Stats()} {
		if s.MessagesSent != 100 || s.MessagesReceived != 100 || s.MessagesDropped != 0 || s.FramesRefused != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestRequestToNobodyIsADeadLetter(t *testing.T) {
	a, b, _ := talkers(t)
	for _, m := range []any{&wrapperspb.BoolValue{}, &actorswire.Parcel{Message: &wrapperspb.BoolValue{}, Tensors: []*tensor.Tensor{random(t, tensor.Float32, 1000)}}} {
		_, err := a.system.Root.RequestFuture(actor.NewPID(b.self.Address, "nobody"), m, patience).Result()
		if !errors.Is(err, actor.ErrDeadLetter) {
			t.Errorf("%T: %v", m, err)
		}
	}
}

// A parcel's tensors arrive unchanged, large ones without a copy between their memory and the
// socket, and their references are released.
func TestParcels(t *testing.T) {
	pool := tensor.NewPool("receiver", 0)
	a, b, _ := talkers(t, func(c *Config) {
		if c.Self.Index == 1 {
			c.Pool = pool
		}
	})
	text, err := tensor.FromStrings(tensor.Shape{2, 1}, []string{"", "élan"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *actorswire.Parcel, 1)
	hear(t, b, "ears", func(c actor.Context) { got <- c.Message().(*actorswire.Parcel) })
	for _, tensors := range [][]*tensor.Tensor{
		nil,
		{tensor.Scalar[float32](tensor.Float32, 3)},
		{random(t, tensor.Float32, 100, 7), random(t, tensor.Int64, 0, 3), text, random(t, tensor.BFloat16, 3, 2, 1)},
		{random(t, tensor.Uint8, direct-1), random(t, tensor.Uint8, direct), random(t, tensor.Uint8, 3), random(t, tensor.Float64, 500, 500), random(t, tensor.Bool, 9)},
	} {
		before, here := a.Stats(), b.Stats()
		small, all := 0, 0
		for _, v := range tensors {
			v.Retain()
			n := len(v.Data())
			if v.DType() == tensor.String {
				continue
			}
			if n < direct {
				small += n
			}
			all += n
		}
		a.system.Root.Send(actor.NewPID(b.self.Address, "ears"), &actorswire.Parcel{Message: &wrapperspb.StringValue{Value: "with"}, Tensors: slices.Clone(tensors)})
		p := wait(t, got, "the parcel")
		if p.Message.(*wrapperspb.StringValue).Value != "with" || !slices.EqualFunc(p.Tensors, tensors, equal) {
			t.Errorf("%v arrived as %v", tensors, p.Tensors)
		}
		p.Release()
		for _, v := range tensors {
			if !v.Exclusive() {
				t.Error("the transport keeps a reference")
			}
		}
		after, there := a.Stats(), b.Stats()
		if slices.Contains(tensors, text) {
			continue // its bytes are counted as they travel
		}
		if after.BytesSent-before.BytesSent != int64(all) || there.BytesReceived-here.BytesReceived != int64(all) {
			t.Errorf("%d bytes were counted as %d and %d", all, after.BytesSent-before.BytesSent, there.BytesReceived-here.BytesReceived)
		}
		if after.BytesCopied-before.BytesCopied != int64(small) || there.BytesCopied != here.BytesCopied {
			t.Errorf("%d bytes of %d were copied before they were sent, and %d after they arrived", after.BytesCopied-before.BytesCopied, all, there.BytesCopied-here.BytesCopied)
		}
	}
	if used := pool.Stats().InUse; used != 0 {
		t.Errorf("%d bytes are in use at the end", used)
	}
}

// Messages of one sender to one actor arrive in order, however many senders there are.
func TestMessagesKeepTheirOrder(t *testing.T) {
	a, b, _ := talkers(t)
	const senders, each = 8, 2000
	var mu sync.Mutex
	next := map[uint32]uint32{}
	done := make(chan struct{})
	total := 0
	hear(t, b, "ears", func(c actor.Context) {
		m := c.Message().(*actorswire.Parcel)
		v := tensor.Of[uint32](m.Tensors[0])
		mu.Lock()
		defer mu.Unlock()
		if next[v[0]] != v[1] {
			t.Errorf("sender %d: message %d came as %d", v[0], v[1], next[v[0]])
		}
		next[v[0]]++
		m.Release()
		if total++; total == senders*each {
			close(done)
		}
	})
	for s := range senders {
		go func() {
			for i := range each {
				v, err := tensor.FromSlice(tensor.Uint32, tensor.Shape{2}, []uint32{uint32(s), uint32(i)})
				if err != nil {
					t.Error(err)
				}
				a.system.Root.Send(actor.NewPID(b.self.Address, "ears"), &actorswire.Parcel{Message: &wrapperspb.BoolValue{}, Tensors: []*tensor.Tensor{v}})
			}
		}()
	}
	wait(t, done, "the last message")
}

// Two tasks whose actors flood each other while messages are being delivered, so that both
// sockets are full, do not deadlock.
func TestFloodsBothWaysDoNotDeadlock(t *testing.T) {
	a, b, _ := talkers(t)
	const rounds, each = 16, 10
	big := random(t, tensor.Uint8, 1<<20)
	defer big.Release()
	flood := func(n *node, to *node, done chan struct{}) func(c actor.Context) {
		got := 0
		return func(c actor.Context) {
			m := c.Message().(*actorswire.Parcel)
			m.Release()
			if got++; got == rounds*(1+each) {
				close(done)
			}
			if m.Message.(*wrapperspb.Int32Value).Value == 0 {
				return
			}
			// Ten large messages for each one that asks for them, from the goroutine that delivers.
			for range each {
				n.system.Root.Send(actor.NewPID(to.self.Address, "flood"), &actorswire.Parcel{Message: &wrapperspb.Int32Value{}, Tensors: []*tensor.Tensor{big.Retain()}})
			}
		}
	}
	doneA, doneB := make(chan struct{}), make(chan struct{})
	hear(t, a, "flood", flood(a, b, doneA))
	hear(t, b, "flood", flood(b, a, doneB))
	for range rounds {
		for _, n := range [][2]*node{{a, b}, {b, a}} {
			n[0].system.Root.Send(actor.NewPID(n[1].self.Address, "flood"), &actorswire.Parcel{Message: &wrapperspb.Int32Value{Value: 1}})
		}
	}
	wait(t, doneA, "the flood to a")
	wait(t, doneB, "the flood to b")
}

// A slow actor does not stop reading of the link.
func TestSlowDeliveryHoldsNobodyUp(t *testing.T) {
	a, b, p := talkers(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	hear(t, b, "slow", func(actor.Context) {
		close(begun)
		<-goOn
	})
	hear(t, b, "quick", func(c actor.Context) { c.Respond(c.Message()) })
	a.system.Root.Send(actor.NewPID(b.self.Address, "slow"), &wrapperspb.BoolValue{})
	wait(t, begun, "the slow message")
	if _, err := a.system.Root.RequestFuture(actor.NewPID(b.self.Address, "quick"), &wrapperspb.BoolValue{}, patience).Result(); err != nil {
		t.Error(err)
	}
	if p.Err() != nil {
		t.Error(p.Err())
	}
	close(goOn)
}

// A message to a task without a link opens one; what cannot be sent is a dead letter.
func TestMessagesOpenALink(t *testing.T) {
	s := testSpec(t, 2)
	a := startNode(t, s, 0, "", withActors, func(c *Config) { c.Timing.First = 2 * time.Second })
	pid := actor.NewPID(s.Tasks()[1].Address, "ears")
	v := random(t, tensor.Float32, 100)
	v.Retain()
	a.system.Root.Send(pid, &actorswire.Parcel{Message: &wrapperspb.BoolValue{}, Tensors: []*tensor.Tensor{v}})
	if !v.Exclusive() {
		t.Error("a parcel that nobody takes keeps its tensors")
	}
	v.Release()
	if _, err := a.system.Root.RequestFuture(pid, &wrapperspb.BoolValue{}, patience).Result(); !errors.Is(err, actor.ErrDeadLetter) {
		t.Errorf("a request to a task that is not there: %v", err)
	}
	b := startNode(t, s, 1, "", withActors)
	hear(t, b, "ears", func(c actor.Context) { c.Respond(wrapperspb.String(c.MessageHeader().Get("key"))) })
	for range 3 {
		answer := actor.NewFuture(a.system, patience)
		a.system.Root.Send(pid, &actor.MessageEnvelope{Message: &wrapperspb.BoolValue{}, Header: map[string]string{"key": "value"}, Sender: answer.PID()})
		if got, err := answer.Result(); err != nil || got.(*wrapperspb.StringValue).Value != "value" {
			t.Errorf("%v, %v", got, err)
		}
	}
	if _, err := a.system.Root.RequestFuture(pid, "no protocol buffer", time.Millisecond).Result(); err == nil {
		t.Error("a message that is no protocol buffer was answered")
	}
	if _, ok := a.Resolve(actor.NewPID("elsewhere:1", "x")); ok {
		t.Error("an address outside the cluster is resolved")
	}
}

// A task cannot stop or poison another one's actors, whatever it sends.
func TestNobodyStopsAnActorOfAnotherTask(t *testing.T) {
	a, b, p := talkers(t)
	heard := make(chan any, 10)
	pid := hear(t, b, "ears", func(c actor.Context) { heard <- c.Message(); c.Respond(c.Message()) })
	there := actor.NewPID(b.self.Address, "ears")
	a.system.Root.Stop(there)
	a.system.Root.Poison(there)
	if n := a.Stats().SystemRefused; n != 2 {
		t.Errorf("%d messages were refused where they were sent", n)
	}
	// The other end refuses them too.
	for _, m := range []any{&actor.Stop{}, &actor.PoisonPill{}, &actor.Touch{}} {
		o, err := encode(there, m, nil, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		p.pipe.out.post(o)
	}
	if _, err := a.system.Root.RequestFuture(there, &wrapperspb.BoolValue{}, patience).Result(); err != nil {
		t.Error(err)
	}
	if _, alive := b.system.ProcessRegistry.GetLocal(pid.Id); !alive || len(heard) != 1 || b.Stats().SystemRefused != 3 || p.Err() != nil {
		t.Errorf("%d messages arrived, %d were refused, %v", len(heard), b.Stats().SystemRefused, p.Err())
	}
}

// A watcher of an actor of another task is notified of its end, that it does not exist, and that its task
// cannot be reached.
func TestWatchingOverLinks(t *testing.T) {
	a, b, _ := talkers(t)
	ended := make(chan *actor.Terminated, 10)
	watcher, err := a.system.Root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *actor.PID:
			c.Watch(m)
		case *wrapperspb.StringValue:
			c.Unwatch(actor.NewPID(b.self.Address, m.Value))
			c.Respond(m)
		case *actor.Terminated:
			ended <- m
		}
	}), "watcher")
	if err != nil {
		t.Fatal(err)
	}
	expect := func(name string, why actor.TerminatedReason) {
		t.Helper()
		if m := wait(t, ended, "the notice"); m.Who.Id != name || m.Who.Address != b.self.Address || m.Why != why {
			t.Errorf("%v, want %s %v", m, name, why)
		}
	}
	pids := map[string]*actor.PID{}
	for _, name := range []string{"mortal", "ignored", "stays"} {
		pids[name] = hear(t, b, name, func(c actor.Context) { c.Respond(c.Message()) })
		a.system.Root.Send(watcher, actor.NewPID(b.self.Address, name))
	}
	a.system.Root.Send(watcher, actor.NewPID(b.self.Address, "nobody"))
	expect("nobody", actor.TerminatedReason_NotFound)
	if err := b.system.Root.StopFuture(pids["mortal"]).Wait(); err != nil {
		t.Fatal(err)
	}
	expect("mortal", actor.TerminatedReason_Stopped)
	if _, err := a.system.Root.RequestFuture(watcher, wrapperspb.String("ignored"), patience).Result(); err != nil {
		t.Fatal(err)
	}
	b.kill()
	expect("stays", actor.TerminatedReason_AddressTerminated)
	if len(ended) > 0 {
		t.Errorf("%v more", <-ended)
	}
}

// Other tasks can send messages only to actors that are reachable for them, and only in their own name.
func TestMisaddressedMessages(t *testing.T) {
	s := testSpec(t, 3)
	var systems [2]*actor.ActorSystem
	var nodes [2]*node
	for i := range nodes {
		systems[i] = actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond))
		nodes[i] = startNode(t, s, i, "", func(c *Config) {
			c.System, c.Reachable = systems[i], func(name string) bool { return name == "ears" }
		})
	}
	heard := make(chan string, 10)
	spawn := func(name string) {
		if _, err := systems[1].Root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) {
			if m, ok := c.Message().(*wrapperspb.StringValue); ok {
				heard <- name + " " + m.Value
			}
		}), name); err != nil {
			t.Fatal(err)
		}
	}
	spawn("ears")
	spawn("queue$1")
	if _, err := nodes[0].Ensure(within(t, patience), task1); err != nil {
		t.Fatal(err)
	}
	send := func(name, text string, sender *actor.PID) {
		systems[0].Root.RequestWithCustomSender(actor.NewPID(nodes[1].self.Address, name), wrapperspb.String(text), sender)
	}
	me := actor.NewPID(nodes[0].self.Address, "me")
	send("queue$1", "close", me)
	send("ears", "of another task", actor.NewPID(s.Tasks()[2].Address, "me"))
	send("ears", "of the receiver", actor.NewPID(nodes[1].self.Address, "me"))
	send("ears", "hello", me)
	if got := wait(t, heard, "the message"); got != "ears hello" {
		t.Errorf("heard %q", got)
	}
	if n := nodes[1].Stats().MessagesRefused; n != 3 {
		t.Errorf("%d messages were refused", n)
	}
}

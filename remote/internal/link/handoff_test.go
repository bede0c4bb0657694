package link

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	actorswire "github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
)

// takeSink keeps what is handed over, once may permits it.
type takeSink struct {
	*testSink
	taken chan handed
	may   chan struct{} // nil: always
}

func newTakeSink() *takeSink {
	return &takeSink{testSink: newTestSink(), taken: make(chan handed, 4096)}
}

func (s *takeSink) Take(step uint64, key transfer.Key, t *tensor.Tensor) {
	if s.may != nil {
		<-s.may
	}
	s.taken <- handed{step, key, t}
}

func with(sink Sink) option { return func(c *Config) { c.Sink = sink } }

// pooled returns a tensor of random bytes from a pool.
func pooled(t testing.TB, pool *tensor.Pool, n int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.New(pool, tensor.Uint8, tensor.Shape{n})
	if err != nil {
		t.Fatal(err)
	}
	copy(v.Data(), randomBytes(int(n)))
	return v
}

func hand(t testing.TB, p *Peer, step uint64, key transfer.Key, v *tensor.Tensor) {
	t.Helper()
	if taken, err := p.Hand(step, key, v); !taken || err != nil {
		t.Fatalf("the tensor was not handed over: %v", err)
	}
}

// noBytes checks that no byte of a tensor was sent over a link.
func noBytes(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		s := n.Stats()
		if s.BytesSent != 0 || s.BytesReceived != 0 || s.BytesLent != 0 || s.BytesRead != 0 || s.BytesCopied != 0 || s.BytesQueued != 0 {
			t.Errorf("%s: %+v", n.self.Task, s)
		}
	}
}

func inUse(t *testing.T, pools ...*tensor.Pool) {
	t.Helper()
	for _, p := range pools {
		if n := p.Stats().InUse; n != 0 {
			t.Errorf("%d bytes are in use at the end", n)
		}
	}
}

// A task receives from another one of its process the sender's tensor itself. It may write to the tensor
// once it has the last reference, and the memory returns to its pool.
func TestTasksOfAProcessHandTensorsOver(t *testing.T) {
	sink := newTakeSink()
	pool, theirs := tensor.NewPool("sender", 0), tensor.NewPool("receiver", 0)
	a, b, p := talkers(t, near, with(sink), func(c *Config) { c.Pool = theirs })
	key := transfer.Key{Edge: "edge", Tag: transfer.Tag{Frame: 7, Iter: 8}}
	big := pooled(t, pool, 64<<20)
	hand(t, p, 5, key, big.Retain())
	got := wait(t, sink.taken, "the tensor")
	if got.tensor != big || got.step != 5 || got.key != key {
		t.Errorf("%v of step %d came", got.key, got.step)
	}
	if got.tensor.Exclusive() {
		t.Error("the receiver may write to what the sender still reads")
	}
	big.Release()
	if !got.tensor.Exclusive() {
		t.Error("the receiver may not write to what is its alone")
	}
	got.tensor.Release()

	// Tensors of messages, in both directions.
	text, err := tensor.FromStrings(tensor.Shape{2}, []string{"", "élan"})
	if err != nil {
		t.Fatal(err)
	}
	small := []*tensor.Tensor{pooled(t, pool, 4<<10), tensor.Scalar[float32](tensor.Float32, 3), text, pooled(t, pool, 1<<20)}
	for i, nodes := range [][2]*node{{a, b}, {b, a}} {
		parcels := make(chan *actorswire.Parcel, 1)
		hear(t, nodes[1], "ears", func(c actor.Context) { parcels <- c.Message().(*actorswire.Parcel) })
		for _, v := range small {
			v.Retain()
		}
		nodes[0].system.Root.Send(actor.NewPID(nodes[1].self.Address, "ears"),
			&actorswire.Parcel{Message: &wrapperspb.StringValue{Value: "with"}, Tensors: slices.Clone(small)})
		m := wait(t, parcels, "the parcel")
		if m.Message.(*wrapperspb.StringValue).Value != "with" || !slices.Equal(m.Tensors, small) {
			t.Errorf("way %d: %v arrived", i, m)
		}
		m.Release()
	}
	for _, v := range small {
		if !v.Exclusive() {
			t.Error("the link keeps a reference")
		}
		v.Release()
	}
	noBytes(t, a, b)
	if here, there := a.Stats().TensorsHanded, b.Stats().TensorsHanded; here != 5 || there != 4 {
		t.Errorf("%d and %d tensors were handed over", here, there)
	}
	inUse(t, pool, theirs)
	if n := theirs.Stats().Allocations; n != 0 {
		t.Errorf("the receiver took memory %d times", n)
	}
}

// Updating a variable while another task reads its old value does not change that value. Without
// readers, the variable is updated in place again.
func TestVariablesAreNotChangedUnderAnotherTask(t *testing.T) {
	sink := newTakeSink()
	_, _, p := talkers(t, near, with(sink))
	pool := tensor.NewPool("variables", 0)
	v := containers.NewVariable("v", tensor.Uint8)
	first := pooled(t, pool, 1<<20)
	was := slices.Clone(first.Data())
	v.Assign(first)
	add := func(next *tensor.Tensor) error {
		for i := range next.Data() {
			next.Data()[i]++
		}
		return nil
	}
	hand(t, p, 1, transfer.Key{}, v.Read())
	got := wait(t, sink.taken, "the tensor")
	if err := v.Update(nil, pool, add); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.tensor.Data(), was) {
		t.Error("the receiver's tensor has changed")
	}
	if !got.tensor.Exclusive() {
		t.Error("the variable keeps what it does not hold any more")
	}
	got.tensor.Release()
	now := v.Read()
	memory := &now.Data()[0]
	now.Release()
	if err := v.Update(nil, pool, add); err != nil {
		t.Fatal(err)
	}
	now = v.Read()
	if memory != &now.Data()[0] || now.Data()[0] != was[0]+2 {
		t.Error("the variable was copied although nobody reads it")
	}
	now.Release()
	v.Close()
	inUse(t, pool)
}

// Without lending on either side, everything is sent over the connection.
func TestHandingOverIsAgreedOn(t *testing.T) {
	for name, off := range map[string]int{"the sender": 0, "the receiver": 1} {
		t.Run(name, func(t *testing.T) {
			a, b, p := talkers(t, with(newTakeSink()), func(c *Config) { c.NoLending = c.Self.Index == off })
			v := random(t, tensor.Uint8, 100<<10)
			if taken, err := p.Hand(1, transfer.Key{}, v); taken || err != nil {
				t.Fatal(taken, err)
			}
			parcels := make(chan *actorswire.Parcel, 1)
			for i, nodes := range [][2]*node{{a, b}, {b, a}} {
				hear(t, nodes[1], "ears", func(c actor.Context) { parcels <- c.Message().(*actorswire.Parcel) })
				nodes[0].system.Root.Send(actor.NewPID(nodes[1].self.Address, "ears"),
					&actorswire.Parcel{Message: &wrapperspb.BoolValue{}, Tensors: []*tensor.Tensor{v.Retain()}})
				m := wait(t, parcels, "the parcel")
				if m.Tensors[0] == v || !equal(m.Tensors[0], v) {
					t.Errorf("way %d: it is the sender's tensor, or another one", i)
				}
				m.Release()
			}
			v.Release()
			for _, s := range []Stats{a.Stats(), b.Stats()} {
				if s.TensorsHanded != 0 || s.BytesSent != 100<<10 || s.BytesReceived != 100<<10 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// A handle's resource is valid only in its own task: the handle is sent.
func TestHandlesAreSent(t *testing.T) {
	a, b, _ := talkers(t, near)
	parcels := make(chan *actorswire.Parcel, 1)
	hear(t, b, "ears", func(c actor.Context) { parcels <- c.Message().(*actorswire.Parcel) })
	h := tensor.FromHandle(tensor.Handle{Device: "d", Container: "c", Name: "n", Type: "t", Local: t})
	a.system.Root.Send(actor.NewPID(b.self.Address, "ears"), &actorswire.Parcel{Message: &wrapperspb.BoolValue{}, Tensors: []*tensor.Tensor{h}})
	m := wait(t, parcels, "the parcel")
	if got := m.Tensors[0].Handles()[0]; got.Local != nil || got.Name != "n" {
		t.Errorf("%+v", got)
	}
	m.Release()
}

// Handing over does not wait: the receiver's steps continue on a goroutine of the receiver. Tensors that
// wait there when the link is lost are released, and so are later ones, with an error.
func TestReceiverThatIsLostKeepsNothing(t *testing.T) {
	sink := newTakeSink()
	sink.may = make(chan struct{})
	a, b, p := talkers(t, near, with(sink))
	pool := tensor.NewPool("sender", 0)
	for i := range uint64(100) {
		hand(t, p, i, transfer.Key{}, pooled(t, pool, 100<<10))
	}
	if !p.Room(maxQueued, func() { t.Error("called although there was room") }) {
		t.Error("what was handed over takes room")
	}
	b.kill()
	wait(t, p.Done(), "the loss")
	taken, err := p.Hand(101, transfer.Key{}, pooled(t, pool, 100<<10))
	if !taken {
		t.Error("a peer that is down is asked to be sent to")
	}
	wantError(t, err, status.Unavailable, task1)
	close(sink.may)
	b.stop() // waits for the goroutine that hands over
	for len(sink.taken) > 0 {
		(<-sink.taken).tensor.Release()
	}
	noBytes(t, a, b)
	inUse(t, pool)
}

// Whichever side stops while both hand over tensors, none is leaked.
func TestEndsWhileTensorsAreHandedOver(t *testing.T) {
	for name, end := range map[string]func(a, b *node){
		"the opener stops":       func(a, _ *node) { a.stop() },
		"the other one stops":    func(_, b *node) { b.stop() },
		"the opener is lost":     func(a, _ *node) { a.kill() },
		"the other one is lost":  func(_, b *node) { b.kill() },
		"both stop at one time":  func(a, b *node) { go a.stop(); b.stop() },
		"one stops, one is lost": func(a, b *node) { go a.kill(); b.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			sink := newTakeSink()
			a, b, p := talkers(t, near, with(sink))
			pool := tensor.NewPool("all", 0)
			heard := make(chan struct{}, 1<<20)
			var work sync.WaitGroup
			over := make(chan struct{})
			work.Go(func() {
				for {
					select {
					case x := <-sink.taken:
						x.tensor.Release()
					case <-over:
						return
					}
				}
			})
			for i, nodes := range [][2]*node{{a, b}, {b, a}} {
				hear(t, nodes[1], "ears", func(c actor.Context) {
					c.Message().(*actorswire.Parcel).Release()
					heard <- struct{}{}
				})
				work.Go(func() {
					for {
						select {
						case <-over:
							return
						default:
						}
						if i == 0 {
							_, err := p.Hand(1, transfer.Key{}, pooled(t, pool, 80<<10))
							if err != nil && p.Err() == nil && status.CodeOf(err) != status.Cancelled {
								t.Error(err)
							}
						}
						nodes[0].system.Root.Send(actor.NewPID(nodes[1].self.Address, "ears"),
							&actorswire.Parcel{Message: &wrapperspb.BoolValue{}, Tensors: []*tensor.Tensor{pooled(t, pool, 20<<10)}})
					}
				})
			}
			for range 200 {
				wait(t, heard, "a message")
			}
			end(a, b)
			close(over)
			work.Wait()
			a.stop()
			b.stop()
			for len(sink.taken) > 0 {
				(<-sink.taken).tensor.Release()
			}
			inUse(t, pool)
		})
	}
}

// Each message gets its own tensors, between others that carry none.
func TestNearMessagesGetTheirTensors(t *testing.T) {
	a, b, _ := talkers(t, near)
	const all = 5000
	var heard atomic.Int32
	done := make(chan struct{})
	hear(t, b, "ears", func(c actor.Context) {
		if p, ok := c.Message().(*actorswire.Parcel); ok {
			if got, want := tensor.Of[int32](p.Tensors[0])[0], p.Message.(*wrapperspb.Int32Value).Value; got != want {
				t.Errorf("message %d has the tensor of %d", want, got)
			}
			p.Release()
		}
		if heard.Add(1) == all {
			close(done)
		}
	})
	for i := range int32(all) {
		var m any = &wrapperspb.Int32Value{Value: i}
		if i%3 > 0 {
			m = &actorswire.Parcel{Message: m.(*wrapperspb.Int32Value), Tensors: []*tensor.Tensor{tensor.Scalar(tensor.Int32, i)}}
		}
		a.system.Root.Send(actor.NewPID(b.self.Address, "ears"), m)
	}
	wait(t, done, "the last message")
	noBytes(t, a, b)
}

// A message that claims tensors that were not handed over is refused. A process that pretends to be
// this one could send such a message.
func TestClaimsOfNothingAreRefused(t *testing.T) {
	m, err := encode(actor.NewPID("there:1", "ears"), parcel(t), nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	var s localQueue
	out := newOutbound(&tape{}, &counters{}, func(func()) bool { return false })
	out.localQueue = &s
	out.post(m)
	data := out.stream.(*tape).sent[0]
	if _, err := hearLetter(data); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("from another process: %v", err)
	}
	claim := func(s *localQueue) (letter, error) {
		in := newInbound(&tape{play: [][]byte{data}}, tensor.Host, &counters{}, "there:1", "here:1")
		in.localQueue = s
		h, body, contents, err := in.next()
		if err != nil {
			t.Fatal(err)
		}
		return in.letter(h, body, contents)
	}
	if _, err := claim(&localQueue{}); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("an empty localQueue: %v", err)
	}
	if l, err := claim(&s); err != nil || len(l.message.(*actorswire.Parcel).Tensors) != 3 {
		t.Errorf("%v %v", l, err)
	}
	if _, err := claim(&s); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a second claim: %v", err)
	}
}

package link

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
)

// countSink receives everything into the same memory.
type countSink struct {
	memory []byte
	done   chan struct{}
}

func (s *countSink) Begin(_ string, _, _ uint64, _ []byte, size int) ([]byte, func(error), error) {
	return s.memory[:size], func(error) { s.done <- struct{}{} }, nil
}

func (s *countSink) Take(_ uint64, _ transfer.Key, t *tensor.Tensor) {
	t.Release()
	s.done <- struct{}{}
}

// BenchmarkPush measures the time until a tensor is in the receiver's memory: over the tests' plain TCP
// stream to a task of this process, or read from this process's memory by another one.
func BenchmarkPush(b *testing.B) {
	for _, lend := range []bool{false, true} {
		for _, n := range []int{128 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20} {
			b.Run(fmt.Sprintf("lend=%v/%dKiB", lend, n>>10), func(b *testing.B) {
				s := testSpec(b, 2)
				a := startNode(b, s, 0, "", func(c *Config) { c.NoLending = !lend })
				done := make(chan struct{}, 1024)
				release := func() { done <- struct{}{} }
				if lend {
					startPeer(b, s)
				} else {
					startNode(b, s, 1, "", func(c *Config) { c.Sink = &countSink{memory: make([]byte, n), done: done} })
					release = nil
				}
				p, err := a.Ensure(within(b, patience), task1)
				if err != nil {
					b.Fatal(err)
				}
				data := randomBytes(n)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if err := p.Push(1, nil, data, release); err != nil {
						b.Fatal(err)
					}
					<-done
				}
			})
		}
	}
}

// BenchmarkHand is the same for a tensor that is handed over within this process.
func BenchmarkHand(b *testing.B) {
	sink := &countSink{done: make(chan struct{}, 1)}
	_, _, p := talkers(b, near, func(c *Config) { c.Sink = sink })
	v := random(b, tensor.Uint8, 64<<20)
	b.ReportAllocs()
	for b.Loop() {
		if taken, err := p.Hand(1, transfer.Key{Edge: "edge"}, v.Retain()); !taken || err != nil {
			b.Fatal(taken, err)
		}
		<-sink.done
	}
}

// BenchmarkMessage measures a request and its answer between actors of two tasks.
func BenchmarkMessage(b *testing.B) {
	a, n, _ := talkers(b)
	hear(b, n, "echo", func(c actor.Context) { c.Respond(c.Message()) })
	answers := make(chan struct{}, 1)
	me := hear(b, a, "me", func(actor.Context) { answers <- struct{}{} })
	to := actor.NewPID(n.self.Address, "echo")
	m := &wrapperspb.StringValue{Value: "some text"}
	b.ReportAllocs()
	for b.Loop() {
		a.system.Root.RequestWithCustomSender(to, m, me)
		<-answers
	}
}

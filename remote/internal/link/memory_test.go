package link

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/actors/cast"
	actorswire "github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
	"github.com/troupe-run/troupe/remote/internal/freed/freedtest"
)

// sealedSize returns a size in bytes: small, or near one at which something changes.
func sealedSize() int {
	edges := []int{1 << 10, direct, 2 * direct, fewBytes, batchBytes, pieceSize}
	switch rand.IntN(4) {
	case 0:
		return edges[rand.IntN(len(edges))] + rand.IntN(81) - 60
	case 1:
		return rand.IntN(100 << 10)
	}
	return rand.IntN(600)
}

// checker checks what arrives at a node: letters, pushes.
type checker struct {
	t    *testing.T
	came atomic.Int64
	mu   sync.Mutex
	kept []cast.Letter // handled later
}

func (c *checker) check(what string, b []byte) {
	c.came.Add(1)
	if err := freedtest.Intact(b); err != nil {
		c.t.Errorf("%s: %v", what, err)
	}
}

func (c *checker) letter(what string, m *cast.Letter) {
	v := &wrapperspb.BytesValue{}
	if err := proto.Unmarshal(m.Data, v); err != nil {
		c.t.Errorf("%s of %d bytes: %v", what, len(m.Data), err)
	}
	c.check(what, v.Value)
}

func (c *checker) Receive(_ string, _ uint64, letters []cast.Letter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range letters {
		c.letter("a letter", &m)
		c.kept = append(c.kept, m)
	}
	c.handle(20)
}

// handle handles the letters but for some. mu is held.
func (c *checker) handle(but int) {
	for len(c.kept) > but {
		m := c.kept[0]
		c.kept = c.kept[1:]
		c.letter("a letter that was kept", &m)
		if m.Room != nil {
			m.Room.Handled(1, len(m.Data))
		}
	}
}

func (c *checker) ReceiveOutside(context.Context, string, []cast.Letter) {}

func (c *checker) Begin(_ string, _, _ uint64, _ []byte, size int) ([]byte, func(error), error) {
	dst := make([]byte, size)
	return dst, func(err error) {
		if err == nil {
			c.check("a push", dst)
		}
	}, nil
}

func (c *checker) Take(_ uint64, _ transfer.Key, t *tensor.Tensor) { t.Release() }

// TestLinksKeepMessagesIntact sends all kinds of messages both ways, in memory that is used again as soon as it is given back, until the link breaks.
// Under the race detector, what a link gives back is overwritten too: see package freed.
func TestLinksKeepMessagesIntact(t *testing.T) {
	for name, options := range map[string][]option{"sent": nil, "by a goroutine": {cautious}, "handed over": {near}} {
		t.Run(name, func(t *testing.T) {
			checkers := [2]*checker{{t: t}, {t: t}}
			pools := [2]*tensor.Pool{tensor.NewPool("one", 0), tensor.NewPool("other", 0)}
			a, b, p := talkers(t, append([]option{func(c *Config) {
				c.Programs, c.Sink, c.Pool = checkers[c.Self.Index], checkers[c.Self.Index], pools[c.Self.Index]
			}}, options...)...)
			q, err := b.Ensure(within(t, patience), task0)
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range []*node{a, b} {
				hear(t, n, "ears", func(c actor.Context) {
					m, is := c.Message().(*actorswire.Parcel)
					if !is {
						checkers[i].check("a message", c.Message().(*wrapperspb.BytesValue).Value)
						return
					}
					checkers[i].check("a parcel's message", m.Message.(*wrapperspb.BytesValue).Value)
					for _, v := range m.Tensors {
						checkers[i].check("a tensor", v.Data())
						v.Release()
					}
				})
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			var senders sync.WaitGroup
			for i, from := range []*node{a, b} {
				peer, to := []*Peer{p, q}[i], actor.NewPID([]*node{b, a}[i].self.Address, "ears")
				for range 2 {
					senders.Go(func() { // ends when the link breaks
						for peer.Err() == nil && ctx.Err() == nil {
							sendSealed(ctx, t, from, peer, to, pools[i], name == "handed over")
						}
					})
				}
			}
			<-ctx.Done()
			p.pipe.cut("the test is over")
			senders.Wait()
			for i, c := range checkers {
				c.mu.Lock()
				c.handle(0)
				c.mu.Unlock()
				if c.came.Load() == 0 {
					t.Errorf("node %d received nothing", i)
				}
			}
		})
	}
}

// sendSealed sends one message of a random kind. near means that large pushes would be lent: they are left out, since what stands in for the reader
// of another process's memory (ownMemory) does not notice that it is lent no more.
func sendSealed(ctx context.Context, t *testing.T, from *node, peer *Peer, to *actor.PID, pool *tensor.Pool, near bool) {
	value := func() *wrapperspb.BytesValue { return wrapperspb.Bytes(freedtest.Seal(sealedSize())) }
	switch rand.IntN(5) {
	case 0:
		from.system.Root.Send(to, value())
	case 1:
		m := &actorswire.Parcel{Message: value()}
		for range rand.IntN(4) {
			v, err := tensor.New(pool, tensor.Uint8, tensor.Shape{int64(sealedSize())})
			if err != nil {
				t.Error(err)
				return
			}
			freedtest.SealIn(v.Data())
			m.Tensors = append(m.Tensors, v)
		}
		from.system.Root.Send(to, m)
	case 2, 3:
		ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(30000))*time.Microsecond)
		defer cancel()
		// It fails if there is no room in time, or the link has broken.
		_ = peer.Post(ctx, letterTo(fmt.Sprint("actor", rand.IntN(3)), value().Value))
	case 4:
		size := sealedSize()
		if near {
			size = min(size, lendSize-1)
		}
		data := freedtest.Seal(size)
		// It fails if the link has broken.
		_ = peer.Push(rand.Uint64N(4), nil, data, func() {
			freedtest.Fill(data, []byte{0xff})
		})
	}
}

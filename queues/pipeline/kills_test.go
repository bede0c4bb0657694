package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/queues/pipeline"
	"github.com/troupe-run/troupe/troupetest"
)

// mortal is a session of a process that may be killed: from then on, no step begins, and no answer arrives.
type mortal struct {
	pipeline.Session
	life context.Context
}

func (m *mortal) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error) {
	killed := status.Errorf(status.Cancelled, "the process was killed")
	if m.life.Err() != nil {
		return nil, killed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	out, err := m.Session.Run(ctx, feeds, fetches, targets)
	if m.life.Err() != nil {
		for _, t := range out {
			t.Release()
		}
		return nil, killed
	}
	return out, err
}

// processes are a test's producers and consumers, which are killed and started again.
type processes struct {
	c     *troupetest.Cluster
	t     *testing.T
	queue *pipeline.Of[put]

	mu           sync.Mutex
	kills        []context.CancelFunc // of the process in each place
	used         map[put]int          // deliveries
	acknowledged map[put]int
	expired      int64
}

// put is an element: its producer, the producer's process, and its number. A process begins with the first number that the one before had
// not flushed, so elements whose fate it does not know are put again, and are other elements.
type put struct{ Producer, Process, Number int64 }

// run runs process until it returns true. Each time, it gets a session of its own through a worker, and a context that ends when it is
// killed.
func (p *processes) run(place int, client *troupe.Client, process func(life context.Context, s pipeline.Session) bool) {
	for done := false; !done; {
		life, kill := context.WithCancel(p.t.Context())
		p.mu.Lock()
		p.kills[place] = kill
		p.mu.Unlock()
		session := pipeline.Reconnect(func(ctx context.Context) (pipeline.OpenedSession, error) { return client.NewSession(ctx, nil, nil) })
		done = process(life, &mortal{session, life})
		kill()
		_ = session.Close(p.t.Context()) // its master may be gone
	}
}

// produce puts n elements.
func (p *processes) produce(producer, n int64) func(context.Context, pipeline.Session) bool {
	process, flushed := int64(0), int64(0)
	return func(life context.Context, session pipeline.Session) bool {
		process++
		out, err := p.queue.Producer(life, session, pipeline.ProducerOptions{Batch: 4, Retry: time.Minute})
		if err != nil {
			return p.dies(life, "a producer", err)
		}
		for number := flushed; number < n; {
			for range min(10, n-number) {
				if err := out.Put(life, put{producer, process, number}); err != nil {
					return p.dies(life, "a producer", err)
				}
				number++
			}
			if err := out.Flush(life); err != nil {
				return p.dies(life, "a producer", err)
			}
			flushed = number
			time.Sleep(50 * time.Millisecond)
		}
		if err := out.Detach(life); err != nil {
			return p.dies(life, "a producer", err)
		}
		return true
	}
}

// dies reports an error of a process that lives.
func (p *processes) dies(life context.Context, what string, err error) bool {
	if life.Err() == nil {
		p.t.Errorf("%s ends with %v", what, err)
		return true
	}
	return false
}

// consume uses elements until the queue ends.
func (p *processes) consume(random *rand.Rand) func(context.Context, pipeline.Session) bool {
	return func(life context.Context, session pipeline.Session) bool {
		options := pipeline.ConsumerOptions{Batch: 8, Prefetch: random.IntN(3), Lease: 2 * time.Second, Retry: time.Minute}
		consumer, err := p.queue.Consumer(life, session, options)
		if err != nil {
			return p.dies(life, "a consumer", err)
		}
		for batch, err := range consumer.Batches(life) {
			if status.CodeOf(err) == status.FailedPrecondition {
				return true // the others have used what was left when the process was killed
			}
			if err != nil {
				return p.dies(life, "a consumer", err)
			}
			time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
			acknowledged := batch.Acknowledge(life)
			if life.Err() == nil && acknowledged != nil && status.CodeOf(acknowledged) != status.FailedPrecondition {
				p.t.Errorf("acknowledging: %v", acknowledged)
			}
			p.mu.Lock()
			for _, v := range batch.All() {
				p.used[v]++
				if acknowledged == nil {
					p.acknowledged[v]++
				}
			}
			p.mu.Unlock()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.expired += consumer.Stats().Expired
		return life.Err() == nil
	}
}

// TestKills kills consumers, producers and masters in turn. No element may be lost, and none acknowledged twice.
func TestKills(t *testing.T) {
	kills := 200
	switch {
	case extent.RaceDetector:
		kills = 40
	case extent.Check():
		kills = 1000
	}
	synctest.Test(t, func(t *testing.T) {
		const producers, consumers = 2, 3
		random := rand.New(rand.NewPCG(1, 2))
		p := &processes{t: t, c: troupetest.Start(t, map[string]int{"ps": 1, "worker": 2}), kills: make([]context.CancelFunc, producers+consumers),
			used: map[put]int{}, acknowledged: map[put]int{}}
		p.queue = declare[put](t, pipeline.Queue{Name: "puts", Device: "/job:ps/task:0", Capacity: 64})
		session, err := p.c.Server("ps:0").NewSession(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		closer, err := p.queue.Producer(t.Context(), session, pipeline.ProducerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		elements := int64(kills) * 30
		p.c.Delay(4 * time.Millisecond) // so that kills meet steps in flight
		var produced, consumed sync.WaitGroup
		for i := range producers {
			client := p.c.Dial(fmt.Sprintf("worker:%d", i%2))
			produced.Go(func() { p.run(i, client, p.produce(int64(i), elements)) })
		}
		for i := range consumers {
			consume := p.consume(rand.New(rand.NewPCG(3, uint64(i))))
			client := p.c.Dial(fmt.Sprintf("worker:%d", i%2))
			consumed.Go(func() { p.run(producers+i, client, consume) })
		}
		for i := range kills {
			time.Sleep(time.Duration(50+random.IntN(200)) * time.Millisecond)
			victim := random.IntN(producers)
			switch i % 3 {
			case 0:
				victim = producers + random.IntN(consumers)
				fallthrough
			case 1:
				p.mu.Lock()
				p.kills[victim]()
				p.mu.Unlock()
			case 2:
				worker := fmt.Sprintf("worker:%d", random.IntN(2))
				p.c.Kill(worker)
				time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
				p.c.Restart(worker)
			}
		}
		produced.Wait()
		if err := closer.Close(t.Context()); err != nil {
			t.Error(err)
		}
		consumed.Wait()
		if err := session.Close(t.Context()); err != nil {
			t.Error(err)
		}
		p.check(producers, elements)
	})
}

// check checks that each number has come, and that no element was acknowledged twice.
func (p *processes) check(producers int, elements int64) {
	numbers, again, twice := map[put]bool{}, 0, 0
	for e, n := range p.used {
		numbers[put{Producer: e.Producer, Number: e.Number}] = true
		again += n - 1
	}
	for e, n := range p.acknowledged {
		if n > 1 {
			p.t.Errorf("element %+v was acknowledged %d times", e, n)
			twice++
		}
	}
	if lost := int64(producers)*elements - int64(len(numbers)); lost != 0 {
		p.t.Errorf("%d elements were lost", lost)
	}
	p.t.Logf("%d elements, %d delivered again, %d expired while they were used, %d acknowledged twice", len(p.used), again, p.expired, twice)
}

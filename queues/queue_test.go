package queues

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSystem(t testing.TB) *actor.ActorSystem {
	// A cancellation sent to a queue that has just ended is a dead letter. The library throttles dead letters with a goroutine that lives
	// for an interval.
	system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	t.Cleanup(system.Shutdown)
	return system
}

// bench is a queue of int64[8] with its pool, which must be empty at the end of the test.
type bench struct {
	*Queue
	t    testing.TB
	pool *tensor.Pool
}

func newBench(t testing.TB, system *actor.ActorSystem, capacity int) *bench {
	t.Helper()
	pool := tensor.NewPool("test", 0)
	q, err := Spawn(system, Options{Name: "q", DTypes: []tensor.DType{tensor.Int64}, Shapes: []tensor.Shape{{8}}, Capacity: capacity, Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{q, t, pool}
}

// finish deletes the queue and waits for its end.
func (b *bench) finish() {
	b.t.Helper()
	b.Close()
	<-b.Done()
	if n := b.pool.Stats().InUse; n != 0 {
		b.t.Errorf("%d bytes still in use", n)
	}
}

func (b *bench) one(v int) []*tensor.Tensor { return tupleOf(b.t, &b.options, b.pool, false, v) }
func (b *bench) many(v ...int) []*tensor.Tensor {
	return tupleOf(b.t, &b.options, b.pool, true, v...)
}

// onBoth runs a test with a queue that is an actor and with one that runs on its callers' goroutines.
func onBoth(t *testing.T, test func(t *testing.T, system *actor.ActorSystem)) {
	t.Run("actor", func(t *testing.T) { test(t, newSystem(t)) })
	t.Run("inline", func(t *testing.T) { test(t, nil) })
}

// promise is a completion that a test waits for.
type promise struct {
	t    testing.TB
	done chan struct{}
	err  error
	got  string
}

func newPromise(t testing.TB) *promise { return &promise{t: t, done: make(chan struct{})} }

func (p *promise) end(err error) {
	p.err = err
	close(p.done) // panics if called twice
}

func (p *promise) take(tuple []*tensor.Tensor, err error) {
	if err == nil {
		p.got = fmt.Sprint(tensor.Of[int64](tuple[0])[0], tuple[0].Shape())
		release(tuple)
	}
	p.end(err)
}

func (p *promise) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *promise) want(code status.Code, text string) {
	p.t.Helper()
	<-p.done
	if status.CodeOf(p.err) != code || code != status.OK && !strings.Contains(p.err.Error(), text) {
		p.t.Errorf("got %v: %v, want %v: %s", status.CodeOf(p.err), p.err, code, text)
	}
}

// settle waits until the queue has handled all earlier requests of this goroutine.
func (b *bench) settle() {
	done := make(chan struct{})
	b.Size(func(int, error) { close(done) })
	<-done
}

func TestWaiting(t *testing.T) {
	onBoth(t, func(t *testing.T, system *actor.ActorSystem) {
		b := newBench(t, system, 2)
		d, m := newPromise(t), newPromise(t)
		b.Dequeue(d.take)
		b.DequeueMany(2, m.take)
		b.settle()
		if d.isDone() || m.isDone() {
			t.Error("an empty queue gave something")
		}
		e := newPromise(t)
		b.EnqueueMany(b.many(1, 2, 3), e.end)
		e.want(status.OK, "")
		d.want(status.OK, "")
		m.want(status.OK, "")
		if d.got != "1 [8]" || m.got != "2 [2,8]" {
			t.Error(d.got, m.got)
		}
		b.finish()
	})
}

func TestCancelIsDerived(t *testing.T) {
	onBoth(t, func(t *testing.T, system *actor.ActorSystem) {
		b := newBench(t, system, 1)
		d := newPromise(t)
		cancel := b.Dequeue(d.take)
		cancel(errors.New("the step failed"))
		cancel(nil)
		d.want(status.Cancelled, "Dequeue operation was cancelled")
		if !status.From(d.err).Derived {
			t.Error("not derived")
		}
		b.finish()
	})
}

func TestDescribe(t *testing.T) {
	b := newBench(t, nil, 3)
	b.EnqueueMany(b.many(1, 2), newPromise(t).end)
	if got := b.Describe(); got != "FIFOQueue of (int64), 2 elements, capacity 3, open" {
		t.Error(got)
	}
	b.finish()
}

// TestDeleted checks that pending and later operations fail and that nothing leaks.
func TestDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, system *actor.ActorSystem) {
		b := newBench(t, system, 1)
		e, late, size := newPromise(t), newPromise(t), newPromise(t)
		cancel := b.EnqueueMany(b.many(1, 2, 3), e.end)
		b.finish()
		e.want(status.Aborted, "FIFOQueue 'q' was deleted.")
		cancel(nil)
		b.Enqueue(b.one(1), late.end)
		late.want(status.Aborted, "deleted")
		b.Size(func(_ int, err error) { size.end(err) })
		size.want(status.Aborted, "deleted")
		b.finish()
	})
}

// broken is an order with a bug.
type broken struct{ fifo }

func (*broken) push(run) { panic("a bug") }

func TestPanicFailsWaiters(t *testing.T) {
	onBoth(t, func(t *testing.T, system *actor.ActorSystem) {
		b := newBench(t, system, 1)
		b.core.state.order = &broken{}
		d, e, late := newPromise(t), newPromise(t), newPromise(t)
		b.Dequeue(d.take)
		b.Enqueue(b.one(1), e.end)
		for _, p := range []*promise{d, e} {
			p.want(status.Aborted, "FIFOQueue 'q' failed, its elements are lost: a bug")
		}
		b.Dequeue(late.take)
		late.want(status.Aborted, "a bug")
		if system != nil {
			<-b.Done()
		}
		b.Close()
		<-b.Done()
	})
}

// TestCompletionPanics checks that a panic in a completion ends the queue for the others but does not cost them their answers.
func TestCompletionPanics(t *testing.T) {
	b := newBench(t, newSystem(t), 1)
	d, e := newPromise(t), newPromise(t)
	b.Dequeue(func(tuple []*tensor.Tensor, err error) {
		release(tuple)
		panic("a bug of the kernel")
	})
	b.Dequeue(d.take)
	b.Enqueue(b.one(1), e.end)
	e.want(status.OK, "")
	d.want(status.Aborted, "a bug of the kernel")
	<-b.Done()
	b.finish()
}

func TestStoppedFromOutside(t *testing.T) {
	system := newSystem(t)
	b := newBench(t, system, 1)
	d, late := newPromise(t), newPromise(t)
	b.Dequeue(d.take)
	b.settle()
	system.Root.Stop(b.runner.(*role).self.PID())
	d.want(status.Aborted, "stopped")
	<-b.Done()
	b.Dequeue(late.take)
	late.want(status.Aborted, "stopped")
	b.finish()
}

// TestReentrant checks that a completion may call the queue, and delete it.
func TestReentrant(t *testing.T) {
	onBoth(t, func(t *testing.T, system *actor.ActorSystem) {
		b := newBench(t, system, 1)
		e, d := newPromise(t), newPromise(t)
		b.Dequeue(func(tuple []*tensor.Tensor, err error) {
			b.Enqueue(tuple, func(err error) {
				e.end(err)
				b.Dequeue(d.take)
				b.Close()
			})
		})
		b.Enqueue(b.one(7), newPromise(t).end)
		e.want(status.OK, "")
		<-d.done // completed, or aborted by Close, depending on the runner
		b.finish()
	})
}

// TestLinear runs producers and consumers concurrently. Each value must arrive once, a consumer must see a producer's values in order, and
// the queue must never exceed its capacity.
func TestLinear(t *testing.T) {
	onBoth(t, func(t *testing.T, system *actor.ActorSystem) {
		const producers, consumers, each, capacity = 4, 3, 400, 7
		b := newBench(t, system, capacity)
		var produce, consume sync.WaitGroup
		for p := range producers {
			produce.Go(func() {
				for v := 0; v < each; {
					e := newPromise(t)
					if v%5 == 0 && v+3 <= each {
						base := p*each + v
						b.EnqueueMany(b.many(base, base+1, base+2), e.end)
						v += 3
					} else {
						b.Enqueue(b.one(p*each+v), e.end)
						v++
					}
					e.want(status.OK, "")
				}
			})
		}
		var mu sync.Mutex
		seen := map[int64]int{}
		for c := range consumers {
			consume.Go(func() {
				last := [producers]int64{-1, -1, -1, -1}
				for i := 0; ; i++ {
					over := make(chan bool, 1)
					take := func(tuple []*tensor.Tensor, err error) {
						if err != nil {
							if status.CodeOf(err) != status.OutOfRange {
								t.Error(err)
							}
							over <- true
							return
						}
						data := tensor.Of[int64](tuple[0])
						mu.Lock()
						for at := 0; at < len(data); at += 8 {
							v := data[at]
							seen[v]++
							if p := v / each; v <= last[p] {
								t.Errorf("%d came after %d", v, last[p])
							} else {
								last[p] = v
							}
						}
						mu.Unlock()
						release(tuple)
						over <- false
					}
					switch (i + c) % 3 {
					case 0:
						b.Dequeue(take)
					case 1:
						b.DequeueUpTo(4, take)
					default:
						b.DequeueUpTo(11, take)
					}
					b.Size(func(n int, err error) {
						if n > capacity || err != nil {
							t.Error("size", n, err)
						}
					})
					if <-over {
						return
					}
				}
			})
		}
		produce.Wait()
		closed := newPromise(t)
		b.CloseQueue(false, nil, closed.end)
		closed.want(status.OK, "")
		consume.Wait()
		if len(seen) != producers*each {
			t.Errorf("%d of %d values", len(seen), producers*each)
		}
		for v, n := range seen {
			if n != 1 {
				t.Errorf("%d came %d times", v, n)
			}
		}
		b.finish()
	})
}

// TestEndRace runs operations and cancellations concurrently with the queue's deletion. Every operation must complete exactly once.
func TestEndRace(t *testing.T) {
	onBoth(t, func(t *testing.T, system *actor.ActorSystem) {
		for round := range 30 {
			b := newBench(t, system, 3)
			var asked, told atomic.Int64
			var all sync.WaitGroup
			done := func(error) { told.Add(1); all.Done() }
			given := func(tuple []*tensor.Tensor, err error) { release(tuple); done(err) }
			var callers sync.WaitGroup
			for g := range 6 {
				callers.Go(func() {
					for i := range 40 {
						asked.Add(1)
						all.Add(1)
						var cancel func(error)
						switch (g + i) % 4 {
						case 0:
							cancel = b.Enqueue(b.one(i), done)
						case 1:
							cancel = b.EnqueueMany(b.many(i, i+1), done)
						case 2:
							cancel = b.Dequeue(given)
						case 3:
							cancel = b.DequeueMany(2, given)
						}
						if i%3 == 0 {
							cancel(nil)
						}
						if g == 0 && i == 10+round%20 {
							b.Close()
						}
					}
				})
			}
			callers.Wait()
			all.Wait()
			if asked.Load() != told.Load() {
				t.Errorf("%d asked, %d told", asked.Load(), told.Load())
			}
			b.finish()
		}
	})
}

// TestWaitsToOpenEnd checks that an operation that waits for its queue to be reopened or emptied ends when its time is over, and not
// before.
func TestWaitsToOpenEnd(t *testing.T) {
	for _, system := range []*actor.ActorSystem{nil, newSystem(t)} {
		q, err := Spawn(system, Options{Kind: FIFO, Name: "rows", DTypes: []tensor.DType{tensor.Int64}, Capacity: 1})
		if err != nil {
			t.Fatal(err)
		}
		const wait = 50 * time.Millisecond
		waits := func(what string, start func(done func(error)) func(error)) {
			began, ended := time.Now(), make(chan error, 1)
			start(func(err error) { ended <- err })
			if err := <-ended; status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), wait.String()) || time.Since(began) < wait {
				t.Errorf("%s ended after %v with %v", what, time.Since(began), err)
			}
		}
		q.CloseQueue(false, nil, func(error) {})
		waits("the dequeue", func(done func(error)) func(error) {
			return q.For(Origin{}, nil, nil).AwaitingOpen(wait).Dequeue(func(_ []*tensor.Tensor, err error) { done(err) })
		})
		q.For(Origin{}, nil, nil).Open(0, func(error) {})
		q.Enqueue([]*tensor.Tensor{tensor.Scalar(tensor.Int64, int64(1))}, func(error) {})
		q.CloseQueue(false, nil, func(error) {})
		waits("the opening", func(done func(error)) func(error) { return q.For(Origin{}, nil, nil).Open(wait, done) })
		q.Close()
	}
}

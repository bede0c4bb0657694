package processors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simulation has clients whose work sleeps instead of computing, in the time of a synctest bubble.
type simulation struct {
	s    *Scheduler
	ctx  context.Context
	stop func()
	work sync.WaitGroup
}

func simulate(t *testing.T, slots int) *simulation {
	ctx, stop := context.WithCancel(t.Context())
	return &simulation{s: newScheduler(slots, sinceStart()), ctx: ctx, stop: stop}
}

// loops starts works of a client that compute endlessly, and counts the time that they compute.
func (m *simulation) loops(client string, n int) *atomic.Int64 {
	c := m.s.Open(client)
	computed := new(atomic.Int64)
	for range n {
		m.work.Go(func() {
			var w Work
			w.Begin(c)
			w.Enter()
			defer w.Leave()
			for m.ctx.Err() == nil {
				if w.WaitContext(m.ctx) != nil {
					return
				}
				time.Sleep(50 * time.Microsecond)
				computed.Add(50)
			}
		})
	}
	return computed
}

// run lets a second pass, then ends the work. held is the maximum number of slots held after the first 50 ms.
func (m *simulation) run() (held int) {
	for i := range 1000 {
		time.Sleep(time.Millisecond)
		m.s.mu.Lock()
		if i > 50 {
			held = max(held, m.s.held)
		}
		m.s.mu.Unlock()
	}
	m.stop()
	m.work.Wait()
	return held
}

func (m *simulation) wantIdle(t *testing.T) {
	t.Helper()
	if s := m.s; s.held != 0 || s.queued != 0 || len(s.busy) != 0 || s.Contended() {
		t.Errorf("%d slots are held, %d works wait, %d clients are busy, contended: %v", s.held, s.queued, len(s.busy), s.Contended())
	}
}

func TestClientsShareAlike(t *testing.T) {
	for _, test := range []struct {
		slots int
		loops []int // of each client
		want  []int // milliseconds of a second
	}{
		{2, []int{8, 1}, []int{1000, 1000}},
		{1, []int{8, 1}, []int{500, 500}},
		{2, []int{50, 3, 2}, []int{667, 667, 667}},
		{4, []int{100, 1, 1}, []int{2000, 1000, 1000}},
		{4, []int{2, 1}, []int{2000, 1000}},
		{2, []int{6}, []int{2000}},
	} {
		t.Run(fmt.Sprint(test.slots, test.loops), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := simulate(t, test.slots)
				var computed []*atomic.Int64
				for i, n := range test.loops {
					computed = append(computed, m.loops(fmt.Sprint(i), n))
				}
				m.run()
				for i, c := range computed {
					if got := int(c.Load() / 1000); got < test.want[i]*9/10 || got > test.want[i]*11/10 {
						t.Errorf("client %d computed for %d ms, want %d", i, got, test.want[i])
					}
				}
				m.wantIdle(t)
			})
		})
	}
}

// TestOneProcessorIsLeft runs a client that begins steps, and takes no slots, beside clients that take all they can get.
func TestOneProcessorIsLeft(t *testing.T) {
	for _, heavy := range []struct{ clients, loops int }{{1, 10}, {3, 10}, {2, 2}, {1, 4}} {
		synctest.Test(t, func(t *testing.T) {
			m := simulate(t, 4)
			for i := range heavy.clients {
				m.loops(fmt.Sprint("heavy", i), heavy.loops)
			}
			light := m.s.Open("light")
			m.work.Go(func() {
				for m.ctx.Err() == nil {
					var w Work
					w.Begin(light)
					time.Sleep(5 * time.Millisecond)
				}
			})
			if held := m.run(); held != 3 {
				t.Errorf("%d heavy clients with %d loops each: %d of 4 slots are held, want 3", heavy.clients, heavy.loops, held)
			}
			m.wantIdle(t)
		})
	}
}

// TestShortWorkDoesNotWait runs a client whose steps compute for less than a slice beside one with loops.
func TestShortWorkDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := simulate(t, 2)
		m.loops("heavy", 10)
		c := m.s.Open("trainer")
		steps, waited := 0, time.Duration(0)
		m.work.Go(func() {
			for m.ctx.Err() == nil {
				var w Work
				w.Begin(c)
				w.Enter()
				began := time.Now()
				w.Wait()
				waited += time.Since(began)
				time.Sleep(200 * time.Microsecond)
				w.Leave()
				time.Sleep(100 * time.Microsecond)
				steps++
			}
		})
		m.run()
		if each := waited / time.Duration(steps); steps < 2500 || each > 50*time.Microsecond {
			t.Errorf("%d steps in a second, which waited for %v each", steps, each)
		}
		m.wantIdle(t)
	})
}

// TestShortWorkCounts runs a client with many works that compute for less than a slice beside one with a loop.
func TestShortWorkCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := simulate(t, 1)
		loop, short := m.loops("loop", 1), new(atomic.Int64)
		c := m.s.Open("short")
		for range 4 {
			m.work.Go(func() {
				for m.ctx.Err() == nil {
					var w Work
					w.Begin(c)
					w.Enter()
					if w.WaitContext(m.ctx) == nil {
						time.Sleep(slice / 2)
						short.Add(int64(slice / 2 / time.Microsecond))
					}
					w.Leave()
				}
			})
		}
		m.run()
		for name, computed := range map[string]*atomic.Int64{"loop": loop, "short": short} {
			if got := computed.Load() / 1000; got < 450 || got > 550 {
				t.Errorf("client %q computed for %d ms of a second, want 500", name, got)
			}
		}
		m.wantIdle(t)
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := simulate(t, 1)
		c := m.s.Open("c")
		var holder, other Work
		for _, w := range []*Work{&holder, &other} {
			w.Begin(c)
			w.Enter()
		}
		holder.Wait()
		ended := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 { // on two goroutines
			go func() { ended <- other.WaitContext(ctx) }()
		}
		synctest.Wait()
		if m.s.queued != 1 || !m.s.Contended() {
			t.Errorf("%d works wait", m.s.queued)
		}
		cancel()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		other.Leave()
		holder.Leave()
		m.wantIdle(t)
	})
}

// TestNestedWorkHoldsOneSlot calls functions, on the same goroutine and on others, while the caller holds the slot.
func TestNestedWorkHoldsOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := simulate(t, 1)
		c := m.s.Open("c")
		var w Work
		w.Begin(c)
		w.Enter()
		w.Wait()
		for n := uint32(2); n < 10; n++ {
			if got := w.Enter(); got != n {
				t.Errorf("entered %d times, want %d", got, n)
			}
			w.Wait()
			w.Leave()
		}
		w.Enter()
		done := make(chan bool)
		go func() {
			w.Wait()
			w.Leave()
			close(done)
		}()
		<-done
		if !w.held.Load() {
			t.Error("the slot is lost")
		}
		w.Leave()
		m.wantIdle(t)
		if c.Close(); len(m.s.open) != 0 {
			t.Error("the client is open")
		}
	})
}

func TestNobodysWorkNeverWaits(t *testing.T) {
	var w Work
	w.Begin(nil)
	w.Enter()
	if w.Due() {
		t.Error("it is due")
	}
	w.Wait()
	w.Leave()
}

func BenchmarkUncontended(b *testing.B) {
	c := newScheduler(8, sinceStart()).Open("c")
	var w Work
	w.Begin(c)
	for range b.N {
		w.Enter()
		w.Wait()
		w.Leave()
	}
}

// BenchmarkCancelledWaits ends works that wait for the only slot. The time for each does not depend on their number.
func BenchmarkCancelledWaits(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				s := newScheduler(1, sinceStart())
				c := s.Open("c")
				works := make([]Work, n)
				s.mu.Lock()
				for i := range works {
					works[i].client = c
					s.enqueue(&works[i])
				}
				for i := range works {
					s.dequeue(&works[n-1-i])
				}
				s.mu.Unlock()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/work")
		})
	}
}

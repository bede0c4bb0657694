package disk

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
)

func TestGateBoundsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2, 100)
		release := make(chan struct{})
		var running, most, ended atomic.Int32
		for range 50 {
			g.enter(&kernels.Cancellation{}, func() {
				most.Store(max(most.Load(), running.Add(1)))
				<-release
				running.Add(-1)
				ended.Add(1)
			}, func(err error) { t.Error(err) })
		}
		synctest.Wait()
		if n := running.Load(); n != 2 {
			t.Errorf("%d run", n)
		}
		close(release)
		synctest.Wait()
		if most.Load() > 2 || ended.Load() != 50 || g.running != 0 || g.waiting.Len() != 0 {
			t.Errorf("%d ran at a time, %d ended, %d run, %d wait", most.Load(), ended.Load(), g.running, g.waiting.Len())
		}
	})
}

func TestGateGivesTurnsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 100)
		var order []int
		release := make(chan struct{})
		g.queue(func() { <-release })
		for i := range 10 {
			if i%2 == 0 {
				g.queue(func() { order = append(order, i) })
			} else {
				g.enter(&kernels.Cancellation{}, func() { order = append(order, i) }, func(err error) { t.Error(err) })
			}
		}
		close(release)
		synctest.Wait()
		if !slices.IsSorted(order) || len(order) != 10 {
			t.Errorf("got %v", order)
		}
	})
}

func TestGateRefusesBeyondItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 2)
		release := make(chan struct{})
		var refused error
		for range 4 {
			g.enter(&kernels.Cancellation{}, func() { <-release }, func(err error) { refused = err })
		}
		if status.CodeOf(refused) != status.ResourceExhausted {
			t.Errorf("got %v", refused)
		}
		g.queue(func() {}) // cleanup work is not rejected
		close(release)
		synctest.Wait()
	})
}

// TestGateLetsTheCancelledGo checks that waiting work ends with its step, once, and that running work continues.
func TestGateLetsTheCancelledGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 10)
		release := make(chan struct{})
		var c kernels.Cancellation
		ran, failed := 0, []error{}
		enter := func() {
			g.enter(&c, func() {
				<-release
				ran++
			}, func(err error) { failed = append(failed, err) })
		}
		for range 5 {
			enter()
		}
		cause := errors.New("over")
		c.Cancel(cause)
		enter() // the step has already ended
		if len(failed) != 5 || status.CodeOf(failed[0]) != status.Cancelled {
			t.Errorf("%d failed: %v", len(failed), failed)
		}
		close(release)
		synctest.Wait()
		if ran != 1 || len(failed) != 5 || g.running != 0 {
			t.Errorf("%d ran, %d failed, %d run", ran, len(failed), g.running)
		}
	})
}

// TestGateKeepsNothing checks that a step that goes on does not hold the operations that have run, with what they
// have read.
func TestGateKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 10)
		var c kernels.Cancellation
		release := make(chan struct{})
		g.enter(&c, func() { <-release }, nil)
		wait := func() weak.Pointer[[1 << 20]byte] {
			content := new([1 << 20]byte)
			g.enter(&c, func() { content[0] = 1 }, nil)
			return weak.Make(content)
		}
		content := wait()
		close(release)
		synctest.Wait()
		runtime.GC()
		if content.Value() != nil {
			t.Error("what an operation that has ended used is still held")
		}
		c.Cancel(errors.New("over"))
	})
}

// TestGateUnderCancellation starts operations and ends steps concurrently: each operation must end exactly once.
func TestGateUnderCancellation(t *testing.T) {
	g := newGate(2, 1<<10)
	const n = 1000
	ends := make(chan int, 2*n)
	for i := range n {
		var c kernels.Cancellation
		g.enter(&c, func() { ends <- i }, func(error) { ends <- i })
		go c.Cancel(nil)
	}
	seen := map[int]bool{}
	for range n {
		i := <-ends
		if seen[i] {
			t.Fatalf("operation %d ended twice", i)
		}
		seen[i] = true
	}
}

// BenchmarkGate measures the overhead of an operation.
func BenchmarkGate(b *testing.B) {
	g := newGate(MaxRunning, MaxWaiting)
	done := make(chan struct{})
	var c kernels.Cancellation
	for b.Loop() {
		g.enter(&c, func() { done <- struct{}{} }, nil)
		<-done
	}
}

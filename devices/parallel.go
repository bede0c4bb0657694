package devices

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/processors"
)

// helpers is the process's budget of goroutines that help with one kernel or run a kernel beside
// its step's owner: one for each processor but the one that asks, whatever the number of servers,
// devices and steps.
var helpers = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// longestPart is how many elements a kernel computes at once at most: it may do so in assembly, which Go cannot interrupt for a
// garbage collection.
const longestPart = 1 << 20

// Parallel calls body on parts of [0,n), each at least grain long, and returns when they cover it.
// Parts are taken from a shared counter, so that a slow helper holds nobody up. Where others want all processors it has
// no helpers.
func Parallel(n, grain int, body func(lo, hi int)) {
	grain = max(grain, 1)
	if n < 2*grain {
		if n > 0 {
			body(0, n)
		}
		return
	}
	parts := min(n/grain, 4*(cap(helpers)+1))
	size := min((n+parts-1)/parts, max(grain, longestPart))
	if processors.Default.Contended() {
		for lo := 0; lo < n; lo += size {
			body(lo, min(lo+size, n))
		}
		return
	}
	var next atomic.Int64
	var failure atomic.Pointer[any]
	work := func() {
		defer func() {
			if p := recover(); p != nil {
				failure.CompareAndSwap(nil, &p)
			}
		}()
		for {
			lo := int(next.Add(int64(size))) - size
			if lo >= n {
				return
			}
			body(lo, min(lo+size, n))
		}
	}
	var wg sync.WaitGroup
	for range min(parts-1, cap(helpers)) {
		select {
		case helpers <- struct{}{}:
			wg.Go(contain.Func(nil, "A kernel's helper", func() {
				defer func() { <-helpers }()
				work()
			}, nil))
			continue
		default:
		}
		break
	}
	work()
	wg.Wait()
	if p := failure.Load(); p != nil {
		panic(*p) // on the kernel's own goroutine, where the executor turns it into an error
	}
}

package devices

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/processors"
)

// helpers is the process's budget of goroutines that work on a kernel with its step's owner, or on another kernel
// beside it: one for each processor but the one that asks, whatever the number of servers,
// devices and steps.
var helpers = make(chan struct{}, runtime.GOMAXPROCS(0)-1)

// longestPart is how many elements a kernel computes at once at most: it may do so in assembly, which Go cannot interrupt for a
// garbage collection.
const longestPart = 1 << 20

// Parallel calls body on parts of [0,n), each at least grain long, and returns when they cover it.
// Parts are taken from a shared counter, so that a slow helper holds nobody up. Where others want all processors it has
// no helpers.
func Parallel(n, grain int, body func(lo, hi int)) { parallel(cap(helpers)+1, n, grain, body) }

// parallel is Parallel on so many processors at most.
func parallel(most, n, grain int, body func(lo, hi int)) {
	grain = max(grain, 1)
	if n < 2*grain {
		if n > 0 {
			body(0, n)
		}
		return
	}
	most = min(most, cap(helpers)+1)
	parts := min(n/grain, 4*most)
	size := min((n+parts-1)/parts, max(grain, longestPart))
	if most == 1 || processors.Default.Contended() {
		for lo := 0; lo < n; lo += size {
			body(lo, min(lo+size, n))
		}
		return
	}
	j := jobs.Get().(*job)
	j.n, j.size, j.body = n, size, body
	j.next.Store(0)
	running.Add(1)
	defer running.Add(-1)
	for range min(parts, most) - 1 {
		select {
		case helpers <- struct{}{}:
			j.left.Add(1)
			j.done.Add(1)
			help(j.assist)
			continue
		default:
		}
		break
	}
	j.work()
	for start := time.Now(); j.left.Load() > 0 && time.Since(start) < patience; {
		runtime.Gosched()
	}
	j.done.Wait()
	failure := j.failure.Swap(nil)
	j.body = nil
	jobs.Put(j)
	if failure != nil {
		panic(*failure) // on the kernel's own goroutine, where the executor turns it into an error
	}
}

// job is a loop that its owner and helpers share. Jobs are used again, so that dividing a kernel makes no garbage.
type job struct {
	n, size int
	body    func(lo, hi int)
	next    atomic.Int64 // the first element that nobody has taken
	failure atomic.Pointer[any]
	left    atomic.Int32 // helpers that have not ended
	done    sync.WaitGroup
	assist  func() // what a helper does
}

var jobs = sync.Pool{New: func() any {
	j := new(job)
	j.assist = func() {
		defer j.done.Done()
		defer j.left.Add(-1)
		defer func() { <-helpers }()
		j.work()
	}
	return j
}}

// work computes parts until all are taken.
func (j *job) work() {
	defer j.fail()
	for {
		lo := int(j.next.Add(int64(j.size))) - j.size
		if lo >= j.n {
			return
		}
		j.body(lo, min(lo+j.size, j.n))
	}
}

// fail keeps the panic of a part for the owner.
func (j *job) fail() {
	if p := recover(); p != nil {
		kept := p // of its own, so that a part that does not fail makes no garbage
		j.failure.CompareAndSwap(nil, &kept)
	}
}

// To wake a sleeping processor takes longer than many kernels. So a helper that has nothing to do looks for the next
// kernel for so long before it ends, and while other kernels run for so long at most; and who waits for helpers looks
// for so long whether they are done before he sleeps.
const (
	linger     = 50 * time.Microsecond
	lingerMost = 500 * time.Microsecond
	patience   = 20 * time.Microsecond
)

var (
	// running are the kernels that are divided now.
	running atomic.Int32
	// idle are the helpers that look for work, each of which takes one function from offers.
	idle   atomic.Int32
	offers = make(chan func(), cap(helpers))
)

// claim takes one of the idle helpers, if there is one.
func claim() bool {
	for {
		n := idle.Load()
		if n == 0 {
			return false
		}
		if idle.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// help has a helper run f: one that is idle, or a new one.
func help(f func()) {
	if claim() {
		offers <- f
		return
	}
	contain.Go(nil, "A kernel's helper", func() {
		for ; f != nil; f = nextOffer() {
			f()
		}
	}, nil)
}

// nextOffer gives an idle helper its next function, or nil when there is none for long.
func nextOffer() func() {
	idle.Add(1)
	start := time.Now()
	for last := start; ; {
		select {
		case f := <-offers:
			return f
		default:
		}
		runtime.Gosched()
		now := time.Now()
		if running.Load() > 0 {
			last = now
		}
		if now.Sub(last) > linger || now.Sub(start) > lingerMost {
			break
		}
	}
	if claim() {
		return nil
	}
	return <-offers // somebody has claimed this helper
}

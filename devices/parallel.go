package devices

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/processors"
	"github.com/troupe-run/troupe/internal/subnormal"
)

// helpers is the process's budget of goroutines that help the owner of a step with a kernel, or run another kernel beside it: one per
// processor, minus one for the owner, whatever the number of servers, devices and steps.
var helpers = make(chan struct{}, runtime.GOMAXPROCS(0)-1)

// longestPart is the maximum number of elements that a kernel computes at once. It may do so in assembly, which Go cannot interrupt for a
// garbage collection.
const longestPart = 1 << 20

// Parallel calls body on parts of [0,n), each at least grain long, and returns when they cover it. Parts are taken from a shared counter,
// so a slow helper does not delay the others. If other steps compete for the processors, it uses no helpers.
func Parallel(n, grain int, body func(lo, hi int)) { parallel(cap(helpers)+1, n, grain, body) }

// parallel is Parallel on at most the given number of processors.
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
	j.n, j.size, j.body, j.flushes = n, size, body, subnormal.Flushing()
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
	resume := subnormal.Pause()
	for start := time.Now(); j.left.Load() > 0 && time.Since(start) < patience; {
		runtime.Gosched()
	}
	j.done.Wait()
	resume()
	failure := j.failure.Swap(nil)
	j.body = nil
	jobs.Put(j)
	if failure != nil {
		panic(*failure) // on the kernel's own goroutine, where the executor turns it into an error
	}
}

// job is a loop shared by its owner and helpers. Jobs are reused, so dividing a kernel allocates nothing.
type job struct {
	n, size int
	body    func(lo, hi int)
	flushes bool         // as the divided kernel does
	next    atomic.Int64 // the first element not taken
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
		if j.flushes {
			defer subnormal.Flush().End()
		}
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
		kept := p // a separate variable, so a part that does not fail allocates nothing
		j.failure.CompareAndSwap(nil, &kept)
	}
}

// Waking a sleeping processor takes longer than many kernels. So an idle helper looks for the next kernel for linger before it ends, or up
// to lingerMost while other kernels run. A goroutine that waits for helpers polls them for patience before it sleeps.
const (
	linger     = 50 * time.Microsecond
	lingerMost = 500 * time.Microsecond
	patience   = 20 * time.Microsecond
)

var (
	// running is the number of kernels that are being divided.
	running atomic.Int32
	// idle is the number of helpers that look for work. Each of them takes one function from offers.
	idle   atomic.Int32
	offers = make(chan func(), cap(helpers))
)

// claim claims one of the idle helpers, if any.
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

// help runs f on a helper: an idle one, or a new one.
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

// nextOffer returns the next function for an idle helper, or nil if none arrives in time.
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
	return <-offers // another goroutine has claimed this helper
}

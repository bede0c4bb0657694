package metamorphic

import (
	"context"
	cmdline "flag"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	graphCount = cmdline.Int("graphs", 0, "how many random programs to run; 0: a share that fits into the time of a test")
	graphSeed  = cmdline.Uint64("graph-seed", 0, "the seed of the first random program")
)

// share is how many programs a test runs, of those that fit into its time.
func share(n int) uint64 {
	switch {
	case *graphCount > 0:
		return uint64(*graphCount)
	case os.Getenv("TROUPE_E2E_FULL") == "1":
		return uint64(10 * n)
	case raceDetector:
		return uint64(n / 10)
	}
	return uint64(n)
}

// Random programs give on clusters of all kinds what the interpreter gives. One that does not is made smaller before it is
// shown.
func TestRandomPrograms(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // plans come and go: there is much garbage, and little else
	here := goleak.IgnoreCurrent()
	end := *graphSeed + share(600)
	var next atomic.Uint64
	next.Store(*graphSeed)
	var wg sync.WaitGroup
	var found atomic.Bool
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			c, err := StartClusters()
			if err != nil {
				t.Error(err)
				return
			}
			for seed := next.Add(1) - 1; seed < end && !found.Load() && err == nil; seed = next.Add(1) - 1 {
				var f *Finding
				if f, err = c.Check(t.Context(), seed, slack(10*time.Second)); f != nil && !found.Swap(true) {
					t.Logf("found after %v: %v", time.Since(began).Round(time.Millisecond), f)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					t.Errorf("smaller: %v", c.Shrink(ctx, f, slack(time.Second)))
					cancel()
				}
			}
			if err != nil {
				t.Error(err)
			}
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d programs in %v", min(next.Load(), end)-*graphSeed, time.Since(began).Round(time.Millisecond))
	if !t.Failed() {
		goleak.VerifyNone(t, here, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
	}
}

// slack widens the bounds of times that the race detector stretches.
func slack(d time.Duration) time.Duration { return time.Duration(slackFactor * float64(d)) }

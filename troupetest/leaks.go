package troupetest

import (
	"context"
	"fmt"
	"io"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/harness"
)

const (
	// probeTime is more than what gossip's probes take to end in simulated time: they outlive their task by their own timeouts.
	probeTime = time.Minute
	// windDown bounds how long goroutines take to end in real time after their server has stopped, and checkEvery is how often they are
	// looked for.
	windDown   = 3 * time.Second
	checkEvery = 10 * time.Millisecond
)

// gossipProbe is the function whose goroutines outlive their server by a few seconds, and those that it starts.
const gossipProbe = "github.com/hashicorp/memberlist.(*Memberlist).probeNode"

// inBubble reports whether the caller is in a bubble of synctest, where time begins in the year 2000.
func inBubble() bool { return time.Now().Year() < 2020 }

// labelKey is the key of the profiler's label that goroutines inherit from the goroutine that starts them. It is what distinguishes the
// goroutines of a cluster from those of tests that run in parallel.
const labelKey = "troupetest"

var clusters atomic.Int64

// newLabel returns a label that no other cluster has.
func newLabel(t testing.TB) string { return fmt.Sprintf("%s#%d", t.Name(), clusters.Add(1)) }

// labelled calls f. Goroutines that begin in it have the cluster's label.
func (c *Cluster) labelled(f func()) {
	pprof.Do(c.t.Context(), pprof.Labels(labelKey, c.label), func(context.Context) { f() })
}

// checkLeft waits until nothing of the servers is left, and fails the test if something stays and the test has not failed already.
func (c *Cluster) checkLeft() {
	c.t.Helper()
	left := c.tensors
	if inBubble() {
		<-time.After(probeTime)
	} else {
		left = func() []string { return append(c.tensors(), c.goroutines()...) }
		for over := time.Now().Add(windDown); len(left()) > 0 && !c.t.Failed() && time.Now().Before(over); {
			<-time.After(checkEvery)
		}
	}
	if what := left(); len(what) > 0 && !c.t.Failed() {
		c.t.Errorf("troupetest: the servers have stopped and left\n%s", strings.Join(what, "\n"))
	}
}

// tensors returns a line for each server that has stopped and not released all tensors.
func (c *Cluster) tensors() (left []string) {
	for _, p := range c.processes {
		if n := harness.TensorMemory(p.server); n > 0 {
			left = append(left, fmt.Sprintf("%d bytes of tensors on %s: release the tensors that steps return", n, p.server.Task()))
		}
	}
	return left
}

// goroutines returns the stacks of goroutines that began in the cluster's servers and may not be left.
func (c *Cluster) goroutines() (left []string) {
	var profile strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return []string{err.Error()}
	}
	label := fmt.Sprintf("%q:%q", labelKey, c.label)
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		allowed := func(function string) bool { return strings.Contains(stack, "\t"+function+"+0x") }
		if strings.Contains(stack, label) && !strings.Contains(stack, "\t"+gossipProbe) && !slices.ContainsFunc(c.allowed, allowed) {
			left = append(left, "goroutines: "+stack)
		}
	}
	return left
}

// testLog writes to a test's log until it is closed: a goroutine that a server leaves must not write to the log of a test that has ended.
type testLog struct {
	mu sync.Mutex // servers log on their own goroutines
	to io.Writer  // nil when closed
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == nil {
		return len(p), nil
	}
	return l.to.Write(p)
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = nil
}

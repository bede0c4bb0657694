package metamorphic

import (
	"context"
	cmdline "flag"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"go.uber.org/goleak"
)

var (
	graphCount = cmdline.Int("graphs", 0, "how many random programs to run; 0: a share that fits into the time of a test")
	graphSeed  = cmdline.Uint64("graph-seed", 0, "the seed of the first random program")
)

// share returns how many of n programs a test runs in the time that it has.
func share(n int) uint64 {
	switch {
	case *graphCount > 0:
		return uint64(*graphCount)
	case extent.Full():
		return uint64(10 * n)
	case extent.RaceDetector, !extent.Check():
		return uint64(n / 10)
	}
	return uint64(n)
}

// TestRandomPrograms checks that random programs have the same results on all kinds of clusters as in the interpreter. A program that does
// not is shrunk before it is shown.
func TestRandomPrograms(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // plans are short-lived: there is much garbage, and little else
	here := goleak.IgnoreCurrent()
	host := tensor.Host.Stats().InUse
	end := *graphSeed + share(400)
	var next atomic.Uint64
	next.Store(*graphSeed)
	var wg sync.WaitGroup
	var found atomic.Bool
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			c, err := StartClusters(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			for seed := next.Add(1) - 1; seed < end && !found.Load() && err == nil; seed = next.Add(1) - 1 {
				var f *Finding
				if f, err = c.Check(t.Context(), seed, extent.Slack(10*time.Second)); f != nil && !found.Swap(true) {
					t.Logf("found after %v: %v", time.Since(began).Round(time.Millisecond), f)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					t.Errorf("smaller: %v", c.Shrink(ctx, f, extent.Slack(time.Second)))
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
		if n := tensor.Host.Stats().InUse - host; n != 0 {
			t.Errorf("%d bytes of tensors are left", n)
		}
		goleak.VerifyNone(t, here, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
	}
}

// TestDamagedGraphs checks that damage to a graph is detected and shrunk.
func TestDamagedGraphs(t *testing.T) {
	c, err := StartClusters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	eachNode := func(do func(*nodepb.NodeDef)) func(*graphpb.GraphDef) {
		return func(def *graphpb.GraphDef) {
			for _, n := range def.Node {
				do(n)
			}
			for _, f := range def.Library.Function {
				for _, n := range f.NodeDef {
					do(n)
				}
			}
		}
	}
	const most, hangs = 200, "a value that never comes"
	for name, damage := range map[string]func(n *nodepb.NodeDef){
		"another op": func(n *nodepb.NodeDef) {
			if n.Op == "Minimum" {
				n.Op = "AddV2"
			}
		},
		"a reading that waits for nothing": func(n *nodepb.NodeDef) {
			if n.Op == "ReadVariableOp" {
				n.Input = slices.DeleteFunc(slices.Clone(n.Input), func(in string) bool { return in[0] == '^' })
			}
		},
		hangs: func(n *nodepb.NodeDef) {
			if n.Op == "QueueEnqueueV2" {
				n.Op, n.Input, n.Attr = "NoOp", nil, nil
			}
		},
	} {
		deadline := extent.Slack(10 * time.Second)
		if name == hangs {
			if !extent.Full() {
				continue // shrinking a program that hangs takes long
			}
			deadline = extent.Slack(500 * time.Millisecond)
		}
		t.Run(name, func(t *testing.T) {
			c.damage = eachNode(damage)
			defer func() { c.damage = nil }()
			for seed := uint64(0); seed < most; seed++ {
				f, err := c.Check(t.Context(), seed, deadline)
				if err != nil {
					t.Fatal(err)
				}
				if f == nil {
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				const small = 8
				if f = c.Shrink(ctx, f, deadline); f.Program.Size() > small {
					t.Errorf("not small: %v", f)
				}
				t.Logf("%v", f)
				return
			}
			t.Errorf("not found within %d programs", most)
		})
	}
}

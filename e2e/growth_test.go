//go:build unix

package e2e

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// growthFile returns the file that TestGrowthTables writes; without it, the test is skipped.
func growthFile() string { return os.Getenv("TROUPE_E2E_GROWTH") }

// startedAtOnce is how many tasks start at the same time. All tasks of a simulated cluster share this machine's cores, while each task of a
// real one has cores of its own.
const startedAtOnce = 8

// simulate starts the given number of tasks of the job "task" in this process and waits until each of them has learned of all others by
// gossip. It returns how long both took.
func simulate(t *testing.T, tasks int) (e *embedded, started, known took) {
	t.Helper()
	spec := troupe.ClusterSpec{}
	for range tasks {
		spec["task"] = append(spec["task"], spectest.Address(t))
	}
	e = &embedded{servers: make([]*troupe.Server, tasks)}
	quiet := troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	t.Cleanup(func() { e.stopAtOnce(t) })
	begun, used := time.Now(), processorTime(t)
	since := func() took { return took{time.Since(begun), processorTime(t) - used} }
	var starting sync.WaitGroup
	turns := make(chan struct{}, startedAtOnce)
	begin := func(i int) (err error) {
		e.servers[i], err = troupe.NewServer(t.Context(), spec, troupe.WithTask(i), troupe.WithStart(!extent.RaceDetector), quiet)
		return err
	}
	if extent.RaceDetector { // see remote.Listen; this takes longer, since tasks wait for others that do not serve yet
		for i := range tasks {
			if err := begin(i); err != nil {
				t.Fatal(err)
			}
		}
		begin = func(i int) error { return e.servers[i].Start(t.Context()) }
	}
	for i := range tasks {
		turns <- struct{}{}
		starting.Go(func() {
			defer func() { <-turns }()
			if err := begin(i); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	e.servers = slices.DeleteFunc(e.servers, func(s *troupe.Server) bool { return s == nil })
	if t.Failed() {
		t.FailNow()
	}
	started = since()
	for _, s := range e.servers {
		eventually(t, time.Minute, s.Task()+" knows all", func() error {
			for _, other := range s.Status() {
				if other.State != "up" {
					return fmt.Errorf("it takes %s for %s", other.Task, other.State)
				}
			}
			return nil
		})
	}
	return e, started, since()
}

// usage is what this process holds at one moment.
type usage struct {
	heap, goroutines, sockets float64 // bytes, and numbers
}

// use measures the process after collecting its garbage.
func use() usage {
	var m runtime.MemStats
	for range 2 { // the contents of a sync.Pool survive one collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	u := usage{heap: float64(m.HeapAlloc) + float64(m.StackInuse), goroutines: float64(runtime.NumGoroutine())}
	links, _ := os.ReadDir("/proc/self/fd") // without such a folder, nothing is counted
	for _, l := range links {
		if to, err := os.Readlink("/proc/self/fd/" + l.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			u.sockets++
		}
	}
	return u
}

func (u usage) minus(v usage) usage {
	return usage{u.heap - v.heap, u.goroutines - v.goroutines, u.sockets - v.sockets}
}

const mib = 1 << 20

// note adds the usage of a part of the simulation to a table.
func (u usage) note(g *growth, size int, of string) {
	g.add(size, of+": heap and stacks", "MiB", u.heap/mib)
	g.add(size, of+": goroutines", "", u.goroutines)
	if u.sockets > 0 {
		g.add(size, of+": sockets", "", u.sockets)
	}
}

// processorTime returns the processor time of this process, over all cores.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// took is the wall time of an operation, and the processor time that this process used for it on all cores. On a shared machine, compare
// the latter.
type took struct{ wall, processor time.Duration }

// timed returns the time that f takes.
func timed(t *testing.T, f func()) took {
	t.Helper()
	begun, used := time.Now(), processorTime(t)
	f()
	return took{time.Since(begun), processorTime(t) - used}
}

func (k took) note(g *growth, size int, of string) {
	g.add(size, of, "ms", milliseconds(k.wall))
	g.add(size, of+": processor", "ms", milliseconds(k.processor))
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// openOn opens a session on a server.
func openOn(t *testing.T, s *troupe.Server, g *graphpb.GraphDef) *troupe.Session {
	t.Helper()
	session, err := s.NewSession(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// runOn runs a step of a session and discards its results.
func runOn(t *testing.T, s *troupe.Session, fetches, targets []string) {
	t.Helper()
	out, err := s.Run(t.Context(), nil, fetches, targets)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range out {
		v.Release()
	}
}

// cost is the cost of a step: the time of the first one, the median time of the others, and their average processor time and allocations,
// in the whole process.
type cost struct {
	first             took
	median, processor time.Duration
	allocs, bytes     float64
}

// steps repeats a step for about limit, and at least five times after the first one, which builds the plan.
func steps(t *testing.T, limit time.Duration, step func()) cost {
	t.Helper()
	c := cost{first: timed(t, step)}
	step()
	var times []time.Duration
	var allocs, bytes []float64
	const parts = 5
	for range parts {
		var before, after runtime.MemStats
		n := 0
		runtime.ReadMemStats(&before)
		c.processor += timed(t, func() {
			for begun := time.Now(); n == 0 || n < 2000/parts && time.Since(begun) < limit/parts; n++ {
				one := time.Now()
				step()
				times = append(times, time.Since(one))
			}
		}).processor
		runtime.ReadMemStats(&after)
		allocs = append(allocs, float64(after.Mallocs-before.Mallocs)/float64(n))
		bytes = append(bytes, float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
	}
	c.processor /= time.Duration(len(times))
	slices.Sort(times)
	c.median = times[len(times)/2]
	c.allocs, c.bytes = slices.Min(allocs), slices.Min(bytes) // what else runs, such as gossip, only adds to them
	return c
}

func (c cost) note(g *growth, size int, of string) {
	c.first.note(g, size, of+": first")
	g.add(size, of+": median", "µs", microseconds(c.median))
	g.add(size, of+": processor", "µs", microseconds(c.processor))
	g.add(size, of+": allocations", "", c.allocs)
	g.add(size, of+": allocated", "KiB", c.bytes/1024)
}

// growWithTasks measures a cluster of the given number of tasks: at rest, steps of one master, and steps of many masters.
func growWithTasks(t *testing.T, g *growth, tasks int, rest, stepTime time.Duration) {
	before := use()
	e, started, known := simulate(t, tasks)
	started.note(g, tasks, "start of all")
	known.note(g, tasks, "all know all")
	idle := use()
	idle.minus(before).note(g, tasks, "at rest")
	if rest > 0 {
		time.Sleep(rest) // the gossip repeats the latest updates a few times
		used := processorTime(t)
		time.Sleep(rest) // measures an idle cluster
		g.add(tasks, "at rest: processor", "ms/s", milliseconds(processorTime(t)-used)/rest.Seconds())
	}

	def, everywhere := wideGraph("task", tasks)
	var s *troupe.Session
	timed(t, func() { s = openOn(t, e.servers[0], def) }).note(g, tasks, "session")
	steps(t, stepTime, func() { runOn(t, s, []string{"pair:0"}, nil) }).note(g, tasks, "2 tasks")
	one := use()
	steps(t, stepTime, func() { runOn(t, s, nil, everywhere) }).note(g, tasks, "no_op on all")
	steps(t, stepTime, func() { runOn(t, s, []string{"sum:0"}, nil) }).note(g, tasks, "reduce")
	linked := use().minus(one)
	linked.note(g, tasks, "links of a master to all")
	timed(t, func() { closeSession(t, openOn(t, e.servers[0], def)) }).note(g, tasks, "next session")
	closeSession(t, s)

	// Each task is a master, whose steps touch itself and task 0, like a worker and its server.
	small := use()
	sessions := make([]*troupe.Session, tasks)
	timed(t, func() {
		for i, server := range e.servers {
			sessions[i] = openOn(t, server, workerGraph(i))
			runOn(t, sessions[i], []string{"sum:0"}, nil)
		}
	}).note(g, tasks, "every task a master: sessions and first steps")
	use().minus(small).note(g, tasks, "every task a master")
	steps(t, stepTime, func() {
		var wg sync.WaitGroup
		for _, s := range sessions {
			wg.Go(func() {
				out, err := s.Run(t.Context(), nil, []string{"sum:0"}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				out[0].Release()
			})
		}
		wg.Wait()
	}).note(g, tasks, "a step of each master")
	for _, s := range sessions {
		closeSession(t, s)
	}
	timed(t, func() { e.stopAtOnce(t) }).note(g, tasks, "stop of all")
}

// workerGraph sums a constant of a task and one of task 0.
func workerGraph(i int) *graphpb.GraphDef {
	return graphOf(onTask(constant("own", float, floats(nil, 1)), "task", i), onTask(constant("its", float, floats(nil, 1)), "task", 0),
		onTask(sumOf("sum", "own", "its"), "task", i))
}

func closeSession(t *testing.T, s *troupe.Session) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// stopAtOnce stops all servers concurrently.
func (e *embedded) stopAtOnce(t *testing.T) {
	t.Helper()
	var wg sync.WaitGroup
	for _, s := range e.servers {
		if s == nil { // it did not start
			continue
		}
		wg.Go(func() {
			if err := s.Stop(t.Context()); err != nil {
				t.Errorf("%s did not stop in order: %v", s.Task(), err)
			}
		})
	}
	wg.Wait()
	e.servers = nil
}

// growWithSessions measures the given number of sessions on one master of a cluster of four tasks.
func growWithSessions(t *testing.T, g *growth, e *embedded, sessions int, stepTime time.Duration) {
	def, everywhere := wideGraph("task", len(e.servers))
	before := use()
	all := make([]*troupe.Session, sessions)
	timed(t, func() {
		for i := range all {
			all[i] = openOn(t, e.servers[0], def)
		}
	}).note(g, sessions, "open all")
	timed(t, func() {
		for _, s := range all {
			runOn(t, s, nil, everywhere)
		}
	}).note(g, sessions, "first steps")
	use().minus(before).note(g, sessions, "all")
	i := 0
	steps(t, stepTime, func() { i++; runOn(t, all[i%sessions], nil, everywhere) }).note(g, sessions, "a step of one of them")
	timed(t, func() {
		for _, s := range all {
			closeSession(t, s)
		}
	}).note(g, sessions, "close all")
}

// growWithGraph measures sessions with a graph of the given number of nodes.
func growWithGraph(t *testing.T, g *growth, e *embedded, def *graphpb.GraphDef, nodes int, fetches, targets []string, stepTime time.Duration) {
	before := use()
	var s *troupe.Session
	timed(t, func() { s = openOn(t, e.servers[0], def) }).note(g, nodes, "session")
	steps(t, stepTime, func() { runOn(t, s, fetches, targets) }).note(g, nodes, "step")
	use().minus(before).note(g, nodes, "session and plan")
	timed(t, func() {
		for i := range 10 {
			if err := s.Extend(t.Context(), graphOf(onTask(node(fmt.Sprintf("more_%d", i), "NoOp", 0), "task", 1))); err != nil {
				t.Fatal(err)
			}
		}
	}).note(g, nodes, "extend by one node, ten times")
	steps(t, stepTime, func() { runOn(t, s, nil, []string{"more_1"}) }).note(g, nodes, "step of one node")
	timed(t, func() { closeSession(t, s) }).note(g, nodes, "close")
}

// TestGrowth checks that the cost of a task does not depend on the number of others, and that of a step not on tasks, sessions and nodes
// that it does not touch. The sizes are small: TestGrowthTables measures the whole curves.
func TestGrowth(t *testing.T) {
	const stepTime = 100 * time.Millisecond
	atMost := func(t *testing.T, g *growth, name string, most float64) {
		t.Helper()
		r := g.row(t, name)
		if extent.RaceDetector && strings.HasSuffix(name, "allocations") {
			return // under the race detector, a sync.Pool drops values at random
		}
		if e := exponent(g.sizes, r.values); e > most {
			t.Errorf("%s grows with the power %.2f: %v for %v", name, e, r.values, g.sizes)
		}
	}
	t.Run("tasks", func(t *testing.T) {
		g := &growth{title: "Tasks"}
		for _, n := range []int{4, 8, 16} {
			growWithTasks(t, g, n, 0, stepTime)
		}
		t.Log("\n" + g.markdown())
		// Work that is done once for each other task has the exponent 1.16 at these sizes, since a cluster of n tasks has n-1 others.
		// Quadratic growth has 2.
		const worst = 1.5
		for name, most := range map[string]float64{
			"at rest: goroutines": worst, "at rest: heap and stacks": worst, "2 tasks: allocations": 0.3, "no_op on all: allocations": worst,
			"reduce: allocations": worst, "a step of each master: allocations": worst,
		} {
			atMost(t, g, name, most)
		}
		most := map[string]float64{"at rest: goroutines": 40, "links of a master to all: goroutines": 16} // for each task
		if runtime.GOOS == "linux" {
			most["links of a master to all: sockets"] = 4 // two connections, with both ends in this process
		}
		for name, each := range most {
			for i, v := range g.row(t, name).values {
				if v > each*float64(g.sizes[i]) {
					t.Errorf("%s: %v with %d tasks, more than %v for each", name, v, g.sizes[i], each)
				}
			}
		}
	})
	e, _, _ := simulate(t, 4)
	t.Run("sessions", func(t *testing.T) {
		g := &growth{title: "Sessions"}
		growWithSessions(t, &growth{}, e, 1, stepTime) // opens the links
		for _, n := range []int{10, 30, 100} {
			growWithSessions(t, g, e, n, stepTime)
		}
		t.Log("\n" + g.markdown())
		atMost(t, g, "a step of one of them: allocations", 0.2)
		for i, v := range g.row(t, "all: goroutines").values {
			if v > 20 {
				t.Errorf("%d sessions have %v goroutines", g.sizes[i], v)
			}
		}
	})
	t.Run("nodes", func(t *testing.T) {
		g := &growth{title: "Nodes"}
		for _, n := range []int{100, 300, 1000} {
			growWithGraph(t, g, e, chains("task", 4, n), n, []string{"sum:0"}, nil, stepTime)
		}
		t.Log("\n" + g.markdown())
		atMost(t, g, "step: allocations", 0.2)
		atMost(t, g, "step of one node: allocations", 0.2)
	})
}

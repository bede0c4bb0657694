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
)

// growthFile is where TestGrowthTables writes, which is skipped without it.
func growthFile() string { return os.Getenv("TROUPE_E2E_GROWTH") }

// startedAtOnce is how many tasks start at the same time: all of a large cluster share this machine's
// cores, which each task of a real one has to itself.
const startedAtOnce = 8

// simulate starts so many tasks of the job "task" in this process and waits until each of them has
// heard by gossip of all others. It tells how long both took.
func simulate(t *testing.T, tasks int) (e *embedded, started, known time.Duration) {
	t.Helper()
	spec := troupe.ClusterSpec{}
	for range tasks {
		spec["task"] = append(spec["task"], freeAddress(t))
	}
	e = &embedded{servers: make([]*troupe.Server, tasks)}
	quiet := troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	t.Cleanup(func() { e.stopAtOnce(t) })
	begun := time.Now()
	var starting sync.WaitGroup
	turns := make(chan struct{}, startedAtOnce)
	for i := range tasks {
		turns <- struct{}{}
		starting.Go(func() {
			defer func() { <-turns }()
			var err error
			if e.servers[i], err = troupe.NewServer(spec, troupe.WithTask(i), quiet); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	e.servers = slices.DeleteFunc(e.servers, func(s *troupe.Server) bool { return s == nil })
	if t.Failed() {
		t.FailNow()
	}
	started = time.Since(begun)
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
	return e, started, time.Since(begun)
}

// usage is what this process holds at a moment.
type usage struct {
	heap, goroutines, sockets float64 // bytes, and numbers
}

// use measures the process after collecting its garbage.
func use() usage {
	var m runtime.MemStats
	for range 2 { // what rests in a sync.Pool survives one collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	u := usage{heap: float64(m.HeapAlloc) + float64(m.StackInuse), goroutines: float64(runtime.NumGoroutine())}
	links, _ := os.ReadDir("/proc/self/fd") // where there is no such folder, nothing is counted
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

// note adds what a part of the simulation holds to a table.
func (u usage) note(g *growth, size int, of string) {
	g.add(size, of+": heap and stacks", "MiB", u.heap/mib)
	g.add(size, of+": goroutines", "", u.goroutines)
	if u.sockets > 0 {
		g.add(size, of+": sockets", "", u.sockets)
	}
}

// processorTime is what this process has used of all cores.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// timed is the time that f takes.
func timed(f func()) time.Duration {
	begun := time.Now()
	f()
	return time.Since(begun)
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// open opens a session on a server; it is closed at the test's end, unless that was done before.
func openOn(t *testing.T, s *troupe.Server, g *graphpb.GraphDef) *troupe.Session {
	t.Helper()
	session, err := s.NewSession(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// step is a step of a session, the results of which nobody wants.
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

// cost is a step's median time and what it allocates, in the whole process.
type cost struct {
	first, median time.Duration
	allocs, bytes float64
}

// steps repeats a step for about limit, and at least five times after the first one, which builds
// its plan.
func steps(t *testing.T, limit time.Duration, step func()) cost {
	t.Helper()
	c := cost{first: timed(step)}
	step()
	var times []time.Duration
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for begun := time.Now(); len(times) < 5 || len(times) < 2000 && time.Since(begun) < limit; {
		times = append(times, timed(step))
	}
	runtime.ReadMemStats(&after)
	slices.Sort(times)
	c.median = times[len(times)/2]
	c.allocs = float64(after.Mallocs-before.Mallocs) / float64(len(times))
	c.bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(len(times))
	return c
}

func (c cost) note(g *growth, size int, of string) {
	g.add(size, of+": first", "ms", milliseconds(c.first))
	g.add(size, of+": median", "µs", microseconds(c.median))
	g.add(size, of+": allocations", "", c.allocs)
	g.add(size, of+": allocated", "KiB", c.bytes/1024)
}

// growWithTasks measures a cluster of so many tasks: at rest, one master's steps, and steps of many
// masters.
func growWithTasks(t *testing.T, g *growth, tasks int, rest, stepTime time.Duration) {
	before := use()
	e, started, known := simulate(t, tasks)
	g.add(tasks, "start of all", "ms", milliseconds(started))
	g.add(tasks, "all know all", "ms", milliseconds(known))
	idle := use()
	idle.minus(before).note(g, tasks, "at rest")
	if rest > 0 {
		time.Sleep(rest) // the gossip tells the last news some times more
		used := processorTime(t)
		time.Sleep(rest) // the measure is of what happens while nobody does anything
		g.add(tasks, "at rest: processor", "ms/s", milliseconds(processorTime(t)-used)/rest.Seconds())
	}

	def, everywhere := wideGraph("task", tasks)
	var s *troupe.Session
	create := timed(func() { s = openOn(t, e.servers[0], def) })
	g.add(tasks, "session", "ms", milliseconds(create))
	steps(t, stepTime, func() { runOn(t, s, []string{"pair:0"}, nil) }).note(g, tasks, "2 tasks")
	one := use()
	steps(t, stepTime, func() { runOn(t, s, nil, everywhere) }).note(g, tasks, "no_op on all")
	steps(t, stepTime, func() { runOn(t, s, []string{"sum:0"}, nil) }).note(g, tasks, "reduce")
	linked := use().minus(one)
	linked.note(g, tasks, "links of a master to all")
	g.add(tasks, "next session", "ms", milliseconds(timed(func() { closeSession(t, openOn(t, e.servers[0], def)) })))
	closeSession(t, s)

	// Each task is a master, whose steps touch itself and task 0, like a worker and its server.
	small := use()
	sessions := make([]*troupe.Session, tasks)
	opening := timed(func() {
		for i, server := range e.servers {
			sessions[i] = openOn(t, server, workerGraph(i))
			runOn(t, sessions[i], []string{"sum:0"}, nil)
		}
	})
	g.add(tasks, "every task a master: sessions and first steps", "ms", milliseconds(opening))
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
	g.add(tasks, "stop of all", "ms", milliseconds(timed(func() { e.stopAtOnce(t) })))
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

// stopAtOnce stops all servers at the same time.
func (e *embedded) stopAtOnce(t *testing.T) {
	t.Helper()
	var wg sync.WaitGroup
	for _, s := range e.servers {
		wg.Go(func() {
			if err := s.Stop(t.Context()); err != nil {
				t.Errorf("%s did not stop in order: %v", s.Task(), err)
			}
		})
	}
	wg.Wait()
	e.servers = nil
}

// growWithSessions measures so many sessions on one master of a cluster of four.
func growWithSessions(t *testing.T, g *growth, e *embedded, sessions int, stepTime time.Duration) {
	def, everywhere := wideGraph("task", len(e.servers))
	before := use()
	all := make([]*troupe.Session, sessions)
	opening := timed(func() {
		for i := range all {
			all[i] = openOn(t, e.servers[0], def)
		}
	})
	running := timed(func() {
		for _, s := range all {
			runOn(t, s, nil, everywhere)
		}
	})
	g.add(sessions, "open all", "ms", milliseconds(opening))
	g.add(sessions, "first steps", "ms", milliseconds(running))
	use().minus(before).note(g, sessions, "all")
	i := 0
	steps(t, stepTime, func() { i++; runOn(t, all[i%sessions], nil, everywhere) }).note(g, sessions, "a step of one of them")
	g.add(sessions, "close all", "ms", milliseconds(timed(func() {
		for _, s := range all {
			closeSession(t, s)
		}
	})))
}

// growWithGraph measures sessions with a graph of so many nodes.
func growWithGraph(t *testing.T, g *growth, e *embedded, def *graphpb.GraphDef, nodes int, fetches, targets []string, stepTime time.Duration) {
	before := use()
	var s *troupe.Session
	g.add(nodes, "session", "ms", milliseconds(timed(func() { s = openOn(t, e.servers[0], def) })))
	c := steps(t, stepTime, func() { runOn(t, s, fetches, targets) })
	c.note(g, nodes, "step")
	use().minus(before).note(g, nodes, "session and plan")
	last := s
	g.add(nodes, "extend by one node, ten times", "ms", milliseconds(timed(func() {
		for i := range 10 {
			if err := last.Extend(t.Context(), graphOf(onTask(node(fmt.Sprintf("more_%d", i), "NoOp", 0), "task", 1))); err != nil {
				t.Fatal(err)
			}
		}
	})))
	small := steps(t, stepTime, func() { runOn(t, s, nil, []string{"more_1"}) })
	g.add(nodes, "step of one node: first", "ms", milliseconds(small.first))
	g.add(nodes, "step of one node: median", "µs", microseconds(small.median))
	g.add(nodes, "close", "ms", milliseconds(timed(func() { closeSession(t, s) })))
}

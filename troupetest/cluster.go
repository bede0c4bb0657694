package troupetest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/harness"
	"github.com/troupe-run/troupe/internal/network/simnet"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec"
)

// Cluster is a cluster in the test's process. Its tasks have hosts of their own on a network in memory. Its methods may be called concurrently,
// but not two that kill or restart the same task.
type Cluster struct {
	t       testing.TB
	spec    troupe.ClusterSpec
	options func(job string, task int) []troupe.Option
	net     *simnet.Net
	outside *simnet.Process // where clients dial from
	tasks   []*task         // by job, then index
	label   string          // of the goroutines that begin in servers
	allowed []string        // functions whose goroutines may stay
	probes  sync.Map        // *Probe by the number that makeProbe gets
	number  atomic.Int64    // of the last probe

	mu        sync.Mutex // guards the rest, and the tasks' processes: a test may restart a task while others of its goroutines use the cluster
	processes []*process // all that the tasks have had
	clients   []*troupe.Client
	cuts      [][2]*task
}

// task is a declared task of a cluster. Its process is nil until it has been bound: see Cluster.present.
type task struct {
	job     string
	index   int
	host    *simnet.Host
	process *process
}

func (t *task) String() string { return fmt.Sprintf("%s:%d", t.job, t.index) }

// process is a task's server until the next restart.
type process struct {
	server *troupe.Server
	net    *simnet.Process
	log    *testLog
	killed bool
}

// Start starts a cluster with the given number of tasks for each job, all with the same options, and stops it at the end of the test. The
// options are those of troupe.NewServer, except for WithJob, WithTask, WithBind and WithStart, which each task gets from the cluster. Without
// WithLogger, warnings and errors go to the test's log.
//
// If t is of a synctest bubble, Start must be called in that bubble.
func Start(t testing.TB, jobs map[string]int, options ...troupe.Option) *Cluster {
	t.Helper()
	return StartEach(t, jobs, func(string, int) []troupe.Option { return options })
}

// StartEach is Start with options for each task. Restart calls options again.
func StartEach(t testing.TB, jobs map[string]int, options func(job string, task int) []troupe.Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t, spec: troupe.ClusterSpec{}, options: options, net: simnet.New(1), label: newLabel(t)}
	c.outside = c.net.Host("10.255.0.1").Process()
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		for i := range jobs[job] {
			host := c.net.Host(fmt.Sprintf("10.0.%d.%d", len(c.tasks)/250, len(c.tasks)%250+1))
			c.tasks = append(c.tasks, &task{job: job, index: i, host: host})
			c.spec[job] = append(c.spec[job], host.Address(2222))
		}
	}
	t.Cleanup(c.end)
	// All ports are bound before the first task serves: every task finds the others.
	for _, task := range c.tasks {
		c.bind(task, nil)
	}
	for _, task := range c.tasks {
		c.serve(task)
	}
	return c
}

// bind makes a task's server, which does not serve yet.
func (c *Cluster) bind(task *task, more []troupe.Option) {
	c.t.Helper()
	net, log := task.host.Process(), &testLog{to: c.t.Output()}
	options := slices.Concat(
		[]troupe.Option{troupe.WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))},
		c.options(task.job, task.index), more,
		[]troupe.Option{troupe.WithActor(probeKind, c.makeProbe), harness.Place(net, task.job, task.index).(troupe.Option)})
	c.labelled(func() {
		server, err := troupe.NewServer(c.t.Context(), c.spec, options...)
		if err != nil {
			c.t.Fatalf("troupetest: %s cannot be made: %v", task, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		task.process = &process{server: server, net: net, log: log}
		c.processes = append(c.processes, task.process)
	})
}

// present returns a task's process, which Restart replaces.
func (c *Cluster) present(task *task) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return task.process
}

// serve starts a task's server.
func (c *Cluster) serve(task *task) {
	c.t.Helper()
	c.labelled(func() {
		if err := c.present(task).server.Start(c.t.Context()); err != nil {
			c.t.Fatalf("troupetest: %s does not start: %v", task, err)
		}
	})
}

// task returns the task with a name.
func (c *Cluster) task(name string) *task {
	c.t.Helper()
	job, index, err := spec.ParseTaskName(name)
	i := slices.IndexFunc(c.tasks, func(t *task) bool { return err == nil && t.job == job && t.index == index })
	if i < 0 {
		c.t.Fatalf("troupetest: the cluster has no task %q; its tasks are %v", name, c.tasks)
	}
	return c.tasks[i]
}

// Server returns the server of a task: the present one, if the task was restarted.
func (c *Cluster) Server(task string) *troupe.Server {
	c.t.Helper()
	return c.present(c.task(task)).server
}

// Servers returns the servers of all tasks, by job name, then task.
func (c *Cluster) Servers() []*troupe.Server {
	var all []*troupe.Server
	for _, t := range c.tasks {
		all = append(all, c.present(t).server)
	}
	return all
}

// Dial returns a client of a task's server, from a host that is not of the cluster. The client is closed at the end of the test.
func (c *Cluster) Dial(task string, options ...troupe.DialOption) *troupe.Client {
	c.t.Helper()
	target := c.Server(task).Target()
	d, err := troupe.Dial(c.t.Context(), target, append([]troupe.DialOption{client.WithDialer(c.outside.Dial)}, options...)...)
	if err != nil {
		c.t.Fatalf("troupetest: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = append(c.clients, d)
	return d
}

// Kill ends a task. To the other tasks it looks as if its process had ended: their connections to it are reset, and nothing that it still
// does reaches them. Its server is then stopped, and with it the actors there, whose contexts end. Kill does nothing if the task was killed
// already.
func (c *Cluster) Kill(task string) {
	c.t.Helper()
	k := c.present(c.task(task))
	c.mu.Lock()
	before := k.killed
	k.killed = true
	c.mu.Unlock()
	if before {
		return
	}
	k.net.Kill()
	k.log.close()
	now, cancel := context.WithCancel(c.t.Context())
	cancel() // a process that is killed waits for nothing
	_ = k.server.Stop(now)
}

// Restart starts a task again that was killed, or that the test has stopped: with its options, more options, and another boot
// (TaskStatus.Boot). Its actors and variables are lost.
func (c *Cluster) Restart(task string, more ...troupe.Option) {
	c.t.Helper()
	k := c.task(task)
	c.bind(k, more)
	c.serve(k)
}

// Cut stops the traffic between two tasks, in both directions, silently: what is sent does not arrive, and connections are not
// reset. What waits on a connection when Heal restores the traffic arrives then.
func (c *Cluster) Cut(a, b string) {
	c.t.Helper()
	c.cut(c.task(a), c.task(b), true)
}

// Heal restores the traffic between two tasks after Cut.
func (c *Cluster) Heal(a, b string) {
	c.t.Helper()
	c.cut(c.task(a), c.task(b), false)
}

func (c *Cluster) cut(a, b *task, cut bool) {
	c.net.Cut(a.host, b.host, cut)
	if cut {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cuts = append(c.cuts, [2]*task{a, b})
	}
}

// Freeze stops all traffic of a task, with other tasks and with clients, silently, as if its machine stood still. The task's own actors and
// steps go on.
func (c *Cluster) Freeze(task string) {
	c.t.Helper()
	c.task(task).host.Freeze(true)
}

// Thaw restores the traffic of a task after Freeze.
func (c *Cluster) Thaw(task string) {
	c.t.Helper()
	c.task(task).host.Freeze(false)
}

// Delay sets how long what is sent takes from host to host, which is half of a round trip. It is 0 at the start.
func (c *Cluster) Delay(d time.Duration) { c.net.Delay(d) }

// Lose sets the fraction of packets that are lost between hosts, from 0 to 1. It is 0 at the start. Connections lose nothing: what
// they have to send again arrives 200 ms later.
func (c *Cluster) Lose(fraction float64) { c.net.Lose(fraction) }

// AllowGoroutine allows goroutines with the given function in their stack, such as net/http.(*persistConn).readLoop, to outlive the
// cluster. In a bubble it has no effect.
func (c *Cluster) AllowGoroutine(function string) { c.allowed = append(c.allowed, function) }

// end stops the cluster and checks what is left.
func (c *Cluster) end() {
	c.t.Helper()
	c.Delay(0)
	c.Lose(0)
	for _, cut := range c.cuts {
		c.cut(cut[0], cut[1], false)
	}
	for _, t := range c.tasks {
		t.host.Freeze(false)
	}
	for _, d := range c.clients {
		if err := d.Close(context.Background()); err != nil {
			c.t.Errorf("troupetest: a client of %s did not close in order: %v", d.Target(), err)
		}
	}
	c.stop()
	c.checkLeft()
	for _, p := range c.processes {
		p.log.close()
	}
}

// stop stops all servers. Those that were killed have stopped.
func (c *Cluster) stop() {
	c.t.Helper()
	errs := make([]error, len(c.processes))
	var wg sync.WaitGroup
	for i, p := range c.processes {
		if !p.killed {
			wg.Go(func() { errs[i] = p.server.Stop(context.Background()) })
		}
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			c.t.Errorf("troupetest: %s did not stop in order: %v", c.processes[i].server.Task(), err)
		}
	}
}

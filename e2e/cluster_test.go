//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// cluster is a cluster of real processes on this machine.
type cluster struct {
	spec  string // the value of --cluster
	flags []string
	tasks []*task
	// binary is the program that the tasks run, built() if it is empty; bare if it is a server itself, and not troupe serve. env adds to their
	// environment.
	binary string
	bare   bool
	env    []string
	// shows are the flags of commands that authenticate a client, and isReady waits until all tasks are up, where clients need certificates.
	shows   []string
	isReady func(testing.TB)
}

// task is one process of a cluster.
type task struct {
	job   string
	index int
	addr  string
	proc  *process // the current process, nil if none was started
	flags []string // in addition to the cluster's
	env   []string // likewise
	// at is a command line that runs the task's command on another host of the network; empty for the test's own.
	at []string
}

func (k *task) key() string    { return fmt.Sprintf("%s:%d", k.job, k.index) }
func (k *task) target() string { return "grpc://" + k.addr }
func (k *task) name() string   { return fmt.Sprintf("/job:%s/replica:0/task:%d", k.job, k.index) }

// newCluster starts a cluster such as "ps=1,worker=2" and waits until every task knows every other's devices. The test's cleanup stops it
// and checks that each task stops properly.
func newCluster(t testing.TB, jobs string, flags ...string) *cluster {
	t.Helper()
	c := declare(t, jobs, flags...)
	c.startAll(t)
	return c
}

// startAll starts a declared cluster as newCluster does.
func (c *cluster) startAll(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		c.attachLogs(t)
	})
	for _, k := range c.tasks {
		c.start(t, k)
	}
	c.ready(t)
}

// declare makes a cluster without starting its tasks.
func declare(t testing.TB, jobs string, flags ...string) *cluster {
	t.Helper()
	c := &cluster{flags: flags}
	var parts []string
	for job := range strings.SplitSeq(jobs, ",") {
		name, count, _ := strings.Cut(job, "=")
		n := 0
		if _, err := fmt.Sscan(count, &n); err != nil {
			t.Fatalf("jobs %q: %v", jobs, err)
		}
		var addrs []string
		for i := range n {
			k := &task{job: name, index: i, addr: spectest.Address(t)}
			c.tasks = append(c.tasks, k)
			addrs = append(addrs, k.addr)
		}
		parts = append(parts, name+"="+strings.Join(addrs, ","))
	}
	c.spec = strings.Join(parts, ";")
	return c
}

// start starts a task's process.
func (c *cluster) start(t testing.TB, k *task) {
	t.Helper()
	if err := c.launch(k); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) launch(k *task) error {
	path := c.binary
	if path == "" {
		var err error
		if path, err = built(); err != nil {
			return err
		}
	}
	args := append([]string{"--cluster", c.spec, "--job", k.job, "--task", fmt.Sprint(k.index)}, append(k.flags, c.flags...)...)
	if !c.bare {
		args = append([]string{"serve"}, args...)
	}
	args = slices.Concat(k.at, []string{path}, args)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = slices.Concat(os.Environ(), c.env, k.env)
	var err error
	k.proc, err = launch(k.name(), cmd)
	return err
}

func (c *cluster) task(job string, index int) *task {
	for _, k := range c.tasks {
		if k.job == job && k.index == index {
			return k
		}
	}
	panic(fmt.Sprintf("the test's cluster has no task %s:%d", job, index))
}

// targets returns the targets of the running tasks, for the Python side.
func (c *cluster) targets() map[string]string {
	m := map[string]string{}
	for _, k := range c.tasks {
		m[k.key()] = k.target()
	}
	return m
}

// answers waits until a task's master serves sessions.
func (c *cluster) answers(t testing.TB, k *task) {
	t.Helper()
	eventually(t, 20*time.Second, k.name()+" answers", func() error {
		if !k.proc.running() {
			t.Fatalf("%s ended: %v\n%s", k.name(), k.proc.err, k.proc.log.tail())
		}
		ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(5*time.Second))
		defer cancel()
		return lists(ctx, k.addr, k.name()+"/device:CPU:0")
	})
}

// ready waits until each running task lists the devices of all running tasks.
func (c *cluster) ready(t testing.TB) {
	t.Helper()
	if c.isReady != nil {
		c.isReady(t)
		return
	}
	var all []string
	for _, k := range c.tasks {
		if k.proc != nil {
			c.answers(t, k)
			all = append(all, k.name()+"/device:CPU:0")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(20*time.Second))
	defer cancel()
	for _, k := range c.tasks {
		if k.proc != nil {
			if err := lists(ctx, k.addr, all...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// lists waits until the master at an address lists all these devices.
func lists(ctx context.Context, addr string, want ...string) error {
	m, err := dial(addr)
	if err != nil {
		return err
	}
	defer m.close()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		filters := []string{}
		for _, d := range want {
			filters = append(filters, strings.TrimSuffix(d, "/device:CPU:0")) // others may be down
		}
		s, err := m.createSession(ctx, nil, filters...)
		if err != nil {
			return err
		}
		names, err := m.listDevices(ctx, s)
		if err := errors.Join(err, m.closeSession(ctx, s)); err != nil {
			return err
		}
		missing := slices.DeleteFunc(slices.Clone(want), func(d string) bool { return slices.Contains(names, d) })
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the master at %s does not list %v", addr, missing)
		case <-again.C:
		}
	}
}

// stop ends all tasks at once with SIGTERM. Its error names those that did not stop properly.
func (c *cluster) stop() error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.tasks))
	for i, k := range c.tasks {
		if k.proc != nil && k.proc.running() {
			wg.Go(func() { errs[i] = k.proc.terminate() })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// attachLogs writes what the tasks printed into a failed test's log.
func (c *cluster) attachLogs(t testing.TB) {
	if !t.Failed() {
		return
	}
	for _, k := range c.tasks {
		if k.proc != nil {
			t.Logf("log of %s (%s):\n%s", k.name(), k.addr, k.proc.log.tail())
			k.proc.log.save(t)
		}
	}
}

// shared is the cluster for tests that do not affect its tasks: one ps and two workers.
var shared struct {
	sync.Mutex
	c *cluster
}

func sharedCluster(t testing.TB) *cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.c != nil && shared.c.ended() != nil { // the test during which it ended reports it
		for _, k := range shared.c.tasks {
			k.proc.kill()
		}
		shared.c = nil
	}
	if shared.c == nil {
		c := declare(t, "ps=1,worker=2")
		shared.c = c // before startAll, so that a failure leaves no process behind
		for _, k := range c.tasks {
			c.start(t, k)
		}
		c.ready(t)
	}
	c := shared.c
	t.Cleanup(func() {
		if k := c.ended(); k != nil {
			t.Errorf("%s ended: %v", k.name(), k.proc.err)
		}
		c.attachLogs(t)
	})
	return c
}

// ended returns a task whose process has ended, or nil if all are running.
func (c *cluster) ended() *task {
	for _, k := range c.tasks {
		if k.proc == nil || !k.proc.running() {
			return k
		}
	}
	return nil
}

func endShared() error {
	if shared.c == nil {
		return nil
	}
	return shared.c.stop()
}

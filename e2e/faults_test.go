//go:build unix

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// functionsOf returns the names of a file's test functions.
func functionsOf(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range caseFunction.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		t.Fatalf("%s has no test functions", path)
	}
	return names
}

// TestFaults runs every function of faults/lost.py several times, each on a cluster of its own.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, function := range functionsOf(t, "faults/lost.py") {
		t.Run(strings.TrimPrefix(function, "test_"), func(t *testing.T) {
			needPython(t)
			c := newCluster(t, "ps=1,worker=2")
			d := drivers.borrow(t)
			d.act = c.act
			for i := range repetitions() {
				d.must(t, request{Case: "faults/lost.py", Function: function, Name: fmt.Sprintf("%s_%d", function, i),
					Targets: c.targets()}, caseTime)
			}
		})
	}
}

// TestAbsentTask runs the functions of faults/absent.py on a cluster with one task that is not running.
func TestAbsentTask(t *testing.T) {
	t.Parallel()
	path := filepath.Join("faults", "absent.py")
	for _, function := range functionsOf(t, path) {
		t.Run(strings.TrimPrefix(function, "test_"), func(t *testing.T) {
			needPython(t)
			partlyStarted(t, path, function, declare(t, "ps=1,worker=2", "--startup-timeout", "1s"), "ps:0", "worker:0")
		})
	}
}

// TestLateTask runs the functions of faults/late.py on clusters whose parameter server starts late.
func TestLateTask(t *testing.T) {
	t.Parallel()
	path := filepath.Join("faults", "late.py")
	for _, function := range functionsOf(t, path) {
		t.Run(strings.TrimPrefix(function, "test_"), func(t *testing.T) {
			if strings.HasSuffix(function, "_long") && !extent.Check() {
				t.Skip("it waits for half a minute: TROUPE_TESTS=check runs it")
			}
			needPython(t)
			t.Parallel()
			partlyStarted(t, path, function, declare(t, "ps=1,worker=1"), "worker:0")
		})
	}
}

// partlyStarted runs a function on a cluster after it has started some of its tasks.
func partlyStarted(t *testing.T, path, function string, c *cluster, keys ...string) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		c.attachLogs(t)
	})
	for _, k := range c.tasks {
		if slices.Contains(keys, k.key()) {
			c.start(t, k)
		}
	}
	c.ready(t)
	d := drivers.borrow(t)
	d.act = c.act
	d.must(t, request{Case: path, Function: function, Name: function, Targets: c.targets()}, caseTime)
}

// act performs an action of a case on a task.
func (c *cluster) act(what, key string) error {
	for _, k := range c.tasks {
		if k.key() != key {
			continue
		}
		switch what {
		case "kill":
			k.proc.kill()
		case "freeze":
			k.proc.freeze()
		case "thaw":
			k.proc.signal(syscall.SIGCONT)
		case "terminate":
			return k.proc.terminate()
		case "start":
			return c.comeBack(k)
		default:
			return fmt.Errorf("nobody knows how to %s %s", what, key)
		}
		return nil
	}
	return fmt.Errorf("no task %s", key)
}

// comeBack starts a task and waits until it answers and the others reach it, which must take less than a second for a restarted task.
func (c *cluster) comeBack(k *task) error {
	if err := c.launch(k); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(10*time.Second))
	defer cancel()
	for _, other := range c.tasks {
		if other.proc == nil || !other.proc.running() {
			continue
		}
		if err := lists(ctx, other.addr, k.name()+"/device:CPU:0"); err != nil {
			return fmt.Errorf("%s after the start of %s: %w", other.name(), k.name(), err)
		}
	}
	return nil
}

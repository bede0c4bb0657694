//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// programTime bounds a whole program.
const programTime = 60 * time.Second

// program runs one of programs/ in a Python process and returns the last line that it printed. It may be called from any goroutine.
func program(t testing.TB, d *driver, name string, args ...string) string {
	t.Helper()
	a, err := d.do(request{Program: "programs/" + name, Args: args}, programTime)
	if err == nil {
		err = a.err()
	}
	if err != nil {
		t.Errorf("%s %s: %v", name, strings.Join(args, " "), err)
		return ""
	}
	lines := strings.Split(strings.TrimSpace(a.Output), "\n")
	return lines[len(lines)-1]
}

func expect(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// eachMaster runs a test with every task as master, each on a cluster of its own.
func eachMaster(t *testing.T, test func(t *testing.T, c *cluster, master *task, others []*task)) {
	for i, name := range []string{"ps0", "worker0", "worker1"} {
		t.Run("master="+name, func(t *testing.T) {
			needPython(t)
			c := newCluster(t, "ps=1,worker=2")
			var others []*task
			for j, k := range c.tasks {
				if j != i {
					others = append(others, k)
				}
			}
			test(t, c, c.tasks[i], others)
		})
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	eachMaster(t, func(t *testing.T, c *cluster, master *task, others []*task) {
		d := drivers.borrow(t)
		expect(t, "arithmetic", program(t, d, "arithmetic.py", master.target()), "9.0")
		expect(t, "counter", program(t, d, "counter.py", master.target(), "new"), "1.0")
		expect(t, "counter, second task", program(t, d, "counter.py", others[0].target()), "2.0")
		expect(t, "counter, third task", program(t, d, "counter.py", others[1].target()), "3.0")
		expect(t, "departments", program(t, d, "departments.py", master.target(), others[0].target()), "done")
		expect(t, "departments, other way", program(t, d, "departments.py", others[1].target(), master.target()), "done")
	})
}

// TestDebugger checks that TensorFlow's debugger finds the value of each tensor in the files that two tasks write.
func TestDebugger(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "worker=2")
	expect(t, "watched", program(t, drivers.borrow(t), "watched.py", c.tasks[0].target(), t.TempDir()), "done")
}

// TestPipelineProgram runs a producer and a consumer in separate processes, through different masters.
func TestPipelineProgram(t *testing.T) {
	t.Parallel()
	eachMaster(t, func(t *testing.T, c *cluster, master *task, others []*task) {
		load, learn := drivers.borrow(t), drivers.borrow(t)
		const rows = 200
		together(
			func() {
				expect(t, "load", program(t, load, "pipeline.py", "load", master.target(), fmt.Sprint(rows)), fmt.Sprint("loaded ", rows))
			},
			func() {
				expect(t, "learn", program(t, learn, "pipeline.py", "learn", others[0].target(), fmt.Sprint(rows)), fmt.Sprint("learned ", rows))
			})
	})
}

// TestTrainingProgram has two workers train at once, each through its own task.
func TestTrainingProgram(t *testing.T) {
	t.Parallel()
	needPython(t)
	trainTwo(t, newCluster(t, "ps=1,worker=2"))
}

// trainTwo trains through the first two workers of a cluster with one ps at the same time.
func trainTwo(t *testing.T, c *cluster) {
	t.Helper()
	chief, second := drivers.borrow(t), drivers.borrow(t)
	ps := c.task("ps", 0).addr
	workers := c.task("worker", 0).addr + "," + c.task("worker", 1).addr
	train := func(d *driver, task string) {
		if got := program(t, d, "train.py", ps, workers, task, "250"); !strings.HasPrefix(got, "trained to ") {
			t.Errorf("worker %s printed %q", task, got)
		}
	}
	together(func() { train(chief, "0") }, func() { train(second, "1") })
}

// TestWhoseResourcesAre checks that resources that ask for no task belong to the cluster or to each master, as the flag says. A device such
// as /cpu:0 is always the master's own, as with TensorFlow's servers, which are the last row.
func TestWhoseResourcesAre(t *testing.T) {
	t.Parallel()
	needPython(t)
	for _, c := range []struct {
		flag, want string
		more       []string
	}{
		{"--unpinned=cluster", "1+101 101+102 own own", nil},
		{"--unpinned=task", "1+101 1+101 own own own own", []string{"anywhere"}},
	} {
		t.Run(c.flag, func(t *testing.T) {
			two := newCluster(t, "worker=2", c.flag)
			got := program(t, drivers.borrow(t), "whose.py", append([]string{two.tasks[0].target(), two.tasks[1].target(), t.TempDir()}, c.more...)...)
			expect(t, "whose", got, c.want)
		})
	}
}

// together runs functions concurrently and waits for all.
func together(fs ...func()) {
	var wg sync.WaitGroup
	for _, f := range fs {
		wg.Go(f)
	}
	wg.Wait()
}

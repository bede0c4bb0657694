//go:build unix

package e2e

import (
	"path/filepath"
	"testing"
	"time"
)

// TestIteratorsOutliveSessionsAndTasks checks that clients of different masters share an iterator by name, and that an iterator goes on in
// the middle of a shuffle after its task was killed and restarted.
func TestIteratorsOutliveSessionsAndTasks(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=2")
	d := drivers.borrow(t)
	path := filepath.Join(t.TempDir(), "state")
	first, second := c.task("worker", 0).target(), c.task("worker", 1).target()
	expect(t, "begin", program(t, d, "iterator.py", "begin", first, path), "[[5, 2], [0, 6]]")
	expect(t, "next, of another client", program(t, d, "iterator.py", "next", second, path), "[10, 8]")
	const rest = "[[3, 9], [11, 1], [7, 15], [18, 13], [19, 16], [17, 4], [12, 14]]"
	expect(t, "save", program(t, d, "iterator.py", "save", first, path), rest)
	ps := c.task("ps", 0)
	ps.proc.kill()
	c.start(t, ps)
	c.ready(t)
	expect(t, "restore, on a task that was started again", program(t, d, "iterator.py", "restore", second, path), rest)
}

// TestIteratorOfAKilledTask kills the task of a pipeline: the steps that wait for its elements end. The restarted task has a new iterator.
func TestIteratorOfAKilledTask(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=2")
	d, other := drivers.borrow(t), drivers.borrow(t)
	path := filepath.Join(t.TempDir(), "state")
	waiting := make(chan string, 1)
	go func() { waiting <- program(t, other, "iterator.py", "wait", c.task("worker", 0).target(), path) }()
	expect(t, "waiting", program(t, d, "iterator.py", "waiting", c.task("worker", 1).target(), path), "0")
	ps := c.task("ps", 0)
	ps.proc.kill()
	killed := time.Now()
	if got := <-waiting; got != "UnavailableError" && got != "AbortedError" {
		t.Errorf("the step that waited got %s", got)
	}
	if took := time.Since(killed); took > 5*time.Second {
		t.Errorf("the step that waited was told after %v", took)
	}
	c.start(t, ps)
	c.ready(t)
	expect(t, "begin, on a task that was started again", program(t, d, "iterator.py", "begin", c.task("worker", 1).target(), path), "[[5, 2], [0, 6]]")
}

// TestIteratorOfAKilledClient kills a client that waits for an element: others can go on using the iterator.
func TestIteratorOfAKilledClient(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=2")
	d, killed := drivers.borrow(t), drivers.borrow(t)
	path := filepath.Join(t.TempDir(), "state")
	waiting := make(chan error, 1)
	go func() {
		_, err := killed.do(request{Program: "programs/iterator.py", Args: []string{"wait", c.task("worker", 0).target(), path}}, time.Minute)
		waiting <- err
	}()
	expect(t, "waiting", program(t, d, "iterator.py", "waiting", c.task("worker", 1).target(), path), "0")
	killed.proc.kill()
	if err := <-waiting; err == nil {
		t.Error("an element that nobody gave")
	}
	expect(t, "give", program(t, d, "iterator.py", "give", c.task("worker", 1).target(), path), "101")
}

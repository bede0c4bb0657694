//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// served matches the line with which a task reports that it serves.
var served = regexp.MustCompile(`msg=serving task=(\S+)`)

// joins starts a process that joins a cluster as a worker.
func joins(t *testing.T, name, seeds string) *process {
	t.Helper()
	p, err := launch(name, exec.Command(binary(t), "serve", "--join", seeds, "--job", "worker"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, p.log.tail())
		}
		if !p.running() {
			return
		}
		if err := p.terminate(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// becomes waits until a process serves a task or has ended, and returns the task, or "".
func becomes(t *testing.T, p *process) string {
	t.Helper()
	task := ""
	eventually(t, 30*time.Second, p.name+" serves or is refused", func() error {
		if m := served.FindStringSubmatch(p.log.String()); m != nil {
			task = m[1]
			return nil
		}
		if !p.running() {
			return nil
		}
		return fmt.Errorf("it does neither")
	})
	return task
}

// TestJoiningBySeeds starts one declared task, which the others join by seeds. Processes that join at the same moment divide the tasks
// among themselves. A surplus one is told which processes have them, and a task whose process was killed is claimed by another.
func TestJoiningBySeeds(t *testing.T) {
	t.Parallel()
	c := declare(t, "ps=1,worker=2")
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		c.attachLogs(t)
	})
	ps := c.task("ps", 0)
	c.start(t, ps)
	c.answers(t, ps)

	seeds := "127.0.0.1:1," + ps.addr // nothing listens at the first
	var all []*process
	for i := range 4 {
		all = append(all, joins(t, fmt.Sprintf("joiner %d", i), seeds))
	}
	tasks := map[string]*process{}
	for _, p := range all {
		if task := becomes(t, p); task != "" {
			if tasks[task] != nil {
				t.Errorf("%s and %s are both %s", p.name, tasks[task].name, task)
			}
			tasks[task] = p
			continue
		}
		if code, err := p.wait(extent.Slack(stopTime)); err != nil || code != 3 {
			t.Errorf("%s: exit code %d, %v", p.name, code, err)
		}
	}
	first, second := c.task("worker", 0), c.task("worker", 1)
	if len(tasks) != 2 || tasks[first.name()] == nil || tasks[second.name()] == nil {
		t.Fatalf("%d tasks were claimed: %v", len(tasks), tasks)
	}

	// Each of them reports all tasks, and computes for sessions of another.
	_, text := command(t, "status", "--json", "127.0.0.1:1,"+second.addr)
	var status struct{ Tasks []struct{ Address string } }
	if err := json.Unmarshal([]byte(text), &status); err != nil || len(status.Tasks) != 3 || status.Tasks[0].Address != ps.addr {
		t.Errorf("%v: %s", err, text)
	}
	if err := lists(bounded(t), first.addr, ps.name()+"/device:CPU:0", first.name()+"/device:CPU:0", second.name()+"/device:CPU:0"); err != nil {
		t.Error(err)
	}

	// There is no task for a third process, which is told which processes have them.
	code, text := command(t, "serve", "--join", second.addr, "--job", "worker")
	if code != 3 {
		t.Errorf("exit code %d: %s", code, text)
	}
	for task, p := range tasks {
		contains(t, "the refusal", text, task+" (127.0.0.1:", "it is taken by "+task, fmt.Sprintf("process %d on ", p.cmd.Process.Pid))
	}

	// A task whose process is killed is claimed by the next one.
	killed := tasks[first.name()]
	killed.kill()
	next := joins(t, "successor", second.addr+","+ps.addr)
	if task := becomes(t, next); task != first.name() {
		t.Fatalf("the successor became %q", task)
	}
	if err := lists(bounded(t), ps.addr, first.name()+"/device:CPU:0", second.name()+"/device:CPU:0"); err != nil {
		t.Error(err)
	}
	code, text = command(t, "serve", "--join", ps.addr, "--job", "worker", "--task", "0")
	if code != 3 || !strings.Contains(text, fmt.Sprintf("process %d on ", next.cmd.Process.Pid)) {
		t.Errorf("exit code %d: %s", code, text)
	}

	// A frozen process keeps its task: its address does not answer, but no other process can bind it.
	next.freeze()
	code, text = command(t, "serve", "--join", second.addr, "--job", "worker", "--task", "0")
	next.signal(syscall.SIGCONT)
	if code != 3 || !strings.Contains(text, "is taken") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

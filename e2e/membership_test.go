//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// command runs a troupe command to its end and returns its exit code and output.
func command(t *testing.T, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(20*time.Second))
	defer cancel()
	out, err := exec.CommandContext(ctx, binary(t), args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("troupe %v: %v", args, err)
	}
	if exit != nil && exit.ExitCode() < 0 {
		t.Fatalf("troupe %v did not end by itself: %v\n%s", args, err, out)
	}
	code := 0
	if exit != nil {
		code = exit.ExitCode()
	}
	return code, string(out)
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s: %q is not in\n%s", what, p, text)
		}
	}
}

// TestStrangersAreRefused checks that processes that do not belong to the cluster are refused, with both sides named, and that the cluster
// goes on.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "ps=1,worker=2")
	ps, first, second := c.task("ps", 0), c.task("worker", 0), c.task("worker", 1)
	elsewhere := spectest.Address(t)

	for _, row := range []struct {
		name, spec, job string
		task            int
		want            []string
	}{
		{"a task of another cluster", strings.Replace(c.spec, ","+second.addr, ",2@"+elsewhere, 1), "worker", 2,
			[]string{"/job:worker/replica:0/task:2", elsewhere, "different cluster specs"}},
		{"a job of another cluster", strings.Replace(c.spec, ","+second.addr, "", 1) + ";judge=" + elsewhere, "judge", 0,
			[]string{"/job:judge/replica:0/task:0", elsewhere, "different cluster specs"}},
		{"a second process for a task, elsewhere", strings.Replace(c.spec, second.addr, elsewhere, 1), "worker", 1,
			[]string{second.name(), second.addr, elsewhere}},
		{"a second process for a task, at its address", c.spec, "worker", 0,
			[]string{"port", first.addr, "is taken", first.name()}},
		{"a task at another's address", "ps=" + ps.addr + ";worker=" + second.addr + "," + first.addr, "worker", 0,
			[]string{second.addr, "is taken", second.name()}},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, text := command(t, "serve", "--cluster", row.spec, "--job", row.job, "--task", fmt.Sprint(row.task))
			if code == 0 {
				t.Errorf("exit code 0")
			}
			contains(t, "the refusal", text, row.want...)
			contains(t, "the process that is there", text, "process "+fmt.Sprint(holder(c, row.want)))
		})
	}
	c.ready(t)
	c.attachLogs(t)
}

// holder returns the pid of one of the cluster's processes that a refusal must name. Any of them may answer first, except for a taken port.
func holder(c *cluster, want []string) any {
	for _, k := range c.tasks {
		for i, w := range want {
			if w == k.addr && i+1 < len(want) && want[i+1] == "is taken" {
				return k.proc.cmd.Process.Pid
			}
		}
	}
	return ""
}

// TestStatusOfATask checks the output of troupe status as a task starts, dies and comes back.
func TestStatusOfATask(t *testing.T) {
	t.Parallel()
	c := declare(t, "ps=1,worker=1")
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		c.attachLogs(t)
	})
	ps, worker := c.tasks[0], c.tasks[1]
	c.start(t, ps)
	c.ready(t)

	state := func() (state, reason string, boot uint64) {
		code, text := command(t, "status", "--json", ps.target())
		var s struct {
			Tasks []struct {
				Task, Address, State, Reason string
				Since                        int64
				Boot                         uint64
			}
		}
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		for _, k := range s.Tasks {
			if k.Task == worker.name() {
				if up := k.State == "up"; up != (code == 0) || !up && code != 1 {
					t.Errorf("exit code %d while the task is %s", code, k.State)
				}
				if k.Address != worker.addr || k.Since == 0 {
					t.Errorf("%s is at %q since %d", k.Task, k.Address, k.Since)
				}
				return k.State, k.Reason, k.Boot
			}
		}
		t.Fatalf("%s is not in %s", worker.name(), text)
		return
	}
	becomes := func(want string, limit time.Duration) {
		t.Helper()
		eventually(t, limit, "state "+want, func() error {
			if got, reason, _ := state(); got != want {
				return fmt.Errorf("it is %q, %q", got, reason)
			}
			return nil
		})
	}

	becomes("never seen", 0)
	c.start(t, worker)
	becomes("up", 10*time.Second)
	_, _, first := state()
	worker.proc.kill()
	becomes("down", 15*time.Second) // no link was in use: the gossip must find out
	if _, reason, _ := state(); reason == "" {
		t.Error("no reason for a task that is down")
	}
	c.start(t, worker)
	becomes("up", 10*time.Second)
	if _, _, second := state(); second == first || second == 0 {
		t.Errorf("boot id %d after the restart, %d before", second, first)
	}
	_, text := command(t, "status", ps.target())
	contains(t, "the table", text, ps.name(), worker.name(), worker.addr, "up", "CPU")
}

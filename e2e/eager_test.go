//go:build unix

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// TestEagerClient runs a program of TensorFlow 2, whose ops and functions run on two tasks as it calls them.
func TestEagerClient(t *testing.T) {
	t.Parallel() // it waits more than it computes
	runParts(t, "worker=2", "clients/eager.py", "ops works", "copies works", "variables works", "functions works", "datasets works", "tables works", "errors works")
}

// runParts runs a program with the addresses of the tasks of a cluster. It prints a line for each of its parts.
func runParts(t *testing.T, jobs, program string, lines ...string) {
	t.Helper()
	python := needPython(t)
	ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(2*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, python, program)
	for _, task := range newCluster(t, jobs).tasks {
		cmd.Args = append(cmd.Args, task.addr)
	}
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &log)
	}
	for _, line := range lines {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("the program does not print %q:\n%s%s", line, &out, &log)
		}
	}
}

// TestEagerTaskStates asks which tasks a program has lost.
func TestEagerTaskStates(t *testing.T) {
	t.Parallel() // it waits more than it computes
	runWithPackage(t, 2*time.Minute, "all are there\none is lost\nit is back\n", "clients/task_states.py")
}

// TestEagerLostWorkers trains while workers are killed and restarted, or frozen.
func TestEagerLostWorkers(t *testing.T) {
	t.Parallel() // it waits more than it computes
	kills, freezes := 6, 2
	if extent.Check() {
		kills, freezes = 60, 10
	}
	want := fmt.Sprintf("%d kills and %d freezes cost nothing but repeated closures\n", kills, freezes)
	runWithPackage(t, 5*time.Minute, want, "clients/lost_workers.py", strconv.Itoa(kills), strconv.Itoa(freezes))
}

// runWithPackage runs a program that makes its cluster with the Python package. It prints want.
func runWithPackage(t *testing.T, limit time.Duration, want string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, needPython(t), args...)
	cmd.Env = append(os.Environ(), packageEnv(t)...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil || string(out) != want {
		t.Errorf("%v: it printed\n%s%s", err, out, &log)
	}
}

// TestEagerParameterServers trains with TensorFlow 2's ParameterServerStrategy: functions on workers use variables of a parameter server, and
// the program runs parts of functions itself.
func TestEagerParameterServers(t *testing.T) {
	t.Parallel() // it waits more than it computes
	runParts(t, "worker=2,ps=1", "clients/parameter_servers.py", "training works", "loops work", "datasets work", "errors work")
}

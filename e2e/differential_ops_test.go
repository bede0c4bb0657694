//go:build unix

package e2e

import (
	cmdline "flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
)

var (
	opsSeed  = cmdline.Int("ops.seed", 0, "the first seed of the calls that are compared with TensorFlow's")
	opsCount = cmdline.Int("ops.programs", 0, "how many calls are compared (0: one or two of each op)")
	opsGrid  = cmdline.String("ops.grid", "", "PART/PARTS: which part of the grid runs, each with cells of every op")
	opsOnly  = cmdline.String("ops.only", "", "a regular expression for the ops that are compared")
)

// TestOpsAtTheEdges compares each op, with inputs at the edges of its range, with TensorFlow's own server: values, or the class of the
// error. Each op that has a kernel is tried, or listed with the reason why not.
func TestOpsAtTheEdges(t *testing.T) {
	t.Parallel()
	needPython(t)
	programs, limit := 200, 60*time.Second
	switch {
	case extent.Full():
		programs, limit = 20000, 20*time.Minute
	case extent.Check():
		programs = 1000
	}
	if *opsCount > 0 {
		programs, limit = *opsCount, time.Hour
	}
	compareOps(t, limit, "--seed", fmt.Sprint(*opsSeed), "--programs", fmt.Sprint(programs))
}

// TestOpsOnTheGrid compares each op with TensorFlow's own server on a grid of all types, sizes, attributes and wrong inputs. Every part of
// the grid has cells of every op, some of each kind. By default a small part runs, and in the full tests a large one. -ops.grid names
// another part; 0/1 is the whole grid, which takes more than an hour.
func TestOpsOnTheGrid(t *testing.T) {
	t.Parallel()
	part, limit := "0/40", time.Minute
	switch {
	case *opsGrid != "":
		part, limit = *opsGrid, 6*time.Hour
	case extent.Full():
		part, limit = "0/6", 30*time.Minute
	case !extent.Check():
		t.Skip("the grid runs with TROUPE_TESTS=check")
	}
	needPython(t)
	compareOps(t, limit, "--grid", part)
}

// compareOps compares ops with TensorFlow's server.
func compareOps(t *testing.T, limit time.Duration, what ...string) {
	t.Helper()
	known := filepath.Join(t.TempDir(), "ops")
	// TensorFlow lacks Troupe's own ops.
	ops := slices.DeleteFunc(kernels.Ops(), func(op string) bool { return strings.HasPrefix(op, "Troupe") })
	if err := os.WriteFile(known, []byte(strings.Join(ops, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, "worker=1")
	d := drivers.borrow(t)
	args := append([]string{"--ours", c.tasks[0].target(), "--known", known, "--ops", *opsOnly, "--time", fmt.Sprint(extent.Slack(limit).Seconds())}, what...)
	a, err := d.do(request{Program: "differential/run_ops.py", Args: args}, 2*limit+time.Minute)
	if err == nil {
		err = a.err()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Log(a.Output)
	if !strings.Contains(a.Output, "findings: 0\n") {
		t.Errorf("no word of what was found:\n%s", a.Output)
	}
}

//go:build unix

package e2e

import (
	cmdline "flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
)

var (
	opsSeed  = cmdline.Int("ops.seed", 0, "the first seed of the calls that are compared with TensorFlow's")
	opsCount = cmdline.Int("ops.programs", 0, "how many calls are compared (0: one or two of each op)")
	opsOnly  = cmdline.String("ops.only", "", "a regular expression for the ops that are compared")
)

// Each op with inputs at the edges gives what TensorFlow's own server gives, value or class of error. Each op that has a kernel
// is tried, or listed with the reason why not.
func TestOpsAtTheEdges(t *testing.T) {
	needPython(t)
	programs, limit := 1000, 60*time.Second
	if full() {
		programs, limit = 20000, 20*time.Minute
	}
	if *opsCount > 0 {
		programs, limit = *opsCount, time.Hour
	}
	known := filepath.Join(t.TempDir(), "ops")
	if err := os.WriteFile(known, []byte(strings.Join(kernels.Ops(), "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, "worker=1")
	d := drivers.borrow(t)
	args := []string{"--ours", c.tasks[0].target(), "--known", known, "--seed", fmt.Sprint(*opsSeed), "--programs", fmt.Sprint(programs),
		"--ops", *opsOnly, "--time", fmt.Sprint(slack(limit).Seconds())}
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

//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProfileOpens has TensorFlow's client take a profile, and TensorBoard's profile plugin open it: the process of each task has the op
// that ran there. TROUPE_XPROF_PYTHON names a Python with the package xprof.
func TestProfileOpens(t *testing.T) {
	t.Parallel()
	xprof := os.Getenv("TROUPE_XPROF_PYTHON")
	if xprof == "" {
		t.Skip("TROUPE_XPROF_PYTHON does not name a Python with xprof, so the profile plugin is not tried")
	}
	needPython(t)
	c := sharedCluster(t)
	a := drivers.borrow(t).must(t, request{Case: filepath.Join("cases", "profiler.py"), Function: "profile", Name: "profile", Targets: c.targets()}, caseTime)
	var logdir string
	if err := json.Unmarshal(a.Result, &logdir); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(logdir)
	cmd := exec.CommandContext(t.Context(), xprof, "xprof.py", logdir)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	var shown map[string][]string
	if err := json.Unmarshal(out, &shown); err != nil {
		t.Fatalf("%v: %.2000s", err, out)
	}
	if len(shown) != len(c.tasks) {
		t.Errorf("%d processes are shown, not %d", len(shown), len(c.tasks))
	}
	for _, k := range c.tasks {
		own := fmt.Sprintf("on_%s_%d:MatMul", k.job, k.index)
		having := 0
		for _, names := range shown {
			if slices.Contains(names, own) {
				having++
			}
		}
		if having != 1 {
			t.Errorf("the op of %s is shown in %d processes, not in one: %.4000s", k.name(), having, out)
		}
	}
}

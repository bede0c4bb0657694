//go:build unix

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The marked Python programs of the documents run on a cluster, and print what the comments beside their prints say.
func TestProgramsOfDocuments(t *testing.T) {
	python := needPython(t)
	modules, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../README.md", "../docs/tutorial.md"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			c := newCluster(t, "ps=1,worker=2")
			ctx, cancel := context.WithTimeout(t.Context(), slack(5*time.Minute))
			defer cancel()
			run := exec.CommandContext(ctx, python, "clients/programs.py", name)
			run.Env = append(os.Environ(), "PS="+c.task("ps", 0).target(), "WORKER0="+c.task("worker", 0).target(), "WORKER1="+c.task("worker", 1).target(),
				"PYTHONPATH="+modules+string(filepath.ListSeparator)+os.Getenv("PYTHONPATH"), "PYTHONDONTWRITEBYTECODE=1", "TROUPE_BINARY="+binary(t), "TF_CPP_MIN_LOG_LEVEL=3")
			run.WaitDelay = 5 * time.Second
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

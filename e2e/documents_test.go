//go:build unix

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The marked Python programs of the documents run on a cluster, and print what the comments beside their prints say.
func TestProgramsOfDocuments(t *testing.T) {
	t.Parallel() // with the others that wait more than they compute
	python := needPython(t)
	modules, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	documents := []string{"../README.md", "../python/README.md"}
	for _, name := range []string{"datasets", "moving", "python", "timeline", "troubleshooting", "tutorial"} {
		documents = append(documents, "../docs/"+name+".md")
	}
	for _, name := range documents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "data=1,ps=1,worker=2", "--process-memory", "256MiB") // of which troubleshooting.md speaks
			data, logs := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(data, "part-0"), bytes.Repeat([]byte("1 2\n"), 100), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), slack(5*time.Minute))
			defer cancel()
			run := exec.CommandContext(ctx, python, "clients/programs.py", name)
			run.Env = append(os.Environ(), "PS="+c.task("ps", 0).target(), "WORKER0="+c.task("worker", 0).target(), "WORKER1="+c.task("worker", 1).target(), "DATA="+data, "LOGS="+logs,
				"PYTHONPATH="+modules+string(filepath.ListSeparator)+os.Getenv("PYTHONPATH"), "PYTHONDONTWRITEBYTECODE=1", "TROUPE_BINARY="+binary(t), "TF_CPP_MIN_LOG_LEVEL=3")
			run.WaitDelay = 5 * time.Second
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

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

	"github.com/troupe-run/troupe/internal/extent"
)

// withPrograms returns the documents that have Python programs.
func withPrograms(t *testing.T) (names []string) {
	t.Helper()
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"../README.md", "../python/README.md"}, docs...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("<!-- program:")) {
			names = append(names, name)
		}
	}
	if len(names) < 2 {
		t.Fatalf("there are programs in %v alone", names)
	}
	return names
}

// TestProgramsOfDocuments runs the marked Python programs of the documents on a cluster. They must print what the comments beside their
// print calls say.
func TestProgramsOfDocuments(t *testing.T) {
	t.Parallel() // it waits more than it computes
	python := needPython(t)
	for _, name := range withPrograms(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "data=1,ps=1,worker=2", "--process-memory", "256MiB") // as in troubleshooting.md
			data, logs := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(data, "part-0"), bytes.Repeat([]byte("1 2\n"), 100), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(5*time.Minute))
			defer cancel()
			run := exec.CommandContext(ctx, python, "clients/programs.py", name)
			run.Env = append(os.Environ(), "PS="+c.task("ps", 0).target(), "WORKER0="+c.task("worker", 0).target(), "WORKER1="+c.task("worker", 1).target(), "DATA="+data, "LOGS="+logs)
			run.Env = append(run.Env, documentEnv(t, name)...)
			run.WaitDelay = 5 * time.Second
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

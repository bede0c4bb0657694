//go:build unix

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// TestPythonPackage runs the tests of the Python package troupe, with this tree's binary and beside TensorFlow's own servers.
func TestPythonPackage(t *testing.T) {
	t.Parallel() // it waits more than it computes
	python := needPython(t)
	dir, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "tests", "test*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("python/tests has no tests: %v", err)
	}
	env := append(os.Environ(), packageEnv(t)...)
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(5*time.Minute))
			defer cancel()
			cmd := exec.CommandContext(ctx, python, "-m", "unittest", "discover", "-s", "tests", "-p", name)
			cmd.Dir = dir
			cmd.Env = env
			if name == "test_actors.py" {
				cmd.Env = append(env[:len(env):len(env)], withActors(t))
			}
			cmd.WaitDelay = 5 * time.Second
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

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

// The Python package troupe passes its own tests, with this tree's binary and beside TensorFlow's own servers.
func TestPythonPackage(t *testing.T) {
	t.Parallel() // with the others that wait more than they compute
	python := needPython(t)
	dir, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), slack(5*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-m", "unittest", "discover", "-s", "tests")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir+string(filepath.ListSeparator)+os.Getenv("PYTHONPATH"), "PYTHONDONTWRITEBYTECODE=1",
		"TROUPE_BINARY="+binary(t), "TF_CPP_MIN_LOG_LEVEL=3")
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the tests in python/tests: %v\n%s", err, out)
	}
}

//go:build unix

package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// The example whose trainer is a Python program, as its reader runs it.
func TestImagesExample(t *testing.T) {
	python := needPython(t)
	run := exec.CommandContext(t.Context(), "go", "run", "./examples/images", "-python", python, "-images", "3000")
	run.Dir = ".."
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Python trained on 3000 images") {
		t.Errorf("%v: it printed %s", err, out)
	}
}

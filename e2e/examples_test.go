//go:build unix

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

// TestImagesExample runs the example whose trainer is a Python program, as its reader would.
func TestImagesExample(t *testing.T) {
	t.Parallel()
	python := needPython(t)
	images := "600"
	if extent.Check() {
		images = "3000"
	}
	run := exec.CommandContext(t.Context(), "go", "run", "./examples/images", "-python", python, "-images", images)
	run.Dir = ".."
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Python trained on "+images+" images") {
		t.Errorf("%v: it printed %s", err, out)
	}
}

//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

// TestRecommenderExample trains for a while, as the example's reader would, and checks that it learns.
func TestRecommenderExample(t *testing.T) {
	t.Parallel()
	python := needPython(t)
	steps := 300
	if extent.Check() {
		steps = 1000
	}
	run := exec.CommandContext(t.Context(), python, "../examples/recommender/train.py", "--rows", "20000", "--steps", strconv.Itoa(steps))
	run.Env = append(os.Environ(), packageEnv(t)...)
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "80000 rows in 8 parts on 2 parameter servers\n") {
		t.Fatalf("%v: it printed %s", err, out)
	}
	var first, last float64
	for line := range strings.Lines(string(out)) {
		var n int
		if _, err := fmt.Sscanf(line, "after %d steps: loss %g", &n, &last); err == nil && n == 100 {
			first = last
		}
	}
	if first == 0 || last >= first {
		t.Errorf("the loss is %g after a hundred steps and %g at the end:\n%s", first, last, out)
	}
}

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

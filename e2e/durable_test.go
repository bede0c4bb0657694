//go:build unix

package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

// TestDurable produces and consumes while the task with the queue and the variables is killed and restarted: each element is processed once.
func TestDurable(t *testing.T) {
	t.Parallel() // it waits more than it computes
	kills := 5
	if extent.Check() {
		kills = 100
	}
	runWithPackage(t, 5*time.Minute, fmt.Sprintf("%d kills lost nothing and repeated nothing\n", kills), "clients/durable.py", strconv.Itoa(kills))
}

// TestPictures changes variables that are kept by pictures while their task is killed and restarted.
func TestPictures(t *testing.T) {
	t.Parallel() // it waits more than it computes
	kills := 2
	if extent.Check() {
		kills = 30
	}
	runWithPackage(t, 5*time.Minute, fmt.Sprintf("%d kills left whole pictures\n", kills), "clients/pictures.py", strconv.Itoa(kills))
}

// TestDurableExport exports the variables of a stopped task as a checkpoint, which TensorFlow reads.
func TestDurableExport(t *testing.T) {
	t.Parallel() // it waits more than it computes
	runWithPackage(t, 2*time.Minute, "TensorFlow reads the export\n", "clients/durable_export.py")
}

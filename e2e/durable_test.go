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
	throughKills(t, "clients/durable.py", 5, 100, "lost nothing and repeated nothing")
}

// TestPictures changes variables that are kept by pictures while their task is killed and restarted.
func TestPictures(t *testing.T) {
	throughKills(t, "clients/pictures.py", 2, 30, "left whole pictures")
}

// throughKills runs a program that kills its tasks so many times, and more often in make check, and says what came of it.
func throughKills(t *testing.T, program string, kills, inCheck int, says string) {
	t.Helper()
	t.Parallel() // it waits more than it computes
	if extent.Check() {
		kills = inCheck
	}
	runWithPackage(t, 5*time.Minute, fmt.Sprintf("%d kills %s\n", kills, says), program, strconv.Itoa(kills))
}

// TestDurableExport exports the variables of a stopped task as a checkpoint, which TensorFlow reads, and imports one of TensorFlow's.
func TestDurableExport(t *testing.T) {
	t.Parallel() // it waits more than it computes
	runWithPackage(t, 2*time.Minute, "TensorFlow reads the export, and is read\n", "clients/durable_export.py")
}

// TestDurableLimit fills a durable queue up to its limit and empties it, again and again.
func TestDurableLimit(t *testing.T) {
	t.Parallel() // it waits more than it computes
	runWithPackage(t, 2*time.Minute, "full, and empty, and full\n", "clients/durable_limit.py")
}

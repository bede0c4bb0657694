//go:build unix

package e2e

import (
	cmdline "flag"
	"fmt"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

var (
	graphCount = cmdline.Int("graphs", 0, "how many random programs to send to TensorFlow; 0: a share that fits into the time of a test")
	graphSeed  = cmdline.Uint64("graph-seed", 0, "the seed of the first random program")
)

// TestRandomProgramsOnTensorFlow sends a sample of the random programs with TensorFlow's own client. On two tasks they must have the same
// results as on TensorFlow's own servers, and as in the interpreter of package metamorphic.
func TestRandomProgramsOnTensorFlow(t *testing.T) {
	t.Parallel()
	needPython(t)
	graphs := uint64(5)
	switch {
	case extent.Full():
		graphs = 200
	case extent.Check():
		graphs = 25
	}
	if *graphCount > 0 {
		graphs = uint64(*graphCount)
	}
	dir := t.TempDir()
	writeRandomGraphs(t, dir, *graphSeed, graphs)
	c := newCluster(t, "worker=2")
	d := drivers.borrow(t)
	expect(t, "graphs", program(t, d, "random_graphs.py", dir, c.tasks[0].target()), fmt.Sprintf("same: %d of %d", graphs, graphs))
}

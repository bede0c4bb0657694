//go:build unix

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSyncReplicas trains synchronously on a cluster of one parameter server and two workers, one of which is
// lost and comes back, and compares the losses with those on TensorFlow's own servers.
func TestSyncReplicas(t *testing.T) {
	t.Parallel()
	path := filepath.Join("faults", "sync_replicas.py")
	for _, function := range functionsOf(t, path) {
		t.Run(strings.TrimPrefix(function, "test_"), func(t *testing.T) {
			needPython(t)
			c := newCluster(t, "ps=1,worker=2")
			d := drivers.borrow(t)
			d.act = c.act
			d.must(t, request{Case: path, Function: function, Name: function, Targets: c.targets()}, caseTime)
		})
	}
}

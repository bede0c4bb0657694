package actors

import (
	"testing"

	"github.com/troupe-run/troupe/kernels/restore"
)

// TestDurableKindsHaveHomes checks that a restarted task tells the others of resources of each kind that it has kept.
func TestDurableKindsHaveHomes(t *testing.T) {
	for _, kind := range restore.Kinds() {
		if homeKind(kind) == "" {
			t.Errorf("a resource of kind %s has no home after a restart", kind)
		}
	}
}

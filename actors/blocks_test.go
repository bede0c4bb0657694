package actors

import (
	"testing"
	"unsafe"

	"github.com/troupe-run/troupe/internal/blocks"
)

// TestStepsAreNotAmongGoroutines checks that the memory of steps can be returned although each waits on a goroutine of its own.
func TestStepsAreNotAmongGoroutines(t *testing.T) {
	goroutine := blocks.Goroutine()
	for name, size := range map[string]uintptr{"step": unsafe.Sizeof(step{}), "stepPart": unsafe.Sizeof(stepPart{})} {
		if block := blocks.Of(size); block == goroutine {
			t.Errorf("a %s has %d bytes, and shares blocks of %d with goroutines: package blocks", name, size, block)
		}
	}
}

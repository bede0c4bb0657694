package http2

import (
	"testing"
	"unsafe"

	"github.com/troupe-run/troupe/internal/blocks"
)

// TestStreamsAreNotAmongGoroutines checks that the memory of streams can be returned although each call has a goroutine of its own.
func TestStreamsAreNotAmongGoroutines(t *testing.T) {
	if size := unsafe.Sizeof(stream{}); blocks.Of(size) == blocks.Goroutine() {
		t.Errorf("a stream has %d bytes, and shares blocks of %d with goroutines: package blocks", size, blocks.Of(size))
	}
}

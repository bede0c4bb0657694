package tensor

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

func TestCopyAndClear(t *testing.T) {
	for _, n := range []int{0, 1, uninterrupted - 1, uninterrupted, uninterrupted + 1, 3*uninterrupted + 7} {
		src := bytes.Repeat([]byte("abcdefg"), n/7+1)[:n]
		dst := make([]byte, n+1)
		if got := Copy(dst, src); got != n || !bytes.Equal(dst[:n], src) || dst[n] != 0 {
			t.Errorf("%d of %d bytes were copied", got, n)
		}
		if got := Copy(dst[:n/2], src); got != n/2 {
			t.Errorf("%d bytes were copied into %d", got, n/2)
		}
		dst[n] = 1
		if Clear(dst[:n]); !bytes.Equal(dst[:n], make([]byte, n)) || dst[n] != 1 {
			t.Errorf("%d bytes are not cleared", n)
		}
	}
}

// TestCopyDoesNotHoldUpCollections checks that a goroutine that copies or clears can be preempted: a collection begins and ends during one
// call. How often that happens depends on the machine's other load.
func TestCopyDoesNotHoldUpCollections(t *testing.T) {
	const size = 1 << 29
	if !extent.Check() {
		t.Skip("takes 1 GiB")
	}
	b := make([]byte, 2*size)
	for name, move := range map[string]func(){
		"copy":  func() { Copy(b[size:], b[:size]) },
		"clear": func() { Clear(b) },
	} {
		const most = 30
		var calls atomic.Int64 // odd while one runs
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for range most {
				calls.Add(1)
				move()
				calls.Add(1)
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		within := false
		for !within && calls.Load() < 2*most {
			before := calls.Load()
			runtime.GC()
			within = before%2 == 1 && calls.Load() == before
		}
		close(stop)
		<-done
		if !within {
			t.Errorf("No collection ended while a %s of %d bytes ran, of %d", name, size, most)
		}
	}
}

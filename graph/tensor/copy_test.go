package tensor

import (
	"bytes"
	"runtime"
	"testing"
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

// TestCopyDoesNotHoldUpCollections holds that a goroutine which copies can be interrupted in between.
func TestCopyDoesNotHoldUpCollections(t *testing.T) {
	const size = 1 << 30
	if testing.Short() {
		t.Skip("takes 1 GiB")
	}
	began, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, size)
		close(began)
		Copy(b[size/2:], b)
		Clear(b)
	}()
	<-began
	collections := 0
	for copying := true; copying; collections++ {
		runtime.GC()
		select {
		case <-done:
			copying = false
		default:
		}
	}
	if collections < 8 { // three or four where each waits for the end of the copy, or of the clearing
		t.Errorf("%d collections ran beside a copy of %d bytes", collections, size)
	}
}

package tensor

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// pageFlags returns the kernel's flags for an address ("hg" means that huge pages are requested).
func pageFlags(t *testing.T, b *byte) []string {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, found := uint64(uintptr(unsafe.Pointer(b))), false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to uint64
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); n == 2 {
			found = from <= at && at < to
		} else if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && found {
			return strings.Fields(flags)
		}
	}
	t.Fatalf("no memory at %#x", at)
	return nil
}

// TestHugePages: large buffers request huge pages as long as the pool has them.
func TestHugePages(t *testing.T) {
	if !hugeOnRequest() {
		t.Skip("this system gives huge pages to all or to none, and not on request")
	}
	pool := NewPool("test", 0)
	flags := func(n int) (before, after []string) {
		b, err := pool.Get(n)
		if err != nil {
			t.Fatal(err)
		}
		middle := &b.Bytes()[n/2]
		before = pageFlags(t, middle)
		b.Release()
		for range 2 {
			pool.Trim()
		}
		return before, pageFlags(t, middle)
	}
	for _, n := range []int{hugeFrom, hugeFrom + 1, 16 << 20} {
		before, after := flags(n)
		if !slices.Contains(before, "hg") {
			t.Errorf("%d bytes from the pool: %v", n, before)
		}
		if slices.Contains(after, "hg") {
			t.Errorf("%d bytes that the pool dropped: %v", n, after)
		}
	}
	if before, _ := flags(hugeFrom / 4); slices.Contains(before, "hg") {
		t.Errorf("a small buffer: %v", before)
	}
}

// BenchmarkFreshBuffer measures the first use of memory from the system.
func BenchmarkFreshBuffer(b *testing.B) {
	for _, n := range []int{1 << 20, 4 << 20, 16 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("%dMiB", n>>20), func(b *testing.B) {
			b.SetBytes(int64(n))
			pool := NewPool("bench", 0)
			for b.Loop() {
				buf, err := pool.Get(n)
				if err != nil {
					b.Fatal(err)
				}
				for i := 0; i < n; i += 4096 {
					buf.Bytes()[i] = 1
				}
				buf.Release()
				b.StopTimer()
				for range 2 {
					pool.Trim()
				}
				debug.FreeOSMemory()
				b.StartTimer()
			}
		})
	}
}

//go:build cuda && cgo && linux

package fake_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/troupe-run/troupe/devices/cuda"
	"github.com/troupe-run/troupe/devices/cuda/fake"
)

// TestFromGo runs one of the repository's kernels from Go, on the driver that Build returns. No other test of the process opens a driver,
// since it is loaded only once.
func TestFromGo(t *testing.T) {
	lib := fake.Build(t)
	t.Setenv("TROUPE_LIBCUDA", lib)
	t.Setenv("TROUPE_LIBCUBLAS", filepath.Join(filepath.Dir(lib), "libcublas.so.12"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	cards, err := cuda.Driver{}.Cards()
	must(err)
	c, err := cards[0].Open()
	must(err)
	must(c.Bind())
	f, err := c.Function("relugrad_f32")
	must(err)
	s, err := c.NewStream()
	must(err)

	const n = 1000
	host, back := make([]byte, 4*n), make([]byte, 4*n)
	must(c.Pin(host))
	must(c.Pin(back))
	for i := range n {
		binary.LittleEndian.PutUint32(host[4*i:], math.Float32bits(float32(i)))
	}
	in, err := c.Alloc(4 * n)
	must(err)
	out, err := c.Alloc(4 * n)
	must(err)
	must(s.CopyIn(in, host))
	must(s.Launch(f, [3]uint32{4, 1, 1}, [3]uint32{64, 1, 1}, 0, []uint64{in, in, out, n}))
	must(s.CopyOut(back, out))
	if !bytes.Equal(back, make([]byte, len(back))) {
		t.Error("the card has worked before anybody waits")
	}
	must(s.Synchronize())
	for i := range n {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(back[4*i:])); got != float32(i) {
			t.Fatalf("element %d is %v, not %v", i, got, i)
		}
	}

	t.Setenv("FAKE_CUDA_FAIL", "launch:1") // takes effect on the running driver
	if err := s.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{64, 1, 1}, 0, []uint64{in, in, out, n}); err == nil {
		t.Error("a launch that was to fail did not")
	}
	must(s.Close())
	must(c.Free(in))
	must(c.Free(out))
	must(c.Unpin(host))
	must(c.Unpin(back))
	must(c.Close(true))
}

//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/devices/gpu"
	"github.com/troupe-run/troupe/graph/status"
	kernels "github.com/troupe-run/troupe/kernels/cuda"
)

// block is the block size of the tests' kernels.
var block = [3]uint32{128, 1, 1}

func TestCards(t *testing.T) {
	firstCard(t)
	cards, err := Driver{}.Cards()
	must(t, err)
	seen := map[string]bool{}
	for _, card := range cards {
		info := card.Info()
		if info.Name == "" || info.Memory < 1<<20 || info.Compute < 30 || info.Processors < 1 || info.SharedMemory < usual {
			t.Errorf("%+v", info)
		}
		if !regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$`).MatchString(info.PCI) || seen[info.PCI] {
			t.Errorf("%+v: no address, or another card's", info)
		}
		seen[info.PCI] = true
	}
	again, err := Driver{}.Cards()
	must(t, err)
	if len(again) != len(cards) || again[0] != cards[0] {
		t.Error("another list on the second call")
	}
}

func TestMemory(t *testing.T) {
	c := openCard(t)
	free, total, err := c.MemoryInfo()
	must(t, err)
	if free <= 0 || free > total {
		t.Errorf("%d of %d bytes are free", free, total)
	}
	const size = 1 << 20
	a, err := c.Alloc(size)
	must(t, err)
	b, err := c.Alloc(size)
	must(t, err)
	if a%256 != 0 || b%256 != 0 {
		t.Errorf("%#x and %#x are not aligned", a, b)
	}
	host, err := pinned(c, size)
	must(t, err)
	back, err := pinned(c, size)
	must(t, err)
	for i := range host {
		host[i] = byte(i * 7)
	}
	s, err := c.NewStream()
	must(t, err)
	must(t, s.CopyIn(a, host))
	must(t, s.Fill(a+100, 0xee, 50))
	must(t, s.Copy(b, a, size))
	must(t, s.Fill(a, 1, size)) // must not affect b
	must(t, s.CopyOut(back, b))
	must(t, s.Synchronize())
	want := bytes.Clone(host)
	copy(want[100:], bytes.Repeat([]byte{0xee}, 50))
	if !bytes.Equal(back, want) {
		t.Error("what came back is not what was copied and filled")
	}

	must(t, s.CopyIn(a, nil))
	must(t, s.CopyOut(nil, a))
	must(t, s.Copy(b, a, 0))
	must(t, s.Fill(a, 1, 0))
	must(t, s.Close())
	must(t, c.Unpin(host))
	must(t, c.Unpin(back))
	must(t, c.Free(a))
	must(t, c.Free(b))
	wantError(t, c.Free(a), "cuMemFree", 1, "CUDA_ERROR_INVALID_VALUE")
	must(t, c.Close(false))
}

// pinned returns host memory that a context has pinned.
func pinned(c gpu.Context, size int64) ([]byte, error) {
	b := make([]byte, size)
	return b, c.Pin(b)
}

// wantError checks an error that does not break the context.
func wantError(t *testing.T, err error, call string, code int, name string) *gpu.Error {
	t.Helper()
	var e *gpu.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *gpu.Error", err)
	}
	if e.Call != call || e.Code != code || e.Name != name || e.Text == "" || e.Sticky {
		t.Errorf("%#v", e)
	}
	return e
}

func TestOutOfMemory(t *testing.T) {
	c := openCard(t)
	_, total, err := c.MemoryInfo()
	must(t, err)
	_, err = c.Alloc(total + 1<<30)
	if e := wantError(t, err, "cuMemAlloc", 2, "CUDA_ERROR_OUT_OF_MEMORY"); !e.OutOfMemory {
		t.Errorf("%#v is not out of memory", e)
	}
	a, err := c.Alloc(1 << 10)
	must(t, err)
	must(t, c.Free(a))
	must(t, c.Close(false))
}

// masked makes the card keep those of n numbers that are above zero, and reports whether the result is right.
func masked(c gpu.Context, n int) (right bool, err error) {
	var addr [3]uint64
	for i := range addr {
		if addr[i], err = c.Alloc(int64(n * 4)); err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, c.Free(addr[i])) }()
	}
	host, err := pinned(c, int64(n*4))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Unpin(host)) }()
	for i := range n {
		binary.LittleEndian.PutUint32(host[4*i:], math.Float32bits(float32(i)))
	}
	f, err := c.Function("relugrad_f32")
	if err != nil {
		return false, err
	}
	s, err := c.NewStream()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = errors.Join(
		s.CopyIn(addr[0], host),
		s.CopyIn(addr[1], host),
		s.Launch(f, [3]uint32{4, 1, 1}, block, 0, []uint64{addr[0], addr[1], addr[2], uint64(n)}),
		s.CopyOut(host, addr[2]),
		s.Synchronize())
	right = true
	for i := range n {
		right = right && math.Float32frombits(binary.LittleEndian.Uint32(host[4*i:])) == float32(i)
	}
	return right, err
}

func wantMasked(t *testing.T, c gpu.Context) {
	t.Helper()
	if right, err := masked(c, 1000); err != nil || !right {
		t.Fatalf("a launch on the card: right is %v, %v", right, err)
	}
}

func TestLaunch(t *testing.T) {
	c := openCard(t)
	wantMasked(t, c)
	f, err := c.Function("relugrad_f32")
	must(t, err)
	s, err := c.NewStream()
	must(t, err)
	tooMany := [3]uint32{1 << 12, 1, 1}
	wantError(t, s.Launch(f, [3]uint32{1, 1, 1}, tooMany, 0, []uint64{0, 0, 0, 0}), "cuLaunchKernel", 1, "CUDA_ERROR_INVALID_VALUE")
	must(t, s.Close())
	wantMasked(t, c)
	must(t, c.Close(false))
}

func TestFunctions(t *testing.T) {
	c := openCard(t)
	asked := 0
	c.modules.find = func(function string) (string, string, bool) {
		asked++
		if function == "bad" {
			return "bad", "no PTX", true
		}
		if function == "absent" {
			_, ptx, ok := kernels.Module("relugrad_f32")
			return "other", ptx, ok
		}
		return kernels.Module(function)
	}
	f, err := c.Function("relugrad_f32")
	must(t, err)
	g, err := c.Function("relu_f32")
	must(t, err)
	if again, err := c.Function("relugrad_f32"); err != nil || again != f || f == g || asked != 2 || len(c.modules.loaded) != 1 {
		t.Errorf("%x, %x and %x (%v) from %d modules, asked %d times", f, again, g, err, len(c.modules.loaded), asked)
	}
	for _, want := range []struct{ function, call, text string }{
		{"no_such", "cuModuleGetFunction", `no module has a function "no_such"`},
		{"absent", "cuModuleGetFunction", `function "absent" of module "other"`},
		{"bad", "cuModuleLoadDataEx", `module "bad": ptxas`},
	} {
		_, err := c.Function(want.function)
		var e *gpu.Error
		if !errors.As(err, &e) || e.Call != want.call || !strings.Contains(e.Text, want.text) || e.Sticky {
			t.Errorf("%s: %v", want.function, err)
		}
	}
	must(t, c.Close(false))
}

func TestEvents(t *testing.T) {
	c := openCard(t)
	e, err := c.NewEvent()
	must(t, err)
	done, err := e.Done()
	must(t, err)
	if !done {
		t.Error("an event that was never recorded is not done")
	}
	first, err := c.NewStream()
	must(t, err)
	second, err := c.NewStream()
	must(t, err)
	a, err := c.Alloc(1 << 20)
	must(t, err)
	out, err := pinned(c, 1<<20)
	must(t, err)
	for round := range 20 { // the second stream sees what the first did before its event
		must(t, first.Fill(a, byte(round), 1<<20))
		must(t, first.Record(e))
		must(t, second.Wait(e))
		must(t, second.CopyOut(out, a))
		must(t, second.Record(e))
		must(t, e.Synchronize())
		if done, err := e.Done(); err != nil || !done {
			t.Fatalf("after Synchronize Done is %v, %v", done, err)
		}
		if want := bytes.Repeat([]byte{byte(round)}, 1<<20); !bytes.Equal(out, want) {
			t.Fatalf("round %d: the copy passed the fill that it was to wait for", round)
		}
	}
	must(t, e.Close())
	must(t, first.Close())
	must(t, second.Close())
	must(t, c.Free(a))
	must(t, c.Unpin(out))
	must(t, c.Close(false))
}

func TestCopyBetweenCards(t *testing.T) {
	one := openCard(t)
	cards, err := Driver{}.Cards()
	must(t, err)
	if len(cards) < 2 {
		t.Skip("there is one card")
	}
	const size = 1 << 16
	a, err := one.Alloc(size)
	must(t, err)
	first, err := one.NewStream()
	must(t, err)
	filled, err := one.NewEvent()
	must(t, err)
	must(t, first.Fill(a, 7, size))
	must(t, first.Record(filled))

	two, err := cards[1].Open()
	must(t, err)
	must(t, two.Bind())
	b, err := two.Alloc(size)
	must(t, err)
	second, err := two.NewStream()
	must(t, err)
	out, err := pinned(two, size)
	must(t, err)
	must(t, second.Wait(filled))
	must(t, second.Copy(b, a, size))
	must(t, second.CopyOut(out, b))
	must(t, second.Synchronize())
	if !bytes.Equal(out, bytes.Repeat([]byte{7}, size)) {
		t.Error("the other card has not what was copied to it")
	}
	must(t, two.Unpin(out))
	must(t, two.Free(b))
	must(t, second.Close())
	must(t, two.Close(false))
	must(t, one.Bind())
	must(t, filled.Close())
	must(t, first.Close())
	must(t, one.Free(a))
	must(t, one.Close(false))
}

// TestThreads uses one context from several threads at the same time.
func TestThreads(t *testing.T) {
	c := openCard(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			runtime.LockOSThread()
			// This thread is not bound yet, unless the thread that created it passed on its context.
			if err := c.Bind(); err != nil {
				t.Error(err)
				return
			}
			for range 10 {
				if right, err := masked(c, 5000); err != nil || !right {
					t.Errorf("a launch on the card: right is %v, %v", right, err)
				}
			}
		})
	}
	wg.Wait()
	must(t, c.Close(false))
}

func TestUnboundThread(t *testing.T) {
	c := openCard(t)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		_, err := c.Alloc(1 << 10)
		failed <- err
	}()
	// A thread that Go used before may be bound to a destroyed context.
	if err := <-failed; status.CodeOf(err) == status.OK || !strings.Contains(err.Error(), "CONTEXT") {
		t.Errorf("an unbound thread took memory: %v", err)
	}
	must(t, c.Close(false))
}

// TestReset breaks the primary context, which two of the process's devices have open, and reopens both.
func TestReset(t *testing.T) {
	one := openCard(t)
	two := openCard(t)
	wantMasked(t, one)
	f, err := one.Function("relugrad_f32")
	must(t, err)
	s, err := one.NewStream()
	must(t, err)
	// The address is not on any card: far from what drivers allocate.
	const nowhere = 0x10
	err = errors.Join(s.Launch(f, [3]uint32{1, 1, 1}, block, 0, []uint64{nowhere, nowhere, nowhere, 100}), s.Synchronize())
	var e *gpu.Error
	if !errors.As(err, &e) || !e.Sticky || e.Code != 700 {
		t.Fatalf("a kernel that reads no memory of the card: %v", err)
	}
	for _, c := range []*context{one, two} {
		if _, err := c.Alloc(1 << 10); !errors.As(err, &e) || !e.Sticky {
			t.Errorf("a call after the context broke: %v", err)
		}
	}

	must(t, one.Close(true))
	one = openCard(t)
	wantMasked(t, one)
	kept, err := one.Alloc(1 << 10)
	must(t, err)
	must(t, two.Close(true)) // must not destroy what one has allocated since
	must(t, one.Bind())
	must(t, one.Free(kept))
	wantMasked(t, one)
	two = openCard(t)
	wantMasked(t, two)
	must(t, two.Close(false))
	must(t, one.Bind())
	must(t, one.Close(false))
}

func TestErrorText(t *testing.T) {
	firstCard(t)
	err := failure("cuMemAlloc", 2, "more")
	e := err.(*gpu.Error)
	if want := fmt.Sprintf("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): %s", e.Text); err.Error() != want || !strings.HasSuffix(want, ": more") {
		t.Errorf("%q", err)
	}
	if e := failure("f", 12345, "").(*gpu.Error); e.Name == "" || e.Text == "" || e.Code != 12345 {
		t.Errorf("%#v", e)
	}
}

// BenchmarkLaunch measures the caller's cost of launching a small kernel. On a card that runs them slower than they are queued, it measures
// the card's cost.
func BenchmarkLaunch(b *testing.B) {
	c := openCard(b)
	f, err := c.Function("add_f32")
	must(b, err)
	a, err := c.Alloc(1 << 10)
	must(b, err)
	s, err := c.NewStream()
	must(b, err)
	args := []uint64{a, a, a, 32}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Launch(f, [3]uint32{1, 1, 1}, block, 0, args); err != nil {
			b.Fatal(err)
		}
	}
	must(b, s.Synchronize())
	must(b, s.Close())
	must(b, c.Free(a))
	must(b, c.Close(false))
}

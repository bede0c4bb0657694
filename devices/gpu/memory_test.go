package gpu

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

func TestOutOfMemory(t *testing.T) {
	d := open(t, newMachine(1, 1<<20).cards[0], func(o *Options) { o.MemoryLimit = 100 << 10 })
	x := device(t, d, 40<<10)
	y := device(t, d, 50<<10)
	_, err := d.Memory().New(tensor.Float32, tensor.Shape{5, 1 << 10})
	wantError(t, err, status.ResourceExhausted, "shape[5,1024]", "float", "20480 bytes", d.Name(), "92160 bytes are in use", "limit of 102400", "largest free block has 10240",
		"946176 of its 1048576 bytes left")
	x.Release()
	works(t, d)
	y.Release()
	if _, err := d.Memory().New(tensor.Float64, tensor.Shape{1 << 40, 1 << 10}); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("a tensor that no card can hold: %v", err)
	}
	if _, err := d.Memory().New(tensor.String, tensor.Shape{1}); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("strings on a card: %v", err)
	}
}

// TestCardIsFuller checks that another process may have taken memory that the limit would allow.
func TestCardIsFuller(t *testing.T) {
	for _, grow := range []bool{false, true} {
		card := newMachine(1, 4<<20).cards[0]
		d := open(t, card, func(o *Options) { o.MemoryLimit, o.AllowGrowth = 4<<20, grow })
		card.m.mu.Lock()
		card.used = 3 << 20
		card.m.mu.Unlock()
		x := device(t, d, 500<<10)
		_, err := d.Memory().New(tensor.Uint8, tensor.Shape{1 << 20})
		wantError(t, err, status.ResourceExhausted, "shape[1048576]")
		if grow {
			wantError(t, err, status.ResourceExhausted, "OUT_OF_MEMORY")
		}
		x.Release()
		works(t, d)
		card.m.mu.Lock()
		card.used -= 3 << 20
		card.m.mu.Unlock()
	}
}

func TestGrowthAndTrim(t *testing.T) {
	d := open(t, newMachine(1, 64<<20).cards[0], nil)
	if d.Stats().Reserved != 0 {
		t.Error("memory was taken before it was needed")
	}
	var all []*tensor.Tensor
	for range 5 {
		all = append(all, device(t, d, 1<<20))
	}
	if s := d.Stats(); s.Reserved != 6<<20 || s.InUse != 5<<20 || s.LargestFree != 1<<20 || s.Fragmentation() != 0 || s.Allocations != 5 || s.Largest != 1<<20 || s.Peak != 5<<20 {
		t.Errorf("%+v", s)
	}
	all[1].Release()
	all[3].Release()
	if f := d.Stats().Fragmentation(); f < 0.3 || f > 0.7 {
		t.Errorf("fragmentation is %v", f)
	}
	for _, i := range []int{0, 2, 4} {
		all[i].Release()
	}
	works(t, d)
	// The waiter releases the staging memory of a copy, possibly after the step has its result.
	for late := time.Now().Add(10 * time.Second); d.Stats().PinnedUsed != 0 && time.Now().Before(late); {
		runtime.Gosched()
	}
	for range 2 { // the first call does not know yet that the device is idle
		d.Trim()
	}
	if s := d.Stats(); s.Reserved != 0 || s.Pinned != 0 {
		t.Errorf("after a rest: %+v", s)
	}
	works(t, d)
}

func TestDefaultLimit(t *testing.T) {
	const g = int64(1) << 30
	for _, c := range []struct {
		free    int64
		major   int
		reserve int64
	}{{g, 9, 225}, {80 * g, 9, 1800}, {40 * g, 8, 1536}, {16 * g, 7, 1050}, {16 * g, 6, 500}, {100 << 20, 9, 0}} {
		if got := systemMemory(c.free, c.major); got != c.reserve<<20 {
			t.Errorf("of %d bytes on %d.x: %d, want %d MiB", c.free, c.major, got, c.reserve)
		}
	}
}

// TestMemoryFails checks that a card that fails during an allocation is lost if its context is.
func TestMemoryFails(t *testing.T) {
	card := newMachine(1, 1<<20).cards[0]
	d := open(t, card, nil)
	card.m.mu.Lock()
	card.refuse = func(call string) error {
		if call == "Alloc" {
			return errors.New("no memory today")
		}
		return nil
	}
	card.m.mu.Unlock()
	_, err := d.Memory().New(tensor.Uint8, tensor.Shape{1})
	wantError(t, err, status.Internal, "no memory today", d.Name())
	card.m.mu.Lock()
	card.refuse = func(call string) error {
		if call == "Alloc" {
			card.refuse = nil
			return card.fault(719, "LAUNCH_FAILED", "x")
		}
		return nil
	}
	card.m.mu.Unlock()
	_, err = d.Memory().New(tensor.Uint8, tensor.Shape{1})
	wantError(t, err, status.Unavailable, "lost", "LAUNCH_FAILED")
	d.told(t, startedAnew)
	works(t, d)
}

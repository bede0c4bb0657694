package gpu

import (
	"errors"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Stats counts what a device has of its card's memory, in bytes; sizes are those of blocks, which are
// multiples of 256.
type Stats struct {
	InUse, Peak, Limit int64 // of tensors
	Reserved           int64 // taken from the card
	Largest            int64 // the largest tensor so far
	LargestFree        int64 // the largest block that is free
	Allocations        int64 // tensors made so far
	Pinned, PinnedUsed int64 // host memory for copies: taken from the system, and in use
}

// Fragmentation is the part of the free memory that is not in its largest block: 0 when it lies in
// one.
func (s Stats) Fragmentation() float64 {
	free := s.Reserved - s.InUse
	if free == 0 {
		return 0
	}
	return 1 - float64(s.LargestFree)/float64(free)
}

// Stats is a snapshot of the device's present life.
func (d *core) Stats() Stats {
	l := d.life.Load()
	l.pinned.mu.Lock()
	s := Stats{Pinned: l.pinned.arena.bytes, PinnedUsed: l.pinned.arena.inUse}
	l.pinned.mu.Unlock()
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	a := &l.memory.arena
	s.InUse, s.Peak, s.Limit, s.Reserved = a.inUse, a.peak, l.memory.limit, a.bytes
	s.Largest, s.LargestFree, s.Allocations = a.largest, a.room(), a.allocations
	return s
}

// MemoryStats are the counters of tensors that all devices have. What is idle was taken from the card, for tensors to come.
func (d *core) MemoryStats() tensor.Stats {
	s := d.Stats()
	return tensor.Stats{InUse: s.InUse, Peak: s.Peak, Idle: s.Reserved - s.InUse, Limit: s.Limit, Allocations: s.Allocations}
}

// Trim gives what is free of the card's memory back to it, under AllowGrowth, and unused pinned memory to the system, if
// nothing was given to the device since the last Trim. It tells the bytes. Whoever owns the process calls it now
// and then.
func (d *core) Trim() int64 {
	l := d.life.Load()
	if given := d.queue.given.Load(); l.over() != nil || d.seen.Swap(given) != given {
		return 0
	}
	bytes, err := l.memory.trim()
	host, err2 := l.pinned.trim()
	if err = errors.Join(err, err2); err != nil {
		d.opts.Log.Warn("a GPU's memory was not given back", "device", d.name, "error", err)
	}
	return bytes + host
}

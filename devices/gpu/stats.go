package gpu

import (
	"errors"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Stats counts a device's memory on its card, in bytes. Sizes are those of blocks, which are multiples of 256.
type Stats struct {
	InUse, Peak, Limit int64 // of tensors
	Reserved           int64 // allocated on the card
	Largest            int64 // the largest tensor so far
	LargestFree        int64 // the largest free block
	Allocations        int64 // tensors made so far
	Pinned, PinnedUsed int64 // host memory for copies: allocated, and in use
}

// Fragmentation returns the fraction of the free memory outside of the largest free block: 0 if all of it is in one block.
func (s Stats) Fragmentation() float64 {
	free := s.Reserved - s.InUse
	if free == 0 {
		return 0
	}
	return 1 - float64(s.LargestFree)/float64(free)
}

// Stats returns a snapshot of the device's present life.
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

// MemoryStats returns the counters of tensors that all devices have. Idle memory is allocated on the card, but not in use.
func (d *core) MemoryStats() tensor.Stats {
	s := d.Stats()
	return tensor.Stats{InUse: s.InUse, Peak: s.Peak, Idle: s.Reserved - s.InUse, Limit: s.Limit, Allocations: s.Allocations}
}

// Trim releases idle memory if no work was given to the device since the last Trim: under AllowGrowth free card memory, and unused pinned
// memory. It returns the number of bytes. The owner of the process should call it periodically.
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

package gpu

import (
	"math/bits"
	"slices"
)

const (
	// grain is the unit that sizes are rounded up to, and the alignment of every block: that of the driver's memory.
	grain    = 256
	arenaBin = 40 // 256 bytes to 128 TiB, one for each power of two
)

// arena divides regions of addresses into blocks. It allocates by best fit and always merges free neighbours. Free blocks are in bins by
// the power of two of their size, ordered by size and then address, so the fit is the smallest and of those the lowest. An arena handles
// only addresses, touches no memory, and is not safe for concurrent use.
type arena struct {
	bins    [arenaBin][]*block
	filled  uint64 // bit set of the nonempty bins
	used    map[uint64]*block
	regions []*region
	spare   []*block

	bytes, inUse, peak, largest, allocations int64
}

// region is a range of addresses that was added in one call.
type region struct {
	addr uint64
	size int64
}

// block is a part of a region, free or in use.
type block struct {
	addr       uint64
	size       int64
	region     *region
	prev, next *block // neighbours in the region
	free       bool
	stamp      uint64 // of a free block: the latest stamp that its parts were freed with
}

// rounded returns the size of a block for bytes.
func rounded(bytes int64) int64 { return max(grain, (bytes+grain-1)&^(grain-1)) }

func binOf(size int64) int { return min(bits.Len64(uint64(size/grain))-1, arenaBin-1) }

// compareBlocks orders free blocks within a bin.
func compareBlocks(a, b *block) int {
	switch {
	case a.size != b.size:
		return int(min(max(a.size-b.size, -1), 1))
	case a.addr < b.addr:
		return -1
	case a.addr > b.addr:
		return 1
	}
	return 0
}

// add adds a region, whose size is a multiple of grain, to the arena.
func (a *arena) add(addr uint64, size int64) *region {
	r := &region{addr, size}
	a.regions = append(a.regions, r)
	a.bytes += size
	b := a.block()
	*b = block{addr: addr, size: size, region: r}
	a.insert(b)
	return r
}

// allocate allocates a block of bytes. It returns its address, and the stamp of the last use of any of it. ok is false if no free block is
// large enough.
func (a *arena) allocate(bytes int64) (addr, stamp uint64, ok bool) {
	size := rounded(bytes)
	b := a.fit(size)
	if b == nil {
		return 0, 0, false
	}
	a.remove(b)
	if b.size > size {
		rest := a.block()
		*rest = block{addr: b.addr + uint64(size), size: b.size - size, region: b.region, prev: b, next: b.next, stamp: b.stamp}
		if rest.next != nil {
			rest.next.prev = rest
		}
		b.next, b.size = rest, size
		a.insert(rest)
	}
	if a.used == nil {
		a.used = map[uint64]*block{}
	}
	a.used[b.addr] = b
	a.inUse += size
	a.peak = max(a.peak, a.inUse)
	a.largest = max(a.largest, size)
	a.allocations++
	return b.addr, b.stamp, true
}

// fit returns the smallest free block of at least size.
func (a *arena) fit(size int64) *block {
	bin := binOf(size)
	if list := a.bins[bin]; len(list) > 0 {
		if i, _ := slices.BinarySearchFunc(list, size, func(b *block, size int64) int {
			if b.size < size {
				return -1
			}
			return 1
		}); i < len(list) {
			return list[i]
		}
	}
	if above := a.filled &^ (1<<(bin+1) - 1); above != 0 {
		return a.bins[bits.TrailingZeros64(above)][0]
	}
	return nil
}

// free frees a block and merges it with its neighbours. It returns the block's region, or nil if the address is not in use.
func (a *arena) free(addr, stamp uint64) *region {
	b := a.used[addr]
	if b == nil {
		return nil
	}
	delete(a.used, addr)
	a.inUse -= b.size
	b.stamp = stamp
	if n := b.next; n != nil && n.free {
		a.remove(n)
		a.join(b, n)
	}
	if p := b.prev; p != nil && p.free {
		a.remove(p)
		a.join(p, b)
		b = p
	}
	a.insert(b)
	return b.region
}

// join merges b and its upper neighbour n into one block. Neither may be in a bin.
func (a *arena) join(b, n *block) {
	b.size += n.size
	b.stamp = max(b.stamp, n.stamp)
	b.next = n.next
	if b.next != nil {
		b.next.prev = b
	}
	*n = block{}
	a.spare = append(a.spare, n)
}

func (a *arena) block() *block {
	if n := len(a.spare); n > 0 {
		b := a.spare[n-1]
		a.spare = a.spare[:n-1]
		return b
	}
	return new(block)
}

func (a *arena) insert(b *block) {
	b.free = true
	bin := binOf(b.size)
	i, _ := slices.BinarySearchFunc(a.bins[bin], b, compareBlocks)
	a.bins[bin] = slices.Insert(a.bins[bin], i, b)
	a.filled |= 1 << bin
}

func (a *arena) remove(b *block) {
	b.free = false
	bin := binOf(b.size)
	i, _ := slices.BinarySearchFunc(a.bins[bin], b, compareBlocks)
	a.bins[bin] = slices.Delete(a.bins[bin], i, i+1)
	if len(a.bins[bin]) == 0 {
		a.filled &^= 1 << bin
	}
}

// idle removes and returns a region without used blocks whose last use has a stamp of at most done, or returns nil.
func (a *arena) idle(done uint64) *region {
	for _, list := range a.bins {
		for _, b := range list {
			if b.prev == nil && b.next == nil && b.stamp <= done {
				r := b.region
				a.remove(b)
				*b = block{}
				a.spare = append(a.spare, b)
				a.regions = slices.DeleteFunc(a.regions, func(o *region) bool { return o == r })
				a.bytes -= r.size
				return r
			}
		}
	}
	return nil
}

// room returns the size of the largest free block.
func (a *arena) room() int64 {
	if a.filled == 0 {
		return 0
	}
	list := a.bins[63-bits.LeadingZeros64(a.filled)]
	return list[len(list)-1].size
}

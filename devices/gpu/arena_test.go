package gpu

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// plain is a simple, slow arena: the oracle.
type plain struct {
	free []plainBlock // by address, neighbours joined
	used map[uint64]plainBlock
}

type plainBlock struct {
	addr   uint64
	size   int64
	stamp  uint64
	region uint64
}

func (p *plain) take(bytes int64) (uint64, uint64, bool) {
	size, best := rounded(bytes), -1
	for i, b := range p.free {
		if b.size >= size && (best < 0 || b.size < p.free[best].size) {
			best = i
		}
	}
	if best < 0 {
		return 0, 0, false
	}
	b := p.free[best]
	p.used[b.addr] = plainBlock{b.addr, size, b.stamp, b.region}
	if b.size == size {
		p.free = slices.Delete(p.free, best, best+1)
	} else {
		p.free[best] = plainBlock{b.addr + uint64(size), b.size - size, b.stamp, b.region}
	}
	return b.addr, b.stamp, true
}

func (p *plain) add(b plainBlock) {
	p.free = append(p.free, b)
	slices.SortFunc(p.free, func(a, b plainBlock) int { return int(int64(a.addr) - int64(b.addr)) })
	for i := 0; i+1 < len(p.free); {
		a, b := p.free[i], p.free[i+1]
		if a.region == b.region && a.addr+uint64(a.size) == b.addr {
			p.free[i] = plainBlock{a.addr, a.size + b.size, max(a.stamp, b.stamp), a.region}
			p.free = slices.Delete(p.free, i+1, i+2)
			continue
		}
		i++
	}
}

// compareArenas applies the operations in data to an arena and to the oracle. Regions are adjacent, so wrongly merged ones are detected.
func compareArenas(t *testing.T, data []byte) {
	var a arena
	p := plain{used: map[uint64]plainBlock{}}
	end := uint64(grain)
	sizes := map[uint64]int64{}
	var live []uint64
	for i := 0; i+2 < len(data); i += 3 {
		arg := int64(data[i+1])<<8 | int64(data[i+2])
		switch what := data[i] % 16; {
		case what == 0:
			size := rounded(arg)
			a.add(end, size)
			p.add(plainBlock{end, size, 0, end})
			sizes[end] = size
			end += uint64(size)
		case what == 1:
			r := a.idle(uint64(i) / 2)
			if r == nil {
				for _, b := range p.free {
					if b.size == sizes[b.region] && b.stamp <= uint64(i)/2 {
						t.Fatalf("the region at %d is idle", b.region)
					}
				}
				break
			}
			j := slices.IndexFunc(p.free, func(b plainBlock) bool { return b.addr == r.addr && b.size == r.size && b.stamp <= uint64(i)/2 })
			if j < 0 {
				t.Fatalf("the region at %d is not idle", r.addr)
			}
			p.free = slices.Delete(p.free, j, j+1)
		case what < 9:
			addr, stamp, ok := a.allocate(arg)
			addr2, stamp2, ok2 := p.take(arg)
			if addr != addr2 || stamp != stamp2 || ok != ok2 {
				t.Fatalf("taking %d gives %d, %d, %v; want %d, %d, %v", arg, addr, stamp, ok, addr2, stamp2, ok2)
			}
			if ok {
				live = append(live, addr)
			}
		case len(live) > 0:
			j := int(arg) % len(live)
			addr := live[j]
			live = slices.Delete(live, j, j+1)
			a.free(addr, uint64(i))
			b := p.used[addr]
			delete(p.used, addr)
			b.stamp = uint64(i)
			p.add(b)
		}
		check(t, &a, &p)
	}
	if a.free(1, 0) != nil {
		t.Error("what is not in use was given back")
	}
}

// check compares the arena's counts with the oracle's blocks.
func check(t *testing.T, a *arena, p *plain) {
	t.Helper()
	var free, used, largest int64
	for _, b := range p.free {
		free += b.size
		largest = max(largest, b.size)
	}
	for _, b := range p.used {
		used += b.size
	}
	if a.inUse != used || a.bytes != used+free || a.room() != largest {
		t.Fatalf("in use %d of %d, largest free %d; want %d of %d, %d", a.inUse, a.bytes, a.room(), used, used+free, largest)
	}
}

func TestArena(t *testing.T) {
	for seed := range uint64(50) {
		chance := rand.New(rand.NewPCG(seed, 3))
		data := make([]byte, 2000)
		for i := range data {
			data[i] = byte(chance.IntN(256))
		}
		compareArenas(t, data)
	}
}

func FuzzArena(f *testing.F) {
	f.Add([]byte{0, 255, 0, 2, 1, 0, 2, 0, 9, 10, 0, 0, 1, 0, 0})
	f.Fuzz(compareArenas)
}

func TestArenaMakesNoGarbage(t *testing.T) {
	var a arena
	a.add(grain, 1<<20)
	var addrs [50]uint64
	if n := testing.AllocsPerRun(100, func() {
		for i := range addrs {
			addrs[i], _, _ = a.allocate(int64(i * 100))
		}
		for _, addr := range addrs {
			a.free(addr, 1)
		}
	}); n > 0 {
		t.Errorf("%v allocations for blocks", n)
	}
}

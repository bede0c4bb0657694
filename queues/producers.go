package queues

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/internal/durable"
)

// maxProducers is the number of numbering producers that a queue remembers. Beyond it, the queue forgets the one whose last put is the
// longest ago. A put of a forgotten producer that is repeated is stored twice.
const maxProducers = 1024

// producers remembers how far the producers that number their elements have come.
type producers struct {
	entries   map[string]*producer
	puts      int64
	forgotten string // the one forgotten last
}

// producer is a producer that numbers its elements.
type producer struct {
	next int64 // the number of the next element; those before it have been added
	last int64 // the last put, in the order of all producers' puts
}

// stored returns how many of n elements, numbered from first, the producer has added before.
func (p *producers) stored(id string, first int64, n int) int {
	e := p.entries[id]
	if e == nil {
		return 0
	}
	return int(min(max(e.next-first, 0), int64(n)))
}

// advance records that the producer has added the elements before next.
func (p *producers) advance(id string, next int64) {
	if p.entries == nil {
		p.entries = map[string]*producer{}
	}
	e := p.entries[id]
	if e == nil {
		if len(p.entries) == maxProducers {
			p.forgetOne()
		}
		e = &producer{}
		p.entries[id] = e
	}
	p.puts++
	e.next, e.last = next, p.puts
}

// ids returns the producers in the order of their last puts.
func (p *producers) ids() []string {
	return slices.SortedFunc(maps.Keys(p.entries), func(a, b string) int { return cmp.Compare(p.entries[a].last, p.entries[b].last) })
}

// encoded returns what the disk keeps of a producer: the number of its next element, and its last put.
func (p *producer) encoded() durable.Bytes {
	return durable.Bytes(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(p.next)), uint64(p.last)))
}

// restore adds a producer that was encoded. Earlier versions did not keep its last put: such a producer is older than all others. It returns
// false if value is malformed.
func (p *producers) restore(id string, value []byte) bool {
	if len(value) != 8 && len(value) != 16 {
		return false
	}
	e := &producer{next: int64(binary.BigEndian.Uint64(value))}
	if len(value) == 16 {
		e.last = int64(binary.BigEndian.Uint64(value[8:]))
	}
	if p.entries == nil {
		p.entries = map[string]*producer{}
	}
	p.entries[id], p.puts = e, max(p.puts, e.last)
	return true
}

// forgetOne forgets the producer whose last put is the longest ago.
func (p *producers) forgetOne() {
	var oldest string
	last := p.puts + 1
	for id, e := range p.entries {
		if e.last < last {
			oldest, last = id, e.last
		}
	}
	delete(p.entries, oldest)
	p.forgotten = oldest
}

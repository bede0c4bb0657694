package jpeg

import (
	"encoding/binary"
	"math/bits"
)

// scan is a part of the file: a range of frequencies, of one or more components.
type scan struct {
	components  []*component
	numbers     []int
	first, last int // frequencies
	progressive bool
}

// scans returns the scans of a file. A progressive one begins with the means of all blocks, followed by the low and then the high
// frequencies.
func scans(components []component, progressive bool) (all []scan) {
	whole := scan{last: 63, progressive: progressive}
	for i := range components {
		whole.components, whole.numbers = append(whole.components, &components[i]), append(whole.numbers, i)
	}
	if !progressive {
		return []scan{whole}
	}
	whole.last = 0
	all = append(all, whole)
	for _, span := range [][2]int{{1, 5}, {6, 63}} {
		for i := range components {
			all = append(all, scan{[]*component{&components[i]}, []int{i}, span[0], span[1], true})
		}
	}
	return all
}

// blocks calls f for each block in the order of the file: unit by unit if there are several components.
func (s scan) blocks(f func(of int, c *component, block *[64]int16)) {
	if len(s.components) == 1 {
		c := s.components[0]
		for y := range c.high {
			for x := range c.wide {
				f(0, c, &c.blocks[y*c.stride+x])
			}
		}
		return
	}
	lead := s.components[0]
	unitsWide, unitsHigh := lead.stride/lead.across, len(lead.blocks)/lead.stride/lead.down
	for u := range unitsWide * unitsHigh {
		for i, c := range s.components {
			for r := range c.down {
				for x := range c.across {
					f(i, c, &c.blocks[(u/unitsWide*c.down+r)*c.stride+u%unitsWide*c.across+x])
				}
			}
		}
	}
}

// alphabet is one of the four sets of symbols in a scan: those of means and of other frequencies, for luma and for colour.
type alphabet int

func means(tables int) alphabet       { return alphabet(2 * tables) }
func frequencies(tables int) alphabet { return alphabet(2*tables + 1) }

// symbols calls emit with each symbol of a scan and the n bits after it.
func (s scan) symbols(emit func(a alphabet, symbol byte, extra uint32, n int)) {
	before := make([]int, len(s.components))
	idle := 0 // blocks without further coefficients that are not written yet
	var of alphabet
	flush := func() {
		if idle > 0 {
			n := bits.Len(uint(idle)) - 1
			emit(of, byte(n<<4), uint32(idle)&(1<<n-1), n)
			idle = 0
		}
	}
	s.blocks(func(i int, c *component, block *[64]int16) {
		first := s.first
		if first == 0 {
			extra, n := magnitude(int(block[0]) - before[i])
			emit(means(c.tables), byte(n), extra, n)
			before[i] = int(block[0])
			first = 1
		}
		if s.last == 0 {
			return
		}
		of = frequencies(c.tables)
		zeros := 0
		for _, v := range block[first : s.last+1] {
			if v == 0 {
				zeros++
				continue
			}
			flush()
			for ; zeros > 15; zeros -= 16 {
				emit(of, 0xf0, 0, 0)
			}
			extra, n := magnitude(int(v))
			emit(of, byte(zeros<<4|n), extra, n)
			zeros = 0
		}
		if zeros > 0 {
			if idle++; !s.progressive || idle == 1<<15-1 {
				flush()
			}
		}
	})
	flush()
}

// magnitude returns how a number is written: its lowest n bits, less one if it is negative.
func magnitude(v int) (extra uint32, n int) {
	if v < 0 {
		n = bits.Len(uint(-v))
		return uint32(v-1) & (1<<n - 1), n
	}
	return uint32(v), bits.Len(uint(v))
}

// writer writes the file.
type writer struct {
	out  []byte
	acc  uint64 // bits that do not fill a byte yet
	held int    // the number of these bits
}

func (w *writer) segment(marker byte, data []byte) {
	w.out = append(w.out, 0xff, marker)
	w.out = binary.BigEndian.AppendUint16(w.out, uint16(len(data)+2))
	w.out = append(w.out, data...)
}

// scan writes a scan and the tables of its codes. If smallest is true, the codes are optimized for the scan; otherwise they are the
// standard's.
func (w *writer) scan(s scan, smallest bool) {
	var codes [4]code
	var counts [4][257]int
	if smallest {
		s.symbols(func(a alphabet, symbol byte, _ uint32, _ int) { counts[a][symbol]++ })
	}
	for a := range codes {
		if luma := a < 2; !luma && !s.has(1) || luma && !s.has(0) || a%2 == 0 && s.first > 0 || a%2 == 1 && s.last == 0 {
			continue
		}
		spec := standard[a]
		if smallest {
			spec = optimal(counts[a])
		}
		codes[a] = spec.code()
		w.segment(0xc4, spec.segment(byte(a%2<<4|a/2)))
	}
	header := []byte{byte(len(s.components))}
	for i, c := range s.components {
		header = append(header, byte(s.numbers[i]+1), byte(c.tables<<4|c.tables))
	}
	w.segment(startOfScan, append(header, byte(s.first), byte(s.last), 0))
	s.symbols(func(a alphabet, symbol byte, extra uint32, n int) {
		e := codes[a][symbol]
		w.bits(uint64(e.bits)<<n|uint64(extra), int(e.length)+n)
	})
	if w.held > 0 {
		w.bits(1<<(8-w.held)-1, 8-w.held)
	}
}

// has reports whether one of the scan's components uses the given tables.
func (s scan) has(tables int) bool {
	for _, c := range s.components {
		if c.tables == tables {
			return true
		}
	}
	return false
}

// bits writes the low n bits of v. n is at most 27. A byte 0xff, which would begin a marker, is followed by a zero.
func (w *writer) bits(v uint64, n int) {
	w.acc = w.acc<<n | v
	w.held += n
	for w.held >= 8 {
		w.held -= 8
		b := byte(w.acc >> w.held)
		if w.out = append(w.out, b); b == 0xff {
			w.out = append(w.out, 0)
		}
	}
	w.acc &= 1<<w.held - 1
}

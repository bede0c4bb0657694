package kernels

import (
	"math/bits"
	"math/rand/v2"
	"sync"
)

// philox is the generator Philox 4x32-10 of "Parallel Random Numbers: As Easy as 1, 2, 3": a
// counter of 128 bits, enciphered. Its state is a value; copies go on independently.
type philox struct {
	counter [4]uint32
	key     [2]uint32
}

// newPhilox is the generator that TensorFlow makes of an op's seeds: the first is the key, the
// second the counter's upper half.
func newPhilox(seed, seed2 uint64) philox {
	return philox{
		counter: [4]uint32{2: uint32(seed2), 3: uint32(seed2 >> 32)},
		key:     [2]uint32{uint32(seed), uint32(seed >> 32)},
	}
}

// scrambled is the generator that TensorFlow makes of the seeds of a stateless op.
func scrambled(seed0, seed1 uint64) philox {
	mix := philox{
		counter: [4]uint32{uint32(seed0), uint32(seed0 >> 32), uint32(seed1), uint32(seed1 >> 32)},
		key:     [2]uint32{0x3ec8f720, 0x02461e29},
	}
	x := mix.next()
	return philox{counter: [4]uint32{2: x[2], 3: x[3]}, key: [2]uint32{x[0], x[1]}}
}

// skip goes on by count groups of four numbers.
func (p *philox) skip(count uint64) {
	lo, carry := bits.Add64(uint64(p.counter[1])<<32|uint64(p.counter[0]), count, 0)
	hi := uint64(p.counter[3])<<32 | uint64(p.counter[2])
	p.counter[0], p.counter[1] = uint32(lo), uint32(lo>>32)
	hi += carry
	p.counter[2], p.counter[3] = uint32(hi), uint32(hi>>32)
}

// next gives four numbers.
func (p *philox) next() [4]uint32 {
	c0, c1, c2, c3 := uint64(p.counter[0]), p.counter[1], uint64(p.counter[2]), p.counter[3]
	k0, k1 := p.key[0], p.key[1]
	for range 5 { // two rounds each
		a, b := c0*0xD2511F53, c2*0xCD9E8D57
		c0, c1, c2, c3 = uint64(uint32(b>>32)^c1^k0), uint32(b), uint64(uint32(a>>32)^c3^k1), uint32(a)
		k0, k1 = k0+0x9E3779B9, k1+0xBB67AE85
		a, b = c0*0xD2511F53, c2*0xCD9E8D57
		c0, c1, c2, c3 = uint64(uint32(b>>32)^c1^k0), uint32(b), uint64(uint32(a>>32)^c3^k1), uint32(a)
		k0, k1 = k0+0x9E3779B9, k1+0xBB67AE85
	}
	if p.counter[0]++; p.counter[0] == 0 {
		if p.counter[1]++; p.counter[1] == 0 {
			if p.counter[2]++; p.counter[2] == 0 {
				p.counter[3]++
			}
		}
	}
	return [4]uint32{uint32(c0), c1, uint32(c2), c3}
}

// numbers32 gives a philox's numbers one at a time.
type numbers32 struct {
	gen  *philox
	got  [4]uint32
	used int
}

func oneAtATime(gen *philox) numbers32 { return numbers32{gen: gen, used: 4} }

func (s *numbers32) next() uint32 {
	if s.used == 4 {
		s.got, s.used = s.gen.next(), 0
	}
	v := s.got[s.used]
	s.used++
	return v
}

// generator is the state of a random op, which goes on from run to run.
type generator struct {
	mu  sync.Mutex
	gen philox
}

// newGenerator reads the attributes seed and seed2. Both zero ask for numbers that differ in each
// session.
func newGenerator(c *Construction) (*generator, error) {
	seed, err := c.Attrs().Int("seed")
	seed2, err2 := c.Attrs().Int("seed2")
	if err := firstError(err, err2); err != nil {
		return nil, err
	}
	if seed == 0 && seed2 == 0 {
		return &generator{gen: newPhilox(rand.Uint64(), rand.Uint64())}, nil
	}
	return &generator{gen: newPhilox(uint64(seed), uint64(seed2))}, nil
}

// reserve gives a generator for one run and goes on by groups of four numbers. It may be called
// concurrently.
func (g *generator) reserve(groups int64) philox {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.gen
	g.gen.skip(uint64(groups))
	return own
}

// reservedPerOutput is the groups that TensorFlow lets an op's state go on by for each element.
const reservedPerOutput = 256

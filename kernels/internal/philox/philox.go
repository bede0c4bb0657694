package philox

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Below returns a uniform number from 0 to n-1, as TensorFlow's SimplePhilox::Uniform64 does.
func (s *Numbers32) Below(n uint64) uint64 {
	draw := func() uint64 {
		lo := uint64(s.Next())
		return lo | uint64(s.Next())<<32
	}
	if n&(n-1) == 0 {
		return draw() & (n - 1)
	}
	reject := math.MaxUint64%n + 1
	for {
		if v := draw(); v >= reject {
			return v % n
		}
	}
}

// Below32 is Below for 32 bits, like TensorFlow's SimplePhilox::Uniform.
func (s *Numbers32) Below32(n uint32) uint32 {
	if n&(n-1) == 0 {
		return s.Next() & (n - 1)
	}
	reject := math.MaxUint32%n + 1
	for {
		if v := s.Next(); v >= reject {
			return v % n
		}
	}
}

// UnitFloat converts a random number to a float in [0,1) by using its bits as the fraction.
func UnitFloat(x uint32) float32 { return simd.UnitFloat(x) }

// UnitDouble is UnitFloat for a double, with the bits of two numbers.
func UnitDouble(x0, x1 uint32) float64 {
	return math.Float64frombits(1023<<52|uint64(x0&0xfffff)<<32|uint64(x1)) - 1
}

// Philox is the generator Philox 4x32-10 of "Parallel Random Numbers: As Easy as 1, 2, 3", which enciphers a 128-bit counter. Its state is
// a value; copies continue independently.
type Philox struct {
	Counter [4]uint32
	Key     [2]uint32
}

// New returns the generator that TensorFlow derives from an op's seeds: the first is the key, the second the counter's upper half.
func New(seed, seed2 uint64) Philox {
	return Philox{
		Counter: [4]uint32{2: uint32(seed2), 3: uint32(seed2 >> 32)},
		Key:     [2]uint32{uint32(seed), uint32(seed >> 32)},
	}
}

// Scrambled returns the generator that TensorFlow derives from the seeds of a stateless op.
func Scrambled(seed0, seed1 uint64) Philox {
	mix := Philox{
		Counter: [4]uint32{uint32(seed0), uint32(seed0 >> 32), uint32(seed1), uint32(seed1 >> 32)},
		Key:     [2]uint32{0x3ec8f720, 0x02461e29},
	}
	x := mix.Next()
	return Philox{Counter: [4]uint32{2: x[2], 3: x[3]}, Key: [2]uint32{x[0], x[1]}}
}

// halves returns the lower and upper half of the counter, and the key.
func (p *Philox) halves() (lo, hi, key uint64) {
	join := func(lo, hi uint32) uint64 { return uint64(hi)<<32 | uint64(lo) }
	return join(p.Counter[0], p.Counter[1]), join(p.Counter[2], p.Counter[3]), join(p.Key[0], p.Key[1])
}

// Skip skips count groups of four numbers.
func (p *Philox) Skip(count uint64) {
	lo, hi, _ := p.halves()
	lo, carry := bits.Add64(lo, count, 0)
	hi += carry
	p.Counter = [4]uint32{uint32(lo), uint32(lo >> 32), uint32(hi), uint32(hi >> 32)}
}

// Next returns the next four numbers.
func (p *Philox) Next() [4]uint32 {
	x := simd.PhiloxOne(p.halves())
	if p.Counter[0]++; p.Counter[0] == 0 {
		if p.Counter[1]++; p.Counter[1] == 0 {
			if p.Counter[2]++; p.Counter[2] == 0 {
				p.Counter[3]++
			}
		}
	}
	return x
}

// Fill sets dst, whose length is a multiple of four, to the next numbers.
func (p *Philox) Fill(dst []uint32) {
	lo, hi, key := p.halves()
	simd.Philox(dst, lo, hi, key)
	p.Skip(uint64(len(dst) / 4))
}

// Numbers32 returns a Philox's numbers one by one.
type Numbers32 struct {
	gen  *Philox
	Got  [4]uint32
	Used int
}

// OneAtATime returns an iterator over a generator's single numbers.
func OneAtATime(gen *Philox) Numbers32 { return Numbers32{gen: gen, Used: 4} }

// Next returns the next number.
func (s *Numbers32) Next() uint32 {
	if s.Used == 4 {
		s.Got, s.Used = s.gen.Next(), 0
	}
	v := s.Got[s.Used]
	s.Used++
	return v
}

// Generator is the state of a random op, which persists across runs.
type Generator struct {
	mu  sync.Mutex
	gen Philox
}

// NewGenerator reads the attributes seed and seed2. If both are zero, the numbers differ in each session.
func NewGenerator(c *kernels.Construction) (*Generator, error) {
	a := c.Attrs().Reader()
	seed, seed2 := a.Int("seed"), a.Int("seed2")
	if err := a.Err(); err != nil {
		return nil, err
	}
	if seed == 0 && seed2 == 0 {
		return &Generator{gen: New(rand.Uint64(), rand.Uint64())}, nil
	}
	return &Generator{gen: New(uint64(seed), uint64(seed2))}, nil
}

// Reserve returns a generator for one run and advances the state by groups groups of four numbers. It may be called concurrently.
func (g *Generator) Reserve(groups int64) Philox {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.gen
	g.gen.Skip(uint64(groups))
	return own
}

// ReservedPerOutput is the number of groups by which TensorFlow advances an op's state for each output element.
const ReservedPerOutput = 256

// Numbers returns the generator of an op with those seeds, one number a call; if both are zero, the seeds are random.
func Numbers(seed, seed2 int64) func() uint32 {
	gen := New(uint64(seed), uint64(seed2))
	if seed == 0 && seed2 == 0 {
		gen = New(rand.Uint64(), rand.Uint64())
	}
	numbers := OneAtATime(&gen)
	return numbers.Next
}

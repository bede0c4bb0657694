package philox

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Below gives a number from 0 to n-1, each as likely, as TensorFlow's SimplePhilox::Uniform64 does.
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

// Below32 is Below for 32 bits, as TensorFlow's SimplePhilox::Uniform.
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

// UnitFloat takes its fraction's bits from a random number: [0,1).
func UnitFloat(x uint32) float32 { return simd.UnitFloat(x) }

// UnitDouble is UnitFloat with the bits of two numbers.
func UnitDouble(x0, x1 uint32) float64 {
	return math.Float64frombits(1023<<52|uint64(x0&0xfffff)<<32|uint64(x1)) - 1
}

// Philox is the generator Philox 4x32-10 of "Parallel Random Numbers: As Easy as 1, 2, 3": a
// counter of 128 bits, enciphered. Its state is a value; copies go on independently.
type Philox struct {
	Counter [4]uint32
	Key     [2]uint32
}

// New is the generator that TensorFlow makes of an op's seeds: the first is the key, the
// second the counter's upper half.
func New(seed, seed2 uint64) Philox {
	return Philox{
		Counter: [4]uint32{2: uint32(seed2), 3: uint32(seed2 >> 32)},
		Key:     [2]uint32{uint32(seed), uint32(seed >> 32)},
	}
}

// Scrambled is the generator that TensorFlow makes of the seeds of a stateless op.
func Scrambled(seed0, seed1 uint64) Philox {
	mix := Philox{
		Counter: [4]uint32{uint32(seed0), uint32(seed0 >> 32), uint32(seed1), uint32(seed1 >> 32)},
		Key:     [2]uint32{0x3ec8f720, 0x02461e29},
	}
	x := mix.Next()
	return Philox{Counter: [4]uint32{2: x[2], 3: x[3]}, Key: [2]uint32{x[0], x[1]}}
}

// halves are the counter's lower and upper half, and the key.
func (p *Philox) halves() (lo, hi, key uint64) {
	join := func(lo, hi uint32) uint64 { return uint64(hi)<<32 | uint64(lo) }
	return join(p.Counter[0], p.Counter[1]), join(p.Counter[2], p.Counter[3]), join(p.Key[0], p.Key[1])
}

// Skip goes on by count groups of four numbers.
func (p *Philox) Skip(count uint64) {
	lo, hi, _ := p.halves()
	lo, carry := bits.Add64(lo, count, 0)
	hi += carry
	p.Counter = [4]uint32{uint32(lo), uint32(lo >> 32), uint32(hi), uint32(hi >> 32)}
}

// Next gives four numbers.
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

// Numbers32 gives a philox's numbers one at a time.
type Numbers32 struct {
	gen  *Philox
	Got  [4]uint32
	Used int
}

// OneAtATime hands out a generator's numbers one by one.
func OneAtATime(gen *Philox) Numbers32 { return Numbers32{gen: gen, Used: 4} }

// Next is the next number.
func (s *Numbers32) Next() uint32 {
	if s.Used == 4 {
		s.Got, s.Used = s.gen.Next(), 0
	}
	v := s.Got[s.Used]
	s.Used++
	return v
}

// Generator is the state of a random op, which goes on from run to run.
type Generator struct {
	mu  sync.Mutex
	gen Philox
}

// NewGenerator reads the attributes seed and seed2. Both zero ask for numbers that differ in each
// session.
func NewGenerator(c *kernels.Construction) (*Generator, error) {
	seed, err := c.Attrs().Int("seed")
	seed2, err2 := c.Attrs().Int("seed2")
	if err := args.FirstError(err, err2); err != nil {
		return nil, err
	}
	if seed == 0 && seed2 == 0 {
		return &Generator{gen: New(rand.Uint64(), rand.Uint64())}, nil
	}
	return &Generator{gen: New(uint64(seed), uint64(seed2))}, nil
}

// Reserve gives a generator for one run and goes on by groups of four numbers. It may be called
// concurrently.
func (g *Generator) Reserve(groups int64) Philox {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.gen
	g.gen.Skip(uint64(groups))
	return own
}

// ReservedPerOutput is the groups that TensorFlow lets an op's state go on by for each element.
const ReservedPerOutput = 256

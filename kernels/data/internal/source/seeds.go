package source

import (
	"crypto/rand"
	"encoding/binary"
	"sync"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// kindSeeds is the kind of seeds as resources.
const kindSeeds = "tensorflow::data::SeedGeneratorManager"

// Seeds provides the seeds of each round of a shuffled dataset: new ones, or always the same. The iterators of a dataset share it.
type Seeds struct {
	seed, seed2 int64
	fixed       bool

	mu      sync.Mutex
	drawn   int64
	numbers Numbers
}

// NewSeeds returns seeds from two numbers; if both are zero, the seeds are random.
func NewSeeds(seed, seed2 int64, reshuffles bool) *Seeds {
	if seed == 0 && seed2 == 0 {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		seed, seed2 = int64(binary.LittleEndian.Uint64(b[:])), int64(binary.LittleEndian.Uint64(b[8:]))
	}
	return &Seeds{seed: seed, seed2: seed2, fixed: !reshuffles, numbers: NewNumbers(seed, seed2, 0)}
}

// Pair returns the two numbers that the seeds are made from.
func (s *Seeds) Pair() (seed, seed2 int64) { return s.seed, s.seed2 }

// Draw draws the seeds of a round.
func (s *Seeds) Draw() (seed, seed2 int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fixed {
		s.drawn++
		return s.seed, s.seed2
	}
	s.drawn += 2
	seed = int64(s.numbers.Next())
	return seed, int64(s.numbers.Next())
}

// Position returns how many numbers were drawn.
func (s *Seeds) Position() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn
}

// MoveTo sets how many numbers were drawn.
func (s *Seeds) MoveTo(drawn int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn = drawn
	if !s.fixed {
		s.numbers = NewNumbers(s.seed, s.seed2, drawn)
	}
}

// Numbers generates random numbers, one per call.
type Numbers struct{ philox.Numbers32 }

// NewNumbers returns the numbers of two seeds, after skipping the first skip of them.
func NewNumbers(seed, seed2, skip int64) Numbers {
	p := philox.New(uint64(seed), uint64(seed2))
	p.Skip(uint64(skip) / 4)
	n := Numbers{philox.OneAtATime(&p)}
	for range skip % 4 {
		n.Next()
	}
	return n
}

// SeedsAt returns the seeds of a generator, if the last input names an existing one, or else the seeds made from two numbers.
func SeedsAt(in *dataset.Inputs, seed, seed2, generator int, reshuffles bool) *Seeds {
	a, b := in.Int(seed, "seed"), in.Int(seed2, "seed2")
	if found := SharedSeeds(in, generator); found != nil {
		return found
	}
	return NewSeeds(a, b, reshuffles)
}

// SharedSeeds returns the generator at input i; nil if there is none, or if the input is of another kind.
func SharedSeeds(in *dataset.Inputs, i int) *Seeds {
	if in.Context.Input(i).DType() != tensor.Resource {
		return nil
	}
	return dataset.ResourceOf[*Seeds](in, i, kindSeeds)
}

// newSeedGenerator returns the kernel of seeds as a resource, which datasets share.
func newSeedGenerator(*kernels.Construction) (any, error) {
	return kernels.Func(func(ctx *kernels.Context) error {
		in := &dataset.Inputs{Context: ctx}
		seed, seed2, again := in.Int(0, "seed"), in.Int(1, "seed2"), true
		if ctx.NumInputs() > 2 {
			again = in.Bool(2, "reshuffle")
		}
		if in.Err != nil {
			return in.Err
		}
		return dataset.OutputAnonymous(ctx, kindSeeds, dataset.NewHolder(NewSeeds(seed, seed2, again)))
	}), nil
}

package source

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// random is an infinite sequence of random numbers.
type random struct{ seeds *Seeds }

func newRandom(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		return &random{NewSeeds(in.Int(0, "seed"), in.Int(1, "seed2"), false)}
	}
}

func newRandomV2(s *dataset.Settings) dataset.Maker {
	again := s.Bool("rerandomize_each_iteration")
	return func(in *dataset.Inputs) dataset.Kind { return &random{SeedsAt(in, 0, 1, 2, again)} }
}

func (k *random) Cardinality(*dataset.Query) int64 { return dataset.Infinite }

func (k *random) Open(*dataset.Env) (dataset.Iterator, error) {
	it := &randoms{of: k}
	it.seed, it.seed2 = k.seeds.Draw()
	it.draw = NewNumbers(it.seed, it.seed2, 0)
	return it, nil
}

type randoms struct {
	dataset.Stateless
	of                 *random
	seed, seed2, drawn int64
	draw               Numbers
}

func (it *randoms) Next(c *dataset.Call) (dataset.Element, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	it.drawn++
	return dataset.Element{tensor.Scalar(tensor.Int64, int64(it.draw.Next()))}, nil
}

func (it *randoms) Save(_ *dataset.Call, w *dataset.Writer) {
	w.Int("seeds", it.of.seeds.Position())
	w.Int("seed", it.seed)
	w.Int("seed2", it.seed2)
	w.Int("drawn", it.drawn)
}

func (it *randoms) Restore(_ *dataset.Call, r *dataset.Reader) {
	it.of.seeds.MoveTo(r.Place("seeds"))
	it.seed, it.seed2, it.drawn = r.Int("seed"), r.Int("seed2"), r.Place("drawn")
	it.draw = NewNumbers(it.seed, it.seed2, it.drawn)
}

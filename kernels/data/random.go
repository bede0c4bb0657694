package data

// random is an infinite sequence of random numbers.
type random struct{ seeds *seeds }

func newRandom(*settings) maker {
	return func(in *inputs) kind {
		return &random{newSeeds(in.int(0, "seed"), in.int(1, "seed2"), false)}
	}
}

func newRandomV2(s *settings) maker {
	again := s.Bool("rerandomize_each_iteration")
	return func(in *inputs) kind { return &random{in.seedsAt(0, 1, 2, again)} }
}

func (k *random) cardinality(*query) int64 { return infinite }

func (k *random) open(*Env) (Iterator, error) {
	it := &randoms{of: k}
	it.seed, it.seed2 = k.seeds.next()
	it.draw = numbersOf(it.seed, it.seed2, 0)
	return it, nil
}

type randoms struct {
	stateless
	of                 *random
	seed, seed2, drawn int64
	draw               numbers
}

func (it *randoms) Next(c *Call) (Element, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	it.drawn++
	return Element{int64Scalar(int64(it.draw.Next()))}, nil
}

func (it *randoms) Save(_ *Call, w *Writer) {
	w.Int("seeds", it.of.seeds.position())
	w.Int("seed", it.seed)
	w.Int("seed2", it.seed2)
	w.Int("drawn", it.drawn)
}

func (it *randoms) Restore(_ *Call, r *Reader) {
	it.of.seeds.seek(r.Place("seeds"))
	it.seed, it.seed2, it.drawn = r.Int("seed"), r.Int("seed2"), r.Place("drawn")
	it.draw = numbersOf(it.seed, it.seed2, it.drawn)
}

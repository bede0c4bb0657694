package data

import "github.com/troupe-run/troupe/graph/tensor"

// sampling keeps each element with a probability.
type sampling struct {
	input *Dataset
	rate  float32
	seeds *seeds
}

func newSampling(*settings) maker {
	return func(in *inputs) kind {
		rate := scalar(in, 1, "rate", tensor.Float32, func(t *tensor.Tensor) float32 { return tensor.Of[float32](t)[0] })
		return &sampling{in.dataset(0), rate, newSeeds(in.int(2, "seed"), in.int(3, "seed2"), false)}
	}
}

func (k *sampling) cardinality(*query) int64 { return unknown }

func (k *sampling) open(e *Env) (Iterator, error) {
	return openOver(e, k.input, func(o over) Iterator {
		it := &samples{over: o, of: k}
		it.seed, it.seed2 = k.seeds.next()
		it.draw = numbersOf(it.seed, it.seed2, 0)
		return it
	})
}

type samples struct {
	over
	of                 *sampling
	seed, seed2, drawn int64
	draw               numbers
}

func (it *samples) Next(c *Call) (Element, error) {
	for {
		e, err := it.input.Next(c)
		if err != nil {
			return nil, err
		}
		it.drawn++
		if unit(it.draw.Next()) < it.of.rate {
			return e, nil
		}
		e.release()
	}
}

// unit maps the lowest bits of a random number to [0, 1), as TensorFlow's RandomUniform does.
func unit(bits uint32) float32 { return float32(bits&(1<<23-1)) / (1 << 23) }

func (it *samples) Save(c *Call, w *Writer) {
	w.Int("seed", it.seed)
	w.Int("seed2", it.seed2)
	w.Int("drawn", it.drawn)
	it.over.Save(c, w)
}

func (it *samples) Restore(c *Call, r *Reader) {
	it.seed, it.seed2, it.drawn = r.Int("seed"), r.Int("seed2"), r.Place("drawn")
	it.draw = numbersOf(it.seed, it.seed2, it.drawn)
	it.over.Restore(c, r)
}

package selection

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
)

// sampling keeps each element with a probability.
type sampling struct {
	input *dataset.Dataset
	rate  float32
	seeds *source.Seeds
}

func newSampling(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		rate := dataset.Scalar(in, 1, "rate", tensor.Float32, func(t *tensor.Tensor) float32 { return tensor.Of[float32](t)[0] })
		return &sampling{in.Dataset(0), rate, source.NewSeeds(in.Int(2, "seed"), in.Int(3, "seed2"), false)}
	}
}

func (k *sampling) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *sampling) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator {
		it := &samples{Over: o, of: k}
		it.seed, it.seed2 = k.seeds.Draw()
		it.draw = source.NewNumbers(it.seed, it.seed2, 0)
		return it
	})
}

type samples struct {
	dataset.Over
	of                 *sampling
	seed, seed2, drawn int64
	draw               source.Numbers
}

func (it *samples) Next(c *dataset.Call) (dataset.Element, error) {
	for {
		e, err := it.Input.Next(c)
		if err != nil {
			return nil, err
		}
		it.drawn++
		if unit(it.draw.Next()) < it.of.rate {
			return e, nil
		}
		e.Release()
	}
}

// unit maps the lowest bits of a random number to [0, 1), as TensorFlow's RandomUniform does.
func unit(bits uint32) float32 { return float32(bits&(1<<23-1)) / (1 << 23) }

func (it *samples) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("seed", it.seed)
	w.Int("seed2", it.seed2)
	w.Int("drawn", it.drawn)
	it.Over.Save(c, w)
}

func (it *samples) Restore(c *dataset.Call, r *dataset.Reader) {
	it.seed, it.seed2, it.drawn = r.Int("seed"), r.Int("seed2"), r.Place("drawn")
	it.draw = source.NewNumbers(it.seed, it.seed2, it.drawn)
	it.Over.Restore(c, r)
}

package data

import (
	"io"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/internal/permute"
)

// shuffleAll gives all elements in random order, each by its index, without a buffer: GlobalShuffleDataset.
type shuffleAll struct {
	input *Dataset
	seeds *seeds
}

// shuffleRounds is the rounds of the permutation that TensorFlow takes.
const shuffleRounds = 8

func newShuffleAll(s *settings) maker {
	reshuffles := s.bool("reshuffle_each_iteration")
	return func(in *inputs) kind {
		k := &shuffleAll{in.dataset(0), in.seedsAt(1, 2, 3, reshuffles)}
		if in.err != nil {
			return k
		}
		if err := k.input.shufflable(); err != nil {
			in.fail(status.Errorf(status.FailedPrecondition, "`global_shuffle` requires all upstream transformations be compatible with random access. Got: %v: %v", status.CodeOf(err), err))
			return k
		}
		if n := k.input.cardinality(); n <= 0 {
			in.failf("`global_shuffle` requires the input dataset to have a non-empty finite cardinality. Got cardinality %d for dataset %s", n, k.input.Op)
		}
		return k
	}
}

func (k *shuffleAll) cardinality() int64 { return k.input.cardinality() }

func (k *shuffleAll) shufflable() error { return nil }

func (k *shuffleAll) open(*Env) (Iterator, error) {
	it := &shufflingAll{of: k}
	seed, seed2 := k.seeds.next()
	seed3, _ := k.seeds.next()
	it.keys = [3]uint32{uint32(seed), uint32(seed2), uint32(seed3)}
	it.drawn = k.seeds.position()
	return it, nil
}

// at is the element at an index of one order, for a shuffle of what was shuffled.
func (k *shuffleAll) at(c *Call, i int64) (Element, error) {
	return k.input.at(c, i)
}

type shufflingAll struct {
	stateless
	of    *shuffleAll
	keys  [3]uint32
	drawn int64
	next  int64
}

func (it *shufflingAll) Next(c *Call) (Element, error) {
	n := it.of.cardinality()
	if it.next >= n {
		return nil, io.EOF
	}
	it.next++
	return it.of.input.at(c, int64(permute.Index(uint64(it.next-1), uint64(n-1), it.keys, shuffleRounds)))
}

func (it *shufflingAll) Save(_ *Call, w *Writer) {
	w.Int("drawn", it.drawn)
	for i, key := range it.keys {
		w.InAt("key", i).Int("key", int64(key))
	}
	w.Int("next", it.next)
}

func (it *shufflingAll) Restore(_ *Call, r *Reader) {
	it.drawn = r.Place("drawn")
	it.of.seeds.seek(it.drawn)
	for i := range it.keys {
		it.keys[i] = uint32(r.InAt("key", i).Int("key"))
	}
	if it.next = r.Place("next"); it.next < 0 {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a shuffled dataset is at element %d", it.next))
	}
}

package selection

import (
	"io"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
	"github.com/troupe-run/troupe/kernels/internal/permute"
)

// shuffleAll returns all elements in random order, each by its index, without a buffer: GlobalShuffleDataset.
type shuffleAll struct {
	input *dataset.Dataset
	seeds *source.Seeds
}

// shuffleRounds is the number of rounds of TensorFlow's permutation.
const shuffleRounds = 8

func newShuffleAll(s *dataset.Settings) dataset.Maker {
	reshuffles := s.Bool("reshuffle_each_iteration")
	return func(in *dataset.Inputs) dataset.Kind {
		k := &shuffleAll{in.Dataset(0), source.SeedsAt(in, 1, 2, 3, reshuffles)}
		if in.Err != nil {
			return k
		}
		if err := k.input.Shufflable(); err != nil {
			in.Fail(status.Errorf(status.FailedPrecondition, "`global_shuffle` requires all upstream transformations be compatible with random access. Got: %v: %v", status.CodeOf(err), err))
			return k
		}
		if n := k.input.Cardinality(nil); n <= 0 {
			in.Failf("`global_shuffle` requires the input dataset to have a non-empty finite cardinality. Got cardinality %d for dataset %s", n, k.input.Text())
		}
		return k
	}
}

func (k *shuffleAll) Cardinality(q *dataset.Query) int64 { return k.input.Cardinality(q) }

func (k *shuffleAll) Shufflable() error { return nil }

func (k *shuffleAll) Open(*dataset.Env) (dataset.Iterator, error) {
	it := &shufflingAll{wholeOrder: drawOrder(k), orders: map[dataset.Kind]dataset.Order{}}
	seen := map[*dataset.Dataset]bool{}
	for next := []*dataset.Dataset{k.input}; len(next) > 0; {
		d := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[d] {
			continue
		}
		seen[d] = true
		if in, ok := d.Kind.(*shuffleAll); ok {
			o := drawOrder(in)
			it.inner = append(it.inner, o)
			it.orders[in] = o
		}
		next = append(next, d.Inputs...)
	}
	return it, nil
}

// At returns the element at an index of the order that the iterator over the whole dataset has drawn. A program that requests an element by
// index has no such order, and TensorFlow rejects the request.
func (k *shuffleAll) At(c *dataset.Call, i int64) (dataset.Element, error) {
	if c.Lookup {
		return nil, status.Unimplementedf("Random access is not implemented for dataset GlobalShuffleDatasetOp::Dataset")
	}
	if o := c.Order(k); o != nil {
		i = o.Index(i)
	}
	return k.input.At(c, i)
}

// wholeOrder is a random order of all elements.
type wholeOrder struct {
	of    *shuffleAll
	keys  [3]uint32
	drawn int64
}

// drawOrder draws the order for a new iterator.
func drawOrder(k *shuffleAll) *wholeOrder {
	o := &wholeOrder{of: k}
	seed, seed2 := k.seeds.Draw()
	seed3, _ := k.seeds.Draw()
	o.keys = [3]uint32{uint32(seed), uint32(seed2), uint32(seed3)}
	o.drawn = k.seeds.Position()
	return o
}

// Index returns the index of the element at place i, which must be less than the number of elements.
func (o *wholeOrder) Index(i int64) int64 {
	n := o.of.Cardinality(nil)
	at, _ := permute.Index(uint64(i), uint64(n-1), o.keys, shuffleRounds, nil)
	return int64(at)
}

func (o *wholeOrder) save(w *dataset.Writer) {
	w.Int("drawn", o.drawn)
	for i, key := range o.keys {
		w.InAt("key", i).Int("key", int64(key))
	}
}

func (o *wholeOrder) restore(r *dataset.Reader) {
	o.drawn = r.Place("drawn")
	o.of.seeds.MoveTo(o.drawn)
	for i := range o.keys {
		o.keys[i] = uint32(r.InAt("key", i).Int("key"))
	}
}

type shufflingAll struct {
	dataset.Stateless
	*wholeOrder
	next int64
	// inner are the orders of the globally shuffled datasets below; orders maps to them.
	inner  []*wholeOrder
	orders map[dataset.Kind]dataset.Order
}

func (it *shufflingAll) Next(c *dataset.Call) (dataset.Element, error) {
	if it.next >= it.of.Cardinality(nil) {
		return nil, io.EOF
	}
	it.next++
	if len(it.inner) > 0 {
		c = c.WithOrders(it.orders)
	}
	return it.of.input.At(c, it.Index(it.next-1))
}

func (it *shufflingAll) Save(_ *dataset.Call, w *dataset.Writer) {
	it.save(w)
	w.Int("next", it.next)
	for i, o := range it.inner {
		o.save(w.InAt("order", i))
	}
}

func (it *shufflingAll) Restore(_ *dataset.Call, r *dataset.Reader) {
	it.restore(r)
	if it.next = r.Place("next"); it.next < 0 {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a shuffled dataset is at element %d", it.next))
	}
	for i, o := range it.inner {
		o.restore(r.InAt("order", i))
	}
}

package data

import (
	"io"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/internal/permute"
)

// shuffleAll returns all elements in random order, each by its index, without a buffer: GlobalShuffleDataset.
type shuffleAll struct {
	input *Dataset
	seeds *seeds
}

// shuffleRounds is the number of rounds of TensorFlow's permutation.
const shuffleRounds = 8

func newShuffleAll(s *settings) maker {
	reshuffles := s.Bool("reshuffle_each_iteration")
	return func(in *inputs) kind {
		k := &shuffleAll{in.dataset(0), in.seedsAt(1, 2, 3, reshuffles)}
		if in.err != nil {
			return k
		}
		if err := k.input.shufflable(); err != nil {
			in.fail(status.Errorf(status.FailedPrecondition, "`global_shuffle` requires all upstream transformations be compatible with random access. Got: %v: %v", status.CodeOf(err), err))
			return k
		}
		if n := k.input.cardinality(nil); n <= 0 {
			in.failf("`global_shuffle` requires the input dataset to have a non-empty finite cardinality. Got cardinality %d for dataset %s", n, k.input.Text())
		}
		return k
	}
}

func (k *shuffleAll) cardinality(q *query) int64 { return k.input.cardinality(q) }

func (k *shuffleAll) shufflable() error { return nil }

func (k *shuffleAll) open(*Env) (Iterator, error) {
	it := &shufflingAll{wholeOrder: drawOrder(k), orders: map[*shuffleAll]*wholeOrder{}}
	seen := map[*Dataset]bool{}
	for next := []*Dataset{k.input}; len(next) > 0; {
		d := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[d] {
			continue
		}
		seen[d] = true
		if in, ok := d.kind.(*shuffleAll); ok {
			o := drawOrder(in)
			it.inner = append(it.inner, o)
			it.orders[in] = o
		}
		next = append(next, d.inputs...)
	}
	return it, nil
}

// at returns the element at an index of the order that the iterator over the whole dataset has drawn. A program that requests an element by
// index has no such order, and TensorFlow rejects the request.
func (k *shuffleAll) at(c *Call, i int64) (Element, error) {
	if c.lookup {
		return nil, status.Unimplementedf("Random access is not implemented for dataset GlobalShuffleDatasetOp::Dataset")
	}
	if o := c.orders[k]; o != nil {
		i = o.index(i)
	}
	return k.input.at(c, i)
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
	seed, seed2 := k.seeds.next()
	seed3, _ := k.seeds.next()
	o.keys = [3]uint32{uint32(seed), uint32(seed2), uint32(seed3)}
	o.drawn = k.seeds.position()
	return o
}

// index returns the index of the element at place i, which must be less than the number of elements.
func (o *wholeOrder) index(i int64) int64 {
	n := o.of.cardinality(nil)
	at, _ := permute.Index(uint64(i), uint64(n-1), o.keys, shuffleRounds, nil)
	return int64(at)
}

func (o *wholeOrder) save(w *Writer) {
	w.Int("drawn", o.drawn)
	for i, key := range o.keys {
		w.InAt("key", i).Int("key", int64(key))
	}
}

func (o *wholeOrder) restore(r *Reader) {
	o.drawn = r.Place("drawn")
	o.of.seeds.seek(o.drawn)
	for i := range o.keys {
		o.keys[i] = uint32(r.InAt("key", i).Int("key"))
	}
}

type shufflingAll struct {
	stateless
	*wholeOrder
	next int64
	// inner are the orders of the globally shuffled datasets below; orders maps to them.
	inner  []*wholeOrder
	orders map[*shuffleAll]*wholeOrder
}

func (it *shufflingAll) Next(c *Call) (Element, error) {
	if it.next >= it.of.cardinality(nil) {
		return nil, io.EOF
	}
	it.next++
	if len(it.inner) > 0 {
		c = &Call{Env: c.Env, Cancellation: c.Cancellation, Done: c.Done, depth: c.depth, orders: it.orders}
	}
	return it.of.input.at(c, it.index(it.next-1))
}

func (it *shufflingAll) Save(_ *Call, w *Writer) {
	it.save(w)
	w.Int("next", it.next)
	for i, o := range it.inner {
		o.save(w.InAt("order", i))
	}
}

func (it *shufflingAll) Restore(_ *Call, r *Reader) {
	it.restore(r)
	if it.next = r.Place("next"); it.next < 0 {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a shuffled dataset is at element %d", it.next))
	}
	for i, o := range it.inner {
		o.restore(r.InAt("order", i))
	}
}

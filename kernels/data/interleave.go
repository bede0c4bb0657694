package data

import (
	"io"
	"runtime"

	"github.com/troupe-run/troupe/graph/status"
)

// interleave makes a dataset of each element, and alternates between several of them, returning some elements of each at a time. With a
// cycle of one it is a flat map.
type interleave struct {
	input         *Dataset
	f             *Function
	cycle, length int64
	numbered      bool // a turn's path has the number of its element, else its place in the cycle, as in TensorFlow
}

// flatMap is an interleave with a cycle of one, whose elements can be counted.
type flatMap struct {
	interleave
	size total
}

func newFlatMap(s *settings) maker {
	f := s.function("f")
	return func(in *inputs) kind {
		return &flatMap{interleave: interleave{input: in.dataset(0), f: in.functionFrom(f, 1), cycle: 1, length: 1, numbered: true}}
	}
}

func (k *flatMap) shufflable() error {
	return status.Unimplementedf("Please consider applying maps on each dataset, concatenating them into one dataset and apply global shuffle dataset op onto the dataset to achieve the same result as flat map with global shuffling.")
}

func newInterleave(s *settings) maker {
	f, captured := s.function("f"), len(s.TypeList("Targuments"))
	return func(in *inputs) kind {
		k := &interleave{input: in.dataset(0), f: in.function(f, 1, 1+captured)}
		k.cycle, k.length = in.cycle(1 + captured)
		return k
	}
}

// cycle reads the inputs cycle_length and block_length.
func (in *inputs) cycle(i int) (cycle, length int64) {
	cycle, length = in.int(i, "cycle_length"), in.int(i+1, "block_length")
	if cycle == autotune {
		cycle = int64(runtime.GOMAXPROCS(0))
	}
	if in.err == nil && cycle <= 0 {
		in.failf("cycle_length must be greater than zero.")
	}
	if in.err == nil && length <= 0 {
		in.failf("block_length must be greater than zero.")
	}
	return cycle, length
}

// autotune leaves a size or the parallelism to the server.
const autotune = -1

func (k *interleave) functions() []*Function { return []*Function{k.f} }

func (k *interleave) cardinality(*query) int64 { return unknown }

func (k *interleave) open(e *Env) (Iterator, error) {
	f, err := e.bind(k.f)
	if err != nil {
		return nil, err
	}
	return openOver(e, k.input, func(o over) Iterator { return &interleaving{over: o, of: k, f: f, env: e} })
}

// turn is an iterator in the cycle, with the element that its dataset was made from.
type turn struct {
	from Element
	Iterator
	dataset *Dataset
	number  int64 // of the element in the input
}

// openTurn makes the dataset of an element, which it takes over, and opens it in an environment.
func openTurn(c *Call, env *Env, f *bound, from Element) (*turn, error) {
	d, err := f.dataset(c, from.retain())
	if err != nil {
		from.release()
		return nil, err
	}
	it, err := d.open(env)
	if err != nil {
		from.release()
		d.Release()
		return nil, err
	}
	return &turn{from: from, Iterator: it, dataset: d}, nil
}

// end closes the iterator.
func (t *turn) end() {
	t.Close()
	t.from.release()
	t.dataset.Release()
}

// interleaving is the state of the cycle: its iterators, the index of the current one, and how many elements that one has returned.
type interleaving struct {
	over
	of        *interleave
	env       *Env
	f         *bound
	turns     []*turn // nil for an empty place; covers the places used so far
	at, given int64
	open      int
	ended     bool  // the input
	taken     int64 // elements of the input
	// ahead, if not nil, wraps a turn's iterator in one that works ahead.
	ahead func(Iterator) Iterator
}

func (it *interleaving) Next(c *Call) (Element, error) {
	for !it.ended || it.open > 0 {
		t := it.turn()
		if t == nil {
			if err := it.fill(c); err != nil {
				return nil, err
			}
			continue
		}
		e, err := t.Next(c)
		if !atEnd(err) {
			if err == nil {
				if it.given++; it.given >= it.of.length {
					it.advance()
				}
			}
			return e, err
		}
		t.end()
		it.turns[it.at] = nil
		it.open--
		it.advance()
	}
	return nil, io.EOF
}

// turn returns the current iterator; nil if there is none.
func (it *interleaving) turn() *turn {
	if it.at < int64(len(it.turns)) {
		return it.turns[it.at]
	}
	return nil
}

func (it *interleaving) advance() {
	it.given = 0
	if it.at++; it.at >= it.of.cycle || it.ended && it.at >= int64(len(it.turns)) {
		it.at = 0
	}
}

// fill opens an iterator for the next element of the input. After the last one, it moves on to the next turn.
func (it *interleaving) fill(c *Call) error {
	if it.ended {
		it.advance()
		return nil
	}
	return it.fillAt(c, it.at)
}

// fillAt opens an iterator for the next element of the input at a place of the cycle.
func (it *interleaving) fillAt(c *Call, at int64) error {
	from, err := it.input.Next(c)
	if atEnd(err) {
		it.ended = true
		return nil
	}
	if err != nil {
		return err
	}
	t, err := it.openTurn(c, from, at, it.taken)
	it.taken++
	if err != nil {
		return err
	}
	for at >= int64(len(it.turns)) {
		it.turns = append(it.turns, nil)
	}
	it.turns[at] = t
	it.open++
	return nil
}

// openTurn makes a turn of element number of the input, at a place of the cycle.
func (it *interleaving) openTurn(c *Call, from Element, at, number int64) (*turn, error) {
	if it.of.numbered {
		at = number
	}
	t, err := openTurn(c, it.env.input(at), it.f, from)
	if err != nil {
		return nil, err
	}
	t.number = number
	if it.ahead != nil {
		t.Iterator = it.ahead(t.Iterator)
	}
	return t, nil
}

func (it *interleaving) Close() {
	for _, t := range it.turns {
		if t != nil {
			t.end()
		}
	}
	it.turns = nil
	it.over.Close()
}

func (it *interleaving) Save(c *Call, w *Writer) {
	w.Int("at", it.at)
	w.Int("given", it.given)
	w.Bool("ended", it.ended)
	w.Int("taken", it.taken)
	it.saveTurns(c, w)
	it.over.Save(c, w)
}

func (it *interleaving) Restore(c *Call, r *Reader) {
	it.at, it.given, it.ended, it.taken = r.Place("at"), r.Place("given"), r.Bool("ended"), r.Place("taken")
	it.restoreTurns(c, r)
	if it.at >= it.of.cycle || it.at > int64(len(it.turns)) {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of an interleaved dataset has its turn at %d of %d", it.at, len(it.turns)))
	}
	it.over.Restore(c, r)
}

// saveTurns writes the iterators of a cycle.
func (it *interleaving) saveTurns(c *Call, w *Writer) {
	w.Int("turns", int64(len(it.turns)))
	for i, t := range it.turns {
		w := w.InAt("turn", i)
		w.Bool("open", t != nil)
		if t == nil {
			continue
		}
		f, fails := t.Iterator.(*failing)
		w.Bool("fails", fails)
		if fails {
			w.Error("error", f.err)
			continue
		}
		w.Element("from", t.from)
		w.Int("number", t.number)
		t.Save(c, w.In("iterator"))
	}
}

// restoreTurns opens the iterators that were saved.
func (it *interleaving) restoreTurns(c *Call, r *Reader) {
	for i := range r.Count("turns") {
		r := r.InAt("turn", i)
		if !r.Bool("open") {
			it.turns = append(it.turns, nil)
			continue
		}
		if r.Bool("fails") {
			it.turns = append(it.turns, &turn{Iterator: &failing{err: r.Error("error")}, dataset: given(nil, 1, Spec{})})
			it.open++
			continue
		}
		from, number := r.Element("from"), r.Place("number")
		if r.err != nil {
			from.release()
			return
		}
		t, err := it.openTurn(c, from, int64(i), number)
		if err != nil {
			r.Fail(err)
			return
		}
		it.turns = append(it.turns, t)
		it.open++
		t.Restore(c, r.In("iterator"))
	}
}

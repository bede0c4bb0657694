package mapping

import (
	"io"
	"math"
	"runtime"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// interleave makes a dataset of each element, and alternates between several of them, returning some elements of each at a time. With a
// cycle of one it is a flat map.
type interleave struct {
	input         *dataset.Dataset
	f             *dataset.Function
	cycle, length int64
	numbered      bool // a turn's path has the number of its element, else its place in the cycle, as in TensorFlow
}

// flatMap is an interleave with a cycle of one, whose elements can be counted.
type flatMap struct {
	interleave
	size total
}

func newFlatMap(s *dataset.Settings) dataset.Maker {
	f := s.Function("f")
	return func(in *dataset.Inputs) dataset.Kind {
		return &flatMap{interleave: interleave{input: in.Dataset(0), f: in.FunctionFrom(f, 1), cycle: 1, length: 1, numbered: true}}
	}
}

func (k *flatMap) Shufflable() error {
	return status.Unimplementedf("Please consider applying maps on each dataset, concatenating them into one dataset and apply global shuffle dataset op onto the dataset to achieve the same result as flat map with global shuffling.")
}

// total is a number of elements that takes work to find. It is computed once.
type total struct {
	mu    sync.Mutex
	found bool
	n     int64
}

// get returns the number, and calls count unless the number is known. The result of a cancelled call is not kept.
func (t *total) get(c *dataset.Call, count func(c *dataset.Call) (int64, error)) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found {
		return t.n
	}
	n, err := count(c)
	if err != nil {
		if c.Err() != nil {
			return dataset.Unknown
		}
		c.Log.Warn("the cardinality of a flat map is unknown, since its function failed", "error", err)
		n = dataset.Unknown
	}
	t.n, t.found = n, true
	return n
}

// Cardinality adds up the sizes of the datasets that the function makes of the input's elements, if the query may take that work. It stops
// when one of them is infinite or unknown. An infinite input is never counted.
func (k *flatMap) Cardinality(q *dataset.Query) int64 {
	if q == nil {
		return dataset.Unknown
	}
	if k.input.Cardinality(q) == dataset.Infinite {
		return dataset.Unknown
	}
	return k.size.get(q.Call, k.count)
}

func (k *flatMap) count(c *dataset.Call) (sum int64, err error) {
	f, err := c.Bind(k.f)
	if err != nil {
		return 0, err
	}
	it, err := k.input.Open(c.Env)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	for {
		e, err := it.Next(c)
		if dataset.AtEnd(err) {
			return sum, nil
		}
		if err != nil {
			return 0, err
		}
		d, err := f.Dataset(c, e)
		if err != nil {
			return 0, err
		}
		n := d.Cardinality(nil)
		d.Release()
		if n < 0 {
			return n, nil
		}
		if sum > math.MaxInt64-n {
			return 0, status.Errorf(status.OutOfRange, "the datasets have more than %d elements", int64(math.MaxInt64))
		}
		sum += n
	}
}

func newInterleave(s *dataset.Settings) dataset.Maker {
	f, captured := s.Function("f"), len(s.TypeList("Targuments"))
	return func(in *dataset.Inputs) dataset.Kind {
		k := &interleave{input: in.Dataset(0), f: in.Function(f, 1, 1+captured)}
		k.cycle, k.length = cycleAt(in, 1+captured)
		return k
	}
}

// cycleAt reads the inputs cycle_length and block_length.
func cycleAt(in *dataset.Inputs, i int) (cycle, length int64) {
	cycle, length = in.Int(i, "cycle_length"), in.Int(i+1, "block_length")
	if cycle == dataset.Autotune {
		cycle = int64(runtime.GOMAXPROCS(0))
	}
	if in.Err == nil && cycle <= 0 {
		in.Failf("cycle_length must be greater than zero.")
	}
	if in.Err == nil && length <= 0 {
		in.Failf("block_length must be greater than zero.")
	}
	return cycle, length
}

func (k *interleave) Functions() []*dataset.Function { return []*dataset.Function{k.f} }

func (k *interleave) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *interleave) Open(e *dataset.Env) (dataset.Iterator, error) {
	f, err := e.Bind(k.f)
	if err != nil {
		return nil, err
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &interleaving{Over: o, of: k, f: f, env: e} })
}

// turn is an iterator in the cycle.
type turn struct {
	*dataset.Opened
	number int64 // of its element in the input
}

// interleaving is the state of the cycle: its iterators, the index of the current one, and how many elements that one has returned.
type interleaving struct {
	dataset.Over
	of        *interleave
	env       *dataset.Env
	f         *dataset.Bound
	turns     []*turn // nil for an empty place; covers the places used so far
	at, given int64
	open      int
	ended     bool  // the input
	taken     int64 // elements of the input
	// ahead, if not nil, wraps a turn's iterator in one that works ahead.
	ahead func(dataset.Iterator) dataset.Iterator
}

func (it *interleaving) Next(c *dataset.Call) (dataset.Element, error) {
	for !it.ended || it.open > 0 {
		t := it.turn()
		if t == nil {
			if err := it.fill(c); err != nil {
				return nil, err
			}
			continue
		}
		e, err := t.Next(c)
		if !dataset.AtEnd(err) {
			if err == nil {
				if it.given++; it.given >= it.of.length {
					it.advance()
				}
			}
			return e, err
		}
		t.Close()
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
func (it *interleaving) fill(c *dataset.Call) error {
	if it.ended {
		it.advance()
		return nil
	}
	return it.fillAt(c, it.at)
}

// fillAt opens an iterator for the next element of the input at a place of the cycle.
func (it *interleaving) fillAt(c *dataset.Call, at int64) error {
	from, err := it.Input.Next(c)
	if dataset.AtEnd(err) {
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
func (it *interleaving) openTurn(c *dataset.Call, from dataset.Element, at, number int64) (*turn, error) {
	if it.of.numbered {
		at = number
	}
	opened, err := it.f.Open(c, it.env.Input(at), from)
	if err != nil {
		return nil, err
	}
	t := &turn{opened, number}
	if it.ahead != nil {
		t.Iterator = it.ahead(t.Iterator)
	}
	return t, nil
}

func (it *interleaving) Close() {
	for _, t := range it.turns {
		if t != nil {
			t.Close()
		}
	}
	it.turns = nil
	it.Over.Close()
}

func (it *interleaving) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("at", it.at)
	w.Int("given", it.given)
	w.Bool("ended", it.ended)
	w.Int("taken", it.taken)
	it.saveTurns(c, w)
	it.Over.Save(c, w)
}

func (it *interleaving) Restore(c *dataset.Call, r *dataset.Reader) {
	it.at, it.given, it.ended, it.taken = r.Place("at"), r.Place("given"), r.Bool("ended"), r.Place("taken")
	it.restoreTurns(c, r)
	if it.at >= it.of.cycle || it.at > int64(len(it.turns)) {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of an interleaved dataset has its turn at %d of %d", it.at, len(it.turns)))
	}
	it.Over.Restore(c, r)
}

// saveTurns writes the iterators of a cycle.
func (it *interleaving) saveTurns(c *dataset.Call, w *dataset.Writer) {
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
		w.Element("from", t.From)
		w.Int("number", t.number)
		t.Save(c, w.In("iterator"))
	}
}

// restoreTurns opens the iterators that were saved.
func (it *interleaving) restoreTurns(c *dataset.Call, r *dataset.Reader) {
	for i := range r.Count("turns") {
		r := r.InAt("turn", i)
		if !r.Bool("open") {
			it.turns = append(it.turns, nil)
			continue
		}
		if r.Bool("fails") {
			it.turns = append(it.turns, &turn{Opened: &dataset.Opened{Iterator: &failing{err: r.Error("error")}}})
			it.open++
			continue
		}
		from, number := r.Element("from"), r.Place("number")
		if r.Err != nil {
			from.Release()
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

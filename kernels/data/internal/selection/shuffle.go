package selection

import (
	"io"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
)

// shuffle returns the elements in random order: each is drawn from a buffer. It may repeat for several rounds, whose elements do not mix.
type shuffle struct {
	input *dataset.Dataset
	size  int64 // of the buffer; unknown means as large as the input
	count int64
	seeds *source.Seeds

	once    sync.Once
	indices []int64 // for random access
}

// newShuffle parses the versions of ShuffleDataset that have seeds, newShuffleV2 those that have the resource of a generator.
func newShuffle(s *dataset.Settings) dataset.Maker {
	reshuffles := s.Bool("reshuffle_each_iteration")
	return func(in *dataset.Inputs) dataset.Kind {
		return shuffleOf(in, 1, source.SeedsAt(in, 2, 3, in.Context.NumInputs()-1, reshuffles))
	}
}

func newShuffleV2(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		found := source.SharedSeeds(in, 2)
		if found == nil {
			found = source.NewSeeds(0, 0, true)
		}
		return shuffleOf(in, 1, found)
	}
}

func newShuffleAndRepeat(s *dataset.Settings) dataset.Maker {
	reshuffles := s.Bool("reshuffle_each_iteration")
	return func(in *dataset.Inputs) dataset.Kind {
		k := shuffleOf(in, 1, source.SeedsAt(in, 2, 3, in.Context.NumInputs()-1, reshuffles))
		if k.count = in.Int(4, "count"); in.Err == nil && k.count <= 0 && k.count != dataset.Infinite {
			in.Failf("count must be greater than zero or equal to -1.")
		}
		return k
	}
}

func shuffleOf(in *dataset.Inputs, size int, s *source.Seeds) *shuffle {
	k := &shuffle{input: in.Dataset(0), size: in.Int(size, "buffer_size"), count: 1, seeds: s}
	if in.Err == nil && k.size <= 0 && k.size != dataset.Unknown {
		in.Failf("buffer_size must be greater than zero or UNKNOWN_CARDINALITY")
	}
	return k
}

func (k *shuffle) Cardinality(q *dataset.Query) int64 { return times(k.input.Cardinality(q), k.count) }

func (k *shuffle) Shufflable() error {
	return dataset.NotIndexed("ShuffleDataset")
}

func (k *shuffle) At(c *dataset.Call, i int64) (dataset.Element, error) {
	k.once.Do(func() {
		n := k.Cardinality(c.Indexing())
		k.indices = make([]int64, n)
		for i := range k.indices {
			k.indices[i] = int64(i)
		}
		seed, seed2 := k.seeds.Pair()
		draw := source.NewNumbers(seed, seed2, 0)
		for i := range n {
			j := i + int64(draw.Next())%(n-i)
			k.indices[i], k.indices[j] = k.indices[j], k.indices[i]
		}
	})
	return k.input.At(c, k.indices[i]%k.input.Cardinality(c.Indexing()))
}

func (k *shuffle) Open(e *dataset.Env) (dataset.Iterator, error) {
	it := &shuffling{of: k, env: e}
	it.seed, it.seed2 = k.seeds.Draw()
	it.draw = source.NewNumbers(it.seed, it.seed2, 0)
	return it, nil
}

// maxRounds bounds the rounds in the buffer, for inputs that are much smaller than it.
const maxRounds = 3

// span is the range of a round's elements in the buffer, modulo the buffer's size.
type span struct {
	start, end int64
	complete   bool // the input has no more elements of the round
}

type shuffling struct {
	of          *shuffle
	env         *dataset.Env
	input       dataset.Iterator
	seed, seed2 int64
	draw        source.Numbers
	drawn       int64
	rounds      int64
	buffer      []dataset.Element
	spans       []span
	held, told  int64
	given       bool // an element was returned
}

// size returns the buffer's capacity. Positions never used are not allocated yet.
func (it *shuffling) size() int64 {
	if it.of.size == dataset.Unknown {
		return int64(len(it.buffer))
	}
	return it.of.size
}

func (it *shuffling) Next(c *dataset.Call) (dataset.Element, error) {
	if err := it.fill(c); err != nil {
		return nil, err
	}
	if it.held == 0 {
		return nil, io.EOF
	}
	for it.spans[0].start == it.spans[0].end {
		it.spans = it.spans[1:]
		it.seed, it.seed2 = it.of.seeds.Draw()
		it.draw, it.drawn = source.NewNumbers(it.seed, it.seed2, 0), 0
	}
	first := &it.spans[0]
	it.drawn++
	at := (first.start + int64(it.draw.Next())%(first.end-first.start)) % it.size()
	head := first.start % it.size()
	e := it.buffer[at]
	it.buffer[at], it.buffer[head] = it.buffer[head], nil
	if at == head {
		it.buffer[at] = nil
	}
	first.start++
	if it.held--; it.held != it.told { // a full buffer is refilled by the next call, so its size does not change
		it.told = it.held
		it.env.Stage.Hold(it.held, e)
	}
	return e, nil
}

// wants reports whether the buffer needs filling.
func (it *shuffling) wants() bool {
	switch {
	case it.input == nil && it.of.count != dataset.Infinite && it.rounds >= it.of.count:
		return false
	case len(it.spans) > maxRounds && it.held > 0:
		return false
	case it.of.size == dataset.Unknown && !it.served():
		return true
	}
	return it.held < it.size()
}

// served reports whether the whole round that elements are drawn from is in the buffer.
func (it *shuffling) served() bool {
	for _, s := range it.spans {
		if s.start != s.end {
			return s.complete
		}
	}
	return false
}

func (it *shuffling) fill(c *dataset.Call) error {
	for it.wants() {
		if it.input == nil {
			if err := it.begin(); err != nil {
				return err
			}
		}
		e, err := it.input.Next(c)
		if err == nil {
			it.put(e)
			continue
		}
		if !dataset.AtEnd(err) {
			return err
		}
		it.spans[len(it.spans)-1].complete = true
		it.input.Close()
		it.input = nil
		if !it.given && it.of.count == dataset.Infinite {
			return nil // it would loop forever
		}
		if err := c.Err(); err != nil {
			return err
		}
	}
	return nil
}

// begin begins a round.
func (it *shuffling) begin() error {
	input, err := it.of.input.Open(it.env)
	if err != nil {
		return err
	}
	it.input = input
	end := int64(0)
	if it.rounds > 0 && len(it.spans) > 0 {
		end = it.spans[len(it.spans)-1].end
	}
	it.spans = append(it.spans, span{start: end, end: end})
	it.rounds++
	return nil
}

func (it *shuffling) put(e dataset.Element) {
	it.given = true
	last := &it.spans[len(it.spans)-1]
	if it.of.size == dataset.Unknown && it.held == int64(len(it.buffer)) {
		it.buffer = append(it.buffer, e)
	} else if at := last.end % it.size(); at < int64(len(it.buffer)) {
		it.buffer[at] = e
	} else {
		it.buffer = append(it.buffer, e)
	}
	it.held++
	last.end++
}

func (it *shuffling) Close() {
	dataset.ReleaseAll(it.buffer)
	it.buffer = nil
	if it.input != nil {
		it.input.Close()
		it.input = nil
	}
}

func (it *shuffling) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("seeds", it.of.seeds.Position())
	w.Int("seed", it.seed)
	w.Int("seed2", it.seed2)
	w.Int("drawn", it.drawn)
	w.Int("rounds", it.rounds)
	w.Int("held", it.held)
	w.Bool("given", it.given)
	w.Elements("buffer", it.buffer)
	w.Int("spans", int64(len(it.spans)))
	for i, s := range it.spans {
		w := w.InAt("span", i)
		w.Int("start", s.start)
		w.Int("end", s.end)
		w.Bool("complete", s.complete)
	}
	w.Bool("open", it.input != nil)
	if it.input != nil {
		it.input.Save(c, w.In("input"))
	}
}

func (it *shuffling) Restore(c *dataset.Call, r *dataset.Reader) {
	it.of.seeds.MoveTo(r.Place("seeds"))
	it.seed, it.seed2, it.drawn = r.Int("seed"), r.Int("seed2"), r.Place("drawn")
	it.draw = source.NewNumbers(it.seed, it.seed2, it.drawn)
	it.rounds, it.held, it.given = r.Place("rounds"), r.Place("held"), r.Bool("given")
	it.buffer = r.Elements("buffer")
	for i := range r.Count("spans") {
		r := r.InAt("span", i)
		it.spans = append(it.spans, span{r.Place("start"), r.Place("end"), r.Bool("complete")})
	}
	r.Check(it.check())
	if r.Err != nil || !r.Bool("open") {
		return
	}
	input, err := it.of.input.Open(it.env)
	if err != nil {
		r.Fail(err)
		return
	}
	it.input = input
	input.Restore(c, r.In("input"))
}

// check rejects an inconsistent state, which would cause reads outside the buffer.
func (it *shuffling) check() error {
	bad := status.Errorf(status.DataLoss, "The saved state of a shuffled dataset does not fit together")
	size := int64(len(it.buffer))
	if it.of.size != dataset.Unknown && size > it.of.size {
		return bad
	}
	held, at := int64(0), int64(0)
	for i, s := range it.spans {
		if s.start < 0 || s.end < s.start || i > 0 && s.start < at {
			return bad
		}
		held, at = held+s.end-s.start, s.end
		for j := s.start; j < s.end; j++ {
			if n := it.size(); n == 0 || j%n >= size || it.buffer[j%n] == nil || j-s.start > size {
				return bad
			}
		}
	}
	if held != it.held || len(it.spans) == 0 && (it.rounds > 0 && it.input != nil) {
		return bad
	}
	return nil
}

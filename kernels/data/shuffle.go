package data

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// seeds provides the seeds of each round of a shuffled dataset: new ones, or always the same. The iterators of a dataset share it.
type seeds struct {
	seed, seed2 int64
	fixed       bool

	mu    sync.Mutex
	drawn int64
	numbers
}

// newSeeds returns seeds from two numbers; if both are zero, the seeds are random.
func newSeeds(seed, seed2 int64, reshuffles bool) *seeds {
	if seed == 0 && seed2 == 0 {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		seed, seed2 = int64(binary.LittleEndian.Uint64(b[:])), int64(binary.LittleEndian.Uint64(b[8:]))
	}
	return &seeds{seed: seed, seed2: seed2, fixed: !reshuffles, numbers: numbersOf(seed, seed2, 0)}
}

// next draws the seeds of a round.
func (s *seeds) next() (seed, seed2 int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fixed {
		s.drawn++
		return s.seed, s.seed2
	}
	s.drawn += 2
	seed = int64(s.Next())
	return seed, int64(s.Next())
}

// position returns how many numbers were drawn; seek sets it.
func (s *seeds) position() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn
}

func (s *seeds) seek(drawn int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn = drawn
	if !s.fixed {
		s.numbers = numbersOf(s.seed, s.seed2, drawn)
	}
}

// numbers generates random numbers, one per call.
type numbers struct{ philox.Numbers32 }

// numbersOf returns the numbers of two seeds, after skipping the first skip of them.
func numbersOf(seed, seed2, skip int64) numbers {
	p := philox.New(uint64(seed), uint64(seed2))
	p.Skip(uint64(skip) / 4)
	n := numbers{philox.OneAtATime(&p)}
	for range skip % 4 {
		n.Next()
	}
	return n
}

// shuffle returns the elements in random order: each is drawn from a buffer. It may repeat for several rounds, whose elements do not mix.
type shuffle struct {
	input *Dataset
	size  int64 // of the buffer; unknown means as large as the input
	count int64
	seeds *seeds

	once    sync.Once
	indices []int64 // for random access
}

// newShuffle parses the versions of ShuffleDataset that have seeds, newShuffleV2 those that have the resource of a generator.
func newShuffle(s *settings) maker {
	reshuffles := s.Bool("reshuffle_each_iteration")
	return func(in *inputs) kind {
		return in.shuffle(1, in.seedsAt(2, 3, in.ctx.NumInputs()-1, reshuffles))
	}
}

func newShuffleV2(*settings) maker {
	return func(in *inputs) kind {
		found := in.seedsOf(2)
		if found == nil {
			found = newSeeds(0, 0, true)
		}
		return in.shuffle(1, found)
	}
}

func newShuffleAndRepeat(s *settings) maker {
	reshuffles := s.Bool("reshuffle_each_iteration")
	return func(in *inputs) kind {
		k := in.shuffle(1, in.seedsAt(2, 3, in.ctx.NumInputs()-1, reshuffles))
		if k.count = in.int(4, "count"); in.err == nil && k.count <= 0 && k.count != infinite {
			in.failf("count must be greater than zero or equal to -1.")
		}
		return k
	}
}

func (in *inputs) shuffle(size int, s *seeds) *shuffle {
	k := &shuffle{input: in.dataset(0), size: in.int(size, "buffer_size"), count: 1, seeds: s}
	if in.err == nil && k.size <= 0 && k.size != unknown {
		in.failf("buffer_size must be greater than zero or UNKNOWN_CARDINALITY")
	}
	return k
}

// seedsAt returns the seeds of a generator, if the last input names an existing one, or else the seeds made from two numbers.
func (in *inputs) seedsAt(seed, seed2, generator int, reshuffles bool) *seeds {
	a, b := in.int(seed, "seed"), in.int(seed2, "seed2")
	if found := in.seedsOf(generator); found != nil {
		return found
	}
	return newSeeds(a, b, reshuffles)
}

func (k *shuffle) cardinality(q *query) int64 { return times(k.input.cardinality(q), k.count) }

func (k *shuffle) shufflable() error {
	return notIndexed("ShuffleDataset")
}

func (k *shuffle) at(c *Call, i int64) (Element, error) {
	k.once.Do(func() {
		n := k.cardinality(accessBy(c))
		k.indices = make([]int64, n)
		for i := range k.indices {
			k.indices[i] = int64(i)
		}
		draw := numbersOf(k.seeds.seed, k.seeds.seed2, 0)
		for i := range n {
			j := i + int64(draw.Next())%(n-i)
			k.indices[i], k.indices[j] = k.indices[j], k.indices[i]
		}
	})
	return k.input.at(c, k.indices[i]%k.input.cardinality(accessBy(c)))
}

func (k *shuffle) open(e *Env) (Iterator, error) {
	it := &shuffling{of: k, env: e}
	it.seed, it.seed2 = k.seeds.next()
	it.draw = numbersOf(it.seed, it.seed2, 0)
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
	env         *Env
	input       Iterator
	seed, seed2 int64
	draw        numbers
	drawn       int64
	rounds      int64
	buffer      []Element
	spans       []span
	held, told  int64
	given       bool // an element was returned
}

// size returns the buffer's capacity. Positions never used are not allocated yet.
func (it *shuffling) size() int64 {
	if it.of.size == unknown {
		return int64(len(it.buffer))
	}
	return it.of.size
}

func (it *shuffling) Next(c *Call) (Element, error) {
	if err := it.fill(c); err != nil {
		return nil, err
	}
	if it.held == 0 {
		return nil, io.EOF
	}
	for it.spans[0].start == it.spans[0].end {
		it.spans = it.spans[1:]
		it.seed, it.seed2 = it.of.seeds.next()
		it.draw, it.drawn = numbersOf(it.seed, it.seed2, 0), 0
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
		it.env.stage.hold(it.held, e)
	}
	return e, nil
}

// wants reports whether the buffer needs filling.
func (it *shuffling) wants() bool {
	switch {
	case it.input == nil && it.of.count != infinite && it.rounds >= it.of.count:
		return false
	case len(it.spans) > maxRounds && it.held > 0:
		return false
	case it.of.size == unknown && !it.served():
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

func (it *shuffling) fill(c *Call) error {
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
		if !atEnd(err) {
			return err
		}
		it.spans[len(it.spans)-1].complete = true
		it.input.Close()
		it.input = nil
		if !it.given && it.of.count == infinite {
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
	input, err := it.of.input.open(it.env)
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

func (it *shuffling) put(e Element) {
	it.given = true
	last := &it.spans[len(it.spans)-1]
	if it.of.size == unknown && it.held == int64(len(it.buffer)) {
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
	releaseAll(it.buffer)
	it.buffer = nil
	if it.input != nil {
		it.input.Close()
		it.input = nil
	}
}

func (it *shuffling) Save(c *Call, w *Writer) {
	w.Int("seeds", it.of.seeds.position())
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

func (it *shuffling) Restore(c *Call, r *Reader) {
	it.of.seeds.seek(r.Place("seeds"))
	it.seed, it.seed2, it.drawn = r.Int("seed"), r.Int("seed2"), r.Place("drawn")
	it.draw = numbersOf(it.seed, it.seed2, it.drawn)
	it.rounds, it.held, it.given = r.Place("rounds"), r.Place("held"), r.Bool("given")
	it.buffer = r.Elements("buffer")
	for i := range r.Count("spans") {
		r := r.InAt("span", i)
		it.spans = append(it.spans, span{r.Place("start"), r.Place("end"), r.Bool("complete")})
	}
	r.check(it.check())
	if r.err != nil || !r.Bool("open") {
		return
	}
	input, err := it.of.input.open(it.env)
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
	if it.of.size != unknown && size > it.of.size {
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

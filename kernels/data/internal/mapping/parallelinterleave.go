package mapping

import (
	"io"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// parallelInterleave is an interleave that iterates over its datasets concurrently.
type parallelInterleave struct {
	interleave
	parallelism
	buffer  int64 // elements of each dataset that are computed ahead
	ordered bool
}

// newParallelInterleave parses the versions of ParallelInterleaveDataset that begin with cycle_length and block_length and end with
// num_parallel_calls.
func newParallelInterleave(order string) func(*dataset.Settings) dataset.Maker {
	return func(s *dataset.Settings) dataset.Maker {
		f, n := s.Function("f"), len(s.TypeList("Targuments"))
		ordered := order != "" && NewOrdering(s, order) != "false" || order == "" && !s.Bool("sloppy")
		return func(in *dataset.Inputs) dataset.Kind {
			last := in.Context.NumInputs() - 1
			k := &parallelInterleave{interleave: interleave{input: in.Dataset(0), f: in.Function(f, 1, 1+n), numbered: true}, buffer: autoPrefetch, ordered: ordered}
			k.cycle, k.length = cycleAt(in, 1+n)
			if last > 3+n {
				k.buffer = bufferOf(in, 3+n)
			}
			calls := in.Int(last, "num_parallel_calls")
			k.parallelism = parallelCalls(in, calls)
			if fixed := in.Int(1+n, "cycle_length"); in.Err == nil && fixed != dataset.Autotune && calls > fixed {
				in.Failf("num_parallel_calls is %d, and cycle_length %d: no more calls than datasets that are iterated over can run, unless one of them is left to the server (tf.data.AUTOTUNE)", calls, fixed)
			}
			return k
		}
	}
}

// newLegacyInterleave parses the earlier versions, which have as many calls as datasets.
func newLegacyInterleave(hasInput bool) func(*dataset.Settings) dataset.Maker {
	return func(s *dataset.Settings) dataset.Maker {
		f, n := s.Function("f"), len(s.TypeList("Targuments"))
		ordered := hasInput || NewOrdering(s, "deterministic") != "false"
		return func(in *dataset.Inputs) dataset.Kind {
			k := &parallelInterleave{interleave: interleave{input: in.Dataset(0), f: in.Function(f, 1, 1+n), numbered: true}, ordered: ordered}
			k.cycle, k.length = cycleAt(in, 1+n)
			at := 3 + n
			if hasInput {
				k.ordered = !in.Bool(at, "sloppy")
				at++
			}
			if k.buffer = bufferOf(in, at); in.Err == nil && k.buffer <= 0 {
				in.Failf("`buffer_output_elements` must be > 0")
			}
			if n := in.Int(at+1, "prefetch_input_elements"); in.Err == nil && n < 0 {
				in.Failf("`prefetch_input_elements` must be >= 0")
			}
			k.calls = k.cycle
			return k
		}
	}
}

// bufferOf reads how many elements to compute ahead.
func bufferOf(in *dataset.Inputs, i int) int64 {
	n := in.Int(i, "buffer_output_elements")
	if n == dataset.Autotune || n == dataset.Unknown {
		return autoPrefetch
	}
	return max(n, 1)
}

func (k *parallelInterleave) Open(e *dataset.Env) (dataset.Iterator, error) {
	f, err := e.Bind(k.f)
	if err != nil {
		return nil, err
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator {
		it := &parallelInterleaving{interleaving: interleaving{Over: o, of: &k.interleave, f: f, env: e}, of: k, slots: make(chan struct{}, min(k.calls, maxParallel))}
		it.interleaving.ahead = it.ahead
		return it
	})
}

type parallelInterleaving struct {
	interleaving
	of    *parallelInterleave
	slots chan struct{} // for calls in flight
	begun bool
	ready chan struct{} // has an element when a turn has one; used if order does not matter
}

// ahead wraps an iterator in one that works ahead.
func (it *parallelInterleaving) ahead(input dataset.Iterator) dataset.Iterator {
	p := newPrefetching(it.env, dataset.Over{Input: &limited{dataset.Over{Input: input}, it.slots}}, it.of.buffer, false)
	p.ready = it.ready
	return p
}

// limited is an iterator that is only called while holding a slot.
type limited struct {
	dataset.Over
	slots chan struct{}
}

func (it *limited) Next(c *dataset.Call) (dataset.Element, error) {
	select {
	case it.slots <- struct{}{}:
		defer func() { <-it.slots }()
		return it.Input.Next(c)
	case <-c.Done:
		return nil, c.Err()
	}
}

func (it *parallelInterleaving) Next(c *dataset.Call) (dataset.Element, error) {
	if err := it.begin(c); err != nil {
		return nil, err
	}
	if it.of.ordered {
		return it.interleaving.Next(c)
	}
	return it.nextReady(c)
}

// Fill adds the number of datasets with a call in flight. Their buffers report what they hold.
func (it *parallelInterleaving) Fill(s *dataset.StageStats) {
	s.Running += int64(len(it.slots))
	s.Parallelism += int64(cap(it.slots))
	s.Tuned = s.Tuned || it.of.tuned
}

func (it *parallelInterleaving) Close() {
	it.env.Stage.Detach(it)
	it.interleaving.Close()
}

// begin opens the datasets of the first cycle, so that all of them start at once.
func (it *parallelInterleaving) begin(c *dataset.Call) error {
	if it.begun {
		return nil
	}
	it.begun = true
	it.env.Stage.Attach(it)
	if !it.of.ordered {
		it.ready = make(chan struct{}, 1)
	}
	for i := int64(len(it.turns)); i < min(it.of.cycle, maxParallel) && !it.ended; i++ {
		if err := it.fillAt(c, i); err != nil {
			if c.Err() != nil {
				return err
			}
			it.fail(i, err)
		}
	}
	for _, t := range it.turns {
		if p, ok := t.ahead(); ok {
			p.begin(c)
		}
	}
	return nil
}

// ahead returns the turn's iterator; false if that one fails, or there is no turn.
func (t *turn) ahead() (*prefetching, bool) {
	if t == nil {
		return nil, false
	}
	p, ok := t.Iterator.(*prefetching)
	return p, ok
}

// fail makes a turn return an error.
func (it *parallelInterleaving) fail(at int64, err error) {
	for at >= int64(len(it.turns)) {
		it.turns = append(it.turns, nil)
	}
	it.turns[at] = &turn{Opened: &dataset.Opened{Iterator: &failing{err: err}}}
	it.open++
}

// failing is an iterator that returns one error.
type failing struct {
	dataset.Stateless
	err error
}

func (it *failing) Next(*dataset.Call) (dataset.Element, error) {
	if err := it.err; err != nil {
		it.err = nil
		return nil, err
	}
	return nil, io.EOF
}

// nextReady returns an element of the first dataset that has one.
func (it *parallelInterleaving) nextReady(c *dataset.Call) (dataset.Element, error) {
	for !it.ended || it.open > 0 {
		closed := false
		for i := range min(it.of.cycle, maxParallel) {
			if i >= int64(len(it.turns)) || it.turns[i] == nil {
				if it.ended {
					continue
				}
				if err := it.fillAt(c, i); err != nil {
					return nil, err
				}
				if it.ended {
					continue
				}
			}
			t := it.turns[i]
			p, ok := t.ahead()
			if !ok {
				if e, err := t.Next(c); !dataset.AtEnd(err) {
					return e, err
				}
				it.close(i)
				closed = true
				continue
			}
			p.begin(c)
			if o, ok, ended := p.take(); ok {
				return o.Element, o.Err
			} else if ended {
				it.close(i)
				closed = true
			}
		}
		if closed || it.ended && it.open == 0 {
			continue // an empty place takes another dataset: there may be no turn that reports an element
		}
		select {
		case <-it.ready:
		case <-c.Done:
			return nil, c.Err()
		}
	}
	return nil, io.EOF
}

// close ends a turn.
func (it *parallelInterleaving) close(at int64) {
	it.turns[at].Close()
	it.turns[at] = nil
	it.open--
}

// newParallelFilter parses ParallelFilterDataset into a parallel map, whose function is the predicate, and a filter.
func newParallelFilter(s *dataset.Settings) dataset.Maker {
	f, o := s.Function("predicate"), NewOrdering(s, "deterministic")
	return func(in *dataset.Inputs) dataset.Kind {
		last := in.Context.NumInputs() - 1
		return &parallelFilter{parallelMap{mapOf(in.Dataset(0), in.Function(f, 1, last), false), parallelCalls(in, in.Int(last, "num_parallel_calls")), o != "false"}}
	}
}

// parallelFilter is a filter with several concurrent calls of the function.
type parallelFilter struct{ parallelMap }

func (k *parallelFilter) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *parallelFilter) Shufflable() error { return dataset.NotIndexed("ParallelFilterDataset") }

func (k *parallelFilter) Open(e *dataset.Env) (dataset.Iterator, error) {
	f, err := e.Bind(k.f)
	if err != nil {
		return nil, err
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator {
		return &filteringLast{dataset.Over{Input: newMappingAhead(e, o, &k.parallelMap, func(c *dataset.Call, e dataset.Element) (dataset.Element, error) {
			holds, err := f.Truth(c, e.Retain())
			if err != nil {
				e.Release()
				return nil, err
			}
			return append(e, tensor.Scalar(tensor.Bool, holds)), nil
		})}}
	})
}

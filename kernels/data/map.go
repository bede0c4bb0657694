package data

import (
	"io"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
)

// mapped returns a function's results for each element.
type mapped struct {
	input *Dataset
	f     *Function
	// keeps means that the function never ends the dataset.
	keeps bool
	// identity reports whether the function returns its arguments. It computes this when first called.
	identity func() bool
}

func mapOf(input *Dataset, f *Function, keeps bool) mapped {
	return mapped{input, f, keeps, sync.OnceValue(f.returnsArguments)}
}

func newMap(s *settings) maker {
	f, keeps := s.function("f"), s.Bool("preserve_cardinality")
	return func(in *inputs) kind { m := mapOf(in.dataset(0), in.functionFrom(f, 1), keeps); return &m }
}

func (k *mapped) functions() []*Function { return []*Function{k.f} }

func (k *mapped) cardinality(q *query) int64 {
	if k.keeps || q != nil && q.final && k.identity() {
		return k.input.cardinality(q)
	}
	return unknown
}

func (k *mapped) at(c *Call, i int64) (Element, error) {
	e, err := k.input.at(c, i)
	if err != nil {
		return nil, err
	}
	f, err := c.bind(k.f)
	if err != nil {
		e.release()
		return nil, err
	}
	if e, err = f.call(c, e); !c.lookup {
		err = endedBy(err, k.keeps)
	}
	return e, err
}

func (k *mapped) open(e *Env) (Iterator, error) {
	f, err := e.bind(k.f)
	if err != nil {
		return nil, err
	}
	return openOver(e, k.input, func(o over) Iterator { return &mapping{o, f, k.keeps} })
}

type mapping struct {
	over
	f     *bound
	keeps bool
}

func (it *mapping) Next(c *Call) (Element, error) {
	e, err := it.input.Next(c)
	if err != nil {
		return nil, err
	}
	e, err = it.f.call(c, e)
	return e, endedBy(err, it.keeps)
}

// endedBy returns the error for a call in a stage. A function ends the dataset with OUT_OF_RANGE, unless the dataset has as many elements
// as its input.
func endedBy(err error, keeps bool) error {
	switch {
	case err == nil || status.CodeOf(err) != status.OutOfRange:
		return err
	case keeps:
		return status.InvalidArgumentf("Function invocation produced OutOfRangeError: %v", err)
	}
	return io.EOF
}

// filter returns the elements that satisfy a predicate.
type filter struct {
	input *Dataset
	f     *Function
}

func newFilter(s *settings) maker {
	f := s.function("predicate")
	return func(in *inputs) kind { return &filter{in.dataset(0), in.functionFrom(f, 1)} }
}

func (k *filter) functions() []*Function { return []*Function{k.f} }

func (k *filter) cardinality(*query) int64 { return unknown }

func (k *filter) open(e *Env) (Iterator, error) {
	f, err := e.bind(k.f)
	if err != nil {
		return nil, err
	}
	return openOver(e, k.input, func(o over) Iterator { return &filtering{over: o, f: f} })
}

type filtering struct {
	over
	f *bound
}

func (it *filtering) Next(c *Call) (Element, error) {
	for {
		e, err := it.input.Next(c)
		if err != nil {
			return nil, err
		}
		holds, err := it.f.truth(c, e.retain())
		if err == nil && holds {
			return e, nil
		}
		e.release()
		if err != nil {
			return nil, endedBy(err, false)
		}
	}
}

// takeWhile returns the elements before the first one that fails a predicate.
type takeWhile struct {
	input *Dataset
	f     *Function
}

func newTakeWhile(s *settings) maker {
	f := s.function("predicate")
	return func(in *inputs) kind { return &takeWhile{in.dataset(0), in.functionFrom(f, 1)} }
}

func (k *takeWhile) functions() []*Function { return []*Function{k.f} }

func (k *takeWhile) cardinality(*query) int64 { return unknown }

func (k *takeWhile) open(e *Env) (Iterator, error) {
	f, err := e.bind(k.f)
	if err != nil {
		return nil, err
	}
	return openOver(e, k.input, func(o over) Iterator { return &takingWhile{over: o, f: f} })
}

type takingWhile struct {
	over
	f     *bound
	ended bool
}

func (it *takingWhile) Next(c *Call) (Element, error) {
	if it.ended {
		return nil, io.EOF
	}
	e, err := it.input.Next(c)
	if err != nil {
		return nil, err
	}
	holds, err := it.f.truth(c, e.retain())
	if err == nil && holds {
		return e, nil
	}
	e.release()
	if err = endedBy(err, false); err == nil || atEnd(err) {
		it.ended = true
		return nil, io.EOF
	}
	return nil, err
}

func (it *takingWhile) Save(c *Call, w *Writer) {
	w.Bool("ended", it.ended)
	it.over.Save(c, w)
}

func (it *takingWhile) Restore(c *Call, r *Reader) {
	it.ended = r.Bool("ended")
	it.over.Restore(c, r)
}

// filterLast returns the elements whose last component is true, without that component.
type filterLast struct{ input *Dataset }

func newFilterLast(*settings) maker {
	return func(in *inputs) kind { return &filterLast{in.dataset(0)} }
}

func (k *filterLast) cardinality(*query) int64 { return unknown }

func (k *filterLast) open(e *Env) (Iterator, error) {
	return openOver(e, k.input, func(o over) Iterator { return &filteringLast{o} })
}

type filteringLast struct{ over }

func (it *filteringLast) Next(c *Call) (Element, error) {
	for {
		e, err := it.input.Next(c)
		if err != nil {
			return nil, err
		}
		last := len(e) - 1
		holds, err := truthOf(e, last)
		if err == nil && holds {
			e[last].Release()
			return e[:last], nil
		}
		e.release()
		if err != nil {
			return nil, err
		}
	}
}

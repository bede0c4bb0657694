package mapping

import (
	"io"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// mapped returns a function's results for each element.
type mapped struct {
	input *dataset.Dataset
	f     *dataset.Function
	// keeps means that the function never ends the dataset.
	keeps bool
	// identity reports whether the function returns its arguments. It computes this when first called.
	identity func() bool
}

func mapOf(input *dataset.Dataset, f *dataset.Function, keeps bool) mapped {
	return mapped{input, f, keeps, sync.OnceValue(f.ReturnsArguments)}
}

func newMap(s *dataset.Settings) dataset.Maker {
	f, keeps := s.Function("f"), s.Bool("preserve_cardinality")
	return func(in *dataset.Inputs) dataset.Kind {
		m := mapOf(in.Dataset(0), in.FunctionFrom(f, 1), keeps)
		return &m
	}
}

func (k *mapped) Functions() []*dataset.Function { return []*dataset.Function{k.f} }

func (k *mapped) Cardinality(q *dataset.Query) int64 {
	if k.keeps || q != nil && q.Final && k.identity() {
		return k.input.Cardinality(q)
	}
	return dataset.Unknown
}

func (k *mapped) At(c *dataset.Call, i int64) (dataset.Element, error) {
	e, err := k.input.At(c, i)
	if err != nil {
		return nil, err
	}
	f, err := c.Bind(k.f)
	if err != nil {
		e.Release()
		return nil, err
	}
	if e, err = f.Call(c, e); !c.Lookup {
		err = endedBy(err, k.keeps)
	}
	return e, err
}

func (k *mapped) Open(e *dataset.Env) (dataset.Iterator, error) {
	f, err := e.Bind(k.f)
	if err != nil {
		return nil, err
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &mapping{o, f, k.keeps} })
}

type mapping struct {
	dataset.Over
	f     *dataset.Bound
	keeps bool
}

func (it *mapping) Next(c *dataset.Call) (dataset.Element, error) {
	e, err := it.Input.Next(c)
	if err != nil {
		return nil, err
	}
	e, err = it.f.Call(c, e)
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
	input *dataset.Dataset
	f     *dataset.Function
}

func newFilter(s *dataset.Settings) dataset.Maker {
	f := s.Function("predicate")
	return func(in *dataset.Inputs) dataset.Kind { return &filter{in.Dataset(0), in.FunctionFrom(f, 1)} }
}

func (k *filter) Functions() []*dataset.Function { return []*dataset.Function{k.f} }

func (k *filter) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *filter) Open(e *dataset.Env) (dataset.Iterator, error) {
	f, err := e.Bind(k.f)
	if err != nil {
		return nil, err
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &filtering{Over: o, f: f} })
}

type filtering struct {
	dataset.Over
	f *dataset.Bound
}

func (it *filtering) Next(c *dataset.Call) (dataset.Element, error) {
	for {
		e, err := it.Input.Next(c)
		if err != nil {
			return nil, err
		}
		holds, err := it.f.Truth(c, e.Retain())
		if err == nil && holds {
			return e, nil
		}
		e.Release()
		if err != nil {
			return nil, endedBy(err, false)
		}
	}
}

// takeWhile returns the elements before the first one that fails a predicate.
type takeWhile struct {
	input *dataset.Dataset
	f     *dataset.Function
}

func newTakeWhile(s *dataset.Settings) dataset.Maker {
	f := s.Function("predicate")
	return func(in *dataset.Inputs) dataset.Kind { return &takeWhile{in.Dataset(0), in.FunctionFrom(f, 1)} }
}

func (k *takeWhile) Functions() []*dataset.Function { return []*dataset.Function{k.f} }

func (k *takeWhile) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *takeWhile) Open(e *dataset.Env) (dataset.Iterator, error) {
	f, err := e.Bind(k.f)
	if err != nil {
		return nil, err
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &takingWhile{Over: o, f: f} })
}

type takingWhile struct {
	dataset.Over
	f     *dataset.Bound
	ended bool
}

func (it *takingWhile) Next(c *dataset.Call) (dataset.Element, error) {
	if it.ended {
		return nil, io.EOF
	}
	e, err := it.Input.Next(c)
	if err != nil {
		return nil, err
	}
	holds, err := it.f.Truth(c, e.Retain())
	if err == nil && holds {
		return e, nil
	}
	e.Release()
	if err = endedBy(err, false); err == nil || dataset.AtEnd(err) {
		it.ended = true
		return nil, io.EOF
	}
	return nil, err
}

func (it *takingWhile) Save(c *dataset.Call, w *dataset.Writer) {
	w.Bool("ended", it.ended)
	it.Over.Save(c, w)
}

func (it *takingWhile) Restore(c *dataset.Call, r *dataset.Reader) {
	it.ended = r.Bool("ended")
	it.Over.Restore(c, r)
}

// filterLast returns the elements whose last component is true, without that component.
type filterLast struct{ input *dataset.Dataset }

func newFilterLast(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return &filterLast{in.Dataset(0)} }
}

func (k *filterLast) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *filterLast) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &filteringLast{o} })
}

type filteringLast struct{ dataset.Over }

func (it *filteringLast) Next(c *dataset.Call) (dataset.Element, error) {
	for {
		e, err := it.Input.Next(c)
		if err != nil {
			return nil, err
		}
		last := len(e) - 1
		holds, err := dataset.TruthOf(e, last)
		if err == nil && holds {
			e[last].Release()
			return e[:last], nil
		}
		e.Release()
		if err != nil {
			return nil, err
		}
	}
}

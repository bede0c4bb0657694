package selection

import (
	"io"
	"slices"

	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// Datasets that combine several: zip and concatenate.

// zip puts the elements of datasets side by side, until one of them ends.
type zip struct{ inputs []*dataset.Dataset }

func newZip(s *dataset.Settings) dataset.Maker {
	n := int(s.Int("N"))
	return func(in *dataset.Inputs) dataset.Kind { return &zip{in.Datasets(0, n)} }
}

func (k *zip) Cardinality(q *dataset.Query) int64 {
	least, open := int64(dataset.Infinite), false
	for _, d := range k.inputs {
		switch n := d.Cardinality(q); {
		case n == dataset.Unknown:
			open = true
		case n != dataset.Infinite && (least == dataset.Infinite || n < least):
			least = n
		}
	}
	if open && least != 0 {
		return dataset.Unknown
	}
	return least
}

func (k *zip) At(c *dataset.Call, i int64) (dataset.Element, error) {
	var e dataset.Element
	for _, d := range k.inputs {
		part, err := d.At(c, i)
		if err != nil {
			e.Release()
			return nil, err
		}
		e = append(e, part...)
	}
	return e, nil
}

func (k *zip) Open(e *dataset.Env) (dataset.Iterator, error) {
	inputs, err := dataset.OpenEach(e, k.inputs)
	if err != nil {
		return nil, err
	}
	return &zipping{inputs: inputs}, nil
}

type zipping struct {
	inputs []dataset.Iterator
	ended  bool
}

// Next asks each dataset in turn. Like TensorFlow's, it continues after a failure, to keep the datasets in step, and returns the first
// error.
func (it *zipping) Next(c *dataset.Call) (dataset.Element, error) {
	if it.ended {
		return nil, io.EOF
	}
	var e dataset.Element
	var failed error
	for i, input := range it.inputs {
		part, err := input.Next(c)
		if dataset.AtEnd(err) {
			it.ended = true
			it.finish(c, it.inputs[i+1:])
			if failed == nil {
				failed = io.EOF
			}
			break
		}
		if err != nil && failed == nil {
			failed = err
		}
		e = append(e, part...)
	}
	if failed != nil {
		e.Release()
		return nil, failed
	}
	return e, nil
}

// finish advances the other inputs too, so that those of the same length reach their ends, where caches become complete.
func (it *zipping) finish(c *dataset.Call, rest []dataset.Iterator) {
	for _, input := range rest {
		e, err := input.Next(c)
		if err == nil {
			e.Release()
		}
	}
}

func (it *zipping) Close() {
	for _, input := range it.inputs {
		input.Close()
	}
}

func (it *zipping) Save(c *dataset.Call, w *dataset.Writer) {
	w.Bool("ended", it.ended)
	for i, input := range it.inputs {
		input.Save(c, w.InAt("input", i))
	}
}

func (it *zipping) Restore(c *dataset.Call, r *dataset.Reader) {
	it.ended = r.Bool("ended")
	for i, input := range it.inputs {
		input.Restore(c, r.InAt("input", i))
	}
}

// concatenate returns the elements of one dataset, then those of another.
type concatenate struct{ first, second *dataset.Dataset }

func newConcatenate(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		k := &concatenate{in.Dataset(0), in.Dataset(1)}
		if in.Err == nil && !slices.Equal(k.first.Types, k.second.Types) {
			in.Failf("input dataset and dataset to concatenate have different output_types %s and %s", dataset.TypeNames(k.first.Types), dataset.TypeNames(k.second.Types))
		}
		return k
	}
}

func (k *concatenate) Cardinality(q *dataset.Query) int64 {
	a, b := k.first.Cardinality(q), k.second.Cardinality(q)
	switch {
	case a == dataset.Infinite || b == dataset.Infinite:
		return dataset.Infinite
	case a == dataset.Unknown || b == dataset.Unknown:
		return dataset.Unknown
	}
	return a + b
}

func (k *concatenate) At(c *dataset.Call, i int64) (dataset.Element, error) {
	if n := k.first.Cardinality(c.Indexing()); n >= 0 && i >= n {
		return k.second.At(c, i-n)
	}
	return k.first.At(c, i)
}

func (k *concatenate) Open(e *dataset.Env) (dataset.Iterator, error) {
	return &concatenating{of: k, env: e}, nil
}

type concatenating struct {
	of    *concatenate
	env   *dataset.Env
	at    int // which of the two inputs
	input dataset.Iterator
}

func (it *concatenating) dataset() *dataset.Dataset {
	if it.at == 0 {
		return it.of.first
	}
	return it.of.second
}

func (it *concatenating) Next(c *dataset.Call) (dataset.Element, error) {
	for it.at < 2 {
		if it.input == nil {
			input, err := it.dataset().Open(it.env.Input(int64(it.at)))
			if err != nil {
				return nil, err
			}
			it.input = input
		}
		e, err := it.input.Next(c)
		if !dataset.AtEnd(err) {
			return e, err
		}
		it.Close()
		it.at++
	}
	return nil, io.EOF
}

func (it *concatenating) Close() {
	if it.input != nil {
		it.input.Close()
		it.input = nil
	}
}

func (it *concatenating) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("at", int64(it.at))
	w.Bool("open", it.input != nil)
	if it.input != nil {
		it.input.Save(c, w.In("input"))
	}
}

func (it *concatenating) Restore(c *dataset.Call, r *dataset.Reader) {
	it.at = int(r.Place("at"))
	if !r.Bool("open") || it.at < 0 || it.at > 1 {
		return
	}
	input, err := it.dataset().Open(it.env.Input(int64(it.at)))
	if err != nil {
		r.Fail(err)
		return
	}
	it.input = input
	input.Restore(c, r.In("input"))
}

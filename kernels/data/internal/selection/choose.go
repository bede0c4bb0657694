package selection

import (
	"io"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// directed returns each element from the dataset that a dataset of numbers selects.
type directed struct {
	selector *dataset.Dataset
	inputs   []*dataset.Dataset
	stops    bool // at the first exhausted dataset
}

func newDirected(s *dataset.Settings) dataset.Maker {
	n := int(s.Int("N"))
	stops := s.Has("stop_on_empty_dataset") && s.Bool("stop_on_empty_dataset")
	return func(in *dataset.Inputs) dataset.Kind {
		k := &directed{in.Dataset(0), in.Datasets(1, n), stops}
		if in.Err != nil {
			return k
		}
		if t := k.selector.Types; len(t) != 1 || t[0] != tensor.Int64 {
			in.Failf("The selector input must be a dataset of scalar int64 elements.")
		}
		for i, d := range k.inputs {
			if !slices.Equal(d.Types, k.inputs[0].Types) {
				in.Failf("All inputs must have the same output_dtypes. First input has types %s, and input %d has types %s", dataset.TypeNames(k.inputs[0].Types), i, dataset.TypeNames(d.Types))
			}
		}
		return k
	}
}

// Cardinality is known only if it is infinite or zero.
func (k *directed) Cardinality(q *dataset.Query) int64 {
	// As in TensorFlow: infinite if all are; if the first end does not stop it, infinite if any is.
	if k.selector.Cardinality(q) != dataset.Infinite {
		return dataset.Unknown
	}
	all, any := true, false
	for _, d := range k.inputs {
		all = all && d.Cardinality(q) == dataset.Infinite
		any = any || d.Cardinality(q) == dataset.Infinite
	}
	if all || any && !k.stops {
		return dataset.Infinite
	}
	return dataset.Unknown
}

func (k *directed) Open(e *dataset.Env) (dataset.Iterator, error) {
	selector, err := k.selector.Open(e)
	if err != nil {
		return nil, err
	}
	it := &directing{selector: selector, stops: k.stops}
	if it.inputs, err = dataset.OpenEach(e, k.inputs); err != nil {
		it.Close()
		return nil, err
	}
	it.ended = make([]bool, len(it.inputs))
	return it, nil
}

type directing struct {
	selector dataset.Iterator
	inputs   []dataset.Iterator
	ended    []bool
	stops    bool
	over     bool
}

func (it *directing) Next(c *dataset.Call) (dataset.Element, error) {
	for !it.over {
		s, err := it.selector.Next(c)
		if err != nil {
			it.over = dataset.AtEnd(err)
			return nil, err
		}
		at, err := index(s)
		s.Release()
		if err != nil {
			return nil, err
		}
		if at < 0 || at >= int64(len(it.inputs)) {
			return nil, status.InvalidArgumentf("Selector index out of range: %d >= %d", at, len(it.inputs))
		}
		if it.ended[at] {
			continue
		}
		e, err := it.inputs[at].Next(c)
		if !dataset.AtEnd(err) {
			return e, err
		}
		it.ended[at] = true
		it.over = it.stops
		for i, ended := range it.ended {
			if !ended {
				break
			}
			it.over = it.over || i == len(it.ended)-1
		}
	}
	return nil, io.EOF
}

// index reads an element that consists of one int64.
func index(e dataset.Element) (int64, error) {
	if len(e) != 1 || e[0].DType() != tensor.Int64 || e[0].Len() != 1 {
		return 0, status.InvalidArgumentf("The selector input must be a dataset of scalar int64 elements.")
	}
	return tensor.Of[int64](e[0])[0], nil
}

func (it *directing) Close() {
	it.selector.Close()
	for _, input := range it.inputs {
		input.Close()
	}
}

func (it *directing) Save(c *dataset.Call, w *dataset.Writer) {
	w.Bool("over", it.over)
	it.selector.Save(c, w.In("selector"))
	for i, input := range it.inputs {
		w := w.InAt("input", i)
		w.Bool("ended", it.ended[i])
		input.Save(c, w)
	}
}

func (it *directing) Restore(c *dataset.Call, r *dataset.Reader) {
	it.over = r.Bool("over")
	it.selector.Restore(c, r.In("selector"))
	for i, input := range it.inputs {
		r := r.InAt("input", i)
		it.ended[i] = r.Bool("ended")
		input.Restore(c, r)
	}
}

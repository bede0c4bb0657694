package mapping

import (
	"io"
	"math"
	"slices"
	"sort"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
)

// indexFlatMap makes several elements of each input element. A function maps an element's index to that of its input element.
type indexFlatMap struct {
	input  *dataset.Dataset
	f, of  *dataset.Function
	number int64
}

func newIndexFlatMap(s *dataset.Settings) dataset.Maker {
	f, of := s.Function("map_func"), s.Function("index_map_func")
	n, m := len(s.TypeList("Tmap_func_args")), len(s.TypeList("Tindex_map_func_args"))
	return func(in *dataset.Inputs) dataset.Kind {
		return &indexFlatMap{in.Dataset(0), in.Function(f, 1, 1+n), in.Function(of, 1+n, 1+n+m), in.Int(1+n+m, "output_cardinality")}
	}
}

func (k *indexFlatMap) Functions() []*dataset.Function { return []*dataset.Function{k.f, k.of} }

func (k *indexFlatMap) Cardinality(*dataset.Query) int64 { return k.number }

// At requests one element from the input, by its index.
func (k *indexFlatMap) At(c *dataset.Call, i int64) (dataset.Element, error) {
	f, err := c.Bind(k.f)
	if err != nil {
		return nil, err
	}
	of, err := c.Bind(k.of)
	if err != nil {
		return nil, err
	}
	from, offset, err := unflattened(c, of, i)
	if err != nil {
		return nil, err
	}
	e, err := k.input.At(c, from)
	if err != nil {
		return nil, err
	}
	if e, err = f.Call(c, e); err != nil {
		return nil, err
	}
	defer e.Release()
	return sliceAt(c, e, offset)
}

// unflattened returns the index of the input element that contains element i, and the offset in it.
func unflattened(c *dataset.Call, of *dataset.Bound, i int64) (from, offset int64, err error) {
	out, err := of.Call(c, dataset.Element{tensor.Scalar(tensor.Int64, i)})
	if err != nil {
		return 0, 0, err
	}
	defer out.Release()
	if len(out) != 2 {
		return 0, 0, status.InvalidArgumentf("The `index_map_fn` for `index_flat_map` is expected to return two int values representing the element index and an offset within the element. Got: %d values", len(out))
	}
	var v [2]int64
	for i, t := range out {
		if t.Len() != 1 {
			return 0, 0, notIndex(t)
		}
		switch t.DType() {
		case tensor.Int64:
			v[i] = tensor.Of[int64](t)[0]
		case tensor.Int32:
			v[i] = int64(tensor.Of[int32](t)[0])
		case tensor.Uint64:
			v[i] = int64(min(tensor.Of[uint64](t)[0], math.MaxInt64))
		case tensor.Uint32:
			v[i] = int64(tensor.Of[uint32](t)[0])
		default:
			return 0, 0, notIndex(t)
		}
	}
	return v[0], v[1], nil
}

func notIndex(t *tensor.Tensor) error {
	return status.InvalidArgumentf("The `index_map_func` for `index_flat_map` is expected to return two int32/int64 values representing the element index and an offset within the element. Got: %v%v", t.DType(), t.Shape())
}

// sliceAt returns one of several tensors, or a row of one.
func sliceAt(c *dataset.Call, list dataset.Element, offset int64) (dataset.Element, error) {
	n := int64(len(list))
	switch {
	case n == 1 && list[0].Rank() == 0:
		return list.Retain(), nil
	case n == 1:
		n = int64(list[0].Dim(0))
	}
	if offset < 0 || offset >= n {
		return nil, status.InvalidArgumentf("`index_flat_map` got invalid `index_map_func` which returns offset %d, but the input element has %d elements", offset, n)
	}
	if len(list) > 1 {
		return list[offset : offset+1].Retain(), nil
	}
	return source.Row(c, list, offset)
}

func (k *indexFlatMap) Open(e *dataset.Env) (dataset.Iterator, error) {
	f, err := e.Bind(k.f)
	if err != nil {
		return nil, err
	}
	of, err := e.Bind(k.of)
	if err != nil {
		return nil, err
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &indexFlatMapping{Over: o, f: f, of: of} })
}

type indexFlatMapping struct {
	dataset.Over
	f, of       *dataset.Bound
	given, from int64
	now         dataset.Element
}

func (it *indexFlatMapping) Next(c *dataset.Call) (dataset.Element, error) {
	from, offset, err := unflattened(c, it.of, it.given)
	if err != nil {
		return nil, err
	}
	if from > it.from || len(it.now) == 0 {
		it.drop()
		e, err := it.Input.Next(c)
		if err != nil {
			return nil, err
		}
		if it.now, err = it.f.Call(c, e); err != nil {
			return nil, err
		}
		it.from = from
	}
	e, err := sliceAt(c, it.now, offset)
	if err == nil {
		it.given++
	}
	return e, err
}

func (it *indexFlatMapping) drop() {
	it.now.Release()
	it.now = nil
}

func (it *indexFlatMapping) Close() {
	it.drop()
	it.Over.Close()
}

func (it *indexFlatMapping) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("given", it.given)
	w.Int("from", it.from)
	w.Element("now", it.now)
	it.Over.Save(c, w)
}

func (it *indexFlatMapping) Restore(c *dataset.Call, r *dataset.Reader) {
	it.given, it.from = r.Place("given"), r.Place("from")
	it.now = r.Element("now")
	it.Over.Restore(c, r)
}

// weighted takes elements of each dataset in proportion to its weight, until at least one of them is exhausted.
type weighted struct {
	inputs []*dataset.Dataset
	// ends holds the cumulative number of elements at the end of each input.
	ends []int64
}

func newWeighted(s *dataset.Settings) dataset.Maker {
	n, m := int(s.Int("N")), int(s.Int("M"))
	return func(in *dataset.Inputs) dataset.Kind {
		if n < 2 {
			in.Failf("WeightedFlatMap must have at least two input datasets.")
		}
		if n != m {
			in.Failf("`input_datasets` and `weights` of the WeightedFlatMap must have the same size. Got %d datasets and %d weights.", n, m)
		}
		k := &weighted{inputs: in.Datasets(0, n)}
		if in.Err != nil {
			return k
		}
		in.Spec = compatible(in, "WeightedFlatMap", k.inputs)
		sizes, weights := make([]int64, n), make([]float64, n)
		for i, d := range k.inputs {
			if sizes[i] = d.Cardinality(nil); sizes[i] < 0 {
				what := "UNKNOWN"
				if sizes[i] == dataset.Infinite {
					what = "INFINITE"
				}
				in.Failf("Cardinalities of the inputs must be known. Input %d has %s cardinality.", i, what)
			}
			weights[i] = dataset.Scalar(in, n+i, "weights", tensor.Float64, func(t *tensor.Tensor) float64 { return tensor.Of[float64](t)[0] })
			if in.Err == nil && !(weights[i] > 0) {
				in.Failf("`weights` must be greater than 0.0. Input %d has a weight of %v", i, weights[i])
			}
		}
		if in.Err == nil {
			k.share(in, sizes, weights)
		}
		return k
	}
}

// share computes how many elements to take from each input.
func (k *weighted) share(in *dataset.Inputs, sizes []int64, weights []float64) {
	most, least, at := 0.0, math.MaxFloat64, 0
	for _, w := range weights {
		most = max(most, w)
	}
	for i, n := range sizes {
		if v := float64(n) * weights[i] / most; v < least {
			least, at = v, i
		}
	}
	sum := int64(0)
	for i, w := range weights {
		n := int64(least * w / weights[at])
		if n > sizes[i] {
			in.Failf("Input %d needs to have at least %d elements. It only has %d elements.", i, n, sizes[i])
		}
		sum += n
		k.ends = append(k.ends, sum)
	}
}

// compatible returns the spec that fits the elements of all datasets. what is the op, for errors if they differ.
func compatible(in *dataset.Inputs, what string, list []*dataset.Dataset) dataset.Spec {
	spec := dataset.Spec{Types: in.Spec.Types, Shapes: append(in.Spec.Shapes[:0:0], in.Spec.Shapes...)}
	for i, d := range list {
		switch {
		case i == 0:
			continue
		case !slices.Equal(d.Types, spec.Types):
			in.Failf("All inputs to %s must have the same output types. Input %d has output types: %s. Expected: %s.", what, i, dataset.TypeNames(d.Types), dataset.TypeNames(spec.Types))
		case len(d.Shapes) != len(spec.Shapes):
			in.Failf("All inputs to %s must have compatible outputs. Input %d has %d components. Expected to have %d components.", what, i, len(d.Shapes), len(spec.Shapes))
		}
		if in.Err != nil {
			return spec
		}
		for j, p := range d.Shapes {
			merged, err := spec.Shapes[j].Merge(p)
			if err != nil {
				in.Failf("All inputs to %s must have compatible output shapes. Component %d of input %d has shape: %v. Expected to be compatible with shape: %v.", what, j, i, p, spec.Shapes[j])
				return spec
			}
			spec.Shapes[j] = merged
		}
	}
	return spec
}

func (k *weighted) Cardinality(*dataset.Query) int64 { return k.ends[len(k.ends)-1] }

func (k *weighted) Shufflable() error { return dataset.NotIndexed("WeightedFlatMapDataset") }

// input returns the index of the input that element i comes from.
func (k *weighted) input(i int64) int {
	return sort.Search(len(k.ends), func(j int) bool { return k.ends[j] > i })
}

func (k *weighted) Open(e *dataset.Env) (dataset.Iterator, error) {
	inputs, err := dataset.OpenEach(e, k.inputs)
	if err != nil {
		return nil, err
	}
	return &weighting{of: k, inputs: inputs}, nil
}

type weighting struct {
	of     *weighted
	inputs []dataset.Iterator
	given  int64
}

func (it *weighting) Next(c *dataset.Call) (dataset.Element, error) {
	if it.given >= it.of.Cardinality(nil) {
		return nil, io.EOF
	}
	e, err := it.inputs[it.of.input(it.given)].Next(c)
	if err == nil {
		it.given++
	}
	return e, err
}

func (it *weighting) Close() {
	for _, input := range it.inputs {
		input.Close()
	}
}

func (it *weighting) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("given", it.given)
	for i, input := range it.inputs {
		input.Save(c, w.InAt("input", i))
	}
}

func (it *weighting) Restore(c *dataset.Call, r *dataset.Reader) {
	it.given = r.Place("given")
	for i, input := range it.inputs {
		input.Restore(c, r.InAt("input", i))
	}
}

package mapping

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/internal/example"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// parsed is a parallel map whose function parses batches of serialized tf.train.Example messages. An element has a component for each key,
// in the order of the keys: a dense tensor, a sparse one as a vector of three variants, or a ragged one as a variant.
type parsed struct {
	parallelMap
	parser   *example.Parser
	defaults []*tensor.Tensor
	// The positions of each kind's features in the element.
	dense, sparse, ragged []int
}

func newParseExamples(s *dataset.Settings) dataset.Maker {
	ordered := true
	if s.Has("deterministic") {
		ordered = NewOrdering(s, "deterministic") != "false"
	} else {
		ordered = !s.Bool("sloppy")
	}
	features, keys := featuresOf(s)
	if s.Err() != nil {
		return nil
	}
	parser, err := example.New(features)
	s.Fail(err)
	k := parsed{parser: parser}
	sorted := slices.Sorted(slices.Values(keys))
	for i := range sorted[:max(len(sorted)-1, 0)] {
		if sorted[i] == sorted[i+1] {
			s.Failf("Duplicate key not allowed: %s", sorted[i])
		}
	}
	for i, key := range keys {
		at, _ := slices.BinarySearch(sorted, key)
		switch {
		case i < len(features.Dense):
			k.dense = append(k.dense, at)
		case i < len(features.Dense)+len(features.Sparse):
			k.sparse = append(k.sparse, at)
		default:
			k.ragged = append(k.ragged, at)
		}
	}
	return func(in *dataset.Inputs) dataset.Kind {
		of := k
		of.parallelMap = parallelMap{mapped{input: in.Dataset(0), keeps: true}, parallelCalls(in, in.Int(1, "num_parallel_calls")), ordered}
		of.defaults = in.Rest(2, in.Context.NumInputs())
		if n := len(features.Dense); len(of.defaults) != n {
			in.Failf("Expected len(dense_defaults) == len(dense_keys) but got: %d vs. %d", len(of.defaults), n)
		} else {
			in.Fail(features.CheckDefaults(of.defaults))
		}
		for _, t := range of.input.Types {
			if t != tensor.String && t != tensor.Variant {
				in.Failf("Input dataset should be of type string, got %v", t)
			}
		}
		return &of
	}
}

// featuresOf reads what to parse. keys holds those of the dense features, then the sparse ones, then the ragged ones.
func featuresOf(s *dataset.Settings) (f example.Features, keys []string) {
	names := func(attr string) []string {
		if !s.Has(attr) {
			return nil
		}
		return s.StrList(attr)
	}
	dense, sparse, ragged := names("dense_keys"), names("sparse_keys"), names("ragged_keys")
	types, shapes, sparseTypes := s.TypeList("Tdense"), s.Shapes("dense_shapes"), s.TypeList("sparse_types")
	var values, splits []tensor.DType
	if s.Has("ragged_keys") {
		values, splits = s.TypeList("ragged_value_types"), s.TypeList("ragged_split_types")
	}
	if s.Err() != nil {
		return f, nil
	}
	if len(types) != len(dense) || len(shapes) != len(dense) || len(sparseTypes) != len(sparse) || len(values) != len(ragged) || len(splits) != len(ragged) {
		s.Failf("%s has keys, types and shapes of different numbers", s.Node.Op)
		return f, nil
	}
	for i, key := range dense {
		if !shapes[i].Known || slices.Contains(shapes[i].Dims[min(1, len(shapes[i].Dims)):], -1) {
			s.Failf("dense_shapes[%d] has unknown rank or unknown inner dimensions: %v", i, shapes[i])
		}
		f.Dense = append(f.Dense, example.Dense{Key: key, DType: types[i], Shape: shapes[i].Dims})
	}
	for i, key := range sparse {
		f.Sparse = append(f.Sparse, example.Sparse{Key: key, DType: sparseTypes[i]})
	}
	for i, key := range ragged {
		f.Ragged = append(f.Ragged, example.Ragged{Key: key, DType: values[i], Splits: splits[i]})
	}
	return f, slices.Concat(dense, sparse, ragged)
}

func (k *parsed) Functions() []*dataset.Function { return nil }

func (k *parsed) At(c *dataset.Call, i int64) (dataset.Element, error) {
	e, err := k.input.At(c, i)
	if err != nil {
		return nil, err
	}
	return k.parse(c, e)
}

func (k *parsed) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator {
		return newMappingAhead(e, o, &k.parallelMap, k.parse)
	})
}

// parse parses all strings of an element, which it takes over.
func (k *parsed) parse(c *dataset.Call, e dataset.Element) (dataset.Element, error) {
	defer e.Release()
	var serialized []string
	for _, t := range e {
		if t.DType() != tensor.String {
			return nil, status.InvalidArgumentf("Input dataset should be of type string, got %v", t.DType())
		}
		serialized = append(serialized, t.Strings()...)
	}
	r, err := k.parser.Batch(example.Run{Pool: c.Pool(), Parallel: c.Device.Parallel}, serialized, nil, k.defaults)
	if err != nil {
		return nil, err
	}
	out := make(dataset.Element, len(k.dense)+len(k.sparse)+len(k.ragged))
	for i, at := range k.dense {
		out[at] = r.Dense[i]
	}
	for i, at := range k.sparse {
		out[at] = tensor.FromVariants(tensor.Shape{3}, variant.NewBoxed(r.Indices[i]), variant.NewBoxed(r.Values[i]), variant.NewBoxed(r.Shapes[i]))
	}
	for i, at := range k.ragged {
		out[at] = tensor.FromVariants(nil, variant.NewRagged([]*tensor.Tensor{r.Splits[i]}, r.RaggedValues[i]))
	}
	return out, nil
}

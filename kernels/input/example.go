package input

import (
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/example"
)

// exampleOp is the common part of ParseExample, ParseExampleV2 and ParseSingleExample: the features without their keys, which are inputs or
// attributes.
type exampleOp struct {
	features example.Features
	parser   atomic.Pointer[example.Parser] // for the keys of the last run, since the next run usually has the same
}

// withKeys returns the parser for the features with these keys.
func (k *exampleOp) withKeys(dense, sparse, ragged []string) (*example.Parser, error) {
	if p := k.parser.Load(); p != nil && sameKeys(&p.Features, dense, sparse, ragged) {
		return p, nil
	}
	p, err := example.New(named3(k.features, dense, sparse, ragged))
	if err == nil {
		k.parser.Store(p)
	}
	return p, err
}

// named3 returns f with keys.
func named3(f example.Features, dense, sparse, ragged []string) example.Features {
	f = example.Features{Dense: slices.Clone(f.Dense), Sparse: slices.Clone(f.Sparse), Ragged: slices.Clone(f.Ragged)}
	for i, key := range dense {
		f.Dense[i].Key = key
	}
	for i, key := range sparse {
		f.Sparse[i].Key = key
	}
	for i, key := range ragged {
		f.Ragged[i].Key = key
	}
	return f
}

func sameKeys(f *example.Features, dense, sparse, ragged []string) bool {
	for i := range f.Dense {
		if f.Dense[i].Key != dense[i] {
			return false
		}
	}
	for i := range f.Sparse {
		if f.Sparse[i].Key != sparse[i] {
			return false
		}
	}
	for i := range f.Ragged {
		if f.Ragged[i].Key != ragged[i] {
			return false
		}
	}
	return true
}

// makeFeatures combines lists into features without keys; the lists of one kind have equal lengths.
func makeFeatures(dense []tensor.DType, shapes []tensor.Shape, sparse, ragged, splits []tensor.DType) (f example.Features) {
	for i, t := range dense {
		f.Dense = append(f.Dense, example.Dense{DType: t, Shape: shapes[i]})
	}
	for _, t := range sparse {
		f.Sparse = append(f.Sparse, example.Sparse{DType: t})
	}
	for i, t := range ragged {
		f.Ragged = append(f.Ragged, example.Ragged{DType: t, Splits: splits[i]})
	}
	return f
}

// exampleRun returns where and how a kernel parses.
func exampleRun(ctx *kernels.Context) example.Run {
	return example.Run{Pool: ctx.Device.Pool(), Parallel: ctx.Device.Parallel, Ended: ctx.Ended}
}

// tensorsAt returns n inputs, starting at the i-th.
func tensorsAt(ctx *kernels.Context, i, n int) []*tensor.Tensor {
	list := make([]*tensor.Tensor, n)
	for j := range list {
		list[j] = ctx.Input(i + j)
	}
	return list
}

// keysAt returns the scalar strings at n inputs, starting at the i-th. As in TensorFlow, ops on batches also accept vectors of one element.
func keysAt(ctx *kernels.Context, i, n int, name string, vectors bool) ([]string, error) {
	keys := make([]string, n)
	for j := range keys {
		t := ctx.Input(i + j)
		if t.Len() != 1 || t.Rank() > 0 && !vectors {
			return nil, status.InvalidArgumentf("Expected %s[%d] to be a scalar, got shape: %v", name, j, t.Shape())
		}
		keys[j] = t.Strings()[0]
	}
	return keys, nil
}

// outputAll sets the outputs to lists of tensors, which it takes over.
func outputAll(ctx *kernels.Context, lists ...[]*tensor.Tensor) {
	next := 0
	for _, list := range lists {
		for _, t := range list {
			ctx.SetOutput(next, t)
			next++
		}
	}
}

func newParseExample(c *kernels.Construction) (any, error) {
	a := inputAttrsOf(c)
	sparse, dense := a.types("sparse_types"), a.types("Tdense")
	shapes := a.shapes("dense_shapes", true)
	numSparse, numDense := a.int("Nsparse"), a.int("Ndense")
	a.need(numSparse == len(sparse), "len(sparse_keys) != len(sparse_types)")
	a.need(numDense == len(dense), "len(dense_keys) != len(dense_types)")
	a.need(numDense == len(shapes), "len(dense_keys) != len(dense_shapes)")
	if a.Err() != nil {
		return nil, a.Err()
	}
	k := &exampleOp{features: makeFeatures(dense, shapes, sparse, nil, nil)}
	return kernels.Func(func(ctx *kernels.Context) error {
		sparseKeys, err := keysAt(ctx, 2, numSparse, "sparse_keys", true)
		if err != nil {
			return err
		}
		denseKeys, err := keysAt(ctx, 2+numSparse, numDense, "dense_keys", true)
		if err != nil {
			return err
		}
		if serialized := ctx.Input(0); serialized.Rank() != 1 {
			return status.InvalidArgumentf("Expected serialized to be a vector, got shape: %v", serialized.Shape())
		}
		return k.batch(ctx, 2+numSparse+numDense, denseKeys, sparseKeys, nil)
	}), nil
}

func newParseExampleV2(c *kernels.Construction) (any, error) {
	a := inputAttrsOf(c)
	sparse, dense, ragged := a.types("sparse_types"), a.types("Tdense"), a.types("ragged_value_types")
	shapes := a.shapes("dense_shapes", true)
	splits := a.splits("ragged_split_types", "ragged_split_type")
	a.need(a.int("num_sparse") == len(sparse), "len(sparse_keys) != len(sparse_types)")
	a.need(len(dense) == len(shapes), "len(dense_keys) != len(dense_shapes)")
	a.need(len(ragged) == len(splits), "len(ragged_keys) != len(ragged_split_types)")
	if a.Err() != nil {
		return nil, a.Err()
	}
	k := &exampleOp{features: makeFeatures(dense, shapes, sparse, ragged, splits)}
	return kernels.Func(func(ctx *kernels.Context) error {
		serialized := ctx.Input(0)
		if serialized.Rank() > 1 {
			return status.InvalidArgumentf("Expected serialized to be a scalar or vector, got shape: %v", serialized.Shape())
		}
		sparseKeys, denseKeys, raggedKeys := ctx.Input(2).Strings(), ctx.Input(3).Strings(), ctx.Input(4).Strings()
		switch {
		case len(denseKeys) != len(dense):
			return status.InvalidArgumentf("Expected len(dense_keys) == len(dense_types) but got: %d vs. %d", len(denseKeys), len(dense))
		case len(sparseKeys) != len(sparse):
			return status.InvalidArgumentf("Expected len(sparse_keys) == num_sparse but got: %d vs. %d", len(sparseKeys), len(sparse))
		case len(raggedKeys) != len(ragged):
			return status.InvalidArgumentf("Expected len(ragged_keys) == len(ragged_value_types) but got: %d vs. %d", len(raggedKeys), len(ragged))
		}
		return k.batch(ctx, 5, denseKeys, sparseKeys, raggedKeys)
	}), nil
}

// batch parses input 0, a vector or scalar, with the names of input 1 and the default values of the inputs starting at defaultsAt.
func (k *exampleOp) batch(ctx *kernels.Context, defaultsAt int, dense, sparse, ragged []string) error {
	serialized, names := ctx.Input(0), ctx.Input(1)
	if names.Len() > 0 && !names.Shape().Equal(serialized.Shape()) {
		return status.InvalidArgumentf("Expected names have the same shape as serialized: name.shape=%v, serialized.shape=%v", names.Shape(), serialized.Shape())
	}
	defaults := tensorsAt(ctx, defaultsAt, len(dense))
	if err := k.features.CheckDefaults(defaults); err != nil {
		return err
	}
	p, err := k.withKeys(dense, sparse, ragged)
	if err != nil {
		return err
	}
	var r *example.Result
	if serialized.Rank() == 0 {
		r, err = p.One(exampleRun(ctx), serialized.Strings()[0], defaults)
	} else {
		r, err = p.Batch(exampleRun(ctx), serialized.Strings(), names.Strings(), defaults)
	}
	if err == nil {
		outputAll(ctx, r.Indices, r.Values, r.Shapes, r.Dense, r.RaggedValues, r.Splits)
	}
	return err
}

func newParseSingleExample(c *kernels.Construction) (any, error) {
	a := inputAttrsOf(c)
	sparseKeys, sparse := a.StrList("sparse_keys"), a.types("sparse_types")
	denseKeys, dense := a.StrList("dense_keys"), a.types("Tdense")
	shapes := a.shapes("dense_shapes", true)
	n := a.int("num_sparse")
	a.need(n == len(sparseKeys) && n == len(sparse), "num_sparse (%d) must match the size of sparse_keys (%d) and sparse_types (%d)", n, len(sparseKeys), len(sparse))
	a.need(len(denseKeys) == len(dense), "len(dense_keys) != len(dense_types)")
	a.need(len(denseKeys) == len(shapes), "len(dense_keys) != len(dense_shapes)")
	if a.Err() != nil {
		return nil, a.Err()
	}
	k := &exampleOp{features: makeFeatures(dense, shapes, sparse, nil, nil)}
	return kernels.Func(func(ctx *kernels.Context) error {
		serialized := ctx.Input(0)
		if serialized.Rank() != 0 {
			return status.InvalidArgumentf("Expected serialized to be a scalar, got shape: %v", serialized.Shape())
		}
		defaults := tensorsAt(ctx, 1, len(dense))
		if err := k.features.CheckDefaults(defaults); err != nil {
			return err
		}
		p, err := k.withKeys(denseKeys, sparseKeys, nil)
		if err != nil {
			return err
		}
		r, err := p.One(exampleRun(ctx), serialized.Strings()[0], defaults)
		if err == nil {
			outputAll(ctx, r.Indices, r.Values, r.Shapes, r.Dense)
		}
		return err
	}), nil
}

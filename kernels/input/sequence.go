package input

import (
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/example"
)

// sequenceOp is the common part of the ops on SequenceExamples: the features of the context and of the lists, without their keys.
type sequenceOp struct {
	context, lists example.Features
	parser         atomic.Pointer[example.SequenceParser] // for the keys of the last run
}

// sequenceKeys are the keys of the features.
type sequenceKeys struct {
	contextDense, contextSparse, contextRagged []string
	listDense, listSparse, listRagged          []string
}

func (k *sequenceOp) withKeys(s *sequenceKeys) (*example.SequenceParser, error) {
	if p := k.parser.Load(); p != nil && sameKeys(&p.Context, s.contextDense, s.contextSparse, s.contextRagged) && sameKeys(&p.Lists, s.listDense, s.listSparse, s.listRagged) {
		return p, nil
	}
	p, err := example.NewSequence(named3(k.context, s.contextDense, s.contextSparse, s.contextRagged), named3(k.lists, s.listDense, s.listSparse, s.listRagged))
	if err == nil {
		k.parser.Store(p)
	}
	return p, err
}

// checkDefaults checks that default values fit the dense features of the context. The texts are the op's errors for a wrong shape and a
// wrong type.
func (k *sequenceOp) checkDefaults(defaults []*tensor.Tensor, shapeText, typeText string) error {
	for i, t := range defaults {
		d := &k.context.Dense[i]
		switch {
		case t.Len() == 0:
			continue
		case !t.Shape().Equal(d.Shape):
			return status.InvalidArgumentf(shapeText, i, t.Shape(), i, d.Shape)
		case t.DType() != d.DType:
			return status.InvalidArgumentf(typeText, i, t.DType(), i, d.DType)
		}
	}
	return nil
}

// sequenceTypes reads the types and shapes of the features common to all the ops.
func sequenceTypes(a *inputAttrs) (context, lists example.Features) {
	contextSparse, contextDense := a.types("context_sparse_types"), a.types("Tcontext_dense")
	listSparse, listDense := a.types("feature_list_sparse_types"), a.types("feature_list_dense_types")
	contextShapes, listShapes := a.shapes("context_dense_shapes", false), a.shapes("feature_list_dense_shapes", false)
	n := a.int("Ncontext_sparse")
	a.need(n == len(contextSparse), "num_context_sparse (%d) must match the size of context_sparse_types (%d)", n, len(contextSparse))
	n = len(contextDense)
	a.need(n == len(contextShapes), "num_context_dense (%d) must match the size of context_dense_types (%d) and context_dense_shapes (%d)", n, n, len(contextShapes))
	n = a.int("Nfeature_list_sparse")
	a.need(n == len(listSparse), "num_feature_list_sparse (%d) must match the size of feature_list_sparse_types (%d)", n, len(listSparse))
	n = a.int("Nfeature_list_dense")
	a.need(n == len(listDense) && n == len(listShapes), "num_feature_list_dense (%d) must match the size of feature_list_dense_types (%d) and feature_list_dense_shapes (%d)", n, len(listDense), len(listShapes))
	if a.Err() != nil {
		return context, lists
	}
	return makeFeatures(contextDense, contextShapes, contextSparse, nil, nil), makeFeatures(listDense, listShapes, listSparse, nil, nil)
}

func newParseSequenceExample(c *kernels.Construction) (any, error) {
	a := inputAttrsOf(c)
	k := &sequenceOp{}
	k.context, k.lists = sequenceTypes(&a)
	keys := sequenceKeys{
		contextSparse: a.StrList("context_sparse_keys"), contextDense: a.StrList("context_dense_keys"),
		listSparse: a.StrList("feature_list_sparse_keys"), listDense: a.StrList("feature_list_dense_keys"),
	}
	optional := a.StrList("feature_list_dense_missing_assumed_empty")
	count := func(name string, n int, keys []string) {
		a.need(n == len(keys), "num_%s (%d) must match the size of %s_keys (%d)", name, n, name, len(keys))
	}
	count("context_sparse", len(k.context.Sparse), keys.contextSparse)
	count("context_dense", a.int("Ncontext_dense"), keys.contextDense)
	count("context_dense", len(k.context.Dense), keys.contextDense)
	count("feature_list_sparse", len(k.lists.Sparse), keys.listSparse)
	count("feature_list_dense", len(k.lists.Dense), keys.listDense)
	if a.Err() != nil {
		return nil, a.Err()
	}
	mayLack := make([]bool, len(keys.listDense))
	for i, key := range keys.listDense {
		mayLack[i] = slices.Contains(optional, key)
	}
	return kernels.Func(func(ctx *kernels.Context) error { return k.batch(ctx, 2, &keys, mayLack) }), nil
}

func newParseSequenceExampleV2(c *kernels.Construction) (any, error) {
	a := inputAttrsOf(c)
	k := &sequenceOp{}
	k.context, k.lists = sequenceTypes(&a)
	ragged := func(part string) []example.Ragged {
		values, splits := a.types(part+"_ragged_value_types"), a.splits(part+"_ragged_split_types", part+"_ragged_split_type")
		n := len(values)
		a.need(n == len(splits), "num_%s_ragged (%d) must match the size of %s_ragged_value_types (%d) and %s_ragged_split_types (%d)", part, n, part, n, part, len(splits))
		if a.Err() != nil {
			return nil
		}
		return makeFeatures(nil, nil, nil, values, splits).Ragged
	}
	k.context.Ragged, k.lists.Ragged = ragged("context"), ragged("feature_list")
	if a.Err() != nil {
		return nil, a.Err()
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := checkSerialized(ctx.Input(0)); err != nil {
			return err
		}
		in := func(i int) []string { return ctx.Input(i).Strings() }
		keys := sequenceKeys{
			contextSparse: in(2), contextDense: in(3), contextRagged: in(4),
			listSparse: in(5), listDense: in(6), listRagged: in(7),
		}
		mayLack := tensor.Of[bool](ctx.Input(8))
		for _, check := range []struct {
			have, want int
			text       string
		}{
			{len(keys.contextDense), len(k.context.Dense), "Expected len(context_dense_keys) to match len(Tcontext_dense)"},
			{len(keys.contextSparse), len(k.context.Sparse), "Expected len(context_sparse_keys) to match Ncontext_sparse"},
			{len(keys.contextRagged), len(k.context.Ragged), "Expected len(context_ragged_keys) to match len(context_ragged_value_types)"},
			{len(keys.listDense), len(k.lists.Dense), "Expected len(feature_list_dense_keys) to match Nfeature_list_dense"},
			{len(mayLack), len(k.lists.Dense), "Expected len(feature_list_dense_missing_assumed_empty to match Nfeature_list_dense"},
			{len(keys.listSparse), len(k.lists.Sparse), "Expected len(feature_list_sparse_keys) to match Nfeature_list_sparse"},
			{len(keys.listRagged), len(k.lists.Ragged), "Expected len(feature_list_ragged_keys) to match len(feature_list_ragged_value_types)"},
		} {
			if check.have != check.want {
				return status.New(status.InvalidArgument, check.text)
			}
		}
		return k.batch(ctx, 9, &keys, mayLack)
	}), nil
}

func checkSerialized(t *tensor.Tensor) error {
	if t.Rank() > 1 {
		return status.InvalidArgumentf("Expected serialized to be a scalar or vector, got shape: %v", t.Shape())
	}
	return nil
}

// batch parses input 0 with the names of input 1 and the default values of the inputs starting at defaultsAt.
func (k *sequenceOp) batch(ctx *kernels.Context, defaultsAt int, keys *sequenceKeys, mayLack []bool) error {
	serialized := ctx.Input(0)
	if err := checkSerialized(serialized); err != nil {
		return err
	}
	defaults := tensorsAt(ctx, defaultsAt, len(k.context.Dense))
	err := k.checkDefaults(defaults, "default_value[%d].shape() == %v != context_dense_shapes[%d] == %v", "context_dense_defaults[%d].dtype() == %v != context_dense_types[%d] == %v")
	if err != nil {
		return err
	}
	p, err := k.withKeys(keys)
	if err != nil {
		return err
	}
	context, lists, err := p.Parse(exampleRun(ctx), example.SequenceInput{
		Serialized: serialized.Strings(), Names: ctx.Input(1).Strings(), Batch: serialized.Rank() == 1, Defaults: defaults, MayLack: mayLack,
	})
	if err == nil {
		outputAll(ctx, context.Indices, context.Values, context.Shapes, context.Dense, context.RaggedValues, context.Splits,
			lists.Indices, lists.Values, lists.Shapes, lists.Dense, lists.Lengths, lists.RaggedValues, lists.OuterSplits, lists.Splits)
	}
	return err
}

func newParseSingleSequenceExample(c *kernels.Construction) (any, error) {
	a := inputAttrsOf(c)
	k := &sequenceOp{}
	k.context, k.lists = sequenceTypes(&a)
	a.need(a.int("Ncontext_dense") == len(k.context.Dense), "len(context_dense_keys) != len(context_dense_types)")
	if a.Err() != nil {
		return nil, a.Err()
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		var keys sequenceKeys
		at := 2
		for _, list := range []struct {
			to   *[]string
			n    int
			name string
		}{
			{&keys.contextSparse, len(k.context.Sparse), "context_sparse_keys"}, {&keys.contextDense, len(k.context.Dense), "context_dense_keys"},
			{&keys.listSparse, len(k.lists.Sparse), "feature_list_sparse_keys"}, {&keys.listDense, len(k.lists.Dense), "feature_list_dense_keys"},
		} {
			var err error
			if *list.to, err = keysAt(ctx, at, list.n, list.name, false); err != nil {
				return err
			}
			at += list.n
		}
		return k.one(ctx, at, &keys)
	}), nil
}

// one parses input 0, a scalar, with the default values of the inputs starting at defaultsAt, and the name in the input after them.
func (k *sequenceOp) one(ctx *kernels.Context, defaultsAt int, keys *sequenceKeys) error {
	serialized, optional, debugName := ctx.Input(0), ctx.Input(1), ctx.Input(defaultsAt+len(k.context.Dense))
	switch {
	case optional.Rank() != 1:
		return status.InvalidArgumentf("Expected feature_list_dense_missing_assumed_empty to be a vector, got shape: %v", optional.Shape())
	case debugName.Len() > 0 && debugName.Rank() != 0:
		return status.InvalidArgumentf("Expected debug_name to be a scalar, got shape: %v", debugName.Shape())
	case serialized.Rank() != 0:
		return status.InvalidArgumentf("Expected serialized to be a scalar, got shape: %v", serialized.Shape())
	}
	defaults := tensorsAt(ctx, defaultsAt, len(k.context.Dense))
	err := k.checkDefaults(defaults, "def_value[%d].shape() == %v != context_dense_shapes_[%d] == %v", "context_dense_defaults[%d].dtype() == %v != context_dense_types_[%d] == %v")
	if err != nil {
		return err
	}
	p, err := k.withKeys(keys)
	if err != nil {
		return err
	}
	name := "<unknown>"
	if debugName.Len() > 0 {
		name = debugName.Strings()[0]
	}
	mayLack := make([]bool, len(keys.listDense))
	for i, key := range keys.listDense {
		mayLack[i] = slices.Contains(optional.Strings(), key)
	}
	context, lists, err := p.One(exampleRun(ctx), serialized.Strings()[0], name, defaults, mayLack)
	if err == nil {
		outputAll(ctx, context.Indices, context.Values, context.Shapes, context.Dense, lists.Indices, lists.Values, lists.Shapes, lists.Dense)
	}
	return err
}

package list

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/printing"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// listInput is the list that input 0 holds.
func listInput(ctx *kernels.Context) (*variant.TensorList, error) {
	t := ctx.Input(0)
	if t.DType() != tensor.Variant || t.Rank() != 0 {
		return nil, status.InvalidArgumentf("Input list must be a scalar saw: %v", t.Shape())
	}
	l, ok := t.Variants()[0].(*variant.TensorList)
	if !ok {
		return nil, status.InvalidArgumentf("Input handle is not a list. Saw: '%T'", t.Variants()[0])
	}
	return l, nil
}

// typedList is listInput for an op that declares the elements' type.
func typedList(ctx *kernels.Context, dtype tensor.DType) (*variant.TensorList, error) {
	l, err := listInput(ctx)
	if err == nil && l.DType != dtype {
		err = status.InvalidArgumentf("Invalid data types; op elements %v but list elements %v", dtype, l.DType)
	}
	return l, err
}

// outputList makes output 0 the list, taking over the reference.
func outputList(ctx *kernels.Context, l *variant.TensorList) error {
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err != nil {
		l.Release()
		return err
	}
	out.Variants()[0] = l
	return nil
}

// changeableList makes output 0 the list of input 0 for changing: the list itself where nobody
// else sees it, or else a clone.
func changeableList(ctx *kernels.Context, l *variant.TensorList) (*variant.TensorList, error) {
	if t := ctx.Input(0); t.Exclusive() && l.Refs.Load() == 1 {
		ctx.Pass(0, 0)
		return l, nil
	}
	l, err := l.Clone()
	if err != nil {
		return nil, err
	}
	return l, outputList(ctx, l)
}

// mapInput is the map that input 0 holds and, for ops that take a key, what variant.MapKey says of it.
func mapInput(ctx *kernels.Context) (m *variant.TensorMap, key string, err error) {
	t := ctx.Input(0)
	if t.DType() != tensor.Variant || t.Rank() != 0 {
		return nil, "", status.InvalidArgumentf("Input map must be a scalar. Saw: %v", t.Shape())
	}
	m, ok := t.Variants()[0].(*variant.TensorMap)
	if !ok {
		return nil, "", status.InvalidArgumentf("Input handle is not a map. Saw: '%s'", printing.VariantText(t.Variants()[0]))
	}
	if len(ctx.Inputs) > 1 {
		key, err = variant.MapKey(ctx.Input(1))
	}
	return m, key, err
}

// changeableMap makes output 0 the map of input 0 for changing: the map itself where nobody else
// sees it, or else a clone.
func changeableMap(ctx *kernels.Context, m *variant.TensorMap) (*variant.TensorMap, error) {
	if t := ctx.Input(0); t.Exclusive() && m.Refs.Load() == 1 {
		ctx.Pass(0, 0)
		return m, nil
	}
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err != nil {
		return nil, err
	}
	m = m.Clone()
	out.Variants()[0] = m
	return m, nil
}

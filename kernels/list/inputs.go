package list

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/printing"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// listInput returns the list in input 0.
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

// outputList sets output 0 to the list, taking over the reference.
func outputList(ctx *kernels.Context, l *variant.TensorList) error {
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err != nil {
		l.Release()
		return err
	}
	out.Variants()[0] = l
	return nil
}

// changeableList sets output 0 to a modifiable form of the list in input 0: the list itself if there are no other references, otherwise a
// clone.
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

// mapInput returns the map in input 0 and, for ops that take a key, the result of variant.MapKey.
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

// changeableMap sets output 0 to a modifiable form of the map in input 0: the map itself if there are no other references, otherwise a
// clone.
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

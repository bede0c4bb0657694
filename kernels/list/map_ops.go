package list

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/printing"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

func emptyTensorMap(ctx *kernels.Context) error {
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err == nil {
		out.Variants()[0] = variant.NewTensorMap()
	}
	return err
}

func tensorMapSize(ctx *kernels.Context) error {
	m, _, err := mapInput(ctx)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(len(m.Keys))))
	}
	return err
}

// keyText is the number of a key's elements that errors show.
const keyText = 100

func tensorMapLookup(ctx *kernels.Context) error {
	m, key, err := mapInput(ctx)
	if err != nil {
		return err
	}
	row, ok := m.Rows[key]
	if !ok {
		return status.InvalidArgumentf("Trying to lookup non-existent key. Could not find key \"%s\".", printing.Summary(ctx.Input(1), keyText))
	}
	v := m.Values[row]
	if want := ctx.Node.OutTypes[0]; v.DType() != want {
		return status.InvalidArgumentf("The map holds a value of type %v for the key \"%s\", but type %v is expected", v.DType(), printing.Summary(ctx.Input(1), keyText), want)
	}
	ctx.SetOutput(0, v.Retain())
	return nil
}

func tensorMapInsert(ctx *kernels.Context) error {
	m, key, err := mapInput(ctx)
	if err != nil {
		return err
	}
	depth := variant.Nesting(ctx.Input(2))
	if depth > variant.MaxNesting {
		return variant.TooDeep()
	}
	if _, there := m.Rows[key]; !there && len(m.Keys) >= variant.MaxList {
		return status.Errorf(status.ResourceExhausted, "OOM when allocating a map of %d tensors", len(m.Keys)+1)
	}
	if m, err = changeableMap(ctx, m); err != nil {
		return err
	}
	m.Depth = max(m.Depth, depth)
	m.Put(key, ctx.Take(1), ctx.Take(2))
	return nil
}

func tensorMapErase(ctx *kernels.Context) error {
	m, key, err := mapInput(ctx)
	if err != nil {
		return err
	}
	if _, ok := m.Rows[key]; !ok {
		return status.InvalidArgumentf("Trying to erase non-existent item. Could not find key \"%s\".", printing.Summary(ctx.Input(1), keyText))
	}
	if m, err = changeableMap(ctx, m); err != nil {
		return err
	}
	m.Erase(key)
	return nil
}

func tensorMapHasKey(ctx *kernels.Context) error {
	m, key, err := mapInput(ctx)
	if err != nil {
		return err
	}
	_, ok := m.Rows[key]
	ctx.SetOutput(0, tensor.Scalar(tensor.Bool, ok))
	return nil
}

func newTensorMapStackKeys(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("key_dtype")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		m, _, err := mapInput(ctx)
		if err != nil {
			return err
		}
		if len(m.Keys) == 0 {
			return status.InvalidArgumentf("TensorMapStackKeys cannot be called on empty map.")
		}
		shape := m.Keys[0].Shape()
		for _, k := range m.Keys {
			switch {
			case k.DType() != dtype:
				return status.InvalidArgumentf("Key does not match requested dtype.")
			case !k.Shape().Equal(shape):
				return status.InvalidArgumentf("Keys must all have the same shape.")
			}
		}
		out, err := ctx.Allocate(0, dtype, append(tensor.Shape{int64(len(m.Keys))}, shape...))
		if err != nil {
			return err
		}
		size := shape.Elements()
		for i, k := range m.Keys {
			layout.Move(ctx, out, k, layout.NewNest([]int{size}, []int{1}, []int{1}, i*size, 0))
		}
		return nil
	}), nil
}

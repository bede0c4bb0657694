package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

func emptyTensorMap(ctx *Context) error {
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err == nil {
		out.Variants()[0] = newTensorMap()
	}
	return err
}

func tensorMapSize(ctx *Context) error {
	m, _, err := mapInput(ctx)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(len(m.keys))))
	}
	return err
}

// keyText is how errors show how many elements of a key.
const keyText = 100

func tensorMapLookup(ctx *Context) error {
	m, key, err := mapInput(ctx)
	if err != nil {
		return err
	}
	row, ok := m.rows[key]
	if !ok {
		return status.InvalidArgumentf("Trying to lookup non-existent key. Could not find key \"%s\".", summary(ctx.Input(1), keyText))
	}
	v := m.values[row]
	if want := ctx.Node.OutTypes[0]; v.DType() != want {
		return status.InvalidArgumentf("The map holds a value of type %v for the key \"%s\", but type %v is expected", v.DType(), summary(ctx.Input(1), keyText), want)
	}
	ctx.SetOutput(0, v.Retain())
	return nil
}

func tensorMapInsert(ctx *Context) error {
	m, key, err := mapInput(ctx)
	if err != nil {
		return err
	}
	depth := nesting(ctx.Input(2))
	if depth > maxNesting {
		return tooDeep()
	}
	if _, there := m.rows[key]; !there && len(m.keys) >= maxList {
		return status.Errorf(status.ResourceExhausted, "OOM when allocating a map of %d tensors", len(m.keys)+1)
	}
	if m, err = changeableMap(ctx, m); err != nil {
		return err
	}
	m.depth = max(m.depth, depth)
	m.put(key, ctx.Take(1), ctx.Take(2))
	return nil
}

func tensorMapErase(ctx *Context) error {
	m, key, err := mapInput(ctx)
	if err != nil {
		return err
	}
	if _, ok := m.rows[key]; !ok {
		return status.InvalidArgumentf("Trying to erase non-existent item. Could not find key \"%s\".", summary(ctx.Input(1), keyText))
	}
	if m, err = changeableMap(ctx, m); err != nil {
		return err
	}
	m.erase(key)
	return nil
}

func tensorMapHasKey(ctx *Context) error {
	m, key, err := mapInput(ctx)
	if err != nil {
		return err
	}
	_, ok := m.rows[key]
	ctx.SetOutput(0, tensor.Scalar(tensor.Bool, ok))
	return nil
}

func newTensorMapStackKeys(c *Construction) (any, error) {
	dtype, err := c.Attrs().Type("key_dtype")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		m, _, err := mapInput(ctx)
		if err != nil {
			return err
		}
		if len(m.keys) == 0 {
			return status.InvalidArgumentf("TensorMapStackKeys cannot be called on empty map.")
		}
		shape := m.keys[0].Shape()
		for _, k := range m.keys {
			switch {
			case k.DType() != dtype:
				return status.InvalidArgumentf("Key does not match requested dtype.")
			case !k.Shape().Equal(shape):
				return status.InvalidArgumentf("Keys must all have the same shape.")
			}
		}
		out, err := ctx.Allocate(0, dtype, append(tensor.Shape{int64(len(m.keys))}, shape...))
		if err != nil {
			return err
		}
		size := shape.Elements()
		for i, k := range m.keys {
			move(ctx, out, k, newNest([]int{size}, []int{1}, []int{1}, i*size, 0))
		}
		return nil
	}), nil
}

// mapSum is the map of all keys of two maps, of which those of both have the sum as their value.
func mapSum(ctx *Context, a, b *tensorMap) (*tensorMap, error) {
	sum := a.clone()
	for name, row := range b.rows {
		have, ok := sum.rows[name]
		if !ok {
			sum.put(name, b.keys[row].Retain(), b.values[row].Retain())
			continue
		}
		added, err := addAll(ctx, []*tensor.Tensor{b.values[row]}, []*tensor.Tensor{sum.values[have]})
		if err != nil {
			sum.Release()
			return nil, err
		}
		sum.put(name, b.keys[row].Retain(), added[0])
	}
	sum.depth = max(a.depth, b.depth)
	return sum, nil
}

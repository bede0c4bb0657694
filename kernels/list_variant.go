package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// variantZerosLike makes, for each element of input 0, one of its kind that holds zeros.
func variantZerosLike(ctx *Context) error {
	t := ctx.Input(0)
	out, err := ctx.Allocate(0, tensor.Variant, t.Shape())
	if err != nil {
		return err
	}
	for i, v := range t.Variants() {
		if out.Variants()[i], err = variantZeros(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// variantZeros gives the caller a reference to the value. Nothing at all comes of an error.
func variantZeros(ctx *Context, v any) (any, error) {
	switch v := v.(type) {
	case *tensorList:
		list, err := zerosOf(ctx, v.elems)
		if err != nil {
			return nil, err
		}
		zeros := &tensorList{dtype: v.dtype, shape: v.shape, max: -1, elems: list, depth: v.depth}
		zeros.refs.Store(1)
		return zeros, nil
	case *optional:
		list, err := zerosOf(ctx, v.list)
		if err != nil {
			return nil, err
		}
		return newOptional(v.has, list), nil
	case *ragged:
		return v.zeros(ctx)
	case *tensorMap:
		// Whose keys are missing has a gradient of zero for them.
		return newTensorMap(), nil
	}
	return nil, status.Unimplementedf("ZerosLike of a variant that holds a %T is not supported", v)
}

func zerosOf(ctx *Context, list []*tensor.Tensor) (zeros []*tensor.Tensor, err error) {
	zeros = make([]*tensor.Tensor, len(list))
	for i, t := range list {
		switch {
		case t == nil:
			continue
		case t.DType() == tensor.Variant:
			if zeros[i], err = tensor.New(ctx.Device.Pool(), tensor.Variant, t.Shape()); err != nil {
				break
			}
			for k, v := range t.Variants() {
				if zeros[i].Variants()[k], err = variantZeros(ctx, v); err != nil {
					break
				}
			}
		default:
			zeros[i], err = tensor.Zeros(ctx.Device.Pool(), t.DType(), t.Shape())
		}
		if err != nil {
			releaseSet(zeros)
			return nil, err
		}
	}
	return zeros, nil
}

// releaseSet releases the tensors of a list of which some may be missing.
func releaseSet(list []*tensor.Tensor) {
	for _, t := range list {
		if t != nil {
			t.Release()
		}
	}
}

// variantAddN adds up scalars that hold lists, optionals or maps of tensors that can be added.
func variantAddN(ctx *Context) error {
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err != nil {
		return err
	}
	for i := range ctx.Inputs {
		t := ctx.Input(i)
		if t.DType() != tensor.Variant || t.Rank() != 0 {
			return status.InvalidArgumentf("AddN of non-scalar Tensor with dtype=DT_VARIANT is not supported; inputs[%d] has shape: %v", i, t.Shape())
		}
		if i == 0 {
			setVariant(out.Variants(), 0, t.Variants()[0])
			continue
		}
		sum, err := variantAdd(ctx, out.Variants()[0], t.Variants()[0])
		if err != nil {
			return err
		}
		setVariant(out.Variants(), 0, sum)
		sum.Release()
	}
	return nil
}

func variantAdd(ctx *Context, a, b any) (tensor.Counted, error) {
	switch a := a.(type) {
	case *tensorList:
		other, ok := b.(*tensorList)
		switch {
		case !ok:
			return nil, status.InvalidArgumentf("AddN of a list and a %T", b)
		case a.dtype != other.dtype:
			return nil, status.InvalidArgumentf("Trying to add two lists of tensors of different dtypes. One is %v and the other is %v", a.dtype, other.dtype)
		case len(a.elems) != len(other.elems):
			return nil, status.InvalidArgumentf("Trying to add two lists of tensors with different lengths. One is %d and the other is %d", len(a.elems), len(other.elems))
		}
		shape, err := a.shape.merge(other.shape)
		if err != nil {
			return nil, status.InvalidArgumentf("Trying to add two lists of tensors with incompatible element shapes. One is %v and the other is %v", a.shape, other.shape)
		}
		list, err := addAll(ctx, a.elems, other.elems)
		if err != nil {
			return nil, err
		}
		sum := &tensorList{dtype: a.dtype, shape: shape, max: -1, elems: list, depth: max(a.depth, other.depth)}
		sum.refs.Store(1)
		return sum, nil
	case *optional:
		other, ok := b.(*optional)
		if !ok || a.has != other.has || len(a.list) != len(other.list) {
			return nil, status.InvalidArgumentf("Cannot add optional values because one has a value and the other doesn't.")
		}
		list, err := addAll(ctx, a.list, other.list)
		if err != nil {
			return nil, err
		}
		return newOptional(a.has, list), nil
	case *ragged:
		if other, ok := b.(*ragged); ok {
			return a.add(ctx, other)
		}
		return nil, status.InvalidArgumentf("AddN of a ragged tensor and a %T", b)
	case *tensorMap:
		other, ok := b.(*tensorMap)
		if !ok {
			return nil, status.InvalidArgumentf("AddN of a map and a %T", b)
		}
		return mapSum(ctx, a, other)
	}
	return nil, status.Unimplementedf("AddN of variants that hold a %T is not supported", a)
}

// addAll adds lists one by one; where one has no tensor the other's is the sum.
func addAll(ctx *Context, a, b []*tensor.Tensor) (sums []*tensor.Tensor, err error) {
	sums = make([]*tensor.Tensor, len(a))
	for i, x := range a {
		y := b[i]
		switch {
		case x == nil && y == nil:
			continue
		case x == nil:
			sums[i] = y.Retain()
			continue
		case y == nil:
			sums[i] = x.Retain()
			continue
		case x.DType() != y.DType():
			err = status.InvalidArgumentf("Trying to add two tensors with incompatible element types. One is %v and the other is %v", x.DType(), y.DType())
		case !x.Shape().Equal(y.Shape()):
			err = status.InvalidArgumentf("Trying to add two tensors with incompatible element shapes. One is %v and the other is %v", x.Shape(), y.Shape())
		case x.DType() == tensor.Variant && x.Rank() == 0:
			err = addVariants(ctx, sums, i, x, y)
		case updaters[updateAdd][x.DType()] == nil:
			err = status.InvalidArgumentf("Trying to add unsupported dtype %d", x.DType())
		default:
			if sums[i], err = tensor.New(ctx.Device.Pool(), x.DType(), x.Shape()); err == nil {
				updateAll(ctx, updateAdd, sums[i], x, y)
			}
		}
		if err != nil {
			releaseSet(sums)
			return nil, err
		}
	}
	return sums, nil
}

func addVariants(ctx *Context, sums []*tensor.Tensor, i int, x, y *tensor.Tensor) error {
	sum, err := variantAdd(ctx, x.Variants()[0], y.Variants()[0])
	if err != nil {
		return err
	}
	if sums[i], err = tensor.New(ctx.Device.Pool(), tensor.Variant, nil); err != nil {
		sum.Release()
		return err
	}
	sums[i].Variants()[0] = sum
	return nil
}

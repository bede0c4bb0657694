package variant

import (
	"reflect"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// ZerosLike sets each output element to zeros of the same kind as the element of input 0.
func ZerosLike(ctx *kernels.Context) error {
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

// variantZeros returns zeros like v, with a reference for the caller. On error, nothing is left to release.
func variantZeros(ctx *kernels.Context, v any) (any, error) {
	switch v := v.(type) {
	case *TensorList:
		list, err := zerosOf(ctx, v.Elems)
		if err != nil {
			return nil, err
		}
		zeros := &TensorList{DType: v.DType, Shape: v.Shape, Max: -1, Elems: list, Depth: v.Depth}
		zeros.Refs.Store(1)
		return zeros, nil
	case *Optional:
		list, err := zerosOf(ctx, v.List)
		if err != nil {
			return nil, err
		}
		return NewOptional(v.Has, list), nil
	case *Ragged:
		return v.zeros(ctx)
	case *TensorMap:
		// A map without some keys has a gradient of zero for them.
		return NewTensorMap(), nil
	case scalar:
		return v.zero(), nil
	}
	return nil, NoUnary("ZEROS_LIKE", v)
}

func zerosOf(ctx *kernels.Context, list []*tensor.Tensor) (zeros []*tensor.Tensor, err error) {
	zeros = make([]*tensor.Tensor, len(list))
	for i, t := range list {
		if err = ctx.Ended(); err != nil { // shared tensors are visited, and their zeros made, once per holder
			ReleaseSet(zeros)
			return nil, err
		}
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
			ReleaseSet(zeros)
			return nil, err
		}
	}
	return zeros, nil
}

// ReleaseSet releases the tensors of a list that may contain nils.
func ReleaseSet(list []*tensor.Tensor) {
	for _, t := range list {
		if t != nil {
			t.Release()
		}
	}
}

// AddN adds variant scalars that hold numbers, or lists, optionals or maps of tensors that can be added.
func AddN(ctx *kernels.Context) error {
	if len(ctx.Inputs) == 1 {
		ctx.Pass(0, 0)
		return nil
	}
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err != nil {
		return err
	}
	for i := range ctx.Inputs {
		t := ctx.Input(i)
		if t.DType() != tensor.Variant || t.Rank() != 0 {
			return status.InvalidArgumentf("AddN of non-scalar Tensor with dtype=DT_VARIANT is not supported; inputs[%d has shape: %v.", i, t.Shape())
		}
		if i == 0 {
			layout.SetVariant(out.Variants(), 0, t.Variants()[0])
			continue
		}
		sum, err := variantAdd(ctx, out.Variants()[0], t.Variants()[0])
		if err != nil {
			return err
		}
		layout.SetVariant(out.Variants(), 0, sum)
		release(sum)
	}
	return nil
}

// release releases a reference to v if it is counted.
func release(v any) {
	if c, ok := v.(tensor.Counted); ok {
		c.Release()
	}
}

// variantAdd returns the sum of a and b, with a reference for the caller.
func variantAdd(ctx *kernels.Context, a, b any) (any, error) {
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return nil, status.Internalf("BinaryOpVariants: Variants a and b have different type ids.  Type names: '%s' vs. '%s'", Name(a), Name(b))
	}
	switch a := a.(type) {
	case scalar:
		return a.plus(b), nil
	case *TensorList:
		other := b.(*TensorList)
		switch {
		case a.DType != other.DType:
			return nil, status.InvalidArgumentf("Trying to add two lists of tensors of different dtypes. One is %v and the other is %v", a.DType, other.DType)
		case len(a.Elems) != len(other.Elems):
			return nil, status.InvalidArgumentf("Trying to add two lists of tensors with different lengths. One is %d and the other is %d", len(a.Elems), len(other.Elems))
		}
		shape, err := a.Shape.Merge(other.Shape)
		if err != nil {
			return nil, status.InvalidArgumentf("Trying to add two lists of tensors with incompatible element shapes. One is %v and the other is %v", a.Shape, other.Shape)
		}
		list, err := addAll(ctx, a.Elems, other.Elems)
		if err != nil {
			return nil, err
		}
		sum := &TensorList{DType: a.DType, Shape: shape, Max: -1, Elems: list, Depth: max(a.Depth, other.Depth)}
		sum.Refs.Store(1)
		return sum, nil
	case *Optional:
		other := b.(*Optional)
		if a.Has != other.Has || len(a.List) != len(other.List) {
			return nil, status.InvalidArgumentf("Cannot add optional values because one has a value and the other doesn't.")
		}
		list, err := addAll(ctx, a.List, other.List)
		if err != nil {
			return nil, err
		}
		return NewOptional(a.Has, list), nil
	case *Ragged:
		return a.add(ctx, b.(*Ragged))
	case *TensorMap:
		return mapSum(ctx, a, b.(*TensorMap))
	}
	return nil, status.Internalf("No unary variant binary_op function found for op ADD Variant type_name: '%s' for device type: CPU", Name(a))
}

// addAll adds two lists element by element. If one element is missing, the other is the sum.
func addAll(ctx *kernels.Context, a, b []*tensor.Tensor) (sums []*tensor.Tensor, err error) {
	sums = make([]*tensor.Tensor, len(a))
	for i, x := range a {
		y := b[i]
		if err = ctx.Ended(); err != nil { // as in zerosOf
			ReleaseSet(sums)
			return nil, err
		}
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
		case update.Updaters[update.Add][x.DType()] == nil:
			err = status.InvalidArgumentf("Trying to add unsupported dtype %d", x.DType())
		default:
			if sums[i], err = tensor.New(ctx.Device.Pool(), x.DType(), x.Shape()); err == nil {
				update.All(ctx, update.Add, sums[i], x, y)
			}
		}
		if err != nil {
			ReleaseSet(sums)
			return nil, err
		}
	}
	return sums, nil
}

func addVariants(ctx *kernels.Context, sums []*tensor.Tensor, i int, x, y *tensor.Tensor) error {
	sum, err := variantAdd(ctx, x.Variants()[0], y.Variants()[0])
	if err != nil {
		return err
	}
	if sums[i], err = tensor.New(ctx.Device.Pool(), tensor.Variant, nil); err != nil {
		release(sum)
		return err
	}
	sums[i].Variants()[0] = sum
	return nil
}

// mapSum returns a map with the keys of both maps; for keys in both, the value is the sum.
func mapSum(ctx *kernels.Context, a, b *TensorMap) (*TensorMap, error) {
	sum := a.Clone()
	for name, row := range b.Rows {
		have, ok := sum.Rows[name]
		if !ok {
			sum.Put(name, b.Keys[row].Retain(), b.Values[row].Retain())
			continue
		}
		added, err := addAll(ctx, []*tensor.Tensor{b.Values[row]}, []*tensor.Tensor{sum.Values[have]})
		if err != nil {
			sum.Release()
			return nil, err
		}
		sum.Put(name, b.Keys[row].Retain(), added[0])
	}
	sum.Depth = max(a.Depth, b.Depth)
	return sum, nil
}

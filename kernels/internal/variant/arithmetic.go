package variant

import (
	"reflect"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// An arithmetic computes with the elements of variants. What is nested in several places is computed once, as it is held once: a list that
// holds the same list twice, and so on, has more places than any memory.
type arithmetic struct {
	*kernels.Context
	zeros map[any]any    // by the element
	sums  map[[2]any]any // by the two elements
}

// ZerosLike sets each output element to zeros of the same kind as the element of input 0.
func ZerosLike(ctx *kernels.Context) error {
	t := ctx.Input(0)
	out, err := ctx.Allocate(0, tensor.Variant, t.Shape())
	if err != nil {
		return err
	}
	a := &arithmetic{Context: ctx}
	for i, v := range t.Variants() {
		if out.Variants()[i], err = a.zerosLike(v); err != nil {
			return err
		}
	}
	return nil
}

// zerosLike returns zeros like v, with a reference for the caller. On error, nothing is left to release.
func (a *arithmetic) zerosLike(v any) (any, error) {
	var zeros tensor.Counted
	var err error
	switch v := v.(type) {
	case *TensorList, *Optional, *Ragged:
		if made, ok := a.zeros[v].(tensor.Counted); ok {
			made.Retain()
			return made, nil
		}
		zeros, err = a.newZeros(v)
	case *TensorMap:
		// A map without some keys has a gradient of zero for them.
		return NewTensorMap(), nil
	case scalar:
		return v.zero(), nil
	default:
		return nil, NoUnary("ZEROS_LIKE", v)
	}
	if err != nil {
		return nil, err
	}
	if a.zeros == nil {
		a.zeros = map[any]any{}
	}
	a.zeros[v] = zeros
	return zeros, nil
}

// newZeros returns new zeros like a list, an optional or a ragged tensor.
func (a *arithmetic) newZeros(v any) (tensor.Counted, error) {
	switch v := v.(type) {
	case *TensorList:
		list, err := a.zerosOf(v.Elems)
		if err != nil {
			return nil, err
		}
		zeros := &TensorList{DType: v.DType, Shape: v.Shape, Max: -1, Elems: list, Depth: v.Depth}
		zeros.Refs.Store(1)
		return zeros, nil
	case *Optional:
		list, err := a.zerosOf(v.List)
		if err != nil {
			return nil, err
		}
		return NewOptional(v.Has, list), nil
	case *Ragged:
		zeros, err := a.zerosOf([]*tensor.Tensor{v.Values})
		if err != nil {
			return nil, err
		}
		return v.withValues(zeros[0]), nil
	}
	return nil, NoUnary("ZEROS_LIKE", v)
}

func (a *arithmetic) zerosOf(list []*tensor.Tensor) (zeros []*tensor.Tensor, err error) {
	zeros = make([]*tensor.Tensor, len(list))
	for i, t := range list {
		if err = a.Ended(); err != nil { // the zeros of tensors that are not variants are made once per holder
			ReleaseSet(zeros)
			return nil, err
		}
		switch {
		case t == nil:
			continue
		case t.DType() == tensor.Variant:
			if zeros[i], err = tensor.New(a.Device.Pool(), tensor.Variant, t.Shape()); err != nil {
				break
			}
			for k, v := range t.Variants() {
				if zeros[i].Variants()[k], err = a.zerosLike(v); err != nil {
					break
				}
			}
		default:
			zeros[i], err = tensor.Zeros(a.Device.Pool(), t.DType(), t.Shape())
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
		a := &arithmetic{Context: ctx} // the sums of the last input may have been released
		sum, err := a.add(out.Variants()[0], t.Variants()[0])
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

// add returns the sum of v and w, with a reference for the caller.
func (a *arithmetic) add(v, w any) (any, error) {
	if reflect.TypeOf(v) != reflect.TypeOf(w) {
		return nil, status.Internalf("BinaryOpVariants: Variants a and b have different type ids.  Type names: '%s' vs. '%s'", Name(v), Name(w))
	}
	switch v := v.(type) {
	case scalar:
		return v.plus(w), nil
	case *TensorList, *Optional, *Ragged, *TensorMap:
		both := [2]any{v, w}
		if made, ok := a.sums[both].(tensor.Counted); ok {
			made.Retain()
			return made, nil
		}
		sum, err := a.newSum(v, w)
		if err != nil {
			return nil, err
		}
		if a.sums == nil {
			a.sums = map[[2]any]any{}
		}
		a.sums[both] = sum
		return sum, nil
	}
	return nil, noSum(v)
}

func noSum(v any) error {
	return status.Internalf("No unary variant binary_op function found for op ADD Variant type_name: '%s' for device type: CPU", Name(v))
}

// newSum returns the sum of two elements of one type that hold tensors.
func (a *arithmetic) newSum(v, w any) (tensor.Counted, error) {
	switch v := v.(type) {
	case *TensorList:
		other := w.(*TensorList)
		switch {
		case v.DType != other.DType:
			return nil, status.InvalidArgumentf("Trying to add two lists of tensors of different dtypes. One is %v and the other is %v", v.DType, other.DType)
		case len(v.Elems) != len(other.Elems):
			return nil, status.InvalidArgumentf("Trying to add two lists of tensors with different lengths. One is %d and the other is %d", len(v.Elems), len(other.Elems))
		}
		shape, err := v.Shape.Merge(other.Shape)
		if err != nil {
			return nil, status.InvalidArgumentf("Trying to add two lists of tensors with incompatible element shapes. One is %v and the other is %v", v.Shape, other.Shape)
		}
		list, err := a.addAll(v.Elems, other.Elems)
		if err != nil {
			return nil, err
		}
		sum := &TensorList{DType: v.DType, Shape: shape, Max: -1, Elems: list, Depth: max(v.Depth, other.Depth)}
		sum.Refs.Store(1)
		return sum, nil
	case *Optional:
		other := w.(*Optional)
		if v.Has != other.Has || len(v.List) != len(other.List) {
			return nil, status.InvalidArgumentf("Cannot add optional values because one has a value and the other doesn't.")
		}
		list, err := a.addAll(v.List, other.List)
		if err != nil {
			return nil, err
		}
		return NewOptional(v.Has, list), nil
	case *Ragged:
		return a.addRagged(v, w.(*Ragged))
	case *TensorMap:
		return a.addMaps(v, w.(*TensorMap))
	}
	return nil, noSum(v)
}

// addAll adds two lists element by element. If one element is missing, the other is the sum.
func (a *arithmetic) addAll(xs, ys []*tensor.Tensor) (sums []*tensor.Tensor, err error) {
	sums = make([]*tensor.Tensor, len(xs))
	for i, x := range xs {
		y := ys[i]
		if err = a.Ended(); err != nil { // as in zerosOf
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
			err = a.addVariants(sums, i, x, y)
		case update.Updaters[update.Add][x.DType()] == nil:
			err = status.InvalidArgumentf("Trying to add unsupported dtype %d", x.DType())
		default:
			if sums[i], err = tensor.New(a.Device.Pool(), x.DType(), x.Shape()); err == nil {
				update.All(a.Context, update.Add, sums[i], x, y)
			}
		}
		if err != nil {
			ReleaseSet(sums)
			return nil, err
		}
	}
	return sums, nil
}

func (a *arithmetic) addVariants(sums []*tensor.Tensor, i int, x, y *tensor.Tensor) error {
	sum, err := a.add(x.Variants()[0], y.Variants()[0])
	if err != nil {
		return err
	}
	if sums[i], err = tensor.New(a.Device.Pool(), tensor.Variant, nil); err != nil {
		release(sum)
		return err
	}
	sums[i].Variants()[0] = sum
	return nil
}

// addMaps returns a map with the keys of both maps; for keys in both, the value is the sum.
func (a *arithmetic) addMaps(m, n *TensorMap) (tensor.Counted, error) {
	sum := m.Clone()
	for name, row := range n.Rows {
		have, ok := sum.Rows[name]
		if !ok {
			sum.Put(name, n.Keys[row].Retain(), n.Values[row].Retain())
			continue
		}
		added, err := a.addAll([]*tensor.Tensor{n.Values[row]}, []*tensor.Tensor{sum.Values[have]})
		if err != nil {
			sum.Release()
			return nil, err
		}
		sum.Put(name, n.Keys[row].Retain(), added[0])
	}
	sum.Depth = max(m.Depth, n.Depth)
	return sum, nil
}

// addRagged returns the sum of two ragged tensors with the same rows.
func (a *arithmetic) addRagged(r, s *Ragged) (tensor.Counted, error) {
	if r.Values.DType() != s.Values.DType() {
		return nil, status.InvalidArgumentf("Can't add RaggedTensorVariants of different dtypes. One is %v and the other is %v", r.Values.DType(), s.Values.DType())
	}
	if len(r.Splits) != len(s.Splits) {
		return nil, status.InvalidArgumentf("Can't add RaggedTensorVariants of different ragged rank. One is %d and the other is %d", len(r.Splits), len(s.Splits))
	}
	for i, v := range r.Splits {
		w := s.Splits[i]
		if v.DType() != w.DType() || !v.Shape().Equal(w.Shape()) || !slices.Equal(v.Data(), w.Data()) {
			return nil, status.InvalidArgumentf("Can't add RaggedTensorVariants with different row_splits.")
		}
	}
	sum, err := a.addAll([]*tensor.Tensor{r.Values}, []*tensor.Tensor{s.Values})
	if err != nil {
		return nil, err
	}
	return r.withValues(sum[0]), nil
}

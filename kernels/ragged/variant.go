package ragged

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// newRaggedToVariant returns the kernel that stores a ragged tensor in a scalar, or each of its rows in an element of a vector.
func newRaggedToVariant(c *kernels.Construction) (any, error) {
	batched, err := c.Attrs().Bool("batched_input")
	if err != nil {
		return nil, err
	}
	dtype, err := args.IntAttr(c, "Tsplits")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error { return raggedToVariant(ctx, dtype, batched) }), nil
}

func raggedToVariant(ctx *kernels.Context, dtype tensor.DType, batched bool) error {
	n := len(ctx.Inputs) - 1
	values := ctx.Input(n)
	if variant.Nesting(values) >= variant.MaxNesting {
		return variant.TooDeep()
	}
	splits := make([][]int64, n)
	for i := n - 1; i >= 0; i-- {
		var rows int
		switch {
		case i < n-1:
			rows = len(splits[i+1]) - 1
		case values.Rank() == 0:
			return status.InvalidArgumentf("Requires flat_values to have rank>=1 when nested_row_splits is not empty, but is 0.")
		default:
			rows = values.Dim(0)
		}
		var err error
		if splits[i], err = variant.CheckSplits(ctx.Input(i), int64(rows)); err != nil {
			return err
		}
	}
	if !batched {
		out, err := ctx.Allocate(0, tensor.Variant, nil)
		if err != nil {
			return err
		}
		list := args.Inputs(ctx, 0, n)
		for _, t := range list {
			t.Retain()
		}
		out.Variants()[0] = variant.NewRagged(list, values.Retain())
		return nil
	}
	if values.Rank() == 0 {
		return status.InvalidArgumentf("Can't unbatch rank-0 tensor.")
	}
	rows := values.Dim(0)
	if n > 0 {
		rows = len(splits[0]) - 1
	}
	out, err := ctx.Allocate(0, tensor.Variant, tensor.Shape{int64(rows)})
	if err != nil {
		return err
	}
	end := ctx.Lookout()
	for i := range out.Variants() {
		if err := end.After(rowTime); err != nil {
			return err
		}
		if err := ctx.Device.Pool().Admits(); err != nil {
			return err
		}
		if n == 0 {
			row := values.Rows(i, i+1)
			out.Variants()[i] = variant.NewRagged(nil, row.Reshaped(values.Shape()[1:]))
			row.Release()
			continue
		}
		r, err := raggedRow(ctx, dtype, splits, values, i)
		if err != nil {
			return err
		}
		out.Variants()[i] = r
	}
	return nil
}

// rowTime is the time in nanoseconds to make a variant of a row.
const rowTime = 1000

// raggedRow returns row i of a ragged tensor, which has one ragged dimension less. It shares the values.
func raggedRow(ctx *kernels.Context, dtype tensor.DType, splits [][]int64, values *tensor.Tensor, i int) (*variant.Ragged, error) {
	lo, hi := splits[0][i], splits[0][i+1]
	list := make([]*tensor.Tensor, 0, len(splits)-1)
	for _, s := range splits[1:] {
		part := slices.Clone(s[lo : hi+1])
		for k := range part {
			part[k] -= s[lo]
		}
		t, err := variant.VectorAs(ctx.Device.Pool(), dtype, part)
		if err != nil {
			kernels.ReleaseTensors(list)
			return nil, err
		}
		list = append(list, t)
		lo, hi = s[lo], s[hi]
	}
	return variant.NewRagged(list, values.Rows(int(lo), int(hi))), nil
}

// newRaggedFromVariant returns the kernel that reads a ragged tensor back, or stacks those in a tensor of variants.
func newRaggedFromVariant(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	from, to, values := a.Int("input_ragged_rank"), a.Int("output_ragged_rank"), a.Type("Tvalues")
	if err := a.Err(); err != nil {
		return nil, err
	}
	splits, err := args.IntAttr(c, "Tsplits")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		dims := int64(ctx.Input(0).Rank())
		from := from
		if from == -1 {
			from = to - dims
			if to == 0 && from < 0 {
				from = 0
			}
			if from < 0 {
				return status.InvalidArgumentf("Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) must be >= 0, found output_ragged_rank: %d, encoded_variant.dims(): %d, inferred input_ragged_rank: %d", to, dims, from)
			}
		}
		if !(to == 0 && from == 0) && to != dims+from {
			return status.InvalidArgumentf("output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); output_ragged_rank: %d, input_ragged_rank: %d, encoded_variant.dims(): %d.", to, from, dims)
		}
		list, err := raggedList(ctx, int(from), int(to), values, splits)
		if err != nil {
			return err
		}
		if dims == 0 {
			for i, s := range list[0].Splits {
				ctx.SetOutput(i, s.Retain())
			}
			ctx.SetOutput(int(to), list[0].Values.Retain())
			return nil
		}
		if to == 0 {
			return stackDense(ctx, values, list)
		}
		return stackRagged(ctx, int(from), values, splits, list)
	}), nil
}

// raggedList reads the elements of input 0, and checks that they are ragged tensors of the rank and types that the op declares.
func raggedList(ctx *kernels.Context, rank, to int, values, splits tensor.DType) ([]*variant.Ragged, error) {
	list := make([]*variant.Ragged, ctx.Input(0).Len())
	for i, v := range ctx.Input(0).Variants() {
		r, ok := v.(*variant.Ragged)
		switch {
		case !ok:
			return nil, status.InvalidArgumentf("Input Variant element at index %d doesn't hold a RaggedTensorVariant: %T", i, v)
		case len(r.Splits) != rank:
			return nil, status.InvalidArgumentf("Encoded input RaggedTensorVariant has ragged_rank=%d.  Expected ragged_rank=%d.", len(r.Splits), rank)
		case r.Values.DType() != values:
			return nil, status.InvalidArgumentf("Expected values Tensor dtype: %v, found: %v", values, r.Values.DType())
		case r.Values.Rank() == 0 && to != 0:
			return nil, status.InvalidArgumentf("Ragged values must have rank >= 1; encoded scalar element at index %d has values Tensor: %v%v", i, r.Values.DType(), r.Values.Shape())
		}
		for _, s := range r.Splits {
			if s.DType() != splits {
				return nil, status.InvalidArgumentf("Expected row_splits Tensor dtype: %v, found: %v", splits, s.DType())
			}
		}
		list[i] = r
	}
	return list, nil
}

// stackDense stacks the values of tensors without ragged dimensions in output 0.
func stackDense(ctx *kernels.Context, dtype tensor.DType, list []*variant.Ragged) error {
	if len(list) == 0 {
		_, err := ctx.Allocate(0, dtype, tensor.Shape{0})
		return err
	}
	first := list[0].Values.Shape()
	parts := make([]*tensor.Tensor, len(list))
	for i, r := range list {
		if !r.Values.Shape().Equal(first) {
			return status.InvalidArgumentf("All flat_values must have compatible shapes.  Shape at index 0: %v.  Shape at index %d: %v", first, i, r.Values.Shape())
		}
		parts[i] = r.Values
	}
	return stackValues(ctx, 0, dtype, shapes.Replaced(first, 0, 0, int64(len(list))), parts)
}

// stackValues sets output o to the elements of all parts, which must fill its shape.
func stackValues(ctx *kernels.Context, o int, dtype tensor.DType, shape tensor.Shape, parts []*tensor.Tensor) error {
	out, err := ctx.Allocate(o, dtype, shape)
	if err != nil {
		return err
	}
	at := 0
	for _, p := range parts {
		if p.Len() > 0 {
			layout.Move(ctx, out, p, layout.NewNest([]int{p.Len()}, []int{1}, []int{1}, at, 0))
			at += p.Len()
		}
	}
	return nil
}

// stackRagged outputs one ragged tensor, whose outer dimensions are those of input 0.
func stackRagged(ctx *kernels.Context, rank int, dtype, splitType tensor.DType, list []*variant.Ragged) error {
	lead := ctx.Input(0).Shape()
	for i, d := range lead[:len(lead)-1] {
		// Each of the d rows of the tensor of variants has the same number of elements.
		splits := make([]int64, d+1)
		for j := range splits {
			splits[j] = int64(j) * lead[i+1]
		}
		if err := args.OutputInts(ctx, i, splitType, splits); err != nil {
			return err
		}
	}
	rows := []int64{0}
	for _, r := range list {
		n := int64(r.Values.Dim(0))
		if rank > 0 {
			n = int64(r.Splits[0].Len() - 1)
		}
		rows = append(rows, rows[len(rows)-1]+n)
	}
	if err := args.OutputInts(ctx, len(lead)-1, splitType, rows); err != nil {
		return err
	}
	for i := range rank {
		joined := []int64{0}
		for _, r := range list {
			s, err := variant.Int64s(r.Splits[i])
			if err != nil {
				return err
			}
			base := joined[len(joined)-1]
			for _, x := range s[1:] {
				joined = append(joined, base+x)
			}
		}
		if err := args.OutputInts(ctx, len(lead)+i, splitType, joined); err != nil {
			return err
		}
	}
	shape := tensor.Shape{0}
	if len(list) > 0 {
		shape = list[0].Values.Shape().Clone()
		shape[0] = 0
	}
	parts := make([]*tensor.Tensor, len(list))
	for i, r := range list {
		s := r.Values.Shape()
		if len(s) != len(shape) {
			return status.InvalidArgumentf("Rank of values must match for all components; values shape at index 0: %v, values shape at index %d: %v", list[0].Values.Shape(), i, s)
		}
		if !s[1:].Equal(shape[1:]) {
			return status.InvalidArgumentf("All flat_values must have compatible shapes.  Shape at index 0: %v.  Shape at index %d: %v.  If you are using tf.map_fn, then you may need to specify an explicit fn_output_signature with appropriate ragged_rank, and/or convert output tensors to RaggedTensors.",
				shape[1:], i, s[1:])
		}
		shape[0] += s[0]
		parts[i] = r.Values
	}
	return stackValues(ctx, len(lead)+rank, dtype, shape, parts)
}

// newRaggedToVariantGrad returns the kernel that joins the gradients of the rows that RaggedTensorToVariant stored.
func newRaggedToVariantGrad(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("Tvalues")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		sizes, err := ctx.Ints(2)
		if err != nil {
			return err
		}
		shape, err := shapes.ShapeOf(sizes)
		if err != nil {
			return err
		}
		var splits []int64
		if t := ctx.Input(1); t.Rank() > 0 {
			if splits, err = variant.CheckSplits(t, -1); err != nil {
				return err
			}
		}
		parts, err := gradientParts(ctx, dtype, splits, shape)
		defer kernels.ReleaseTensors(parts)
		if err != nil {
			return err
		}
		if len(parts) == 1 {
			ctx.SetOutput(0, parts[0].Retain())
			return nil
		}
		n := 0
		for _, p := range parts {
			n += p.Len()
		}
		if n != shape.Elements() {
			return status.InvalidArgumentf("The gradients have %d elements, but the values of shape %v have %d", n, shape, shape.Elements())
		}
		return stackValues(ctx, 0, dtype, shape, parts)
	}), nil
}

// gradientParts returns the values of input 0's elements, and zeros for missing gradients. The caller owns them.
func gradientParts(ctx *kernels.Context, dtype tensor.DType, splits []int64, shape tensor.Shape) (parts []*tensor.Tensor, err error) {
	for i, v := range ctx.Input(0).Variants() {
		if r, ok := v.(*variant.Ragged); ok {
			if r.Values.DType() != dtype {
				return parts, status.InvalidArgumentf("Expected values Tensor dtype: %v, found: %v", dtype, r.Values.DType())
			}
			parts = append(parts, r.Values.Retain())
			continue
		}
		if i+1 >= len(splits) || len(shape) == 0 {
			return parts, status.InvalidArgumentf("No row_splits tell the size of the gradient at index %d", i)
		}
		zeros, err := tensor.Zeros(ctx.Device.Pool(), dtype, shapes.Replaced(shape, 0, 1, splits[i+1]-splits[i]))
		if err != nil {
			return parts, err
		}
		parts = append(parts, zeros)
	}
	return parts, nil
}

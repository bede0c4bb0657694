package sparse

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// sparseReorder outputs the values in the order of their coordinates.
func sparseReorder(ctx *kernels.Context) error {
	s, err := sparseTensor(ctx, 0)
	if err != nil {
		return err
	}
	if s.ordered() == nil {
		ctx.Pass(0, 0)
		ctx.Pass(1, 1)
		return nil
	}
	order, err := s.sorted(ctx)
	if err != nil {
		return err
	}
	if err := pickRows(ctx, 0, s.indices, order); err != nil {
		return err
	}
	return pickRows(ctx, 1, s.values, order)
}

// newSparseSplit returns the kernel that splits a sparse tensor along an axis, into parts whose sizes differ by at most one.
func newSparseSplit(c *kernels.Construction) (any, error) {
	parts, err := c.Attrs().Int("num_split")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error { return sparseSplit(ctx, parts) }), nil
}

func sparseSplit(ctx *kernels.Context, parts int64) error {
	if a := ctx.Input(0); a.Rank() != 0 {
		return status.InvalidArgumentf("Input axis should be a scalar but received shape %v", a.Shape())
	}
	if t := ctx.Input(2); ctx.Input(1).Rank() == 2 && t.Rank() != 1 {
		// The shape in the text is that of the indices, as in TensorFlow.
		return status.InvalidArgumentf("Input values should be a vector but received shape %v", ctx.Input(1).Shape())
	}
	s, err := sparseInput(ctx, 1)
	if err == nil {
		s, err = sparseTensor(ctx, 1)
	}
	if err != nil {
		return err
	}
	if err := s.bounded(); err != nil {
		return err
	}
	given, err := args.ScalarInt(ctx, 0, "axis")
	if err != nil {
		return err
	}
	rank := s.rank()
	axis, ok := shapes.WrapAxis(given, rank)
	if !ok {
		return status.InvalidArgumentf("Input axis should be in range [%d, %d), got %d", -rank, rank, given)
	}
	size := s.shape[axis]
	if parts < 1 || parts > size {
		return status.InvalidArgumentf("Input num_split should be between 1 and the splitting dimension size (%d), got %d", size, parts)
	}
	if _, err := shapes.ShapeOf(s.shape); err != nil {
		return err
	}
	// If the size is not a multiple of the number of parts, the first ones are one larger.
	small, larger := size/parts, size%parts
	members := make([][]int64, parts)
	for i := range s.count() {
		x := s.at(i)[axis]
		part := x / (small + 1)
		if part >= larger {
			part = larger + (x-larger*(small+1))/small
		}
		members[part] = append(members[part], int64(i))
	}
	from := int64(0)
	for i := range int(parts) {
		shape := tensor.Shape(s.shape).Clone()
		shape[axis] = small
		if int64(i) < larger {
			shape[axis]++
		}
		if err := pickRows(ctx, i, s.indices, members[i]); err != nil {
			return err
		}
		at := tensor.Of[int64](ctx.Outputs[i].Tensor)
		for j := axis; j < len(at); j += rank {
			at[j] -= from
		}
		if err := pickRows(ctx, i+int(parts), s.values, members[i]); err != nil {
			return err
		}
		if err := args.OutputInts(ctx, i+2*int(parts), tensor.Int64, shape); err != nil {
			return err
		}
		from += shape[axis]
	}
	return nil
}

// newSparseConcat returns the kernel that concatenates sparse tensors along an axis.
func newSparseConcat(c *kernels.Construction) (any, error) {
	axis, err := c.Attrs().Int("concat_dim")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		list, err := sparseList(ctx)
		if err != nil {
			return err
		}
		return sparseConcat(ctx, axis, list)
	}), nil
}

// sparseList reads three lists of inputs: coordinates, values and shapes.
func sparseList(ctx *kernels.Context) ([]sparse, error) {
	n := len(ctx.Inputs) / 3
	list := make([]sparse, n)
	for i := range list {
		if t := ctx.Input(i); t.Rank() != 2 {
			return nil, status.InvalidArgumentf("Input indices should be a matrix but received shape %v at position %d", t.Shape(), i)
		}
	}
	for i := range list {
		if t := ctx.Input(n + i); t.Rank() != 1 {
			return nil, status.InvalidArgumentf("Input values should be a vector but received shape %v at position %d", t.Shape(), i)
		}
	}
	for i := range list {
		t := ctx.Input(2*n + i)
		if t.Rank() != 1 {
			return nil, status.InvalidArgumentf("Input shapes should be a vector but received shape %v at position %d", t.Shape(), i)
		}
		list[i] = sparse{ctx.Input(i), ctx.Input(n + i), tensor.Of[int64](t)}
		elements := int64(1)
		for _, d := range list[i].shape {
			if d < 0 {
				return nil, status.InvalidArgumentf("Dimension %d must be >= 0", d)
			}
			product, ok := shapes.MulSize(elements, d)
			if !ok {
				return nil, status.Internalf("Encountered overflow from large input shape.")
			}
			elements = product
		}
	}
	return list, nil
}

func sparseConcat(ctx *kernels.Context, given int64, list []sparse) error {
	first := list[0].shape
	axis, ok := shapes.WrapAxis(given, len(first))
	if !ok {
		return status.InvalidArgumentf("Concat dimension must be in range [%d, %d), got %d", -len(first), len(first), given)
	}
	shape, count := tensor.Shape(first).Clone(), list[0].count()
	for i, s := range list[1:] {
		if len(s.shape) != len(first) {
			return status.InvalidArgumentf("Ranks of all input tensors must match: expected %d but got %d at position %d", len(first), len(s.shape), i+1)
		}
		for j, d := range s.shape {
			if j != axis && d != first[j] {
				return status.InvalidArgumentf("Input shapes must match: expected %d for dimension %d but got %d at position %d", first[j], j, d, i+1)
			}
		}
		sum, ok := shapes.AddSize(shape[axis], s.shape[axis])
		if !ok {
			return status.Internalf("Encountered overflow from large input shape.")
		}
		shape[axis] = sum
		count += s.count()
	}
	if err := args.OutputInts(ctx, 2, tensor.Int64, shape); err != nil {
		return err
	}
	if count > 0 {
		for _, s := range list {
			if err := s.fits(); err != nil {
				return err
			}
		}
	}
	joined, err := joinSparse(ctx, list, axis, count)
	if err != nil {
		return err
	}
	defer joined.release()
	order, err := joined.sorted(ctx)
	if err != nil {
		return err
	}
	if err := pickRows(ctx, 0, joined.indices, order); err != nil {
		return err
	}
	return pickRows(ctx, 1, joined.values, order)
}

// joinSparse concatenates the values of all tensors. The caller owns the result.
func joinSparse(ctx *kernels.Context, list []sparse, axis, count int) (out sparse, err error) {
	rank := len(list[0].shape)
	if out.indices, err = tensor.New(ctx.Device.Pool(), tensor.Int64, tensor.Shape{int64(count), int64(rank)}); err != nil {
		return out, err
	}
	if out.values, err = tensor.New(ctx.Device.Pool(), list[0].values.DType(), tensor.Shape{int64(count)}); err != nil {
		out.indices.Release()
		return out, err
	}
	at, row, from := tensor.Of[int64](out.indices), 0, int64(0)
	m := layout.MoverOf(out.values.DType())
	for _, s := range list {
		n := s.count()
		if n > 0 {
			copy(at, tensor.Of[int64](s.indices))
			to := make([]int64, n)
			for i := range to {
				at[i*rank+axis] += from
				to[i] = int64(row + i)
			}
			m.Rows(out.values, s.values, to, nil, 1, 0, n)
			at = at[n*rank:]
			row += n
		}
		from += s.shape[axis]
	}
	return out, nil
}

// sparseReshape converts the coordinates of a sparse tensor to another shape.
func sparseReshape(ctx *kernels.Context) error {
	indices, from, to := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	switch {
	case indices.Rank() != 2:
		return status.InvalidArgumentf("Input must be a matrix.")
	case from.Rank() != 1:
		return status.InvalidArgumentf("Input shape must be a vector.")
	case indices.Dim(1) != from.Len():
		return status.InvalidArgumentf("Input tensor rank must match input shape length.")
	case to.Rank() != 1:
		return status.InvalidArgumentf("Target shape should be a vector but received shape %v", to.Shape())
	}
	old, err := sparse{shape: tensor.Of[int64](from)}.dense()
	if err != nil {
		return err
	}
	shape, known, err := sparseTarget(old, tensor.Of[int64](to))
	if err != nil {
		return err
	}
	if old.Equal(shape) {
		ctx.Pass(0, 0)
		ctx.Pass(1, 1)
		return nil
	}
	if err := args.OutputInts(ctx, 1, tensor.Int64, shape); err != nil {
		return err
	}
	n := indices.Dim(0)
	out, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(n), int64(len(shape))})
	if err != nil || n == 0 {
		return err
	}
	if shape.Elements() == 0 || known == 0 {
		return status.InvalidArgumentf("Input tensor has %d non zero elements but input shape (%v) or output shape (%v) is empty", n, old, shape)
	}
	src, dst := tensor.Of[int64](indices), tensor.Of[int64](out)
	oldStrides, strides := shapes.StridesOf(old), shapes.StridesOf(shape)
	for range n {
		place := int64(0)
		for d, x := range src[:len(old)] {
			place += x * int64(oldStrides[d])
		}
		for d, s := range strides {
			dst[d] = place / int64(s)
			place %= int64(s)
		}
		src, dst = src[len(old):], dst[len(shape):]
	}
	return nil
}

// sparseTarget completes the requested shape. known is the product of the given sizes.
func sparseTarget(old tensor.Shape, given []int64) (shape tensor.Shape, known int64, err error) {
	shape = tensor.Shape(given).Clone()
	dense, open := int64(old.Elements()), -1
	for d, size := range shape {
		switch {
		case size == -1 && open >= 0:
			return nil, 0, status.InvalidArgumentf("only one output dimension may be -1, not both %d and %d", open, d)
		case size == -1:
			open, shape[d] = d, 1
		case size < 0:
			return nil, 0, status.InvalidArgumentf("size %d must be non-negative, not %d", d, size)
		}
	}
	if known, err = shape.NumElements(); err != nil {
		return nil, 0, err
	}
	if open >= 0 {
		if known == 0 {
			return nil, 0, status.InvalidArgumentf("reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are non-zero")
		}
		if dense%known != 0 {
			return nil, 0, status.InvalidArgumentf("Input to reshape is a SparseTensor with %d dense values, but the requested shape requires a multiple of %d. input_shape=%v output_shape=%v", dense, known, old, shape)
		}
		shape[open] = dense / known
	}
	if n, err := shape.NumElements(); err != nil || n != dense {
		return nil, 0, status.InvalidArgumentf("Input to reshape is a tensor with %d dense values, but the requested shape has %d. input_shape=%v output_shape=%v", dense, n, old, shape)
	}
	return shape, known, nil
}

// sparseSlice outputs the values within a block.
func sparseSlice(ctx *kernels.Context) error {
	s, err := sparseTensor(ctx, 0)
	if err != nil {
		return err
	}
	start, size := ctx.Input(3), ctx.Input(4)
	rank := s.rank()
	switch {
	case start.Rank() != 1:
		return status.InvalidArgumentf("Input start should be a vector but received shape %v", start.Shape())
	case size.Rank() != 1:
		return status.InvalidArgumentf("Input size should be a vector but received shape %v", size.Shape())
	case start.Len() != rank:
		return status.InvalidArgumentf("Expected start to be a vector of length %d but got length %d", rank, start.Len())
	case size.Len() != rank:
		return status.InvalidArgumentf("Expected size to be a vector of length %d but got length %d", rank, size.Len())
	}
	shape, err := s.dense()
	if err != nil {
		return err
	}
	lo, extent := tensor.Of[int64](start), tensor.Of[int64](size)
	end := make([]int64, rank)
	for d, n := range shape {
		if extent[d] < 0 {
			return status.InvalidArgumentf("Expected a non-negative size, got %d", extent[d])
		}
		end[d] = lo[d] + extent[d]
		if lo[d] > math.MaxInt64-extent[d] {
			end[d] = math.MaxInt64 // up to the end, like all sizes that are too large
		}
		switch {
		case lo[d] < n-extent[d]:
			shape[d] = extent[d]
		case lo[d] < n:
			shape[d] = n - lo[d]
		default:
			shape[d] = 0
		}
	}
	if _, err := shapes.ShapeOf(shape); err != nil {
		return err
	}
	var hits []int64
	for i := range s.count() {
		hit := true
		for d, x := range s.at(i) {
			hit = hit && lo[d] <= x && x < end[d]
		}
		if hit {
			hits = append(hits, int64(i))
		}
	}
	if err := pickRows(ctx, 0, s.indices, hits); err != nil {
		return err
	}
	at := tensor.Of[int64](ctx.Outputs[0].Tensor)
	for i := range at {
		at[i] -= lo[i%rank]
	}
	if err := pickRows(ctx, 1, s.values, hits); err != nil {
		return err
	}
	return args.OutputInts(ctx, 2, tensor.Int64, shape)
}

// sparseSliceGrad maps the gradients of a slice's values back to the values of its source.
func sparseSliceGrad(ctx *kernels.Context) error {
	grad, in, start, out := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	switch {
	case in.Rank() != 2 || out.Rank() != 2:
		return status.InvalidArgumentf("Input and output indices should be matrices but received shapes: %v and %v", in.Shape(), out.Shape())
	case grad.Rank() != 1:
		return status.InvalidArgumentf("Input backprop_val_grad should be a vector but received shape: %v", grad.Shape())
	case in.Dim(1) != out.Dim(1):
		return status.InvalidArgumentf("The input and output should have the same ndims: got: %d and %d", in.Dim(1), out.Dim(1))
	case out.Dim(0) > in.Dim(0):
		return status.InvalidArgumentf("# rows of output_indices should be not greater than of input_indices, got %d and %d", out.Dim(0), in.Dim(0))
	case grad.Len() != out.Dim(0):
		return status.InvalidArgumentf("# elements of backprop_val_grad and # rows of output_indices should match (#nnz of sum): got %d and %d", grad.Len(), out.Dim(0))
	case start.Rank() != 1:
		return status.InvalidArgumentf("The input_start should be a vector but received shape %v", start.Shape())
	case start.Len() != in.Dim(1):
		return status.InvalidArgumentf("Expected input_start to be a vector of length %d but got length %d", in.Dim(1), start.Len())
	}
	result, err := ctx.Allocate(0, grad.DType(), tensor.Shape{int64(in.Dim(0))})
	if err != nil {
		return err
	}
	layout.Zero(ctx, result)
	rank := in.Dim(1)
	from, at, origin := tensor.Of[int64](in), tensor.Of[int64](out), tensor.Of[int64](start)
	var to []int64
	for i := 0; i < in.Dim(0) && len(to) < out.Dim(0); i++ {
		same := true
		for d := range rank {
			same = same && from[i*rank+d] == at[len(to)*rank+d]+origin[d]
		}
		if same {
			to = append(to, int64(i))
		}
	}
	if len(to) != grad.Len() {
		return status.Internalf("Elements of backprop_val_grad aren't all propagated. Num elements:%d, used: %d", grad.Len(), len(to))
	}
	return layout.MoveAt(ctx, result, grad, to, nil, 1, len(to))
}

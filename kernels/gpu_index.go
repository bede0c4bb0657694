package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// What ops with indices do when those lie in an accelerator's memory, where nobody looks at them
// before: as with TensorFlow's GPU kernels, those that point outside give zeros, and updates that
// they name are left out. The callers have checked shapes.

// indexKind tells a device's function which integers the indices are.
func indexKind(d tensor.DType) uint64 {
	if d == tensor.Int8 {
		return 0
	}
	return uint64(d.Size())
}

// gatherOn is gatherAlong.
func gatherOn(ctx *Context, params, indices *tensor.Tensor, axis, batch int) error {
	shape := replaced(params.Shape(), axis, axis+1, indices.Shape()[batch:]...)
	if _, err := shape.NumElements(); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, params.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	if params.Len() == 0 {
		zero(ctx, out)
		return nil
	}
	size := params.DType().Size()
	inner := params.Shape()[axis+1:].Elements()
	wide := widest(size, params.Address(), out.Address(), uint64(inner*size))
	inner = inner * size / wide
	count := out.DataSize() / wide
	row, per := divisor(inner, count), divisor(indices.Shape()[batch:].Elements(), count)
	outer := divisor(params.Shape()[batch:axis].Elements(), count)
	a := accelerator(ctx.Device)
	a.Launch(ctx, elementwise(a, cellFunction("gather", wide), count, out.Address(), params.Address(), indices.Address(), indexKind(indices.DType()),
		uint64(params.Dim(axis)), row[0], row[1], per[0], per[1], outer[0], outer[1], uint64(count)))
	return nil
}

// pointWords is the struct Point: the dimensions that rows of indices name a place in.
func pointWords(dims tensor.Shape) ([]uint64, error) {
	if len(dims) > pointLimit {
		return nil, status.Unimplementedf("Indices of more than %d dimensions, here %d, are not supported on GPUs", pointLimit, len(dims))
	}
	words := make([]uint64, 1+pointLimit)
	words[0] = uint64(len(dims))
	for i, d := range dims {
		words[1+i] = uint64(d)
	}
	return words, nil
}

// gatherPointsOn is gatherPoints for an output of the shape.
func gatherPointsOn(ctx *Context, params, indices *tensor.Tensor, shape tensor.Shape) error {
	last := indices.Rank() - 1
	dims := params.Shape()[:indices.Dim(last)]
	point, err := pointWords(dims)
	if err != nil {
		return err
	}
	if _, err := shape.NumElements(); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, params.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	size := params.DType().Size()
	inner := params.Shape()[len(dims):].Elements()
	wide := widest(size, params.Address(), out.Address(), uint64(inner*size))
	count := out.DataSize() / wide
	row := divisor(inner*size/wide, count)
	a := accelerator(ctx.Device)
	args := append([]uint64{out.Address(), params.Address(), indices.Address(), indexKind(indices.DType())}, point...)
	a.Launch(ctx, elementwise(a, cellFunction("gather_nd", wide), count, append(args, row[0], row[1], uint64(count))...))
	return nil
}

// scatterFunctions are the functions of the updates.
var scatterFunctions = [updateOps]string{updateSet: "scatter_set", updateAdd: "scatter_add", updateSub: "scatter_sub", updateMul: "scatter_mul",
	updateDiv: "scatter_div", updateMin: "scatter_min", updateMax: "scatter_max"}

// scatterOn updates t, on the accelerator, where rows rows of indices point in the dimensions dims,
// which are t's first ones or what they come to. updates has a row for each of these, or one element
// for all. Setting is for all types, the other ops for those that scattered names.
func scatterOn(ctx *Context, op updateOp, t, indices *tensor.Tensor, rows int, dims tensor.Shape, updates *tensor.Tensor) error {
	point, err := pointWords(dims)
	if err != nil {
		return err
	}
	named := dims.Elements()
	if rows == 0 || t.Len() == 0 {
		return nil
	}
	inner, step := t.Len()/named, 1
	if updates.Rank() == 0 {
		step = 0
	}
	size := t.DType().Size()
	wide := size
	if op == updateSet && step == 1 {
		wide = widest(size, t.Address(), updates.Address(), uint64(inner*size))
	}
	inner = inner * size / wide
	function := scatterFunctions[op]
	if op == updateSet {
		function = cellFunction(function, wide)
	} else {
		function += "_" + suffixes[t.DType()]
	}
	count := rows * inner
	row := divisor(inner, count)
	a := accelerator(ctx.Device)
	args := append([]uint64{t.Address(), indices.Address(), indexKind(indices.DType())}, point...)
	a.Launch(ctx, elementwise(a, function, count, append(args, updates.Address(), row[0], row[1], uint64(step), uint64(count))...))
	return nil
}

// scattered are the types of updates that compute.
var scattered = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int32, tensor.Int64}

// oneHotOn is oneHot for an output of the shape, whose dimension axis is the depth.
func oneHotOn(ctx *Context, shape tensor.Shape, axis int) error {
	indices, on, off := ctx.Input(0), ctx.Input(2), ctx.Input(3)
	out, err := ctx.Allocate(0, on.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	depth, suffix := divisor(int(shape[axis]), out.Len()), divisor(indices.Shape()[axis:].Elements(), out.Len())
	a := accelerator(ctx.Device)
	a.Launch(ctx, elementwise(a, cellFunction("one_hot", on.DType().Size()), out.Len(), out.Address(), indices.Address(), indexKind(indices.DType()),
		on.Address(), off.Address(), depth[0], depth[1], suffix[0], suffix[1], uint64(out.Len())))
	return nil
}

// reverseSequenceOn is reverseSequence. A length that the dimension does not have leaves it as it is.
func reverseSequenceOn(ctx *Context, batch, seq int) error {
	t, lengths := ctx.Input(0), ctx.Input(1)
	out, err := ctx.Allocate(0, t.DType(), t.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	args := []uint64{out.Address(), t.Address(), lengths.Address(), indexKind(lengths.DType())}
	for _, d := range []int{seq, batch} {
		size, step := divisor(t.Dim(d), t.Len()), divisor(t.Shape()[d+1:].Elements(), t.Len())
		args = append(args, size[0], size[1], step[0], step[1])
	}
	a := accelerator(ctx.Device)
	a.Launch(ctx, elementwise(a, cellFunction("reverse_sequence", t.DType().Size()), t.Len(), append(args, uint64(t.Len()))...))
	return nil
}

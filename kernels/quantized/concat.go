package quantized

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// concatRows returns the rows of QuantizedConcat for one type of numbers.
func concatRows[T number](dtype tensor.DType) []kernels.Def {
	return rowOf(kernels.Always(func(ctx *kernels.Context) error { return concat[T](ctx, dtype) }), "T", dtype)
}

// concat is QuantizedConcat. It concatenates tensors, in a range that includes all of theirs.
func concat[T number](ctx *kernels.Context, dtype tensor.DType) error {
	n := (len(ctx.Inputs) - 1) / 3
	if at := ctx.Input(0); at.Rank() != 0 {
		return status.InvalidArgumentf("Concat dim tensor should be a scalar integer, but got shape %v", at.Shape())
	}
	axis, err := args.ScalarInt(ctx, 0, "concat_dim")
	if err != nil {
		return err
	}
	values := args.Inputs(ctx, 1, n+1)
	first := values[0].Shape()
	if axis < 0 || axis >= int64(len(first)) {
		return status.InvalidArgumentf("ConcatOp : Expected concatenating dimensions in the range [0, %d), but got %d", len(first), axis)
	}
	ranges, into, err := concatRanges[T](ctx, n)
	if err != nil {
		return err
	}
	shape := first.Clone()
	shape[axis] = 0
	for i, v := range values {
		if err := args.CheckType(ctx, 1+i, dtype); err != nil {
			return err
		}
		if v.Rank() != len(first) {
			return status.InvalidArgumentf("ConcatOp : Ranks of all input tensors should match: shape[0] = %v vs. shape[%d] = %v", first, i, v.Shape())
		}
		for d, size := range v.Shape() {
			if int64(d) != axis && size != first[d] {
				return status.InvalidArgumentf("ConcatOp : Dimensions of inputs should match: shape[0] = %v vs. shape[%d] = %v", first, i, v.Shape())
			}
		}
		shape[axis] += v.Shape()[axis]
	}
	out, err := ctx.Allocate(0, dtype, shape)
	if err != nil {
		return err
	}
	before, after := shapes.Around(shape, int(axis))
	dst, row := tensor.Of[T](out), int(shape[axis])*after
	begin := 0
	for i, v := range values {
		src, part := tensor.Of[T](v), v.Dim(int(axis))*after
		for b := range before {
			to, from := dst[b*row+begin:][:part], src[b*part:][:part]
			if ranges[i] == into {
				copy(to, from)
			} else {
				throughFloats(to, from, ranges[i], into)
			}
		}
		begin += part
	}
	return into.put(ctx, 1)
}

// concatRanges returns the ranges of n inputs, and the range of the output.
func concatRanges[T number](ctx *kernels.Context, n int) (ranges []span, all span, err error) {
	all = span{math.MaxFloat32, -math.MaxFloat32}
	for i := range n {
		var ends [2]float32
		for k, name := range []string{"input_mins", "input_maxes"} {
			at := 1 + (1+k)*n + i
			if err := args.CheckType(ctx, at, tensor.Float32); err != nil {
				return nil, all, err
			}
			t := ctx.Input(at)
			if t.Len() != 1 {
				return nil, all, status.InvalidArgumentf("%s each tensor's num elements must be 1, given num elements %d in index %d", name, t.Len(), i)
			}
			ends[k] = tensor.Of[float32](t)[0]
		}
		ranges = append(ranges, span{ends[0], ends[1]})
		all = span{smaller(all.min, ends[0]), larger(all.max, ends[1])}
	}
	all.min = smaller(0, all.min)
	if lowest, _ := limits[T](); lowest < 0 {
		widest := larger(-all.min, larger(-all.max, all.max))
		all = span{-widest, widest}
	}
	return ranges, all, nil
}

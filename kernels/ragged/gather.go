package ragged

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// newRaggedGather returns the kernel that picks rows of a ragged tensor.
func newRaggedGather(c *kernels.Construction) (any, error) {
	dtype, err := args.IntAttr(c, "Tsplits")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error { return raggedGather(ctx, dtype) }), nil
}

func raggedGather(ctx *kernels.Context, dtype tensor.DType) error {
	n := len(ctx.Inputs) - 2
	values, indices := ctx.Input(n), ctx.Input(n+1)
	if n == 0 {
		return status.InvalidArgumentf("params_nested_splits must be non empty")
	}
	if ctx.Input(0).Rank() == 0 {
		return status.InvalidArgumentf("Split tensors must not be scalars")
	}
	list, err := args.ReadIndices(indices)
	if err != nil {
		return err
	}
	defer list.Free()
	if err := list.Within(indices.Shape(), int64(ctx.Input(0).Dim(0)-1)); err != nil {
		return err
	}
	if values.Rank() == 0 {
		return status.InvalidArgumentf("params.rank must be nonzero")
	}
	params, err := gatherSplits(ctx, n, values.Dim(0))
	if err != nil {
		return err
	}
	rank := indices.Rank()
	rows := 1
	for d := range rank - 1 {
		rows *= indices.Dim(d)
		splits := make([]int64, rows+1)
		for i := range splits {
			splits[i] = int64(i * indices.Dim(d+1))
		}
		if err := args.OutputInts(ctx, d, dtype, splits); err != nil {
			return err
		}
	}
	// lo and hi bound the range of rows to pick for each index, in the current dimension.
	lo, hi := make([]int64, len(list.V)), make([]int64, len(list.V))
	for i, x := range list.V {
		lo[i], hi[i] = x, x+1
	}
	for d, splits := range params {
		if o := d + rank - 1; o >= 0 {
			if err := gatherRows(ctx, o, dtype, splits, lo, hi); err != nil {
				return err
			}
		}
		for i := range lo {
			lo[i], hi[i] = splits[lo[i]], splits[hi[i]]
		}
	}
	count := int64(0)
	for i := range lo {
		count += hi[i] - lo[i]
	}
	out, err := ctx.Allocate(n+rank-1, values.DType(), shapes.Replaced(values.Shape(), 0, 1, count))
	if err != nil || out.Len() == 0 {
		return err
	}
	width, to := out.Len()/int(count), 0
	for i := range lo {
		if size := int(hi[i]-lo[i]) * width; size > 0 {
			layout.Move(ctx, out, values, layout.NewNest([]int{size}, []int{1}, []int{1}, to, int(lo[i])*width))
			to += size
		}
	}
	return nil
}

// gatherRows sets output o to the splits of the picked rows. Allocating the output checks their number.
func gatherRows(ctx *kernels.Context, o int, dtype tensor.DType, splits, lo, hi []int64) error {
	count := int64(1)
	for i := range lo {
		count += hi[i] - lo[i]
	}
	out, err := ctx.Allocate(o, dtype, tensor.Shape{count})
	if err != nil {
		return err
	}
	at, last := 0, int64(0)
	put := func(x int64) {
		if dtype == tensor.Int64 {
			tensor.Of[int64](out)[at] = x
		} else {
			tensor.Of[int32](out)[at] = int32(x)
		}
		at, last = at+1, x
	}
	put(0)
	for i := range lo {
		base := last - splits[lo[i]]
		for j := lo[i]; j < hi[i]; j++ {
			put(splits[j+1] + base)
		}
	}
	return nil
}

// gatherSplits reads the first n inputs, and checks that each stays within the next one, and the last one within the values.
func gatherSplits(ctx *kernels.Context, n, values int) (params [][]int64, err error) {
	params = make([][]int64, n)
	for d := range params {
		if params[d], err = ctx.Ints(d); err != nil {
			return nil, err
		}
	}
	for d, splits := range params {
		end := values
		if d+1 < n {
			end = len(params[d+1]) - 1
		}
		if len(splits) == 0 {
			return nil, status.InvalidArgumentf("Ragged splits may not be empty")
		}
		if splits[0] < 0 {
			return nil, status.InvalidArgumentf("Ragged splits must be non-negative")
		}
		if splits[len(splits)-1] > int64(end) {
			return nil, status.InvalidArgumentf("Ragged splits must not point past values")
		}
		for i := 1; i < len(splits); i++ {
			if splits[i-1] > splits[i] {
				return nil, status.InvalidArgumentf("Ragged splits must be sorted")
			}
		}
	}
	return params, nil
}

// raggedToSparse converts a ragged tensor to a sparse one.
func raggedToSparse(ctx *kernels.Context) error {
	n := len(ctx.Inputs) - 1
	values := ctx.Input(n)
	splits, err := sparseSplits(ctx, n)
	if err != nil {
		return err
	}
	inner := values.Shape()[1:]
	width := inner.Elements()
	indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(values.Len()), int64(n + values.Rank())})
	if err != nil {
		return err
	}
	writeCoordinates(tensor.Of[int64](indices), splits, inner, width, values.Dim(0))
	ctx.SetOutput(1, values.Reshaped(tensor.Shape{int64(values.Len())}))
	shape := []int64{int64(len(splits[0]) - 1)}
	for _, s := range splits {
		shape = append(shape, longestRow(true, s))
	}
	return args.OutputInts(ctx, 2, tensor.Int64, append(shape, inner...))
}

// sparseSplits reads the first n inputs, and checks that they match one another and the values.
func sparseSplits(ctx *kernels.Context, n int) (splits [][]int64, err error) {
	values := ctx.Input(n)
	if n == 0 {
		return nil, status.InvalidArgumentf("rt_nested_splits must be non empty")
	}
	if values.Rank() == 0 {
		return nil, status.InvalidArgumentf("Requires flat_values to have rank>=1, but is 0.")
	}
	splits = make([][]int64, n)
	mismatch := status.InvalidArgumentf("Final value of ragged splits must match the length the corresponding ragged values.")
	for d := range splits {
		if splits[d], err = ctx.Ints(d); err != nil {
			return nil, err
		}
		s := splits[d]
		if len(s) == 0 {
			return nil, status.InvalidArgumentf("ragged splits may not be empty.")
		}
		if s[0] != 0 {
			return nil, status.InvalidArgumentf("First value of ragged splits must be 0.")
		}
		for i := 1; i < len(s); i++ {
			if s[i] < s[i-1] {
				return nil, status.InvalidArgumentf("Ragged splits should be non decreasing, but we got %d followed by %d", s[i-1], s[i])
			}
		}
		if d > 0 && int64(len(s)) != splits[d-1][len(splits[d-1])-1]+1 {
			return nil, mismatch
		}
	}
	if last := splits[n-1]; int64(values.Dim(0)) != last[len(last)-1] {
		return nil, mismatch
	}
	return splits, nil
}

// writeCoordinates writes the coordinates of each element of the values, which are rows of width elements.
func writeCoordinates(at []int64, splits [][]int64, inner tensor.Shape, width, rows int) {
	n := len(splits)
	pos := make([]int64, n) // the row of each dimension that contains the current value
	for row := range rows {
		child := int64(row)
		for d := n - 1; d >= 0; d-- {
			for splits[d][pos[d]+1] <= child {
				pos[d]++
			}
			child = pos[d]
		}
		for e := range width {
			at[0] = pos[0]
			for d := 1; d < n; d++ {
				at[d] = pos[d] - splits[d-1][pos[d-1]]
			}
			at[n] = int64(row) - splits[n-1][pos[n-1]]
			rest := e
			for d := len(inner) - 1; d >= 0; d-- {
				at[n+1+d] = int64(rest) % inner[d]
				rest /= int(inner[d])
			}
			at = at[n+1+len(inner):]
		}
	}
}

package array

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// dynamicPartition distributes the rows of input 0 to the outputs whose indices are in input 1.
func dynamicPartition(ctx *kernels.Context) error {
	data, partitions := ctx.Input(0), ctx.Input(1)
	lead := partitions.Rank()
	if data.Rank() < lead || !data.Shape()[:lead].Equal(partitions.Shape()) {
		return status.InvalidArgumentf("data.shape must start with partitions.shape, got data.shape = %v, partitions.shape = %v", data.Shape(), partitions.Shape())
	}
	at, err := args.ReadIndices(partitions)
	if err != nil {
		return err
	}
	defer at.Free()
	rows := make([][]int64, len(ctx.Outputs))
	for i, p := range at.V {
		if p < 0 || p >= int64(len(rows)) {
			return status.InvalidArgumentf("partitions%s = %d is not in [0, %d)", args.Position(partitions.Shape(), i), p, len(rows))
		}
		rows[p] = append(rows[p], int64(i))
	}
	inner := data.Shape()[lead:]
	for o, from := range rows {
		out, err := ctx.Allocate(o, data.DType(), shapes.Replaced(inner, 0, 0, int64(len(from))))
		if err != nil {
			return err
		}
		if err := layout.MoveAt(ctx, out, data, nil, from, inner.Elements(), len(from)); err != nil {
			return err
		}
	}
	return nil
}

// dynamicStitch merges the second half of the inputs into one tensor. The first half of the inputs holds the index of each row; later rows
// replace earlier ones.
func dynamicStitch(ctx *kernels.Context) error {
	n := len(ctx.Inputs) / 2
	if n == 0 || len(ctx.Inputs)%2 != 0 {
		return status.InvalidArgumentf("%s: Must have even number of arguments, and some", ctx.Node.Op)
	}
	first, firstData := ctx.Input(0), ctx.Input(n)
	var inner tensor.Shape
	size := int64(0)
	lists := make([]args.IndexList, 0, n)
	defer func() {
		for _, l := range lists {
			l.Free()
		}
	}()
	for i := range n {
		indices, data := ctx.Input(i), ctx.Input(n+i)
		lead := indices.Rank()
		if data.Rank() < lead || !data.Shape()[:lead].Equal(indices.Shape()) {
			return status.InvalidArgumentf("data[%d].shape = %v does not start with indices[%d].shape = %v", i, data.Shape(), i, indices.Shape())
		}
		if i == 0 {
			inner = data.Shape()[lead:]
		} else if !data.Shape()[lead:].Equal(inner) || data.DType() != firstData.DType() {
			return status.InvalidArgumentf("Need data[0].shape[%d:] = data[%d].shape[%d:], got data[0].shape = %v, data[%d].shape = %v, indices[0].shape = %v, indices[%d].shape = %v",
				first.Rank(), i, lead, firstData.Shape(), i, data.Shape(), first.Shape(), i, indices.Shape())
		}
		list, err := args.ReadIndices(indices)
		if err != nil {
			return err
		}
		lists = append(lists, list)
		for _, v := range list.V {
			if v < 0 {
				return status.InvalidArgumentf("indices[%d] is out of range", i)
			}
			size = max(size, v+1)
		}
	}
	shape := shapes.Replaced(inner, 0, 0, size)
	if _, err := shape.NumElements(); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, firstData.DType(), shape)
	if err != nil {
		return err
	}
	// Rows that no index names are undefined in TensorFlow. Here they are zero, so that they never expose old memory.
	layout.Zero(ctx, out)
	per := inner.Elements()
	for i, l := range lists {
		if err := layout.MoveAt(ctx, out, ctx.Input(n+i), l.V, nil, per, len(l.V)); err != nil {
			return err
		}
	}
	return nil
}

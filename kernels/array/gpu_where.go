package array

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/layout"
)

func addWhereGPU(table *kernels.Table) {
	table.Add(kernels.Def{Op: "Where", Device: "GPU", Types: map[string][]tensor.DType{"T": dtypes.Variables}, New: func(*kernels.Construction) (any, error) {
		return kernels.AsyncFunc(whereOnGPU), nil
	}})
}

// signs holds the sign bits of each type, which do not distinguish an element from zero.
var signs = map[tensor.DType][2]uint64{
	tensor.Float16: {0x8000}, tensor.BFloat16: {0x8000}, tensor.Float32: {1 << 31}, tensor.Float64: {1 << 63},
	tensor.Complex64: {1<<31 | 1<<63}, tensor.Complex128: {1 << 63, 1 << 63},
}

// mostSpans bounds the number of blocks that count.
const mostSpans = 1024

// whereOnGPU counts the nonzero elements, waits for the count, and lists their coordinates.
func whereOnGPU(ctx *kernels.Context, done func(error)) {
	in := ctx.Input(0)
	if in.Rank() == 0 {
		done(status.InvalidArgumentf("WhereOp : Unhandled input dimensions: 0"))
		return
	}
	shape, err := launch.PointWords(in.Shape())
	if err != nil {
		done(err)
		return
	}
	if in.Len() == 0 {
		_, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{0, int64(in.Rank())})
		done(err)
		return
	}
	n := in.Len()
	span := (n + mostSpans - 1) / mostSpans
	span = (span + launch.Threads - 1) / launch.Threads * launch.Threads
	blocks := (n + span - 1) / span
	starts, err := layout.Zeros(ctx, ctx.Device.Memory(), tensor.Uint64, tensor.Shape{int64(blocks)})
	if err != nil {
		done(err)
		return
	}
	total, err := ctx.Device.Memory().New(tensor.Uint64, nil)
	if err != nil {
		starts.Release()
		done(err)
		return
	}
	a := kernels.AcceleratorOf(ctx.Device)
	size := in.DType().Size()
	words := []uint64{in.Address(), uint64(n), ^signs[in.DType()][0], ^signs[in.DType()][1], uint64(span), starts.Address()}
	a.Launch(ctx, kernels.Launch{Function: launch.CellFunction("where_count", size), Grid: [3]int{blocks}, Block: [3]int{launch.Threads}, Args: words})
	a.Launch(ctx, kernels.Launch{Function: "where_starts", Block: [3]int{32}, Args: []uint64{starts.Address(), uint64(blocks), total.Address()}})
	a.Download(ctx, total, func(count *tensor.Tensor, err error) {
		defer starts.Release()
		if err != nil {
			done(err)
			return
		}
		rows := int64(tensor.Of[uint64](count)[0])
		count.Release()
		out, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{rows, int64(in.Rank())})
		if err == nil && rows > 0 {
			a.Launch(ctx, kernels.Launch{Function: launch.CellFunction("where_write", size), Grid: [3]int{blocks}, Block: [3]int{launch.Threads},
				Args: append(append(words, shape...), out.Address())})
		}
		done(err)
	})
	total.Release()
}

package nn

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// gpuTopK is TopK and TopKV2 on an accelerator. input is the input that holds the count, or -1.
func gpuTopK(dtype, index tensor.DType, count int64, input int) kernels.Func {
	return func(ctx *kernels.Context) error {
		values, indices, err := topKOutputs(ctx, dtype, index, count, input)
		if err != nil || values.Len() == 0 {
			return err
		}
		in := ctx.Input(0)
		columns, k := in.Dim(in.Rank()-1), values.Dim(in.Rank()-1)
		rows := in.Len() / columns
		a := kernels.AcceleratorOf(ctx.Device)
		args := []uint64{in.Address(), values.Address(), indices.Address(), launch.IndexKind(index)}
		// Either a block scans the row k times, or one thread per element scans it once.
		if k < 8 || columns > 1<<15 {
			a.Launch(ctx, kernels.Launch{Function: "top_next_" + launch.Suffixes[dtype], Grid: [3]int{min(rows, 32*a.Card().Processors)}, Block: [3]int{launch.Threads},
				Args: append(args, uint64(rows), uint64(columns), uint64(k))})
			return nil
		}
		by := launch.Divisor(columns, in.Len())
		a.Launch(ctx, launch.PerElement(a, "top_rank_"+launch.Suffixes[dtype], in.Len(), append(args, by[0], by[1], uint64(k), uint64(in.Len()))...))
		return nil
	}
}

// gpuInTopK is InTopK and InTopKV2 on an accelerator.
func gpuInTopK(k *inTopKKernel) kernels.Func {
	return func(ctx *kernels.Context) error {
		predictions, targets := ctx.Input(0), ctx.Input(1)
		out, count, err := k.output(ctx)
		if err != nil || out.Len() == 0 {
			return err
		}
		a := kernels.AcceleratorOf(ctx.Device)
		a.Launch(ctx, eachRowOn(a, "in_top_k_f32", out.Len(), predictions.Dim(1),
			[]uint64{predictions.Address(), targets.Address(), launch.IndexKind(targets.DType()), out.Address()}, uint64(count)))
		return nil
	}
}

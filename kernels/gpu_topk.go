package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// gpuTopK is TopK and TopKV2 on an accelerator. input is -1, or the one that has the count.
func gpuTopK(dtype, index tensor.DType, count int64, input int) Func {
	return func(ctx *Context) error {
		values, indices, err := topKOutputs(ctx, dtype, index, count, input)
		if err != nil || values.Len() == 0 {
			return err
		}
		in := ctx.Input(0)
		columns, k := in.Dim(in.Rank()-1), values.Dim(in.Rank()-1)
		rows := in.Len() / columns
		a := accelerator(ctx.Device)
		args := []uint64{in.Address(), values.Address(), indices.Address(), indexKind(index)}
		// Looking k times through a row by a block, or for each element once by a thread.
		if k < 8 || columns > 1<<15 {
			a.Launch(ctx, Launch{Function: "top_next_" + suffixes[dtype], Grid: [3]int{min(rows, 32*a.Card().Processors)}, Block: [3]int{threads},
				Args: append(args, uint64(rows), uint64(columns), uint64(k))})
			return nil
		}
		by := divisor(columns, in.Len())
		a.Launch(ctx, elementwise(a, "top_rank_"+suffixes[dtype], in.Len(), append(args, by[0], by[1], uint64(k), uint64(in.Len()))...))
		return nil
	}
}

// gpuInTopK is InTopK and InTopKV2 on an accelerator.
func gpuInTopK(k *inTopKKernel) Func {
	return func(ctx *Context) error {
		predictions, targets := ctx.Input(0), ctx.Input(1)
		out, count, err := k.output(ctx)
		if err != nil || out.Len() == 0 {
			return err
		}
		a := accelerator(ctx.Device)
		a.Launch(ctx, eachRowOn(a, "in_top_k_f32", out.Len(), predictions.Dim(1),
			[]uint64{predictions.Address(), targets.Address(), indexKind(targets.DType()), out.Address()}, uint64(count)))
		return nil
	}
}

func init() {
	for _, dtype := range append(floatTypes[:len(floatTypes):len(floatTypes)], tensor.Int32, tensor.Int64) {
		Register(
			Def{Op: "TopK", Device: "GPU", Types: only("T", dtype), New: func(c *Construction) (any, error) {
				k, err := c.Attrs().Int("k")
				return gpuTopK(dtype, tensor.Int32, k, -1), err
			}},
			Def{Op: "TopKV2", Device: "GPU", Types: only("T", dtype), HostInputs: []string{"k"}, New: func(c *Construction) (any, error) {
				index, err := topKIndex(c)
				return gpuTopK(dtype, index, 0, 1), err
			}})
	}
	Register(
		Def{Op: "InTopK", Device: "GPU", New: func(c *Construction) (any, error) {
			k, err := c.Attrs().Int("k")
			return gpuInTopK(&inTopKKernel{k: k}), err
		}},
		Def{Op: "InTopKV2", Device: "GPU", HostInputs: []string{"k"}, New: always(gpuInTopK(&inTopKKernel{fromInput: true}))})
}

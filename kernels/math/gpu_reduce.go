package math

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
)

// gpuReduceKernel reduces tensors over axes, which it reads on the host.
type gpuReduceKernel struct {
	reduce.GPUReduction
	dtype tensor.DType
	keep  bool
}

func (k *gpuReduceKernel) Compute(ctx *kernels.Context) error {
	data := ctx.Inputs[0].Tensor
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	var plan reduce.Plan
	if err := plan.Make(data.Shape(), ctx.Inputs[1].Tensor, k.keep); err != nil {
		return err
	}
	if plan.Trivial() && k.First == k.Then {
		ctx.SetOutput(0, data.Reshaped(plan.Out))
		return nil
	}
	out, err := ctx.Allocate(0, k.dtype, plan.Out)
	if err != nil {
		return err
	}
	return k.Reduce(ctx, out, data, plan.Groups, plan.FirstReduced)
}

// gpuReductionRows registers a reduction for each of the types.
func gpuReductionRows(table *kernels.Table, op string, r reduce.GPUReduction, types ...tensor.DType) {
	for _, dtype := range types {
		row := kernels.Def{Op: op, Device: "GPU", Types: dtypes.Only("T", dtype), HostInputs: []string{"reduction_indices"}, New: func(c *kernels.Construction) (any, error) {
			keep, err := c.Attrs().Bool("keep_dims")
			return &gpuReduceKernel{r, dtype, keep}, err
		}}
		if dtype == tensor.Bool {
			row.Types = nil // the op has no type attribute
		}
		table.Add(row)
	}
}

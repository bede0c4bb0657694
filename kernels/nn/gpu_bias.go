package nn

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// deviceBiasGrad is BiasAddGrad on an accelerator. It uses the functions in bias.cu.
type deviceBiasGrad struct {
	dtype         tensor.DType
	channelsFirst bool
}

func (k *deviceBiasGrad) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	channels, groups, err := biasGroups(in.Shape(), k.channelsFirst)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), err); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, tensor.Shape{channels})
	if err != nil || out.Len() == 0 {
		return err
	}
	a := kernels.AcceleratorOf(ctx.Device)
	if in.Len() == 0 {
		a.Fill(ctx, out, 0)
		return nil
	}
	rows, spatial := groups[0], 1
	if k.channelsFirst {
		spatial = groups[2]
		rows *= spatial
	}
	c := newColumnReduction(a, rows, out.Len(), spatial, k.channelsFirst)
	sums, err := ctx.Device.Memory().New(gemm.SumType(k.dtype), tensor.Shape{int64(c.parts), channels})
	if err != nil {
		return err
	}
	defer sums.Release()
	c.launch(ctx, a, "bias_grad_"+launch.Suffixes[k.dtype], 1, append([]uint64{in.Address(), sums.Address()}, c.words()...))
	gemm.AddSplits(ctx, out, sums.Address(), c.parts)
	return nil
}

// gpuBias is BiasAdd on an accelerator.
type gpuBias struct {
	elementwise.GPUKernel
	pack          int
	channelsFirst bool
}

func (k *gpuBias) Compute(ctx *kernels.Context) error {
	in, bias := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.In), args.CheckType(ctx, 1, k.In)); err != nil {
		return err
	}
	channel, err := biasChannel(in, bias, k.channelsFirst)
	if err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, k.Out, in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	elementwise.LaunchBroadcast(ctx, k.Function, k.pack, out, elementwise.AsIs(in), elementwise.Operand{Tensor: bias, Shape: shapes.LeadingShape(bias.Len(), in.Rank()-channel)})
	return nil
}

func biasOnGPU(table *kernels.Table, t launch.Type) {
	k := gpuBias{GPUKernel: elementwise.GPUKernel{Function: "add_" + t.Suffix, In: t.DType, Out: t.DType}, pack: launch.PackOf(t.DType)}
	table.Add(elementwise.RowOnGPU("BiasAddV1", "T", t.DType, &k),
		kernels.Def{Op: "BiasAdd", Device: "GPU", Types: map[string][]tensor.DType{"T": {t.DType}}, New: func(c *kernels.Construction) (any, error) {
			own := k
			var err error
			own.channelsFirst, err = args.ChannelsFirst(c)
			return &own, err
		}})
}

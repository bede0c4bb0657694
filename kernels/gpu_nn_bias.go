package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// deviceBiasGrad is BiasAddGrad on an accelerator, by the functions in bias.cu.
type deviceBiasGrad struct {
	dtype         tensor.DType
	channelsFirst bool
}

func (k *deviceBiasGrad) Compute(ctx *Context) error {
	in := ctx.Input(0)
	channels, groups, err := biasGroups(in.Shape(), k.channelsFirst)
	if err := firstError(checkType(ctx, 0, k.dtype), err); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, tensor.Shape{channels})
	if err != nil || out.Len() == 0 {
		return err
	}
	a := accelerator(ctx.Device)
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
	sums, err := ctx.Device.Memory().New(sumType(k.dtype), tensor.Shape{int64(c.parts), channels})
	if err != nil {
		return err
	}
	defer sums.Release()
	c.launch(ctx, a, "bias_grad_"+suffixes[k.dtype], 1, append([]uint64{in.Address(), sums.Address()}, c.words()...))
	addSplits(ctx, out, sums.Address(), c.parts)
	return nil
}

// gpuBias is BiasAdd.
type gpuBias struct {
	gpuKernel
	pack          int
	channelsFirst bool
}

func (k *gpuBias) Compute(ctx *Context) error {
	in, bias := ctx.Input(0), ctx.Input(1)
	if err := firstError(checkType(ctx, 0, k.in), checkType(ctx, 1, k.in)); err != nil {
		return err
	}
	channel, err := biasChannel(in, bias, k.channelsFirst)
	if err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, k.out, in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	launchBroadcast(ctx, k.function, k.pack, out, asIs(in), operand{bias, leadingShape(bias.Len(), in.Rank()-channel)})
	return nil
}

func biasOnGPU(t gpuType) {
	k := gpuBias{gpuKernel: gpuKernel{"add_" + t.suffix, t.dtype, t.dtype}, pack: packOf(t.dtype)}
	Register(gpuRow("BiasAddV1", "T", t.dtype, &k),
		Def{Op: "BiasAdd", Device: "GPU", Types: map[string][]tensor.DType{"T": {t.dtype}}, New: func(c *Construction) (any, error) {
			own := k
			var err error
			own.channelsFirst, err = channelsFirst(c)
			return &own, err
		}})
}

func init() {
	for _, t := range append(gpuBits, gpuReals...) {
		biasOnGPU(t)
	}
	eachDenseType(func(dtype tensor.DType) {
		Register(Def{Op: "BiasAddGrad", Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}}, Expensive: true, New: func(c *Construction) (any, error) {
			first, err := channelsFirst(c)
			return &deviceBiasGrad{dtype, first}, err
		}})
	})
}

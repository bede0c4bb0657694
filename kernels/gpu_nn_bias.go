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

func init() {
	eachDenseType(func(dtype tensor.DType) {
		Register(Def{Op: "BiasAddGrad", Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}}, Expensive: true, New: func(c *Construction) (any, error) {
			first, err := channelsFirst(c)
			return &deviceBiasGrad{dtype, first}, err
		}})
	})
}

package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// biasKernel adds one value a channel: a broadcast sum in which the shape of the bias is given
// the dimensions that follow the channels.
type biasKernel struct {
	sum           *elementwise.BinaryKernel
	channelsFirst bool
}

func (k *biasKernel) Compute(ctx *kernels.Context) error {
	in, bias := ctx.Inputs[0].Tensor, ctx.Inputs[1].Tensor
	dtype := k.sum.In.DType
	if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, dtype)); err != nil {
		return err
	}
	channel, err := biasChannel(in, bias, k.channelsFirst)
	if err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, dtype, in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	if channel == in.Rank()-1 {
		k.sum.Repeat(ctx, out, in, bias, false)
		return nil
	}
	shape := shapes.LeadingShape(bias.Len(), in.Rank()-channel)
	k.sum.Rows(ctx, out, elementwise.NewWalk(in.Shape(), in.Shape(), shape), in, bias)
	return nil
}

// biasChannel is the dimension of the channels, which a bias must have one value for each of.
func biasChannel(in, bias *tensor.Tensor, channelsFirst bool) (int, error) {
	if in.Rank() < 2 {
		return 0, status.InvalidArgumentf("Input tensor must be at least 2D: %v", in.Shape())
	}
	if bias.Rank() != 1 {
		return 0, status.InvalidArgumentf("Biases must be 1D: %v", bias.Shape())
	}
	channel := in.Rank() - 1
	if channelsFirst {
		channel = 1
	}
	if bias.Dim(0) != in.Dim(channel) {
		return 0, status.InvalidArgumentf("Must provide as many biases as the last dimension of the input tensor: %v vs. %v", bias.Shape(), in.Shape())
	}
	return channel, nil
}

// biasGradKernel sums over everything but the channels.
type biasGradKernel[T any] struct {
	sum           reduce.Reducer[T]
	dtype         tensor.DType
	channelsFirst bool
}

// biasGroups are the dimensions of a gradient as a reduction takes them.
func biasGroups(in tensor.Shape, channelsFirst bool) (channels int64, groups []int, err error) {
	if len(in) < 2 {
		return 0, nil, status.InvalidArgumentf("Input tensor must be at least 2D: %v", in)
	}
	if !channelsFirst {
		last := len(in) - 1
		return in[last], []int{in[:last].Elements(), int(in[last])}, nil
	}
	return in[1], []int{int(in[0]), int(in[1]), in[2:].Elements()}, nil
}

func (k *biasGradKernel[T]) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	channels, groups, err := biasGroups(in.Shape(), k.channelsFirst)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), err); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, tensor.Shape{channels})
	if err != nil {
		return err
	}
	return k.sum.Reduce(ctx.Device, element.ViewOf[T](out), element.ViewOf[T](in), groups, true)
}

// registerBias makes the rows of BiasAdd and BiasAddV1 of those of an addition.
func registerBias(table *kernels.Table, sums elementwise.BinaryRows) {
	for _, row := range sums {
		sum := &elementwise.BinaryKernel{BinaryRow: row, BinaryOptions: elementwise.BinaryOptions{Grain: element.CheapGrain}}
		types := map[string][]tensor.DType{"T": {row.In.DType}}
		table.Add(
			kernels.Def{Op: "BiasAdd", Types: types, New: func(c *kernels.Construction) (any, error) {
				first, err := args.ChannelsFirst(c)
				return &biasKernel{sum, first}, err
			}},
			kernels.Def{Op: "BiasAddV1", Types: types, New: func(*kernels.Construction) (any, error) { return &biasKernel{sum, false}, nil }})
	}
}

// registerBiasGrad makes the row of BiasAddGrad for one element type.
func registerBiasGrad(table *kernels.Table, dtype tensor.DType, kernel func(channelsFirst bool) kernels.Kernel) {
	table.Add(kernels.Def{Op: "BiasAddGrad", Types: map[string][]tensor.DType{"T": {dtype}}, Expensive: true, New: func(c *kernels.Construction) (any, error) {
		first, err := args.ChannelsFirst(c)
		return kernel(first), err
	}})
}

func biasGrad[T any](table *kernels.Table, sum reduce.Reducer[T]) {
	dtype := element.DTypeOf[T]()
	registerBiasGrad(table, dtype, func(first bool) kernels.Kernel { return &biasGradKernel[T]{sum, dtype, first} })
}

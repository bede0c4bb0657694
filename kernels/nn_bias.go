package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// channelsFirst reads the attribute data_format of ops on images: true for NCHW (and NCDHW).
func channelsFirst(c *Construction) (bool, error) {
	format, err := c.Attrs().Str("data_format")
	if err != nil {
		return false, err
	}
	switch format {
	case "NHWC", "NDHWC":
		return false, nil
	case "NCHW", "NCDHW":
		return true, nil
	}
	return false, status.InvalidArgumentf("Invalid data format")
}

// biasKernel adds one value a channel: a broadcast sum in which the shape of the bias is given
// the dimensions that follow the channels.
type biasKernel struct {
	sum           *binaryKernel
	channelsFirst bool
}

func (k *biasKernel) Compute(ctx *Context) error {
	in, bias := ctx.Inputs[0].Tensor, ctx.Inputs[1].Tensor
	dtype := k.sum.in.dtype
	if err := firstError(checkType(ctx, 0, dtype), checkType(ctx, 1, dtype)); err != nil {
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
		k.sum.repeat(ctx, out, in, bias, false)
		return nil
	}
	shape := leadingShape(bias.Len(), in.Rank()-channel)
	k.sum.rows(ctx, out, newWalk(in.Shape(), in.Shape(), shape), in, bias)
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
	sum           reducer[T]
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

func (k *biasGradKernel[T]) Compute(ctx *Context) error {
	in := ctx.Input(0)
	channels, groups, err := biasGroups(in.Shape(), k.channelsFirst)
	if err := firstError(checkType(ctx, 0, k.dtype), err); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, tensor.Shape{channels})
	if err != nil {
		return err
	}
	return k.sum.reduce(ctx.Device, viewOf[T](out), viewOf[T](in), groups, true)
}

// registerBias makes the rows of BiasAdd and BiasAddV1 of those of an addition.
func registerBias(sums binaryRows) {
	for _, row := range sums {
		sum := &binaryKernel{binaryRow: row, binaryOptions: binaryOptions{grain: cheapGrain}}
		types := map[string][]tensor.DType{"T": {row.in.dtype}}
		Register(
			Def{Op: "BiasAdd", Types: types, New: func(c *Construction) (any, error) {
				first, err := channelsFirst(c)
				return &biasKernel{sum, first}, err
			}},
			Def{Op: "BiasAddV1", Types: types, New: func(*Construction) (any, error) { return &biasKernel{sum, false}, nil }})
	}
}

// registerBiasGrad makes the row of BiasAddGrad for one element type.
func registerBiasGrad(dtype tensor.DType, kernel func(channelsFirst bool) Kernel) {
	Register(Def{Op: "BiasAddGrad", Types: map[string][]tensor.DType{"T": {dtype}}, Expensive: true, New: func(c *Construction) (any, error) {
		first, err := channelsFirst(c)
		return kernel(first), err
	}})
}

func biasGrad[T any](sum reducer[T]) {
	dtype := dtypeOf[T]()
	registerBiasGrad(dtype, func(first bool) Kernel { return &biasGradKernel[T]{sum, dtype, first} })
}

func init() {
	registerBias(additions())
	biasGrad(sumFloat)
	biasGrad(sums[float64]())
	for _, half := range halfTypes {
		registerBiasGrad(half, func(first bool) Kernel {
			return &viaFloat{inner: &biasGradKernel[float32]{sumFloat, tensor.Float32, first}, half: half}
		})
	}
	biasGrad(sums[int8]())
	biasGrad(sums[int16]())
	biasGrad(sums[int32]())
	biasGrad(sums[int64]())
	biasGrad(sums[uint8]())
	biasGrad(sums[uint16]())
	biasGrad(sums[uint32]())
	biasGrad(sums[uint64]())
	biasGrad(sums[complex64]())
	biasGrad(sums[complex128]())
}

package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// biasKernel adds one value per channel. It is a broadcast sum in which the bias gets a dimension of 1 for each dimension after the
// channels.
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

// Stage implements elementwise.Staged. If the channels come last, the op is a plain broadcast sum.
func (k *biasKernel) Stage() (elementwise.Stage, bool) {
	s, ok := k.sum.Stage()
	s.Shape = func(in, bias tensor.Shape) (tensor.Shape, bool) {
		return in, len(in) >= 2 && len(bias) == 1 && bias[0] == in[len(in)-1]
	}
	return s, ok && !k.channelsFirst
}

// biasChannel returns the channel dimension. The bias must have one value per channel.
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

// biasGradKernel sums over all dimensions except the channels.
type biasGradKernel[T any] struct {
	sum           reduce.Reducer[T]
	dtype         tensor.DType
	channelsFirst bool
}

// biasGroups returns the dimensions of a gradient in the form that reductions take.
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
	return k.sum.Reduce(ctx, element.ViewOf[T](out), element.ViewOf[T](in), groups, true)
}

// biasRows returns the rows of BiasAdd or BiasAddV1, which differ in how they read the layout of images. They are made from the rows of
// addition.
func biasRows(channelsFirst func(c *kernels.Construction) (bool, error)) []kernels.Def {
	var rows []kernels.Def
	for _, row := range elementwise.Additions() {
		sum := &elementwise.BinaryKernel{BinaryRow: row, BinaryOptions: elementwise.BinaryOptions{Grain: element.CheapGrain}}
		rows = append(rows, kernels.Def{Types: dtypes.Only("T", row.In.DType), New: func(c *kernels.Construction) (any, error) {
			first, err := channelsFirst(c)
			return &biasKernel{sum, first}, err
		}})
	}
	return rows
}

// channelsLast returns the layout of ops that have no attribute for it.
func channelsLast(*kernels.Construction) (bool, error) { return false, nil }

// biasGradRows returns the rows of BiasAddGrad.
func biasGradRows() []kernels.Def {
	rows := []kernels.Def{biasGradRow(reduce.SumFloat), biasGradRow(reduce.Sums[float64]())}
	for _, half := range halves.Types {
		rows = append(rows, kernels.Def{Types: dtypes.Only("T", half), Expensive: true, New: halves.Constructor(half, rows[0].New)})
	}
	return append(rows, biasGradRow(reduce.Sums[int8]()), biasGradRow(reduce.Sums[int16]()), biasGradRow(reduce.Sums[int32]()), biasGradRow(reduce.Sums[int64]()),
		biasGradRow(reduce.Sums[uint8]()), biasGradRow(reduce.Sums[uint16]()), biasGradRow(reduce.Sums[uint32]()), biasGradRow(reduce.Sums[uint64]()),
		biasGradRow(reduce.Sums[complex64]()), biasGradRow(reduce.Sums[complex128]()))
}

func biasGradRow[T any](sum reduce.Reducer[T]) kernels.Def {
	dtype := element.DTypeOf[T]()
	return kernels.Def{Types: dtypes.Only("T", dtype), Expensive: true, New: func(c *kernels.Construction) (any, error) {
		first, err := args.ChannelsFirst(c)
		return &biasGradKernel[T]{sum, dtype, first}, err
	}}
}

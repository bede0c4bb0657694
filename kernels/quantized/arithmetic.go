package quantized

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// binary holds the inputs of QuantizedAdd or QuantizedMul and their broadcast output.
type binary struct {
	x, y   []uint8
	xs, ys span
	out    *tensor.Tensor
	walk   func(body func(at, x, y int)) error
}

// walkTime is the time in nanoseconds to find an element and its operands.
const walkTime = 8

// readBinary checks the inputs and allocates the output.
func readBinary(ctx *kernels.Context, refused func(names ...string) func(int, *tensor.Tensor) error, narrowX, narrowY string) (b binary, err error) {
	if err := checkTypes(ctx, tensor.QUint8, tensor.QUint8); err != nil {
		return b, err
	}
	if b.xs, err = spanAt(ctx, 2, refused("min_x", "max_x")); err != nil {
		return b, err
	}
	if b.ys, err = spanAt(ctx, 4, refused("min_y", "max_y")); err != nil {
		return b, err
	}
	x, y := ctx.Input(0), ctx.Input(1)
	shape, ok := shapes.BroadcastShape(x.Shape(), y.Shape())
	if !ok {
		return b, status.InvalidArgumentf("Incompatible shapes: %v vs. %v", x.Shape(), y.Shape())
	}
	if b.out, err = ctx.Allocate(0, tensor.QInt32, shape); err != nil {
		return b, err
	}
	if !(b.xs.max > b.xs.min) {
		return b, status.InvalidArgumentf("%s", narrowX)
	}
	if !(b.ys.max > b.ys.min) {
		return b, status.InvalidArgumentf("%s", narrowY)
	}
	b.x, b.y = tensor.Of[uint8](x), tensor.Of[uint8](y)
	strideX, strideY := broadcastStrides(x.Shape(), shape), broadcastStrides(y.Shape(), shape)
	b.walk = func(body func(at, x, y int)) error {
		counts := make([]int, len(shape))
		i, j := 0, 0
		return ctx.Each(shape.Elements(), walkTime, func(lo, hi int) error {
			for at := lo; at < hi; at++ {
				body(at, i, j)
				for d := len(shape) - 1; d >= 0; d-- {
					counts[d]++
					i, j = i+strideX[d], j+strideY[d]
					if counts[d] < int(shape[d]) {
						break
					}
					i, j = i-counts[d]*strideX[d], j-counts[d]*strideY[d]
					counts[d] = 0
				}
			}
			return nil
		})
	}
	return b, nil
}

// broadcastStrides returns the strides in a tensor of shape from, broadcast to shape to. They are 0 in broadcast dimensions.
func broadcastStrides(from, to tensor.Shape) []int {
	own, out := shapes.StridesOf(from), make([]int, len(to))
	for d, size := range from {
		if size > 1 {
			out[d+len(to)-len(from)] = own[d]
		}
	}
	return out
}

// add is QuantizedAdd. The range of the sums is wide enough for both operands.
func add(ctx *kernels.Context) error {
	b, err := readBinary(ctx, named, "max_x must be larger than min_x.", "max_y must be larger than min_y.")
	if err != nil {
		return err
	}
	if x, y := ctx.Input(0), ctx.Input(1); min(x.Len(), y.Len()) == 0 && x.Len() != 1 && y.Len() != 1 && !x.Shape().Equal(y.Shape()) {
		return status.InvalidArgumentf("Must have some elements to add")
	}
	abs := func(v float32) float32 { return max(v, -v) }
	widest := max(abs(min(b.xs.min, b.ys.min)), abs(max(b.xs.max, b.ys.max))) * (1 << 14)
	s := span{-widest, widest}
	xs, ys := linear(b.xs, s), linear(b.ys, s)
	if len(b.x) == 1 {
		xs[b.x[0]] = quantize[int32](dequantize(b.x[0], b.xs), s)
	} else if len(b.y) == 1 {
		ys[b.y[0]] = quantize[int32](dequantize(b.y[0], b.ys), s)
	}
	dst := tensor.Of[int32](b.out)
	if err := b.walk(func(at, x, y int) { dst[at] = xs[b.x[x]] + ys[b.y[y]] }); err != nil {
		return err
	}
	return s.put(ctx, 1)
}

// linear maps all 8-bit numbers of the range from to 32-bit numbers of the range into, spaced like the first two of them. As in TensorFlow,
// only scalars are converted more precisely.
func linear(from, into span) (to [256]int32) {
	lowest, highest := limits[int32]()
	zero := unclamped[int32](dequantize[uint8](0, from), into)
	step := int64(int32(unclamped[int32](dequantize[uint8](1, from), into) - zero))
	for v := range to {
		to[v] = int32(min(max(zero+int64(v)*step, lowest), highest))
	}
	return to
}

// multiply is QuantizedMul: products of the numbers' distances from zero.
func multiply(ctx *kernels.Context) error {
	scalar := func(names ...string) func(int, *tensor.Tensor) error {
		return func(i int, _ *tensor.Tensor) error { return status.InvalidArgumentf("%s must be a scalar", names[i]) }
	}
	b, err := readBinary(ctx, scalar, "max_x must be larger than min_a.", "max_x must be larger than min_b.")
	if err != nil {
		return err
	}
	zeroX, zeroY := int32(unclamped[uint8](0, b.xs)), int32(unclamped[uint8](0, b.ys))
	dst := tensor.Of[int32](b.out)
	if err := b.walk(func(at, x, y int) { dst[at] = (int32(b.x[x]) - zeroX) * (int32(b.y[y]) - zeroY) }); err != nil {
		return err
	}
	return product[uint8, uint8, int32](b.xs, b.ys).put(ctx, 1)
}

// biasRows returns the rows of QuantizedBiasAdd for one type of numbers.
func biasRows[T number](dtype tensor.DType) []kernels.Def {
	return rowOf(kernels.Always(func(ctx *kernels.Context) error { return addBias[T](ctx, dtype) }), "T1", dtype, "T2", dtype, "out_type", tensor.QInt32)
}

func addBias[T number](ctx *kernels.Context, dtype tensor.DType) error {
	if err := checkTypes(ctx, dtype, dtype); err != nil {
		return err
	}
	in, bias := ctx.Input(0), ctx.Input(1)
	xs, err1 := spanAt(ctx, 2, named("min_input", "max_input"))
	ys, err2 := spanAt(ctx, 4, named("min_bias", "max_bias"))
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	switch {
	case in.Rank() < 2:
		return status.InvalidArgumentf("Input tensor must be at least 2D: %v", in.Shape())
	case bias.Rank() != 1:
		return status.InvalidArgumentf("Biases must be 1D: %v", bias.Shape())
	case bias.Dim(0) != in.Dim(in.Rank()-1):
		return status.InvalidArgumentf("Must provide as many biases as the last dimension of the input tensor: %v vs. %v", bias.Shape(), in.Shape())
	case bias.Len() == 0:
		return status.InvalidArgumentf("Must provide at least 1 bias")
	}
	out, err := ctx.Allocate(0, tensor.QInt32, in.Shape())
	if err != nil {
		return err
	}
	widest := max(xs.max, -xs.min, ys.max, -ys.min) * (1 << 17)
	s := span{-widest, widest}
	m := ctx.Meter()
	defer m.Done()
	biases, err := kernels.Scratch[int32](&m, bias.Len())
	if err != nil {
		return err
	}
	zero := quantize[int32](0, s)
	throughFloats(biases, tensor.Of[T](bias), ys, s)
	src, dst := tensor.Of[T](in), tensor.Of[int32](out)
	element.EachRow(ctx, len(src)/len(biases), len(biases), func(lo, hi int) {
		throughFloats(dst[lo*len(biases):hi*len(biases)], src[lo*len(biases):hi*len(biases)], xs, s)
		for i := lo * len(biases); i < hi*len(biases); i++ {
			dst[i] += biases[i%len(biases)] + zero
		}
	})
	return s.put(ctx, 1)
}

// reluRows returns the rows of QuantizedRelu or, if six is set, of QuantizedRelu6, for one type of numbers. Numbers that stand for negative
// floats become the number for 0. QuantizedRelu6 also replaces those above 6 by the number for 6.
func reluRows[T number](dtype tensor.DType, six bool) []kernels.Def {
	return rowOf(kernels.Always(func(ctx *kernels.Context) error {
		if err := checkTypes(ctx, dtype); err != nil {
			return err
		}
		s, err := spanAt(ctx, 1, named("min_input", "max_input"))
		if err != nil {
			return err
		}
		in := ctx.Input(0)
		out, err := ctx.Forward(0, 0, dtype, in.Shape())
		if err != nil {
			return err
		}
		_, highest := limits[T]()
		low, high := quantize[T](0, s), T(highest)
		if six {
			high = quantize[T](6, s)
		}
		src, dst := tensor.Of[T](in), tensor.Of[T](out)
		ctx.Parallel(len(src), element.CheapGrain, func(lo, hi int) {
			for i, v := range src[lo:hi] {
				dst[lo+i] = min(max(v, low), high)
			}
		})
		return s.put(ctx, 1)
	}), "Tinput", dtype, "out_type", dtype)
}

package quantized

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// batchNorm is QuantizedBatchNormWithGlobalNormalization, in 32-bit fixed point.
type batchNorm struct {
	epsilon float32
	scale   bool
}

func newBatchNorm(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	return &batchNorm{a.Float("variance_epsilon"), a.Bool("scale_after_normalization")}, a.Err()
}

// Operands of batchNorm, each with a range: the input, and vectors with an element for each channel.
const (
	normInput = iota
	normMean
	normVariance
	normBeta
	normGamma
)

// read checks the inputs.
func (k *batchNorm) read(ctx *kernels.Context) (values [5][]uint8, ranges [5]span, err error) {
	for i, name := range []string{"input", "mean", "var", "beta", "gamma"} {
		if err := args.FirstError(args.CheckType(ctx, 3*i, tensor.QUint8), args.CheckType(ctx, 3*i+1, tensor.Float32), args.CheckType(ctx, 3*i+2, tensor.Float32)); err != nil {
			return values, ranges, err
		}
		low, high := ctx.Input(3*i+1), ctx.Input(3*i+2)
		if low.Len() != 1 {
			return values, ranges, status.InvalidArgumentf("%s_min must have 1 element", name)
		}
		if high.Len() != 1 {
			return values, ranges, status.InvalidArgumentf("%s_max must have 1 element", name)
		}
		values[i] = tensor.Of[uint8](ctx.Input(3 * i))
		ranges[i] = span{tensor.Of[float32](low)[0], tensor.Of[float32](high)[0]}
	}
	in, mean := ctx.Input(0), ctx.Input(3)
	if in.Rank() != 4 {
		return values, ranges, status.InvalidArgumentf("input must be 4-dimensional%v", in.Shape())
	}
	for i, name := range []string{"mean", "var", "beta", "gamma"} {
		if t := ctx.Input(3 + 3*i); t.Rank() != 1 {
			return values, ranges, status.InvalidArgumentf("%s must be 1-dimensional%v", name, t.Shape())
		}
	}
	if mean.Len() <= 1 {
		return values, ranges, status.InvalidArgumentf("Must have at least a mean value%v", ctx.Input(12).Shape())
	}
	if mean.Len() != in.Dim(3) {
		return values, ranges, status.InvalidArgumentf("Must provide as many means as the last dimension of the input tensor: %v vs. %v", mean.Shape(), in.Shape())
	}
	for i, name := range []string{"variance", "beta", "gamma"} {
		if t := ctx.Input(6 + 3*i); t.Len() != mean.Len() {
			return values, ranges, status.InvalidArgumentf("Mean and %s tensors must have the same shape: %v vs. %v", name, mean.Shape(), t.Shape())
		}
	}
	return values, ranges, nil
}

func (k *batchNorm) Compute(ctx *kernels.Context) error {
	v, ranges, err := k.read(ctx)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.QInt32, ctx.Input(0).Shape())
	if err != nil {
		return err
	}
	into, depth := span{-(1 << 20), 1 << 20}, len(v[normMean])
	m := ctx.Meter()
	defer m.Done()
	factors, err := kernels.Scratch[[2]int32](&m, depth)
	if err != nil {
		return err
	}
	for c := range factors {
		at := func(i int) float32 { return dequantize(v[i][c], ranges[i]) }
		scale := 1 / float32(math.Sqrt(float64(at(normVariance)+k.epsilon)))
		if k.scale {
			scale *= at(normGamma)
		}
		offset := float32(-at(normMean)*scale) + at(normBeta)
		factors[c] = [2]int32{quantize[int32](scale, into), quantize[int32](offset, into)}
	}
	var inputs [256]int32
	for i := range inputs {
		inputs[i] = quantize[int32](dequantize(uint8(i), ranges[normInput]), into)
	}
	one, dst := quantize[int32](1, into), tensor.Of[int32](out)
	element.EachRow(ctx, len(dst)/depth, depth, func(lo, hi int) {
		for i := lo * depth; i < hi*depth; i++ {
			f := factors[i%depth]
			dst[i] = inputs[v[normInput][i]]*f[0]/one + f[1]
		}
	})
	return into.put(ctx, 1)
}

// instanceNorm is QuantizedInstanceNorm. It normalizes each channel of each image to mean 0 and variance 1.
type instanceNorm struct {
	given               bool // whether the range of the output is given
	output              span
	epsilon, separation float32
}

func newInstanceNorm(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	epsilon, separation, given := a.Float("variance_epsilon"), a.Float("min_separation"), a.Bool("output_range_given")
	low, high := a.Float("given_y_min"), a.Float("given_y_max")
	if err := a.Err(); err != nil {
		return nil, err
	}
	if given && !(low < high) {
		return nil, status.InvalidArgumentf("given_y_min must be less than given_y_max : %v >= %v", low, high)
	}
	return &instanceNorm{given, span{low, high}, epsilon, separation}, nil
}

func (k *instanceNorm) Compute(ctx *kernels.Context) error {
	if err := checkTypes(ctx, tensor.QUint8); err != nil {
		return err
	}
	in := ctx.Input(0)
	s, err := spanAt(ctx, 1, named("x_min", "x_max"))
	if err != nil {
		return err
	}
	if !(s.min < s.max) {
		return status.InvalidArgumentf("input_min must be less than input_max : %v >= %v", s.min, s.max)
	}
	if in.Rank() != 4 {
		return status.InvalidArgumentf("x must be 4-dimensional, got %v", in.Shape())
	}
	out, err := ctx.Allocate(0, tensor.QUint8, in.Shape())
	if err != nil {
		return err
	}
	floats, release, err := element.Scratch[float32](ctx.Device, in.Len())
	if err != nil {
		return err
	}
	defer release()
	scale := (s.max - s.min) / 255
	src, channels, pixels := tensor.Of[uint8](in), in.Dim(3), in.Dim(1)*in.Dim(2)
	if in.Len() > 0 {
		ctx.Parallel(in.Dim(0)*channels, max(1, element.CheapGrain/pixels), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				at := i/channels*pixels*channels + i%channels
				k.channel(floats[at:], src[at:], channels, pixels, scale)
			}
		})
	}
	into := k.output
	if !k.given {
		into = span{float32(math.Inf(1)), float32(math.Inf(-1))}
		for _, v := range floats {
			into = span{min(into.min, v), max(into.max, v)}
		}
	}
	if into.max-into.min < k.separation {
		into.max = into.min + k.separation
	}
	toFirst(tensor.Of[uint8](out), floats, into)
	return into.put(ctx, 1)
}

// channel normalizes n numbers that lie step elements apart.
func (k *instanceNorm) channel(dst []float32, src []uint8, step, n int, scale float32) {
	sum := float32(0)
	for i := range n {
		sum += float32(src[i*step])
	}
	mean, squares := sum/float32(n), float32(0)
	for i := range n {
		d := scale * (float32(src[i*step]) - mean)
		squares += d * d
	}
	factor := 1 / float32(math.Sqrt(float64(squares/float32(n)+k.epsilon)))
	for i := range n {
		dst[i*step] = scale * (float32(src[i*step]) - mean) * factor
	}
}

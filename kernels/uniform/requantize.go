package uniform

import (
	"fmt"
	"math"
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// factor is a positive number in fixed point: mantissa / 2^(31-exponent).
type factor struct {
	mantissa int32
	exponent int
}

// factorOf returns the factor nearest to v that 32 bits and an exponent from -31 to 30 can represent.
func factorOf(v float64) (factor, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
		// TensorFlow's spelling of both the message and the number.
		given := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%.6g", v), "+"))
		return factor{}, status.InvalidArgumentf("double_multiplier must be a poisitive finite number. Given %s", given)
	}
	fraction, exponent := math.Frexp(v)
	mantissa := int64(math.Round(fraction * (1 << 31)))
	if mantissa == 1<<31 {
		mantissa, exponent = mantissa/2, exponent+1
	}
	if exponent < -31 {
		mantissa, exponent = 0, 0
	}
	if exponent > 30 {
		mantissa, exponent = 1<<31-1, 30
	}
	return factor{int32(mantissa), exponent}, nil
}

// times returns the product with v, rounded to the nearest integer and limited to 32 bits. Halves round up.
func (f factor) times(v int32) int32 {
	shift := 31 - f.exponent
	product := (int64(v)*int64(f.mantissa) + int64(1)<<(shift-1)) >> shift
	return int32(min(max(product, math.MinInt32), math.MaxInt32))
}

// conversion converts numbers from one grid to another, slice by slice.
type conversion struct {
	axis     int
	factors  []factor
	from, to grid
	limits   limits
}

// newConversion returns the conversion of tensors of the given shape. If a grid has an axis, it is an axis of that shape.
func newConversion(ctx *kernels.Context, m *kernels.Meter, shape tensor.Shape, from, to grid, l limits) (*conversion, error) {
	axis := max(from.axis, to.axis)
	n := 1
	if axis >= 0 {
		n = int(shape[axis])
	}
	factors, err := kernels.Scratch[factor](m, n)
	if err != nil {
		return nil, err
	}
	end := ctx.Lookout()
	for i := range factors {
		if err := end.After(factorTime); err != nil {
			return nil, err
		}
		if factors[i], err = factorOf(float64(from.scale(i)) / float64(to.scale(i))); err != nil {
			return nil, err
		}
	}
	return &conversion{axis, factors, from, to, l}, nil
}

// factorTime is the time in nanoseconds to find a factor.
const factorTime = 64

// convert converts the numbers of a tensor. shape is the shape that the conversion was made for.
func convert[A, B number](ctx *kernels.Context, c *conversion, shape tensor.Shape, dst []B, src []A) {
	eachRun(ctx, shape, c.axis, func(slice, lo, hi int) {
		f, from, to := c.factors[slice], c.from.zero(slice), c.to.zero(slice)
		for i, v := range src[lo:hi] {
			dst[lo+i] = B(c.limits.clamp(f.times(int32(v)-from) + to))
		}
	})
}

// requantizeRow is UniformRequantize of one type, to qint8.
func requantizeRow[T number](from tensor.DType) []kernels.Def {
	return rowOf(func(a *graph.AttrReader) kernels.Kernel {
		l := limitsOf(a, "output_")
		in, out := axisAttr(a, "input_quantization_axis"), axisAttr(a, "output_quantization_axis")
		if in >= 0 && out >= 0 && in != out {
			a.Failf("If input and output is both per-axis quantized, the quantization axis must be same.")
		}
		return kernels.Func(func(ctx *kernels.Context) error { return requantize[T](ctx, from, in, out, l) })
	}, "Tin", from, "Tout", tensor.QInt8)
}

func requantize[T number](ctx *kernels.Context, typ tensor.DType, inAxis, outAxis int, l limits) error {
	if err := checkTypes(ctx, typ); err != nil {
		return err
	}
	in := ctx.Input(0)
	from, err := gridAt(ctx, 1, in.Shape(), inAxis)
	if err != nil {
		return err
	}
	to, err := gridAt(ctx, 3, in.Shape(), outAxis)
	if err != nil {
		return err
	}
	if !positive(from.scales) || !positive(to.scales) {
		return status.InvalidArgumentf("input/output scales elements must be all positive.")
	}
	m := ctx.Meter()
	defer m.Done()
	c, err := newConversion(ctx, &m, in.Shape(), from, to, l)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.QInt8, in.Shape())
	if err != nil {
		return err
	}
	convert(ctx, c, in.Shape(), tensor.Of[int8](out), tensor.Of[T](in))
	return nil
}

package uniform

import (
	"math"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// dotKernel is UniformQuantizedDot, a matrix product.
type dotKernel struct{ limits limits }

func newDot(a *graph.AttrReader) kernels.Kernel {
	l := limitsOf(a, "output_")
	if a.Int32("lhs_quantization_axis") != -1 {
		a.Failf("lhs_quantization_axis Attr must be -1 (per-tensor).")
	}
	checkChannelAxis(a, "rhs_quantization_axis")
	checkChannelAxis(a, "output_quantization_axis")
	return &dotKernel{l}
}

// checkChannelAxis checks a channel axis of a matrix, which must be 1 or -1.
func checkChannelAxis(a *graph.AttrReader, name string) {
	if axis := a.Int32(name); axis != 1 && axis != -1 {
		a.Failf("%s Attr must be 1 (per-channel) or -1 (per-tensor).", name)
	}
}

// dotShape checks the operands.
func dotShape(lhs, rhs *tensor.Tensor) error {
	switch {
	case lhs.Rank() != 2:
		return status.InvalidArgumentf("lhs rank must be 2, but given lhs shape %v", lhs.Shape())
	case rhs.Rank() != 2:
		return status.InvalidArgumentf("rhs rank must be 2, but given rhs shape %v", rhs.Shape())
	case lhs.Dim(1) != rhs.Dim(0):
		return status.InvalidArgumentf("lhs.dim_size(1) and rhs.dim_size(0) must be equal, but given lhs shape %v and rhs shape %v", lhs.Shape(), rhs.Shape())
	}
	return nil
}

// Compute implements kernels.Kernel.
func (k *dotKernel) Compute(ctx *kernels.Context) error {
	if err := checkTypes(ctx, tensor.QInt8, tensor.QInt8, tensor.Float32, tensor.Int32, tensor.Float32, tensor.Int32, tensor.Float32, tensor.Int32); err != nil {
		return err
	}
	lhs, rhs := ctx.Input(0), ctx.Input(1)
	for i, name := range []string{"lhs", "rhs", "output"} {
		if !positive(tensor.Of[float32](ctx.Input(2 + 2*i))) {
			return status.InvalidArgumentf("%s scales elements must be all positive.", name)
		}
	}
	if err := dotShape(lhs, rhs); err != nil {
		return err
	}
	shape := tensor.Shape{lhs.Shape()[0], rhs.Shape()[1]}
	p, err := newProduct(ctx, rhs.Shape(), shape, 1, 1)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	factors, err := p.factors(&m, rhs.Dim(1))
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.QInt32, shape)
	if err != nil {
		return err
	}
	dst := tensor.Of[int32](out)
	left := quantizedRows{numbers: tensor.Of[int8](lhs), zeros: []int32{p.lhsZero}}
	multiply(ctx, left, tensor.Of[int8](rhs), p.rhs, lhs.Dim(1), rhs.Dim(1), lhs.Dim(0), func(row, column int, sum int32) {
		dst[row*rhs.Dim(1)+column] = k.limits.clamp(factors[min(column, len(factors)-1)].times(sum) + p.out.zero(column))
	})
	return nil
}

// product holds the grids of the operands and of the output of a product of quantized tensors.
type product struct {
	lhsScale float32
	lhsZero  int32
	rhs, out grid
}

// newProduct reads the grids from input 2 onward, for the given shapes and channel axes.
func newProduct(ctx *kernels.Context, rhs, out tensor.Shape, rhsAxis, outAxis int) (p product, err error) {
	scales, zeros := ctx.Input(2), ctx.Input(3)
	if scales.Rank() != 0 || zeros.Rank() != 0 {
		return p, status.InvalidArgumentf("lhs scales/zero_points must be all scalar tensors. Given: %v%v", scales.Shape(), zeros.Shape())
	}
	p.lhsScale, p.lhsZero = tensor.Of[float32](scales)[0], tensor.Of[int32](zeros)[0]
	if p.rhs, err = eitherGridAt(ctx, 4, rhs, rhsAxis); err != nil {
		return p, err
	}
	if p.out, err = eitherGridAt(ctx, 6, out, outAxis); err != nil {
		return p, err
	}
	if p.rhs.axis < 0 && p.out.axis >= 0 {
		err = status.InvalidArgumentf("If rhs is per-tensor quantized, output must be also per-tensor quantized. Given rhs scales and zero_points of shape %v but given output scales and zero_points of shape %v", ctx.Input(4).Shape(), ctx.Input(6).Shape())
	}
	return p, err
}

// factors returns the factors that scale sums of products to the output: one for each of n channels, or a single one if all are the same.
func (p product) factors(m *kernels.Meter, n int) ([]factor, error) {
	if p.rhs.axis < 0 {
		n = 1
	}
	factors, err := kernels.Scratch[factor](m, n)
	if err != nil {
		return nil, err
	}
	for i := range factors {
		if factors[i], err = factorOf(float64(p.lhsScale) * float64(p.rhs.scale(i)) / float64(p.out.scale(i))); err != nil {
			return nil, err
		}
	}
	return factors, nil
}

// quantizedRows holds rows of numbers, with a zero point for each row or a single one for all.
type quantizedRows struct {
	numbers []int8
	zeros   []int32
}

// multiply calls put with each sum of products of a row of left and a column of right.
func multiply(ctx *kernels.Context, left quantizedRows, right []int8, g grid, inner, columns, rows int, put func(row, column int, sum int32)) {
	ctx.Parallel(rows, max(1, element.CheapGrain/max(1, inner*columns)), func(lo, hi int) {
		sums, zeros := make([]int32, min(columns, element.BlockLen)), make([]int32, min(columns, element.BlockLen))
		for r := lo; r < hi; r++ {
			zero := left.zeros[min(r, len(left.zeros)-1)]
			for first := 0; first < columns; first += len(sums) {
				block := sums[:min(len(sums), columns-first)]
				for j := range block {
					block[j], zeros[j] = 0, g.zero(first+j)
				}
				for k := range inner {
					v := int32(left.numbers[r*inner+k]) - zero
					for j, w := range right[k*columns+first:][:len(block)] {
						block[j] += v * (int32(w) - zeros[j])
					}
				}
				for j, sum := range block {
					put(r, first+j, sum)
				}
			}
		}
	})
}

// newHybridDot returns the kernel of UniformQuantizedDotHybrid, which quantizes the rows of its left operand itself.
func newHybridDot(a *graph.AttrReader) kernels.Kernel {
	checkChannelAxis(a, "rhs_quantization_axis")
	return kernels.Func(hybridDot)
}

func hybridDot(ctx *kernels.Context) error {
	if err := checkTypes(ctx, tensor.Float32, tensor.QInt8); err != nil {
		return err
	}
	lhs, rhs := ctx.Input(0), ctx.Input(1)
	if err := dotShape(lhs, rhs); err != nil {
		return err
	}
	g, err := eitherGridAt(ctx, 2, rhs.Shape(), 1)
	if err != nil {
		return err
	}
	if !positive(g.scales) {
		return status.InvalidArgumentf("rhs scales elements must be all positive.")
	}
	rows, inner, columns := lhs.Dim(0), lhs.Dim(1), rhs.Dim(1)
	out, err := ctx.Allocate(0, tensor.Float32, tensor.Shape{int64(rows), int64(columns)})
	if err != nil || out.Len() == 0 {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	left, scales, err := quantizeRows(ctx, &m, tensor.Of[float32](lhs), rows, inner)
	if err != nil {
		return err
	}
	dst := tensor.Of[float32](out)
	multiply(ctx, left, tensor.Of[int8](rhs), g, inner, columns, rows, func(row, column int, sum int32) {
		dst[row*columns+column] = float32(float32(sum)*scales[row]) * g.scale(column)
	})
	return nil
}

// quantizeRows quantizes each row of floats by the range of its values. It also returns the scales.
func quantizeRows(ctx *kernels.Context, m *kernels.Meter, src []float32, rows, width int) (q quantizedRows, scales []float32, err error) {
	if q.numbers, err = kernels.Scratch[int8](m, len(src)); err != nil {
		return q, nil, err
	}
	if q.zeros, err = kernels.Scratch[int32](m, rows); err != nil {
		return q, nil, err
	}
	if scales, err = kernels.Scratch[float32](m, rows); err != nil {
		return q, nil, err
	}
	ctx.Parallel(rows, max(1, element.CheapGrain/max(1, width)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			scales[r], q.zeros[r] = quantizeRow8(q.numbers[r*width:][:width], src[r*width:][:width])
		}
	})
	return q, scales, nil
}

// quantizeRow8 quantizes floats to 8 bits, by a range that includes them and zero. It returns the scale and the zero point.
func quantizeRow8(dst []int8, src []float32) (scale float32, zero int32) {
	const least, most = -128., 127.
	low, high := float32(0), float32(0)
	for _, v := range src {
		low, high = min(low, v), max(high, v)
	}
	bottom, top := float64(low), float64(high)
	scale = float32((top - bottom) / (most - least))
	inverse := float32(0)
	if top != bottom {
		inverse = float32((most - least) / (top - bottom))
	}
	if scale == 0 || math.IsInf(float64(inverse), 0) || math.IsNaN(float64(inverse)) {
		clear(dst)
		return 1, 0
	}
	// Of the zero points that follow from the two ends, use the one with the smaller error.
	toBottom, toTop := bottom/float64(scale), top/float64(scale)
	at := most - toTop
	if -least+math.Abs(toBottom) < most+math.Abs(toTop) {
		at = least - toBottom
	}
	zero = int32(int8(element.Trunc32(math.Round(min(max(at, least), most))))) // NaN becomes 0
	toGrid(dst, src, inverse, zero, limits{least, most})
	return scale, zero
}

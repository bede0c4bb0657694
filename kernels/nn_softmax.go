package kernels

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/simd"
)

// rowMath is what softmax and the cross entropies do with rows of an element type.
type rowMath[T floating] struct {
	max   func(a []T) T
	sum   func(a []T) T
	exp   func(dst, a []T)
	shift func(dst, a []T, by T) // a - by
	scale func(dst, a []T, by T) // a * by
	log   func(v T) T
}

var rowMath32 = rowMath[float32]{
	max: simd.MaxOf, sum: simd.Sum, exp: simd.Exp, shift: simd.SubScalar, scale: simd.MulScalar,
	log: func(v float32) float32 { return float32(math.Log(float64(v))) },
}

var rowMath64 = rowMath[float64]{
	max: slices.Max[[]float64], sum: sumOf[float64], exp: each64(math.Exp), log: math.Log,
	shift: func(dst, a []float64, by float64) {
		for i, v := range a {
			dst[i] = v - by
		}
	},
	scale: func(dst, a []float64, by float64) {
		for i, v := range a {
			dst[i] = v * by
		}
	},
}

// softmax sets dst to the softmax of a row, which may be dst, and returns the logarithm of the
// sum that it divided by, with the row's maximum taken out.
func (m *rowMath[T]) softmax(dst, row []T) (top, logSum T) {
	top = m.max(row)
	m.shift(dst, row, top)
	m.exp(dst, dst)
	sum := m.sum(dst)
	m.scale(dst, dst, 1/sum)
	return top, m.log(sum)
}

// eachRow runs body for the rows of a matrix, in parallel where they are many.
func eachRow(dev Device, rows, columns int, body func(lo, hi int)) {
	if rows*columns <= costlyGrain {
		body(0, rows)
		return
	}
	dev.Parallel(rows, max(1, costlyGrain/columns), body)
}

// softmaxKernel is Softmax and LogSoftmax: over the last dimension.
type softmaxKernel[T floating] struct {
	rowMath[T]
	dtype  tensor.DType
	inLogs bool
}

func (k *softmaxKernel[T]) Compute(ctx *Context) error {
	in := ctx.Input(0)
	if err := checkType(ctx, 0, k.dtype); err != nil {
		return err
	}
	if in.Rank() < 1 {
		return status.InvalidArgumentf("logits must have >= 1 dimension, got %v", in.Shape())
	}
	out, err := ctx.Forward(0, 0, k.dtype, in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	columns := in.Dim(in.Rank() - 1)
	src, dst := viewOf[T](in), viewOf[T](out)
	if k.inLogs {
		return k.logSoftmax(ctx, dst, src, columns)
	}
	eachRow(ctx.Device, len(src)/columns, columns, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			k.softmax(dst[r*columns:(r+1)*columns], src[r*columns:(r+1)*columns])
		}
	})
	return nil
}

func (k *softmaxKernel[T]) logSoftmax(ctx *Context, dst, src []T, columns int) error {
	work, release, err := scratch[T](ctx.Device, len(src))
	if err != nil {
		return err
	}
	defer release()
	eachRow(ctx.Device, len(src)/columns, columns, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row, to, exps := src[r*columns:(r+1)*columns], dst[r*columns:(r+1)*columns], work[r*columns:(r+1)*columns]
			top, logSum := k.softmax(exps, row)
			k.shift(to, row, top)
			k.shift(to, to, logSum)
		}
	})
	return nil
}

// softmaxRows makes the rows of Softmax and LogSoftmax for one element type.
func softmaxRows[T floating](m rowMath[T]) {
	dtype := dtypeOf[T]()
	for op, inLogs := range map[string]bool{"Softmax": false, "LogSoftmax": true} {
		withHalves(op, "T", dtype, func(*Construction) (any, error) { return &softmaxKernel[T]{m, dtype, inLogs}, nil })
	}
}

// withHalves makes a row for an element type, and for float those of the halves too.
func withHalves(op, attr string, dtype tensor.DType, construct func(*Construction) (any, error)) {
	Register(Def{Op: op, Types: map[string][]tensor.DType{attr: {dtype}}, Expensive: true, New: construct})
	if dtype == tensor.Float32 {
		for _, half := range halfTypes {
			Register(Def{Op: op, Types: map[string][]tensor.DType{attr: {half}}, Expensive: true, New: halves(half, construct)})
		}
	}
}

func init() {
	softmaxRows(rowMath32)
	softmaxRows(rowMath64)
}

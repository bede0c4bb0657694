package nn

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// rowMath holds the functions that softmax and the cross entropies apply to rows of an element type.
type rowMath[T element.Floating] struct {
	max func(a []T) T
	sum func(a []T) T
	exp func(dst, a []T)
	log func(dst, a []T)
	// expSum sets dst to exp(a - shift) and returns the sum.
	expSum func(dst, a []T, shift T) T
	shift  func(dst, a []T, by T) // a - by
	scale  func(dst, a []T, by T) // a * by
}

var rowMath32 = rowMath[float32]{max: simd.MaxOf, sum: simd.Sum, exp: simd.Exp, log: simd.Log, expSum: simd.ExpSum, shift: simd.SubScalar, scale: simd.MulScalar}

var rowMath64 = rowMath[float64]{max: slices.Max[[]float64], sum: reduce.SumOf[float64], exp: elementwise.Each64(math.Exp), log: elementwise.Each64(math.Log), expSum: expSum64, shift: shiftBy[float64], scale: scaleBy[float64]}

func shiftBy[T element.Floating](dst, a []T, by T) {
	for i, v := range a {
		dst[i] = v - by
	}
}

func expSum64(dst, a []float64, shift float64) (sum float64) {
	for i, v := range a {
		dst[i] = math.Exp(v - shift)
		sum += dst[i]
	}
	return sum
}

func scaleBy[T element.Floating](dst, a []T, by T) {
	for i, v := range a {
		dst[i] = v * by
	}
}

// rowBlock is the number of rows that softmax processes at once. fewColumns is the row length up to which a loop is cheaper than calling a
// slice function.
const (
	rowBlock   = 64
	fewColumns = 32
)

// softmax sets dst to the softmax of at most rowBlock rows of src, which may be dst. It sets top to the greatest element of each row, and
// logSum to the logarithm of the sum of exp(x - top).
func (m *rowMath[T]) softmax(dst, src []T, columns int, top, logSum []T) {
	if columns <= fewColumns {
		m.softmaxShort(dst, src, columns, top, logSum)
	} else {
		for r := range top {
			row, to := src[r*columns:(r+1)*columns], dst[r*columns:(r+1)*columns]
			top[r] = m.max(row)
			logSum[r] = m.expSum(to, row, top[r])
			m.scale(to, to, 1/logSum[r])
		}
	}
	m.log(logSum, logSum)
}

// softmaxShort is softmax for short rows, without the logarithms.
func (m *rowMath[T]) softmaxShort(dst, src []T, columns int, top, sums []T) {
	for r := range top {
		row, to := src[r*columns:(r+1)*columns], dst[r*columns:(r+1)*columns]
		top[r] = slices.Max(row)
		shiftBy(to, row, top[r])
	}
	m.exp(dst, dst)
	for r := range top {
		to := dst[r*columns : (r+1)*columns]
		sum := T(0)
		for _, v := range to {
			sum += v
		}
		sums[r] = sum
		scaleBy(to, to, 1/sum)
	}
}

// rows calls softmax for rows lo to hi, one block at a time, and passes its results for each row to body.
func (m *rowMath[T]) rows(dst, src []T, columns, lo, hi int, body func(r int, top, logSum T)) {
	var top, logSum [rowBlock]T
	for ; lo < hi; lo += rowBlock {
		n := min(rowBlock, hi-lo)
		m.softmax(dst[lo*columns:(lo+n)*columns], src[lo*columns:(lo+n)*columns], columns, top[:n], logSum[:n])
		if body != nil {
			for i := range n {
				body(lo+i, top[i], logSum[i])
			}
		}
	}
}

// softmaxKernel is Softmax and LogSoftmax over the last dimension.
type softmaxKernel[T element.Floating] struct {
	rowMath[T]
	dtype  tensor.DType
	inLogs bool
}

func (k *softmaxKernel[T]) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
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
	src, dst := element.ViewOf[T](in), element.ViewOf[T](out)
	if k.inLogs {
		return k.logSoftmax(ctx, dst, src, columns)
	}
	element.EachRow(ctx, len(src)/columns, columns, func(lo, hi int) {
		k.rows(dst, src, columns, lo, hi, nil)
	})
	return nil
}

func (k *softmaxKernel[T]) logSoftmax(ctx *kernels.Context, dst, src []T, columns int) error {
	work, release, err := element.Scratch[T](ctx.Device, len(src))
	if err != nil {
		return err
	}
	defer release()
	element.EachRow(ctx, len(src)/columns, columns, func(lo, hi int) {
		k.rows(work, src, columns, lo, hi, func(r int, top, logSum T) {
			row, to := src[r*columns:(r+1)*columns], dst[r*columns:(r+1)*columns]
			k.shift(to, row, top)
			k.shift(to, to, logSum)
		})
	})
	return nil
}

// softmaxRows returns the rows of Softmax or, if inLogs is set, of LogSoftmax.
func softmaxRows(inLogs bool) []kernels.Def {
	return append(softmaxOf(rowMath32, inLogs), softmaxOf(rowMath64, inLogs)...)
}

func softmaxOf[T element.Floating](m rowMath[T], inLogs bool) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(*kernels.Construction) (any, error) { return &softmaxKernel[T]{m, dtype, inLogs}, nil })
}

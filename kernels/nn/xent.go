package nn

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// sparseXentKernel is SparseSoftmaxCrossEntropyWithLogits, whose labels are class numbers. It returns the loss of each row and the gradient
// with respect to the logits.
type sparseXentKernel[T element.Floating] struct {
	rowMath[T]
	dtype tensor.DType
}

func (k *sparseXentKernel[T]) Compute(ctx *kernels.Context) error {
	logits, labels := ctx.Input(0), ctx.Input(1)
	if err := checkSparseXent(ctx, k.dtype); err != nil {
		return err
	}
	if err := checkLabels(labels, logits.Dim(1)); err != nil {
		return err
	}
	loss, grad, err := sparseXentOutputs(ctx)
	if err != nil {
		return err
	}
	if labels.DType() == tensor.Int32 {
		sparseXent(ctx, &k.rowMath, element.ViewOf[T](loss), element.ViewOf[T](grad), element.ViewOf[T](logits), tensor.Of[int32](labels))
	} else {
		sparseXent(ctx, &k.rowMath, element.ViewOf[T](loss), element.ViewOf[T](grad), element.ViewOf[T](logits), tensor.Of[int64](labels))
	}
	return nil
}

// checkSparseXent rejects logits and labels that do not match.
func checkSparseXent(ctx *kernels.Context, dtype tensor.DType) error {
	logits, labels := ctx.Input(0), ctx.Input(1)
	if err := args.CheckType(ctx, 0, dtype); err != nil {
		return err
	}
	switch {
	case logits.Rank() != 2:
		return status.InvalidArgumentf("logits must be 2-D, but got shape %v", logits.Shape())
	case labels.Rank() != 1:
		return status.InvalidArgumentf("labels must be 1-D, but got shape %v", labels.Shape())
	case logits.Dim(0) != labels.Dim(0):
		return status.InvalidArgumentf("logits and labels must have the same first dimension, got logits shape %v and labels shape %v", logits.Shape(), labels.Shape())
	case logits.Dim(1) == 0:
		return status.InvalidArgumentf("Must have at least one class, but got logits shape %v", logits.Shape())
	}
	return nil
}

// sparseXentOutputs allocates the losses and the gradients, which may reuse the logits' memory.
func sparseXentOutputs(ctx *kernels.Context) (loss, grad *tensor.Tensor, err error) {
	logits := ctx.Input(0)
	if loss, err = ctx.Allocate(0, logits.DType(), ctx.Input(1).Shape()); err != nil {
		return nil, nil, err
	}
	grad, err = ctx.Forward(0, 1, logits.DType(), logits.Shape())
	return loss, grad, err
}

func sparseXent[T element.Floating, I int32 | int64](ctx *kernels.Context, m *rowMath[T], loss, grad, logits []T, labels []I) {
	if len(loss) == 0 {
		return
	}
	classes := len(logits) / len(loss)
	element.EachRow(ctx, len(loss), classes, func(lo, hi int) {
		// Read the logits first, since the gradient may overwrite them.
		for r := lo; r < hi; r++ {
			loss[r] = logits[r*classes+int(labels[r])]
		}
		m.rows(grad, logits, classes, lo, hi, func(r int, top, logSum T) {
			loss[r] = logSum - (loss[r] - top)
			grad[r*classes+int(labels[r])]--
		})
	})
}

// checkLabels rejects labels that are not classes. It reports the least label if that is negative, otherwise the greatest.
func checkLabels(labels *tensor.Tensor, classes int) error {
	least, greatest := int64(0), int64(-1)
	for i := range labels.Len() {
		l, err := args.IntAt(labels, i)
		if err != nil {
			return err
		}
		least, greatest = min(least, l), max(greatest, l)
	}
	bad := greatest
	if least < 0 {
		bad = least
	} else if greatest < int64(classes) {
		return nil
	}
	values := make([]string, labels.Len())
	for i := range values {
		l, _ := args.IntAt(labels, i) // the type was checked before
		values[i] = fmt.Sprint(l)
	}
	return status.InvalidArgumentf("Received a label value of %d which is outside the valid range of [0, %d).  Label values: %s",
		bad, classes, strings.Join(values, " "))
}

// xentKernel is SoftmaxCrossEntropyWithLogits, whose labels are distributions. Either operand may be broadcast to the other's shape.
type xentKernel[T element.Floating] struct {
	rowMath[T]
	dtype tensor.DType
}

func (k *xentKernel[T]) Compute(ctx *kernels.Context) error {
	loss, grad, err := xentOutputs(ctx, k.dtype)
	if err != nil || grad.Len() == 0 {
		return err
	}
	logits, labels, shape := ctx.Input(0), ctx.Input(1), grad.Shape()
	wide, release, err := k.stretched(ctx, shape, logits, labels)
	if err != nil {
		return err
	}
	defer release()
	classes := int(shape[1])
	losses, grads := element.ViewOf[T](loss), element.ViewOf[T](grad)
	element.EachRow(ctx, len(losses), classes, func(lo, hi int) {
		// Use the logits first, since the gradient may overwrite them.
		masses := make([]T, hi-lo)
		for r := lo; r < hi; r++ {
			row := wide[0][r*classes : (r+1)*classes]
			labels, top := wide[1][r*classes:(r+1)*classes], slices.Max(row)
			masses[r-lo], losses[r] = weigh(row, labels, top)
			if sum := masses[r-lo] - losses[r]; sum-sum != 0 {
				masses[r-lo], losses[r] = 0, -weighEach(row, labels, top)
			}
		}
		k.rows(grads, wide[0], classes, lo, hi, func(r int, _, logSum T) {
			if mass := masses[r-lo]; mass != 0 || losses[r] != 0 {
				losses[r] = mass*logSum - losses[r]
			}
			for i, l := range wide[1][r*classes : (r+1)*classes] {
				grads[r*classes+i] -= l
			}
		})
	})
	return nil
}

// xentOutputs allocates the losses and the gradients. If there are no gradients, the losses are zero.
func xentOutputs(ctx *kernels.Context, dtype tensor.DType) (loss, grad *tensor.Tensor, err error) {
	logits, labels := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, dtype)); err != nil {
		return nil, nil, err
	}
	shape, ok := shapes.BroadcastShape(logits.Shape(), labels.Shape())
	if !ok {
		return nil, nil, status.InvalidArgumentf("logits and labels must be broadcastable: logits_size=%v labels_size=%v", logits.Shape(), labels.Shape())
	}
	if len(shape) != 2 {
		return nil, nil, status.InvalidArgumentf("logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional")
	}
	if loss, err = ctx.Allocate(0, dtype, shape[:1]); err != nil {
		return nil, nil, err
	}
	inputs := []int{0}
	if !labels.Shape().Equal(shape) {
		inputs = nil // labels' rows are read again after other rows are written
	}
	if grad, err = ctx.ForwardAny(1, dtype, shape, inputs...); err == nil && grad.Len() == 0 {
		layout.Zero(ctx, loss)
	}
	return loss, grad, err
}

// weigh returns the sum of a row's labels, and that of their products with the logits relative to top. Labels of zero add nothing, even if
// the logit is infinite.
func weigh[T element.Floating](logits, labels []T, top T) (mass, weighted T) {
	for i, l := range labels {
		if l != 0 {
			mass += l
			weighted += l * (logits[i] - top)
		}
	}
	return mass, weighted
}

// weighEach returns the loss of a row, multiplying each label with its own term. An infinite label then gives an infinite loss, whereas the
// difference of weigh's sums would be NaN.
func weighEach[T element.Floating](logits, labels []T, top T) (loss T) {
	var sum float64
	for _, x := range logits {
		sum += math.Exp(float64(x - top))
	}
	logSum := T(math.Log(sum))
	for i, l := range labels {
		if l != 0 {
			loss += l * (logSum - (logits[i] - top))
		}
	}
	return loss
}

// stretched returns the operands, broadcast to shape.
func (k *xentKernel[T]) stretched(ctx *kernels.Context, shape tensor.Shape, operands ...*tensor.Tensor) (full [2][]T, release func(), err error) {
	var used []func()
	release = func() {
		for _, f := range used {
			f()
		}
	}
	for i, t := range operands {
		full[i] = element.ViewOf[T](t)
		if t.Shape().Equal(shape) {
			continue
		}
		dst, drop, err := element.Scratch[T](ctx.Device, shape.Elements())
		if err != nil {
			release()
			return full, nil, err
		}
		used = append(used, drop)
		stretch(dst, full[i], shape, t.Shape())
		full[i] = dst
	}
	return full, release, nil
}

// stretch broadcasts src, of shape from, into dst, of shape to.
func stretch[T any](dst, src []T, to, from tensor.Shape) {
	if len(dst) == 0 {
		return
	}
	w := elementwise.NewWalk(to, from)
	inner, stride := w.Inner(), w.InnerStride(0)
	w.Each(0, w.Rows(), func(r int, at []int) {
		row := dst[r*inner : (r+1)*inner]
		if stride == 1 {
			copy(row, src[at[0]:])
			return
		}
		for i := range row {
			row[i] = src[at[0]]
		}
	})
}

// crossEntropy and sparseCrossEntropy return the rows of the ops for one element type.
func crossEntropy[T element.Floating](m rowMath[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(*kernels.Construction) (any, error) { return &xentKernel[T]{m, dtype}, nil })
}

func sparseCrossEntropy[T element.Floating](m rowMath[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(*kernels.Construction) (any, error) { return &sparseXentKernel[T]{m, dtype}, nil })
}

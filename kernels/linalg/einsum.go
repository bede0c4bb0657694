package linalg

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// A label stands for an index of Einsum: a letter of the equation, or a dimension that the ellipsis covers. Dimensions of the ellipsis
// count down from the last one, whose label is ellipsisLabel.
const ellipsisLabel = -1

// equation is a parsed equation of Einsum: the letters of each operand, with 0 for an ellipsis.
type equation struct {
	inputs [][]int
	output []int
}

// parseEquation parses the attribute equation.
func parseEquation(text string, operands int) (e equation, err error) {
	left, right, ok := strings.Cut(text, "->")
	if !ok {
		return e, status.InvalidArgumentf("Expecting exactly one '->' in einsum equation: %s", text)
	}
	for _, part := range strings.Split(left, ",") {
		labels, err := parseLabels(part)
		if err != nil {
			return e, err
		}
		e.inputs = append(e.inputs, labels)
	}
	if len(e.inputs) != operands || operands < 1 || operands > 2 {
		return e, status.InvalidArgumentf("Expecting 1 or 2 input subscripts in equation '%s' but got: %d", text, len(e.inputs))
	}
	if e.output, err = parseLabels(right); err != nil {
		return e, err
	}
	for _, l := range e.output {
		if l != 0 && !slices.ContainsFunc(e.inputs, func(in []int) bool { return slices.Contains(in, l) }) {
			return e, status.InvalidArgumentf("Output subscripts contain a label not appearing in any of the input subscripts: %s", text)
		}
	}
	return e, nil
}

func parseLabels(text string) (labels []int, err error) {
	dots := strings.Count(text, "...")
	if dots > 1 || strings.Count(text, ".") != 3*dots {
		return nil, status.InvalidArgumentf("Periods found outside of ellipsis in subscript: %s", text)
	}
	// As in TensorFlow, any byte may be a letter: it is the client that allows no others than those of ASCII.
	for _, b := range []byte(strings.Replace(text, "...", ".", 1)) {
		if b == '.' {
			labels = append(labels, 0)
		} else {
			labels = append(labels, int(b)+1)
		}
	}
	return labels, nil
}

// expand replaces the ellipsis by labels for n dimensions.
func expand(labels []int, n int) []int {
	at := slices.Index(labels, 0)
	if at < 0 {
		return labels
	}
	var own []int
	for i := range n {
		own = append(own, ellipsisLabel-(n-1-i))
	}
	return slices.Concat(labels[:at], own, labels[at+1:])
}

// indexed is an operand with a label for each dimension.
type indexed struct {
	labels []int
	shape  tensor.Shape
}

// bind assigns a label to each of the operands' dimensions, and a size to each label. Dimensions of the ellipsis are broadcast.
func (e *equation) bind(ctx *kernels.Context) (operands []indexed, output []int, sizes map[int]int, err error) {
	sizes = map[int]int{}
	wide := 0
	for i, labels := range e.inputs {
		shape := ctx.Input(i).Shape()
		hidden := 0
		if slices.Contains(labels, 0) {
			hidden = len(shape) - (len(labels) - 1)
			if hidden < 0 {
				return nil, nil, nil, status.InvalidArgumentf("Expected input %d to have rank at least %d but got: %d", i, len(labels)-1, len(shape))
			}
		} else if len(labels) != len(shape) {
			return nil, nil, nil, status.InvalidArgumentf("Expected input %d to have rank %d but got: %d", i, len(labels), len(shape))
		}
		wide = max(wide, hidden)
		op := indexed{expand(labels, hidden), shape}
		for axis, l := range op.labels {
			d := int(shape[axis])
			if have, known := sizes[l]; !known || l < 0 && have == 1 {
				sizes[l] = d
			} else if have != d && (l > 0 || d != 1) {
				return nil, nil, nil, status.InvalidArgumentf("Expected dimension %d at axis %d of the input shaped %v but got dimension %d", have, axis, shape, d)
			}
		}
		operands = append(operands, op)
	}
	if wide > 0 && !slices.Contains(e.output, 0) {
		return nil, nil, nil, status.InvalidArgumentf("Output contains %d broadcasting dimension(s) but no ellipsis (...) was found in the output subscripts.", wide)
	}
	return operands, expand(e.output, wide), sizes, nil
}

// strides returns the stride of each label in an operand: the sum of its dimensions' strides if the label is repeated (a diagonal), 0 if
// the dimension is broadcast or absent.
func (op *indexed) strides(labels []int, sizes map[int]int) []int {
	out := make([]int, len(labels))
	step := 1
	for axis := len(op.shape) - 1; axis >= 0; axis-- {
		l, d := op.labels[axis], int(op.shape[axis])
		if i := slices.Index(labels, l); i >= 0 && (d != 1 || sizes[l] == 1) {
			out[i] += step
		}
		step *= d
	}
	return out
}

// volume returns the product of the labels' sizes.
func volume(labels []int, sizes map[int]int) int {
	n := 1
	for _, l := range labels {
		n *= sizes[l]
	}
	return n
}

// odometer calls visit for all combinations of the labels' values, with the offset that the strides yield. The last label varies fastest. It
// fails with the error of a step that has ended.
func odometer(end *kernels.Lookout, labels []int, sizes map[int]int, strides []int, visit func(at int)) error {
	total := volume(labels, sizes)
	index := make([]int, len(labels))
	at := 0
	for range total {
		if err := end.After(elementTime); err != nil {
			return err
		}
		visit(at)
		for i := len(labels) - 1; i >= 0; i-- {
			index[i]++
			at += strides[i]
			if index[i] < sizes[labels[i]] {
				break
			}
			at -= index[i] * strides[i]
			index[i] = 0
		}
	}
	return nil
}

// elementTime is the time in nanoseconds that odometer takes for an element.
const elementTime = 8

// einsumKernel is Einsum for one element type. It sums out the labels that only one operand has, arranges the operands for a batch of
// matrix products, and arranges the product for the output.
type einsumKernel[T element.Numeric] struct {
	equation
	dtype tensor.DType
	mul   gemm.Gemm[T]
}

func (k *einsumKernel[T]) Compute(ctx *kernels.Context) error {
	if len(ctx.Inputs) != len(k.inputs) {
		return status.InvalidArgumentf("Expected %d inputs but got: %d", len(k.inputs), len(ctx.Inputs))
	}
	for i := range ctx.Inputs {
		if err := args.CheckType(ctx, i, k.dtype); err != nil {
			return err
		}
	}
	operands, output, sizes, err := k.bind(ctx)
	if err != nil {
		return err
	}
	var kept []int // the output's labels, without repetitions
	for _, l := range output {
		if !slices.Contains(kept, l) {
			kept = append(kept, l)
		}
	}
	shape := make(tensor.Shape, len(output))
	for i, l := range output {
		shape[i] = int64(sizes[l])
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	dst := element.ViewOf[T](out)
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	result, order, release, err := k.product(ctx, operands, kept, sizes)
	if err != nil {
		return err
	}
	defer release()
	target := indexed{output, shape}
	at := 0
	end := ctx.Lookout()
	return odometer(&end, order, sizes, target.strides(order, sizes), func(place int) {
		dst[place] = result[at]
		at++
	})
}

// product returns the result, and the order of labels that it is in.
func (k *einsumKernel[T]) product(ctx *kernels.Context, operands []indexed, kept []int, sizes map[int]int) (result []T, order []int, release func(), err error) {
	if len(operands) == 1 {
		a, drop, err := k.arrange(ctx, 0, &operands[0], kept, sizes)
		return a, kept, drop, err
	}
	var batch, freeA, freeB, inner []int
	var seen []int
	for _, l := range slices.Concat(operands[0].labels, operands[1].labels) {
		if slices.Contains(seen, l) {
			continue
		}
		seen = append(seen, l)
		inA, inB, inOut := slices.Contains(operands[0].labels, l), slices.Contains(operands[1].labels, l), slices.Contains(kept, l)
		switch {
		case inA && inB && inOut:
			batch = append(batch, l)
		case inA && inB:
			inner = append(inner, l)
		case inA && inOut:
			freeA = append(freeA, l)
		case inB && inOut:
			freeB = append(freeB, l)
		}
	}
	a, dropA, err := k.arrange(ctx, 0, &operands[0], slices.Concat(batch, freeA, inner), sizes)
	if err != nil {
		return nil, nil, nil, err
	}
	defer dropA()
	b, dropB, err := k.arrange(ctx, 1, &operands[1], slices.Concat(batch, inner, freeB), sizes)
	if err != nil {
		return nil, nil, nil, err
	}
	defer dropB()
	p := gemm.MatProduct{M: volume(freeA, sizes), N: volume(freeB, sizes), K: volume(inner, sizes), Count: volume(batch, sizes)}
	result, release, err = element.Scratch[T](ctx.Device, p.Count*p.M*p.N)
	if err != nil {
		return nil, nil, nil, err
	}
	multiply(ctx, &p, false, false, k.mul, a, b, result)
	return result, slices.Concat(batch, freeA, freeB), release, nil
}

// arrange copies input i into the order of labels, broadcasts each label to its size, and sums out all other labels.
func (k *einsumKernel[T]) arrange(ctx *kernels.Context, i int, op *indexed, labels []int, sizes map[int]int) ([]T, func(), error) {
	var rest []int
	for _, l := range op.labels {
		if !slices.Contains(labels, l) && !slices.Contains(rest, l) {
			rest = append(rest, l)
		}
	}
	dst, release, err := element.Scratch[T](ctx.Device, volume(labels, sizes))
	if err != nil {
		return nil, nil, err
	}
	src := element.ViewOf[T](ctx.Input(i))
	at := 0
	inner := op.strides(rest, sizes)
	end := ctx.Lookout()
	err = odometer(&end, labels, sizes, op.strides(labels, sizes), func(place int) {
		if len(rest) == 0 {
			dst[at] = src[place]
		} else {
			var sum T
			_ = odometer(&end, rest, sizes, inner, func(p int) { sum += src[place+p] }) // the outer one ends as well
			dst[at] = sum
		}
		at++
	})
	if err != nil {
		release()
		return nil, nil, err
	}
	return dst, release, nil
}

// einsum returns the rows of Einsum for one element type.
func einsum[T element.Numeric](mul gemm.Gemm[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		text, n := a.Str("equation"), a.Int("N")
		if err := a.Err(); err != nil {
			return nil, err
		}
		e, err := parseEquation(text, int(n))
		return &einsumKernel[T]{e, dtype, mul}, err
	})
}

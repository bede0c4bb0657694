package strings

import (
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// newReduceJoin returns the kernel that joins strings along axes.
func newReduceJoin(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	keep, separator := a.Bool("keep_dims"), a.Str("separator")
	return kernels.Func(func(ctx *kernels.Context) error { return reduceJoin(ctx, separator, keep) }), a.Err()
}

// axis is a dimension to iterate over: its size and the distance between neighbours.
type axis struct{ size, step int }

// walked returns the offset of the i-th element along axes, with the last axis varying fastest.
func walked(axes []axis, i int) int {
	at := 0
	for d := len(axes) - 1; d >= 0; d-- {
		at += i % axes[d].size * axes[d].step
		i /= axes[d].size
	}
	return at
}

func reduceJoin(ctx *kernels.Context, separator string, keep bool) error {
	in, shape := ctx.Input(0), ctx.Input(0).Shape()
	list := tensor.Of[int32](ctx.Input(1))
	steps, step := make([]int, len(shape)), 1
	for d := len(shape) - 1; d >= 0; d-- {
		steps[d] = step
		step *= int(shape[d])
	}
	reduced := make([]bool, len(shape))
	count := 1
	joined := make([]axis, len(list)) // the first one named varies fastest
	for i, given := range list {
		d := int(given)
		if d < -len(shape) || d >= len(shape) {
			return status.Errorf(status.OutOfRange, "Invalid reduction dimension %d for input with %d dimension(s)", given, len(shape))
		}
		if d < 0 {
			d += len(shape)
		}
		if reduced[d] {
			return status.InvalidArgumentf("Duplicate reduction dimension %d", given)
		}
		reduced[d] = true
		joined[len(list)-1-i] = axis{int(shape[d]), steps[d]}
		count *= int(shape[d])
	}
	outShape, rest := tensor.Shape{}, []axis{}
	for d, size := range shape {
		if !reduced[d] {
			outShape, rest = append(outShape, size), append(rest, axis{int(size), steps[d]})
		} else if keep {
			outShape = append(outShape, 1)
		}
	}
	out, err := ctx.Allocate(0, tensor.String, outShape)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	for i := range out.Strings() {
		from := walked(rest, i)
		size := len(separator) * max(0, count-1)
		for j := range count {
			size += len(in.Strings()[from+walked(joined, j)])
		}
		if err := m.Take(size); err != nil {
			return err
		}
		var b strings.Builder
		b.Grow(size)
		for j := range count {
			if j > 0 {
				b.WriteString(separator)
			}
			b.WriteString(in.Strings()[from+walked(joined, j)])
		}
		out.Strings()[i] = b.String()
	}
	return nil
}

// newUnsortedSegmentJoin returns the kernel that joins the strings of each segment.
func newUnsortedSegmentJoin(c *kernels.Construction) (any, error) {
	separator, err := c.Attrs().Str("separator")
	// TensorFlow treats it as a C string.
	separator, _, _ = strings.Cut(separator, "\x00")
	return kernels.Func(func(ctx *kernels.Context) error { return unsortedSegmentJoin(ctx, separator) }), err
}

func unsortedSegmentJoin(ctx *kernels.Context, separator string) error {
	in, ids, count := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	switch {
	case count.Len() == 0:
		return status.InvalidArgumentf("Number of segments cannot be empty.")
	case count.Rank() != 0:
		return status.InvalidArgumentf("Number of segments must be a scalar")
	}
	segments, err := args.IntAt(count, 0)
	if err != nil {
		return err
	}
	switch {
	case segments < 0:
		return status.InvalidArgumentf("Number of segments must be non-negative but got %d", segments)
	case ids.Rank() == 0:
		return status.InvalidArgumentf("Segment_id cannot have rank 0")
	case ids.Rank() > in.Rank():
		return status.Errorf(status.OutOfRange, "Invalid segment_id rank %d for input with %d dimension(s)", ids.Rank(), in.Rank())
	}
	for d, size := range ids.Shape() {
		if size != in.Shape()[d] {
			return status.InvalidArgumentf("Segment dimension is %d while input dimension is %d in rank %d", size, in.Rank(), d)
		}
	}
	shape, err := shapes.ShapeOf(append([]int64{segments}, in.Shape()[ids.Rank():]...))
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.String, shape)
	if err != nil {
		return err
	}
	of, err := args.ReadIndices(ids)
	if err != nil {
		return err
	}
	defer of.Free()
	for _, id := range of.V {
		if id < 0 || id >= segments {
			return status.InvalidArgumentf("segment_ids are not allowed to exceed num_segments or to have negative values.")
		}
	}
	return joinSegments(ctx, out, in.Strings(), of.V, separator)
}

// joinSegments joins the rows of strings that have the same segment number.
func joinSegments(ctx *kernels.Context, out *tensor.Tensor, in []string, of []int64, separator string) error {
	m := ctx.Meter()
	defer m.Done()
	texts, err := kernels.Scratch[[]byte](&m, out.Len())
	if err != nil {
		return err
	}
	width := out.Shape()[1:].Elements()
	for i, id := range of {
		for j, s := range in[i*width : (i+1)*width] {
			text := &texts[int(id)*width+j]
			if err := m.TakeMany(2, len(s)+len(separator)); err != nil {
				return err
			}
			if len(*text) > 0 {
				*text = append(*text, separator...)
			}
			*text = append(*text, s...)
		}
	}
	end := ctx.Lookout()
	for i, text := range texts {
		if err := end.After(len(text) + 16); err != nil {
			return err
		}
		out.Strings()[i] = string(text)
	}
	return nil
}

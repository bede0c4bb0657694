package queues

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// largest returns the shape that a component's elements are padded to: its known sizes, and the largest of each unknown size. padded
// reports whether any element is smaller.
func largest(runs []run, component int, known tensor.Shape) (shape tensor.Shape, padded bool) {
	if !partial(known) {
		return known, false
	}
	shape = zeroUnknown(known)
	for i, r := range runs {
		have := r.shape(r.tensors[component])
		padded = padded || i > 0 && !have.Equal(shape)
		for d, size := range have {
			shape[d] = max(shape[d], size)
		}
	}
	return shape, padded
}

// partial reports whether any size of a shape is unknown.
func partial(s tensor.Shape) bool {
	return slices.ContainsFunc(s, func(size int64) bool { return size < 0 })
}

// zeroUnknown returns the shape with zero for each unknown size.
func zeroUnknown(known tensor.Shape) tensor.Shape {
	shape := known.Clone()
	for d, size := range shape {
		shape[d] = max(0, size)
	}
	return shape
}

// pad returns a component of the runs' elements as the rows of one tensor of the given shape, each element in the corner of its row.
func pad(runs []run, component int, shape tensor.Shape, pool *tensor.Pool) (*tensor.Tensor, error) {
	out, err := tensor.Zeros(pool, runs[0].tensors[component].DType(), shape)
	if err != nil || out.Len() == 0 {
		return out, err
	}
	room, at := out.Len()/out.Dim(0), 0
	for _, r := range runs {
		t := r.tensors[component]
		element := r.shape(t)
		per := element.Elements()
		for i := r.from; i < r.to; i++ {
			copyCorner(out, at, shape[1:], t, i*per, element)
			at += room
		}
	}
	return out, nil
}

// copyCorner copies a block of shape part, at position from of src, to the corner of the block of shape whole at
// position at of dst.
func copyCorner(dst *tensor.Tensor, at int, whole tensor.Shape, src *tensor.Tensor, from int, part tensor.Shape) {
	if whole[1:].Equal(part[1:]) {
		dst.CopyElements(at, src, from, part.Elements())
		return
	}
	row, room := part[1:].Elements(), whole[1:].Elements()
	for range part[0] {
		copyCorner(dst, at, whole[1:], src, from, part[1:])
		at, from = at+room, from+row
	}
}

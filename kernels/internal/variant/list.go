package variant

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// Join copies elements of the list, one after the other, to a new output 0 of the given shape;
// elements that are not set become zeros of size elements.
func (l *TensorList) Join(ctx *kernels.Context, shape tensor.Shape, elems []*tensor.Tensor, size int) error {
	out, err := ctx.Allocate(0, l.DType, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	for i, t := range elems {
		if t != nil {
			layout.Move(ctx, out, t, layout.NewNest([]int{size}, []int{1}, []int{1}, i*size, 0))
		} else if bytes := l.DType.Size(); bytes > 0 {
			clear(out.Data()[i*size*bytes : (i+1)*size*bytes])
		}
	}
	return nil
}

// Scatter makes row i of t element to[i] of the list, element i where to is nil.
func (l *TensorList) Scatter(ctx *kernels.Context, t *tensor.Tensor, row tensor.Shape, to []int64) error {
	if err := l.Admit(t); err != nil {
		return err
	}
	n := row.Elements()
	for i := range t.Dim(0) {
		e, err := layout.Part(ctx, t, row, i*n, n)
		if err != nil {
			return err
		}
		k := i
		if to != nil {
			k = int(to[i])
		}
		l.Set(k, e)
	}
	return nil
}

// Split makes the elements of the rows of t, lengths[i] of them for element i.
func (l *TensorList) Split(ctx *kernels.Context, t *tensor.Tensor, lengths []int64) error {
	if err := l.Admit(t); err != nil {
		return err
	}
	per, at := t.Shape()[1:].Elements(), int64(0)
	for i, n := range lengths {
		if n < 0 {
			return status.InvalidArgumentf("Invalid value in lengths: %d", n)
		}
		if n > t.Shape()[0]-at {
			return status.InvalidArgumentf("Attempting to slice [%d, %d] from tensor with length %d", at, at+n, t.Dim(0))
		}
		e, err := layout.Part(ctx, t, shapes.Replaced(t.Shape(), 0, 1, n), int(at)*per, int(n)*per)
		if err != nil {
			return err
		}
		l.Set(i, e)
		at += n
	}
	if at < t.Shape()[0] {
		return status.InvalidArgumentf("Unused values in tensor. Length of tensor: %d Values used: %d", t.Dim(0), at)
	}
	return nil
}

// MaxList bounds the elements of a list, each of which takes memory before it holds anything.
const MaxList = 1 << 26

// TensorList is what a variant scalar holds for TensorFlow's list ops: tensors of one type. It
// counts its references, and may be changed only by who holds the one reference to it in a tensor
// that nobody else sees.
type TensorList struct {
	Refs  atomic.Int32
	DType tensor.DType
	Shape shapes.PartialShape // of the elements
	Max   int                 // the most elements, -1 for no limit
	Elems []*tensor.Tensor
	Depth int // how deep lists lie in one another here, at most

	counted int64 // bytes of Elems that count as the process's, see grow
}

// MaxNesting bounds how deep variants may lie in one another, since what walks them (their last
// release, too) takes stack for each level.
const MaxNesting = 100

// Nesting is how deep lists, optionals and the like lie in one another in a tensor.
func Nesting(t *tensor.Tensor) int {
	if t.DType() != tensor.Variant {
		return 0
	}
	depth := 0
	for _, v := range t.Variants() {
		if v, ok := v.(interface{ nested() int }); ok {
			depth = max(depth, v.nested()+1)
		}
	}
	return depth
}

// TooDeep is the error for variants within variants beyond the limit.
func TooDeep() error {
	return status.Errorf(status.ResourceExhausted, "Variants are nested more than %d deep", MaxNesting)
}

// nested is how deep the list's elements go.
func (l *TensorList) nested() int { return l.Depth }

// Admit notes how deep an element goes that is about to be added.
func (l *TensorList) Admit(t *tensor.Tensor) error {
	d := Nesting(t)
	if d > MaxNesting {
		return TooDeep()
	}
	l.Depth = max(l.Depth, d)
	return nil
}

// NewTensorList makes a list of n elements that are not set, with one reference.
func NewTensorList(dtype tensor.DType, shape shapes.PartialShape, n int) (*TensorList, error) {
	if n > MaxList {
		return nil, status.Errorf(status.ResourceExhausted, "OOM when allocating a list of %d tensors", n)
	}
	l := &TensorList{DType: dtype, Shape: shape, Max: -1}
	if err := l.grow(n); err != nil {
		return nil, err
	}
	l.Elems = make([]*tensor.Tensor, n)
	l.Refs.Store(1)
	return l, nil
}

// Places of elements count in steps of placeStep bytes.
const (
	placeSize = 8
	placeStep = 64 << 10
)

// grow counts the places of n elements, before they are made. They are the process's: a list may be shared by steps of
// several sessions.
func (l *TensorList) grow(n int) error {
	missing := int64(n)*placeSize - l.counted
	if missing < placeStep {
		return nil
	}
	if err := tensor.Host.Reserve(missing); err != nil {
		return status.Errorf(status.ResourceExhausted, "OOM when allocating a list of %d tensors: %s", n, status.From(err).Message)
	}
	l.counted += missing
	return nil
}

// Append adds an element and takes over the reference, unless it fails.
func (l *TensorList) Append(t *tensor.Tensor) error {
	if len(l.Elems) >= MaxList {
		return status.Errorf(status.ResourceExhausted, "OOM when allocating a list of %d tensors", len(l.Elems)+1)
	}
	// A list that is full is copied to one that is larger by a quarter at least.
	if n := len(l.Elems); n == cap(l.Elems) {
		if err := l.grow(n + n/4 + 1); err != nil {
			return err
		}
	}
	l.Elems = append(l.Elems, t)
	return nil
}

// Concat appends the tensors of another list.
func (l *TensorList) Concat(tail *TensorList) error {
	if err := l.grow(len(l.Elems) + len(tail.Elems)); err != nil {
		return err
	}
	for _, t := range tail.Elems {
		if t != nil {
			t.Retain()
		}
	}
	l.Elems, l.Depth = append(l.Elems, tail.Elems...), max(l.Depth, tail.Depth)
	return nil
}

// Retain adds a reference.
func (l *TensorList) Retain() { l.Refs.Add(1) }

// Release drops a reference, after the last one the elements'.
func (l *TensorList) Release() {
	if l.Refs.Add(-1) == 0 {
		l.Cut(0)
		tensor.Host.Unreserve(l.counted)
		l.counted = 0
	}
}

// Cut releases the elements from n on; nil ones were never set.
func (l *TensorList) Cut(n int) {
	for i := n; i < len(l.Elems); i++ {
		if l.Elems[i] != nil {
			l.Elems[i].Release()
		}
		l.Elems[i] = nil
	}
	l.Elems = l.Elems[:n]
}

// Resize cuts the list or adds elements that are not set.
func (l *TensorList) Resize(n int) error {
	if n <= len(l.Elems) {
		l.Cut(n)
		return nil
	}
	if n > MaxList {
		return status.Errorf(status.ResourceExhausted, "OOM when allocating a list of %d tensors", n)
	}
	if err := l.grow(n); err != nil {
		return err
	}
	l.Elems = append(l.Elems, make([]*tensor.Tensor, n-len(l.Elems))...)
	return nil
}

// Set replaces element i and takes over the reference.
func (l *TensorList) Set(i int, t *tensor.Tensor) {
	if l.Elems[i] != nil {
		l.Elems[i].Release()
	}
	l.Elems[i] = t
}

// Clone is a list of its own of the same tensors.
func (l *TensorList) Clone() (*TensorList, error) {
	c := &TensorList{DType: l.DType, Shape: l.Shape, Max: l.Max, Depth: l.Depth}
	if err := c.grow(len(l.Elems)); err != nil {
		return nil, err
	}
	c.Elems = append(c.Elems, l.Elems...)
	c.Refs.Store(1)
	for _, t := range c.Elems {
		if t != nil {
			t.Retain()
		}
	}
	return c, nil
}

// Element is element i with a reference for the caller: zeros of the given shape, made from what
// the list and the op know, where it was never set.
func (l *TensorList) Element(ctx *kernels.Context, i int, shape shapes.PartialShape) (*tensor.Tensor, error) {
	if t := l.Elems[i]; t != nil {
		return t.Retain(), nil
	}
	if !shape.Full() {
		return nil, status.InvalidArgumentf("Trying to read an uninitialized tensor but element_shape is not fully defined: %v and no list element is set.", shape)
	}
	return tensor.Zeros(ctx.Device.Pool(), l.DType, shape.Dims)
}

// ShapeInput is what the op's input i and the list say about the elements' shape.
func (l *TensorList) ShapeInput(ctx *kernels.Context, i int) (shapes.PartialShape, error) {
	shape, err := shapes.PartialShapeInput(ctx, i)
	if err != nil {
		return shape, err
	}
	return shape.Merge(l.Shape)
}

// Agreed is what a shape and those of the elements that are set say.
func (l *TensorList) Agreed(shape shapes.PartialShape, elems []*tensor.Tensor) (shapes.PartialShape, error) {
	for _, t := range elems {
		if t == nil {
			continue
		}
		var err error
		if shape, err = shape.Merge(shapes.PartialShape{Dims: t.Shape(), Known: true}); err != nil {
			return shape, err
		}
	}
	// The merged shape must outlive the tensors.
	shape.Dims = shape.Dims.Clone()
	return shape, nil
}

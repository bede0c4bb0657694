package variant

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// Join copies elements of the list, one after the other, to a new output 0 of the given shape. An unset element becomes size zeros.
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

// Scatter sets list element to[i] to row i of t. If to is nil, row i becomes element i.
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

// Split sets each element i to the next lengths[i] rows of t.
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

// MaxList is the maximum number of elements of a list; each takes memory even when unset.
const MaxList = 1 << 26

// TensorList is the variant element of TensorFlow's list ops: tensors of one type. It is reference-counted. It may be changed only by the
// holder of its only reference, in a tensor that nothing else refers to.
type TensorList struct {
	Refs  atomic.Int32
	DType tensor.DType
	Shape shapes.PartialShape // of the elements
	Max   int                 // maximum number of elements, -1 for no limit
	Elems []*tensor.Tensor
	Depth int // maximum nesting depth of the elements

	counted int64 // bytes of Elems counted against the process's limit, see grow
}

// MaxNesting limits how deeply variants may be nested, since everything that walks them, including their last release, uses stack for each
// level.
const MaxNesting = 100

// Nesting returns how deeply lists, optionals and the like are nested in a tensor.
func Nesting(t *tensor.Tensor) int {
	if t.DType() != tensor.Variant {
		return 0
	}
	depth := 0
	for _, v := range t.Variants() {
		if v, ok := v.(interface{ Nested() int }); ok {
			depth = max(depth, v.Nested()+1)
		}
	}
	return depth
}

// TooDeep returns the error for variants nested beyond MaxNesting.
func TooDeep() error {
	return status.Errorf(status.ResourceExhausted, "Variants are nested more than %d deep", MaxNesting)
}

// Nested returns the nesting depth of the list's elements.
func (l *TensorList) Nested() int { return l.Depth }

// Admit records the nesting depth of an element that is about to be added.
func (l *TensorList) Admit(t *tensor.Tensor) error {
	d := Nesting(t)
	if d > MaxNesting {
		return TooDeep()
	}
	l.Depth = max(l.Depth, d)
	return nil
}

// NewTensorList returns a list of n unset elements, with one reference.
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

// List slots are counted in steps of placeStep bytes.
const (
	placeSize = 8
	placeStep = 64 << 10
)

// grow reserves memory for n slots, before they are allocated. They count against the process's limit only, because a list may be shared by
// steps of several sessions.
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

// Append adds an element. It takes over the reference unless it fails.
func (l *TensorList) Append(t *tensor.Tensor) error {
	if len(l.Elems) >= MaxList {
		return status.Errorf(status.ResourceExhausted, "OOM when allocating a list of %d tensors", len(l.Elems)+1)
	}
	// A full list is copied to one that is at least a quarter larger.
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
	n := len(l.Elems) + len(tail.Elems)
	if n > MaxList {
		return status.Errorf(status.ResourceExhausted, "OOM when allocating a list of %d tensors", n)
	}
	if err := l.grow(n); err != nil {
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

// Release releases a reference; the last one releases the elements.
func (l *TensorList) Release() {
	if l.Refs.Add(-1) == 0 {
		l.Cut(0)
		tensor.Host.Unreserve(l.counted)
		l.counted = 0
	}
}

// Cut releases the elements from n on; unset ones are nil.
func (l *TensorList) Cut(n int) {
	for i := n; i < len(l.Elems); i++ {
		if l.Elems[i] != nil {
			l.Elems[i].Release()
		}
		l.Elems[i] = nil
	}
	l.Elems = l.Elems[:n]
}

// Resize truncates the list or adds unset elements.
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

// Clone returns an independent list of the same tensors.
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

// Element returns element i with a reference for the caller. If it is unset, Element returns zeros of the given shape, completed by what
// the list knows.
func (l *TensorList) Element(ctx *kernels.Context, i int, shape shapes.PartialShape) (*tensor.Tensor, error) {
	if t := l.Elems[i]; t != nil {
		return t.Retain(), nil
	}
	if !shape.Full() {
		return nil, status.InvalidArgumentf("Trying to read an uninitialized tensor but element_shape is not fully defined: %v and no list element is set.", shape)
	}
	return tensor.Zeros(ctx.Device.Pool(), l.DType, shape.Dims)
}

// ShapeInput returns the elements' shape, merged from the op's input i and the list.
func (l *TensorList) ShapeInput(ctx *kernels.Context, i int) (shapes.PartialShape, error) {
	shape, err := shapes.PartialShapeInput(ctx, i)
	if err != nil {
		return shape, err
	}
	return shape.Merge(l.Shape)
}

// Agreed returns shape merged with the shapes of the elements that are set.
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

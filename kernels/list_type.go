package kernels

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// partialShape is a shape of which sizes (-1) or even the rank (known is false) may be open.
type partialShape struct {
	dims  tensor.Shape
	known bool
}

func (p partialShape) String() string {
	if !p.known {
		return "<unknown>"
	}
	return p.dims.String()
}

// full tells whether nothing is open.
func (p partialShape) full() bool {
	for _, d := range p.dims {
		if d < 0 {
			return false
		}
	}
	return p.known
}

func (p partialShape) admits(s tensor.Shape) bool { return !p.known || s.Compatible(p.dims) }

// merge gives what both say.
func (p partialShape) merge(q partialShape) (partialShape, error) {
	switch {
	case !p.known:
		return q, nil
	case !q.known:
		return p, nil
	case len(p.dims) != len(q.dims):
		return p, status.InvalidArgumentf("PartialTensorShape: Incompatible ranks during merge: %d vs. %d", len(p.dims), len(q.dims))
	}
	out := p.dims.Clone()
	for i, d := range q.dims {
		switch {
		case out[i] < 0:
			out[i] = d
		case d >= 0 && d != out[i]:
			return p, status.InvalidArgumentf("PartialTensorShape: Incompatible shapes during merge: %v vs. %v", p, q)
		}
	}
	return partialShape{out, true}, nil
}

// partialShapeInput reads input i, a vector of sizes of which -1 is an open one, or the scalar -1
// for an open rank.
func partialShapeInput(ctx *Context, i int) (partialShape, error) {
	t := ctx.Input(i)
	sizes, err := ctx.Ints(i)
	if err != nil {
		return partialShape{}, err
	}
	switch {
	case t.Rank() == 0 && sizes[0] == -1:
		return partialShape{}, nil
	case t.Rank() == 0:
		return partialShape{}, status.InvalidArgumentf("The only valid scalar shape tensor is the fully unknown shape specified as -1.")
	case t.Rank() > 1:
		return partialShape{}, status.InvalidArgumentf("Shape must be at most rank 1 but is rank %d", t.Rank())
	}
	for _, d := range sizes {
		if d < -1 {
			return partialShape{}, status.InvalidArgumentf("Dimension %d must be >= -1", d)
		}
	}
	return partialShape{sizes, true}, nil
}

// maxList bounds the elements of a list, each of which takes memory before it holds anything.
const maxList = 1 << 26

// tensorList is what a variant scalar holds for TensorFlow's list ops: tensors of one type. It
// counts its references, and may be changed only by who holds the one reference to it in a tensor
// that nobody else sees.
type tensorList struct {
	refs  atomic.Int32
	dtype tensor.DType
	shape partialShape // of the elements
	max   int          // the most elements, -1 for no limit
	elems []*tensor.Tensor
	depth int // how deep lists lie in one another here, at most
}

// maxNesting bounds how deep variants may lie in one another, since what walks them (their last
// release, too) takes stack for each level.
const maxNesting = 100

// nesting is how deep lists, optionals and the like lie in one another in a tensor.
func nesting(t *tensor.Tensor) int {
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

func tooDeep() error {
	return status.Errorf(status.ResourceExhausted, "Variants are nested more than %d deep", maxNesting)
}

// nested is how deep the list's elements go.
func (l *tensorList) nested() int { return l.depth }

// admit notes how deep an element goes that is about to be added.
func (l *tensorList) admit(t *tensor.Tensor) error {
	d := nesting(t)
	if d > maxNesting {
		return tooDeep()
	}
	l.depth = max(l.depth, d)
	return nil
}

func newTensorList(dtype tensor.DType, shape partialShape, n int) (*tensorList, error) {
	if n > maxList {
		return nil, status.Errorf(status.ResourceExhausted, "OOM when allocating a list of %d tensors", n)
	}
	l := &tensorList{dtype: dtype, shape: shape, max: -1, elems: make([]*tensor.Tensor, n)}
	l.refs.Store(1)
	return l, nil
}

// Retain adds a reference.
func (l *tensorList) Retain() { l.refs.Add(1) }

// Release drops a reference, after the last one the elements'.
func (l *tensorList) Release() {
	if l.refs.Add(-1) == 0 {
		l.cut(0)
	}
}

// cut releases the elements from n on; nil ones were never set.
func (l *tensorList) cut(n int) {
	for i := n; i < len(l.elems); i++ {
		if l.elems[i] != nil {
			l.elems[i].Release()
		}
		l.elems[i] = nil
	}
	l.elems = l.elems[:n]
}

// resize cuts the list or adds elements that are not set.
func (l *tensorList) resize(n int) error {
	if n <= len(l.elems) {
		l.cut(n)
		return nil
	}
	if n > maxList {
		return status.Errorf(status.ResourceExhausted, "OOM when allocating a list of %d tensors", n)
	}
	l.elems = append(l.elems, make([]*tensor.Tensor, n-len(l.elems))...)
	return nil
}

// set replaces element i and takes over the reference.
func (l *tensorList) set(i int, t *tensor.Tensor) {
	if l.elems[i] != nil {
		l.elems[i].Release()
	}
	l.elems[i] = t
}

// clone is a list of its own of the same tensors.
func (l *tensorList) clone() *tensorList {
	c := &tensorList{dtype: l.dtype, shape: l.shape, max: l.max, depth: l.depth, elems: append([]*tensor.Tensor(nil), l.elems...)}
	c.refs.Store(1)
	for _, t := range c.elems {
		if t != nil {
			t.Retain()
		}
	}
	return c
}

// listInput is the list that input i holds.
func listInput(ctx *Context, i int) (*tensorList, error) {
	t := ctx.Input(i)
	if t.DType() != tensor.Variant || t.Rank() != 0 {
		return nil, status.InvalidArgumentf("Input list must be a scalar saw: %v", t.Shape())
	}
	l, ok := t.Variants()[0].(*tensorList)
	if !ok {
		return nil, status.InvalidArgumentf("Input handle is not a list. Saw: '%T'", t.Variants()[0])
	}
	return l, nil
}

// typedList is listInput for an op that declares the elements' type.
func typedList(ctx *Context, i int, dtype tensor.DType) (*tensorList, error) {
	l, err := listInput(ctx, i)
	if err == nil && l.dtype != dtype {
		err = status.InvalidArgumentf("Invalid data types; op elements %v but list elements %v", dtype, l.dtype)
	}
	return l, err
}

// outputList makes output o the list, taking over the reference.
func outputList(ctx *Context, o int, l *tensorList) error {
	out, err := ctx.Allocate(o, tensor.Variant, nil)
	if err != nil {
		l.Release()
		return err
	}
	out.Variants()[0] = l
	return nil
}

// changeableList makes output 0 the list of input 0 for changing: the list itself where nobody
// else sees it, or else a clone.
func changeableList(ctx *Context, l *tensorList) (*tensorList, error) {
	if t := ctx.Input(0); t.Exclusive() && l.refs.Load() == 1 {
		ctx.Pass(0, 0)
		return l, nil
	}
	l = l.clone()
	return l, outputList(ctx, 0, l)
}

// element is element i with a reference for the caller: zeros of the given shape, made from what
// the list and the op know, where it was never set.
func (l *tensorList) element(ctx *Context, i int, shape partialShape) (*tensor.Tensor, error) {
	if t := l.elems[i]; t != nil {
		return t.Retain(), nil
	}
	if !shape.full() {
		return nil, status.InvalidArgumentf("Trying to read an uninitialized tensor but element_shape is not fully defined: %v and no list element is set.", shape)
	}
	return tensor.Zeros(ctx.Device.Pool(), l.dtype, shape.dims)
}

// shapeInput is what the op's input i and the list say about the elements' shape.
func (l *tensorList) shapeInput(ctx *Context, i int) (partialShape, error) {
	shape, err := partialShapeInput(ctx, i)
	if err != nil {
		return shape, err
	}
	return shape.merge(l.shape)
}

// agreed is what a shape and those of the elements that are set say.
func (l *tensorList) agreed(shape partialShape, elems []*tensor.Tensor) (partialShape, error) {
	for _, t := range elems {
		if t == nil {
			continue
		}
		var err error
		if shape, err = shape.merge(partialShape{t.Shape(), true}); err != nil {
			return shape, err
		}
	}
	// The merged shape must outlive the tensors.
	shape.dims = shape.dims.Clone()
	return shape, nil
}

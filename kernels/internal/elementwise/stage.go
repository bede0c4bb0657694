package elementwise

import (
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// Stage is what an elementwise kernel does with a block of elements, for chains of kernels that compute block by block
// (package chain).
type Stage struct {
	// In and Out are the elements of all operands and of the result.
	In, Out *Elem
	// Each computes n elements of dst; b is nil for a kernel of one operand. dst may be an operand.
	Each func(dst, a, b unsafe.Pointer, n int)
	// WithScalar, where it is there, is Each with the same b for all elements, ScalarWith with the same a.
	WithScalar, ScalarWith func(dst, v, scalar unsafe.Pointer, n int)
	// Shape is the shape of the result for operands of these shapes, which broadcast to it. ok is false for operands that
	// the kernel has to see itself: it refuses them, or they do not broadcast.
	Shape func(a, b tensor.Shape) (shape tensor.Shape, ok bool)
}

// Staged is implemented by kernels that may be a stage of a chain.
type Staged interface {
	// Stage is the kernel as a stage; ok is false where it is none.
	Stage() (s Stage, ok bool)
}

// stageable tells whether a chain may hold such elements in blocks of its own, as bytes.
func stageable(elems ...*Elem) bool {
	for _, e := range elems {
		if t := e.DType; t == tensor.String || t == tensor.Variant || t == tensor.Resource || e.size == 0 || e.size > MaxStageElement {
			return false
		}
	}
	return true
}

// MaxStageElement is the size in bytes of the largest elements of stages.
const MaxStageElement = 16

// Size is the size of an element in bytes.
func (e *Elem) Size() int { return e.size }

// Fill sets the n elements at dst to the one at src.
func (e *Elem) Fill(dst, src unsafe.Pointer, n int) { e.fill(dst, src, n) }

// Move copies n elements that do not overlap.
func (e *Elem) Move(dst, src unsafe.Pointer, n int) { e.move(dst, src, n) }

// Spread sets dst to the n elements at src, each of them width times in a row.
func (e *Elem) Spread(dst, src unsafe.Pointer, n, width int) { e.spread(dst, src, n, width) }

// Stage implements Staged.
func (k *UnaryKernel) Stage() (Stage, bool) {
	return Stage{In: k.In, Out: k.Out,
		Each:  func(dst, a, _ unsafe.Pointer, n int) { k.Each(dst, a, n) },
		Shape: func(a, _ tensor.Shape) (tensor.Shape, bool) { return a, true },
	}, stageable(k.In, k.Out)
}

// Stage implements Staged. Operands that are checked before anything is computed are for the kernel alone, as are those
// of ops that go by the number of elements.
func (k *BinaryKernel) Stage() (Stage, bool) {
	s := Stage{In: k.In, Out: k.out, Each: k.Each, WithScalar: k.withScalar, ScalarWith: k.scalarWith, Shape: k.stageShape}
	return s, k.check == nil && !k.tolerant && stageable(k.In, k.out)
}

func (k *BinaryKernel) stageShape(a, b tensor.Shape) (tensor.Shape, bool) {
	switch {
	case a.Equal(b):
		return a, true
	case k.SameShape || k.SameCount:
		return nil, false
	case len(b) == 0:
		return a, true
	case len(a) == 0:
		return b, true
	}
	return shapes.BroadcastShape(a, b)
}

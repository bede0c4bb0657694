package elementwise

import (
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// Stage is an elementwise kernel's operation on a block of elements, for chains of kernels that compute block by block (package chain).
type Stage struct {
	// In describes the elements of all operands, Out those of the result.
	In, Out *Elem
	// Each computes n elements of dst; b is nil for a kernel with one operand. dst may be an operand.
	Each func(dst, a, b unsafe.Pointer, n int)
	// WithScalar, if not nil, is Each with the same b for all elements; ScalarWith, with the same a.
	WithScalar, ScalarWith func(dst, v, scalar unsafe.Pointer, n int)
	// Shape returns the shape of the result for operands that broadcast to it. ok is false if the kernel must handle the operands itself:
	// it rejects them, or they do not broadcast.
	Shape func(a, b tensor.Shape) (shape tensor.Shape, ok bool)
}

// Staged is implemented by kernels that may be a stage of a chain.
type Staged interface {
	// Stage returns the kernel as a stage; ok is false if it cannot be one.
	Stage() (s Stage, ok bool)
}

// stageable reports whether a chain may hold such elements as bytes in its own blocks.
func stageable(elems ...*Elem) bool {
	for _, e := range elems {
		if t := e.DType; t == tensor.String || t == tensor.Variant || t == tensor.Resource || e.size == 0 || e.size > MaxStageElement {
			return false
		}
	}
	return true
}

// MaxStageElement is the maximum size in bytes of an element in a stage.
const MaxStageElement = 16

// Size returns the size of an element in bytes.
func (e *Elem) Size() int { return e.size }

// Fill sets the n elements at dst to the one at src.
func (e *Elem) Fill(dst, src unsafe.Pointer, n int) { e.fill(dst, src, n) }

// Move copies n elements between non-overlapping memory.
func (e *Elem) Move(dst, src unsafe.Pointer, n int) { e.move(dst, src, n) }

// Spread sets dst to the n elements at src, each repeated width times.
func (e *Elem) Spread(dst, src unsafe.Pointer, n, width int) { e.spread(dst, src, n, width) }

// Stage implements Staged.
func (k *UnaryKernel) Stage() (Stage, bool) {
	return Stage{In: k.In, Out: k.Out,
		Each:  func(dst, a, _ unsafe.Pointer, n int) { k.Each(dst, a, n) },
		Shape: func(a, _ tensor.Shape) (tensor.Shape, bool) { return a, true },
	}, stageable(k.In, k.Out)
}

// Stage implements Staged. A kernel that checks operands before it computes cannot be a stage, nor can one whose op goes by the number of
// elements.
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

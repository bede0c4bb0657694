package elementwise

import (
	"sync"
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// Elem is what a driver needs to handle elements without knowing their type.
type Elem struct {
	DType tensor.DType
	size  int
	// fill sets the n elements at dst to the one at src.
	fill func(dst, src unsafe.Pointer, n int)
	// move copies n elements between non-overlapping memory.
	move func(dst, src unsafe.Pointer, n int)
	// spread sets dst to the n elements at src, each repeated width times.
	spread func(dst, src unsafe.Pointer, n, width int)
	// Blocks holds pointers to element.BlockLen elements of working memory.
	Blocks *sync.Pool
}

// ElemOf describes elements of type T. There is one description for each type.
func ElemOf[T any]() *Elem {
	dtype := element.DTypeOf[T]()
	if e, ok := elems[dtype]; ok {
		return e
	}
	e := &Elem{
		DType: dtype,
		size:  element.SizeOf(dtype),
		fill: func(dst, src unsafe.Pointer, n int) {
			v := *(*T)(src)
			d := unsafe.Slice((*T)(dst), n)
			for i := range d {
				d[i] = v
			}
		},
		move: func(dst, src unsafe.Pointer, n int) {
			copy(unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(src), n))
		},
		spread: func(dst, src unsafe.Pointer, n, width int) {
			d := unsafe.Slice((*T)(dst), n*width)
			for _, v := range unsafe.Slice((*T)(src), n) {
				for i := range d[:width] {
					d[i] = v
				}
				d = d[width:]
			}
		},
		Blocks: &sync.Pool{New: func() any { return unsafe.Pointer(new([element.BlockLen]T)) }},
	}
	elems[dtype] = e
	return e
}

// elems is filled while tables are built and does not change afterwards.
var elems = map[tensor.DType]*Elem{}

// Block returns working memory for a block of elements, which must be returned to Blocks.
func (e *Elem) Block() unsafe.Pointer { return e.Blocks.Get().(unsafe.Pointer) }

// At returns a pointer to element i of those at p.
func (e *Elem) At(p unsafe.Pointer, i int) unsafe.Pointer { return unsafe.Add(p, i*e.size) }

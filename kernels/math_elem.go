package kernels

import (
	"sync"
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
)

// blockLen is how many elements a driver spreads or gathers at a time: of 8 bytes each they
// leave room for other operands in the first-level cache.
const blockLen = 1024

// How many elements are worth a part of their own when an elementwise op runs on more than one
// core: what costs some 10 µs.
const (
	cheapGrain  = 1 << 15
	costlyGrain = 1 << 12
)

// elem is what a driver must be able to do with elements whose type it does not know.
type elem struct {
	dtype tensor.DType
	size  int
	// fill sets the n elements at dst to the one at src.
	fill func(dst, src unsafe.Pointer, n int)
	// move copies n elements that do not overlap.
	move func(dst, src unsafe.Pointer, n int)
	// spread sets dst to the n elements at src, each of them width times in a row.
	spread func(dst, src unsafe.Pointer, n, width int)
	// blocks holds pointers to blockLen elements of working memory.
	blocks *sync.Pool
}

// elemOf describes elements of type T. There is one description for each type.
func elemOf[T any]() *elem {
	dtype := dtypeOf[T]()
	if e, ok := elems[dtype]; ok {
		return e
	}
	e := &elem{
		dtype: dtype,
		size:  elemSize(dtype),
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
		blocks: &sync.Pool{New: func() any { return unsafe.Pointer(new([blockLen]T)) }},
	}
	elems[dtype] = e
	return e
}

// elems is filled while tables are made, and not changed after.
var elems = map[tensor.DType]*elem{}

func (e *elem) block() unsafe.Pointer { return e.blocks.Get().(unsafe.Pointer) }

// at is element i of those at p.
func (e *elem) at(p unsafe.Pointer, i int) unsafe.Pointer { return unsafe.Add(p, i*e.size) }

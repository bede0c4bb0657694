package layout

import (
	"slices"

	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Mover moves elements of one memory layout: of 1, 2, 4, 8 or 16 bytes, strings, handles or variants. Array ops compute where elements go
// and leave the moving to it, so they do not depend on types.
type Mover struct {
	// nest runs rows lo to hi of a nest.
	nest func(dst, src *tensor.Tensor, n *Nest, lo, hi int)
	// Fill sets elements lo to hi of dst to the first of value.
	Fill func(dst, value *tensor.Tensor, lo, hi int)
	// Set sets the elements of dst at the given places to the first of value.
	Set func(dst, value *tensor.Tensor, places []int64)
	// pad writes lines lo to hi of a padding; it is nil for elements that hold references.
	pad func(dst, src, value *tensor.Tensor, p *padding, lo, hi int)
	// Rows copies rows of n elements: row from[i] of src to row to[i] of dst, for lo <= i < hi.
	// A nil list stands for 0, 1, 2 and so on.
	Rows func(dst, src *tensor.Tensor, to, from []int64, n, lo, hi int)
	// roll implements Roll.
	roll func(dst, src *tensor.Tensor, shifts []int)
}

var (
	move1       = newMover(func(t *tensor.Tensor) []uint8 { return t.Data() })
	move2       = newMover(func(t *tensor.Tensor) []uint16 { return element.Cells[uint16](t.Data()) })
	move4       = newTurner(func(t *tensor.Tensor) []uint32 { return element.Cells[uint32](t.Data()) }, simd.Transpose[uint32])
	move8       = newMover(func(t *tensor.Tensor) []uint64 { return element.Cells[uint64](t.Data()) })
	move16      = newMover(func(t *tensor.Tensor) [][2]uint64 { return element.Cells[[2]uint64](t.Data()) })
	moveString  = newMover((*tensor.Tensor).Strings)
	moveHandle  = newMover((*tensor.Tensor).Handles)
	moveVariant = newVariantMover()
)

func newMover[E any](elems func(*tensor.Tensor) []E) *Mover {
	return newTurner(elems, simd.TransposeAny[E])
}

// newTurner returns a mover with its own function for tiles of transpositions.
func newTurner[E any](elems func(*tensor.Tensor) []E, turn tile[E]) *Mover {
	return &Mover{
		nest: func(dst, src *tensor.Tensor, n *Nest, lo, hi int) { moveNest(elems(dst), elems(src), n, lo, hi, turn) },
		Fill: func(dst, value *tensor.Tensor, lo, hi int) {
			element.Fill(elems(dst)[lo:hi], elems(value)[0])
		},
		Set: func(dst, value *tensor.Tensor, places []int64) {
			v, d := elems(value)[0], elems(dst)
			for _, p := range places {
				d[p] = v
			}
		},
		pad: func(dst, src, value *tensor.Tensor, p *padding, lo, hi int) {
			var v E
			if value != nil {
				v = elems(value)[0]
			}
			padLines(elems(dst), elems(src), v, p, lo, hi)
		},
		Rows: func(dst, src *tensor.Tensor, to, from []int64, n, lo, hi int) {
			moveRows(elems(dst), elems(src), to, from, n, lo, hi)
		},
		roll: func(dst, src *tensor.Tensor, shifts []int) { rollRows(elems(dst), elems(src), src.Shape(), shifts) },
	}
}

// MoverOf returns the mover for an element type.
func MoverOf(d tensor.DType) *Mover {
	switch d.Size() {
	case 1:
		return move1
	case 2:
		return move2
	case 4:
		return move4
	case 8:
		return move8
	case 16:
		return move16
	}
	switch d {
	case tensor.String:
		return moveString
	case tensor.Resource:
		return moveHandle
	}
	return moveVariant
}

func moveRows[E any](dst, src []E, to, from []int64, n, lo, hi int) {
	if to == nil && from == nil {
		tensor.Copy(dst[lo*n:hi*n], src[lo*n:hi*n])
		return
	}
	// Rows whose length is a compile-time constant are moved without a call, which allows many loads in flight.
	switch n {
	case 1:
		moveElements(dst, src, to, from, lo, hi)
	case 2:
		moveElements(arrays[[2]E](dst), arrays[[2]E](src), to, from, lo, hi)
	case 3:
		moveElements(arrays[[3]E](dst), arrays[[3]E](src), to, from, lo, hi)
	case 4:
		moveElements(arrays[[4]E](dst), arrays[[4]E](src), to, from, lo, hi)
	case 8:
		moveElements(arrays[[8]E](dst), arrays[[8]E](src), to, from, lo, hi)
	case 16:
		moveElements(arrays[[16]E](dst), arrays[[16]E](src), to, from, lo, hi)
	case 32:
		moveElements(arrays[[32]E](dst), arrays[[32]E](src), to, from, lo, hi)
	default:
		for i := lo; i < hi; i++ {
			d, s := listed(to, i), listed(from, i)
			tensor.Copy(dst[d*n:d*n+n], src[s*n:s*n+n])
		}
	}
}

// arrays returns s as a slice of arrays of its elements, without the remainder.
func arrays[A, E any](s []E) []A {
	var a A
	var e E
	return unsafe.Slice((*A)(unsafe.Pointer(unsafe.SliceData(s))), len(s)/int(unsafe.Sizeof(a)/unsafe.Sizeof(e)))
}

// moveElements moves elements given by one or two lists.
func moveElements[E any](dst, src []E, to, from []int64, lo, hi int) {
	switch {
	case to == nil:
		d := dst[lo:hi]
		for i, r := range from[lo:hi] {
			d[i] = src[r]
		}
	case from == nil:
		for i := lo; i < hi; i++ {
			dst[to[i]] = src[i]
		}
	default:
		for i := lo; i < hi; i++ {
			dst[to[i]] = src[from[i]]
		}
	}
}

// listed returns element i of rows, where nil stands for 0, 1, 2 and so on.
func listed(rows []int64, i int) int {
	if rows == nil {
		return i
	}
	return int(rows[i])
}

// moveGrain is the minimum number of bytes per part when elements are moved on several cores.
const moveGrain = 1 << 17

// movePiece is the number of bytes that are moved between two checks for the step's end.
const movePiece = 1 << 22

// moveTime is the time in nanoseconds to find a row, and moveSpeed the number of bytes moved in a nanosecond.
const moveTime, moveSpeed = 8, 4

// moveBytes returns the estimated cost of moving an element, in bytes; Go values cost as much as their headers.
func moveBytes(d tensor.DType) int { return max(d.Size(), 16*element.OneIf(d.Size() == 0)) }

// Move runs a nest on as many cores as it is worth, or on the accelerator whose memory dst and src are in.
func Move(ctx *kernels.Context, dst, src *tensor.Tensor, n *Nest) {
	rows, row := n.rows()
	if rows == 0 || row == 0 {
		return
	}
	if !dst.OnHost() {
		moveOn(ctx, dst, src, n)
		return
	}
	m := MoverOf(dst.DType())
	row *= moveBytes(dst.DType())
	if rows*row <= moveGrain {
		m.nest(dst, src, n, 0, rows)
		return
	}
	if row > movePiece && n.divides(dst.DType()) {
		moveLong(ctx, m, dst, src, n, rows, row)
		return
	}
	if rows == 1 {
		m.nest(dst, src, n, 0, rows)
		return
	}
	ctx.Parallel(rows, max(1, moveGrain/row), func(lo, hi int) { m.nest(dst, src, n, lo, hi) })
}

// divides reports whether the rows of a nest can be moved in pieces: movers of tiles and variants need them whole.
func (n *Nest) divides(d tensor.DType) bool { return !n.tiled && d != tensor.Variant }

// moveLong runs a nest of rows whose size in bytes is row, a piece of each row at a time, unless the step ends.
func moveLong(ctx *kernels.Context, m *Mover, dst, src *tensor.Tensor, n *Nest, rows, row int) {
	o := n.outer()
	count := n.dims[o]
	size := max(1, count/(row/movePiece))
	ctx.Parallel(rows, 1, func(lo, hi int) {
		for at := 0; at < count && ctx.Ended() == nil; at += size {
			m.nest(dst, src, n.piece(at, min(at+size, count)), lo, hi)
		}
	})
}

// piece returns a nest of iterations lo to hi of the innermost loop.
func (n *Nest) piece(lo, hi int) *Nest {
	p, o := *n, n.outer()
	p.dims = slices.Clone(n.dims)
	p.dims[o] = hi - lo
	p.dstOff += lo * n.dst[o]
	p.srcOff += lo * n.src[o]
	return &p
}

// MoveAt copies rows of n elements on as many cores as the copy is worth, or on the accelerator whose memory dst and src are in. If to has
// repetitions, the order matters and one core does all the work.
func MoveAt(ctx *kernels.Context, dst, src *tensor.Tensor, to, from []int64, n, rows int) error {
	if rows == 0 || n == 0 {
		return nil
	}
	if !dst.OnHost() {
		return moveAtOn(ctx, dst, src, to, from, n, rows)
	}
	m, size := MoverOf(dst.DType()), moveBytes(dst.DType())
	row := n * size
	if to == nil && from == nil && row > movePiece { // a copy, in parts of any size
		ctx.Parallel(n*rows, movePiece/size, func(lo, hi int) { m.Rows(dst, src, nil, nil, 1, lo, hi) })
		return nil
	}
	if rows*row <= moveGrain {
		m.Rows(dst, src, to, from, n, 0, rows)
		return nil
	}
	if to != nil {
		return ctx.Each(rows, moveTime+row/moveSpeed, func(lo, hi int) error {
			m.Rows(dst, src, to, from, n, lo, hi)
			return nil
		})
	}
	ctx.Parallel(rows, max(1, moveGrain/row), func(lo, hi int) { m.Rows(dst, src, to, from, n, lo, hi) })
	return nil
}

// Zero clears a tensor of fixed-size elements, unless its step ends. Other tensors already have zero values when they are made.
func Zero(ctx *kernels.Context, t *tensor.Tensor) {
	if t.OnHost() {
		_ = kernels.Clear(ctx, t.Data()) // nobody reads the outputs of a step that has ended
	} else if t.Len() > 0 {
		kernels.AcceleratorOf(ctx.Device).Fill(ctx, t, 0)
	}
}

// Fill sets all elements of dst to the first of value, which may be on the host for any dst.
func Fill(ctx *kernels.Context, dst, value *tensor.Tensor) {
	if dst.Len() == 0 {
		return
	}
	if !dst.OnHost() {
		fillOn(ctx, dst, value)
		return
	}
	m, size := MoverOf(dst.DType()), moveBytes(dst.DType())
	if dst.Len()*size <= moveGrain {
		m.Fill(dst, value, 0, dst.Len())
		return
	}
	ctx.Parallel(dst.Len(), moveGrain/size, func(lo, hi int) { m.Fill(dst, value, lo, hi) })
}

// newVariantMover returns the mover of variants, of which each tensor owns a reference. It finds out where each element goes by moving
// index numbers with the other movers.
func newVariantMover() *Mover {
	// place runs a mover of index numbers from src to dst and repeats its moves for the variants.
	place := func(dst, src *tensor.Tensor, run func(dst, src []int)) {
		to, from := make([]int, dst.Len()), make([]int, src.Len())
		for i := range from {
			from[i] = i + 1
		}
		run(to, from)
		for i, f := range to {
			if f > 0 {
				SetVariant(dst.Variants(), i, src.Variants()[f-1])
			}
		}
	}
	return &Mover{
		nest: func(dst, src *tensor.Tensor, n *Nest, lo, hi int) {
			place(dst, src, func(d, s []int) { moveNest(d, s, n, lo, hi, simd.TransposeAny[int]) })
		},
		Fill: func(dst, value *tensor.Tensor, lo, hi int) {
			for i := lo; i < hi; i++ {
				SetVariant(dst.Variants(), i, value.Variants()[0])
			}
		},
		Set: func(dst, value *tensor.Tensor, places []int64) {
			for _, p := range places {
				SetVariant(dst.Variants(), int(p), value.Variants()[0])
			}
		},
		Rows: func(dst, src *tensor.Tensor, to, from []int64, n, lo, hi int) {
			old, with := dst.Variants(), src.Variants()
			for i := lo; i < hi; i++ {
				d, s := listed(to, i), listed(from, i)
				for j := range n {
					SetVariant(old, d*n+j, with[s*n+j])
				}
			}
		},
		roll: func(dst, src *tensor.Tensor, shifts []int) {
			rollRows(dst.Variants(), src.Variants(), src.Shape(), shifts)
			tensor.RetainVariants(dst.Variants())
		},
	}
}

// SetVariant replaces an element, retaining the new one and releasing the old one.
func SetVariant(elems []any, i int, v any) {
	if c, ok := v.(tensor.Counted); ok {
		c.Retain()
	}
	if c, ok := elems[i].(tensor.Counted); ok {
		c.Release()
	}
	elems[i] = v
}

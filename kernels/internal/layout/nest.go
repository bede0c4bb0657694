package layout

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// Nest is a nest of loops that copies elements, as slicing, transposing, tiling, padding, broadcasting and joining do. Offsets and strides
// are in elements; a source stride of 0 repeats, a negative one reverses.
type Nest struct {
	dims           []int // the outermost first
	dst, src       []int // the strides
	dstOff, srcOff int
	tiled          bool // the last two dimensions are a transposition, see moveTiles
}

// NewNest returns a simplified loop nest: it drops loops of one iteration, merges loops that are contiguous, and reorders loops for good
// locality. It does not keep the slices.
func NewNest(dims []int, dst, src []int, dstOff, srcOff int) *Nest {
	n := &Nest{dstOff: dstOff, srcOff: srcOff}
	for i, d := range dims {
		if d == 1 {
			continue
		}
		if k := len(n.dims) - 1; k >= 0 && n.dst[k] == d*dst[i] && n.src[k] == d*src[i] {
			n.dims[k] *= d
			n.dst[k], n.src[k] = dst[i], src[i]
			continue
		}
		n.dims, n.dst, n.src = append(n.dims, d), append(n.dst, dst[i]), append(n.src, src[i])
	}
	if len(n.dims) == 0 {
		n.dims, n.dst, n.src = []int{1}, []int{1}, []int{1}
	}
	n.turn()
	return n
}

// Permuted returns the nest that copies a tensor with dimensions dims to one with the dimensions in the order of perm.
func Permuted(dims []int, perm ...int) *Nest {
	own := make([]int, len(dims))
	step := 1
	for i := len(dims) - 1; i >= 0; i-- {
		own[i] = step
		step *= dims[i]
	}
	to, dst, src := make([]int, len(dims)), make([]int, len(dims)), make([]int, len(dims))
	step = 1
	for i := len(perm) - 1; i >= 0; i-- {
		to[i], dst[i], src[i] = dims[perm[i]], step, own[perm[i]]
		step *= to[i]
	}
	return NewNest(to, dst, src, 0, 0)
}

// turn moves the loop in which the source is contiguous next to the innermost one, if those are different loops; tiles of both then fit the
// cache.
func (n *Nest) turn() {
	last := len(n.dims) - 1
	if last == 0 || n.dst[last] != 1 || n.src[last] == 1 || n.src[last] == 0 {
		return
	}
	for i := range last {
		if n.src[i] != 1 {
			continue
		}
		for k := i; k < last-1; k++ {
			n.dims[k], n.dims[k+1] = n.dims[k+1], n.dims[k]
			n.dst[k], n.dst[k+1] = n.dst[k+1], n.dst[k]
			n.src[k], n.src[k+1] = n.src[k+1], n.src[k]
		}
		n.tiled = true
		return
	}
}

// outer returns the number of loops around the innermost one, or around the two of a tile.
func (n *Nest) outer() int {
	if n.tiled {
		return len(n.dims) - 2
	}
	return len(n.dims) - 1
}

// rows returns the number of units of work that can be divided among cores, and the number of elements in each.
func (n *Nest) rows() (rows, row int) {
	o := n.outer()
	rows, row = shapes.LoopSize(n.dims[:o]), shapes.LoopSize(n.dims[o:])
	if n.tiled {
		strips := (n.dims[o] + tileSide - 1) / tileSide
		return rows * strips, row / max(strips, 1)
	}
	return rows, row
}

// tileSide is the maximum number of lines that a transposition writes at once.
const tileSide = 32

// tile transposes a block: row i of the result is at dst[i*ldd:] and gets column i of src, whose rows are lds apart.
type tile[E any] func(dst []E, ldd int, src []E, lds, rows, columns int)

func moveNest[E any](dst, src []E, n *Nest, lo, hi int, turn tile[E]) {
	o := n.outer()
	strips := 1
	if n.tiled {
		strips = (n.dims[o] + tileSide - 1) / tileSide
	}
	// Where row lo starts.
	var spare [8]int
	at := spare[:min(o, len(spare))]
	if o > len(spare) {
		at = make([]int, o)
	}
	d, s := n.dstOff, n.srcOff
	strip, rest := lo%strips, lo/strips
	for k := o - 1; k >= 0; k-- {
		at[k] = rest % n.dims[k]
		rest /= n.dims[k]
		d += at[k] * n.dst[k]
		s += at[k] * n.src[k]
	}
	for row := lo; row < hi; row++ {
		if n.tiled {
			moveTiles(dst, src, n, d, s, strip, strips, turn)
			if strip++; strip < strips {
				continue
			}
			strip = 0
		} else {
			moveRun(dst, src, n.dims[o], d, s, n.dst[o], n.src[o])
		}
		for k := o - 1; k >= 0; k-- {
			at[k]++
			d += n.dst[k]
			s += n.src[k]
			if at[k] < n.dims[k] {
				break
			}
			d -= n.dims[k] * n.dst[k]
			s -= n.dims[k] * n.src[k]
			at[k] = 0
		}
	}
}

// moveRun is the innermost loop.
func moveRun[E any](dst, src []E, count, d, s, dStep, sStep int) {
	switch {
	case dStep == 1 && sStep == 1:
		if count == 1 {
			dst[d] = src[s]
			return
		}
		tensor.Copy(dst[d:d+count], src[s:s+count])
	case dStep == 1 && sStep == 0:
		v, run := src[s], dst[d:d+count]
		for i := range run {
			run[i] = v
		}
	case dStep == 1 && sStep == -1:
		run, back := dst[d:d+count], src[s-count+1:s+1]
		for i := range run {
			run[i] = back[len(back)-1-i]
		}
	case dStep == 1:
		run := dst[d : d+count]
		for i := range run {
			run[i] = src[s]
			s += sStep
		}
	default:
		for range count {
			dst[d] = src[s]
			d += dStep
			s += sStep
		}
	}
}

// moveTiles transposes one of strips strips, which divide the iterations of the second innermost loop. The source is contiguous in that
// loop, the destination in the innermost one.
func moveTiles[E any](dst, src []E, n *Nest, d, s, strip, strips int, turn tile[E]) {
	o := n.outer()
	rows, cols := n.dims[o], n.dims[o+1]
	dRow, sCol := n.dst[o], n.src[o+1]
	// Strips are of similar width, so none is too narrow for the vectors of a tile.
	from, to := strip*rows/strips, (strip+1)*rows/strips
	if cols > 0 {
		turn(dst[d+from*dRow:], dRow, src[s+from:], sCol, to-from, cols)
	}
}

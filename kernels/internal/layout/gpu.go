package layout

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

const nestLimit = 16

const partsLimit = 16

// SpaceLimit is the maximum number of block dimensions in space, the limit of a struct in kernels/cuda.
const SpaceLimit = 8

// moveOn runs a non-empty nest on the device.
func moveOn(ctx *kernels.Context, dst, src *tensor.Tensor, n *Nest) {
	a, size := kernels.AcceleratorOf(ctx.Device), dst.DType().Size()
	last := len(n.dims) - 1
	if last == 0 && n.dst[0] == 1 && n.src[0] == 1 && n.dims[0] == dst.Len() && n.dims[0] == src.Len() {
		a.Copy(ctx, dst, src)
		return
	}
	to, from := dst.Address()+uint64(n.dstOff*size), src.Address()+uint64(n.srcOff*size)
	launchNest(ctx, a, n, to, from, size)
}

// launchNest runs a nest between two addresses. A nest that is too deep for the device's function is split into one nest for each iteration
// of its outermost loop.
func launchNest(ctx *kernels.Context, a kernels.Accelerator, n *Nest, to, from uint64, size int) {
	if len(n.dims) > nestLimit {
		inner := &Nest{dims: n.dims[1:], dst: n.dst[1:], src: n.src[1:], tiled: n.tiled}
		for i := range n.dims[0] {
			launchNest(ctx, a, inner, to+uint64(i*n.dst[0]*size), from+uint64(i*n.src[0]*size), size)
		}
		return
	}
	const side = 32
	last := len(n.dims) - 1
	if n.tiled && n.dims[last] >= side/2 && n.dims[last-1] >= side/2 {
		high, wide := (n.dims[last-1]+side-1)/side, (n.dims[last]+side-1)/side
		tiles := shapes.LoopSize(n.dims[:last-1]) * high * wide
		args := append([]uint64{to, from}, n.words(tiles)...)
		h, w := launch.Divisor(high, tiles), launch.Divisor(wide, tiles)
		a.Launch(ctx, kernels.Launch{Function: launch.CellFunction("move_tiles", size), Grid: [3]int{min(tiles, 32*a.Card().Processors)},
			Block: [3]int{launch.Threads}, Args: append(args, h[0], h[1], w[0], w[1], uint64(tiles))})
		return
	}
	n, size = n.widened(to, from, size)
	count := shapes.LoopSize(n.dims)
	args := append([]uint64{to, from}, n.words(count)...)
	a.Launch(ctx, launch.PerElement(a, launch.CellFunction("move_nest", size), count, append(args, uint64(count))...))
}

// widened returns the nest for wider elements if the innermost loop is contiguous on both sides.
func (n *Nest) widened(to, from uint64, size int) (*Nest, int) {
	last := len(n.dims) - 1
	if n.dst[last] != 1 || n.src[last] != 1 {
		return n, size
	}
	all := to | from | uint64(n.dims[last]*size)
	for i := range last {
		all |= uint64(n.dst[i]*size) | uint64(n.src[i]*size)
	}
	wide := launch.Widest(size, all)
	if wide == size {
		return n, size
	}
	by := wide / size
	w := &Nest{dims: append([]int(nil), n.dims...), dst: append([]int(nil), n.dst...), src: append([]int(nil), n.src...)}
	w.dims[last] /= by
	for i := range last {
		w.dst[i] /= by
		w.src[i] /= by
	}
	return w, wide
}

// words returns the device's struct Nest, for indices below count.
func (n *Nest) words(count int) []uint64 {
	w := make([]uint64, 1+4*nestLimit)
	w[0] = uint64(len(n.dims))
	dims, dst, src := w[1:1+2*nestLimit], w[1+2*nestLimit:1+3*nestLimit], w[1+3*nestLimit:]
	for i, d := range n.dims {
		by := launch.Divisor(d, max(count, d))
		dims[2*i], dims[2*i+1] = by[0], by[1]
		dst[i], src[i] = uint64(n.dst[i]), uint64(n.src[i])
	}
	return w
}

// moveAtOn is MoveAt on the device. If several rows go to one place, only the last is moved, since the device's threads run in no order.
func moveAtOn(ctx *kernels.Context, dst, src *tensor.Tensor, to, from []int64, n, rows int) error {
	a := kernels.AcceleratorOf(ctx.Device)
	if to != nil {
		to, from = lastOfEach(to[:rows], from)
		rows = len(to)
	}
	size := dst.DType().Size()
	wide := launch.Widest(size, dst.Address(), src.Address(), uint64(n*size))
	length := n * size / wide
	args := []uint64{dst.Address(), src.Address()}
	for _, list := range [][]int64{to, from} {
		if list == nil {
			args = append(args, 0)
			continue
		}
		t, err := launch.UploadInts(ctx, a, list[:rows])
		if err != nil {
			return err
		}
		defer t.Release()
		args = append(args, t.Address())
	}
	by := launch.Divisor(length, rows*length)
	a.Launch(ctx, launch.PerElement(a, launch.CellFunction("move_rows", wide), rows*length, append(args, by[0], by[1], uint64(rows*length))...))
	return nil
}

// lastOfEach drops rows that later rows overwrite.
func lastOfEach(to, from []int64) (keptTo, keptFrom []int64) {
	last := make(map[int64]int, len(to))
	for i, t := range to {
		last[t] = i
	}
	if len(last) == len(to) {
		return to, from
	}
	for i, t := range to {
		if last[t] != i {
			continue
		}
		row := int64(i)
		if from != nil {
			row = from[i]
		}
		keptTo, keptFrom = append(keptTo, t), append(keptFrom, row)
	}
	return keptTo, keptFrom
}

// fillOn is Fill on the device.
func fillOn(ctx *kernels.Context, dst, value *tensor.Tensor) {
	if !value.OnHost() {
		moveOn(ctx, dst, value, NewNest([]int{dst.Len()}, []int{1}, []int{0}, 0, 0))
		return
	}
	// A 16-byte pattern that repeats the value.
	size := dst.DType().Size()
	var pattern [16]byte
	for at := 0; at < len(pattern); at += size {
		copy(pattern[at:], value.Data()[:size])
	}
	words := element.Cells[uint64](pattern[:])
	a := kernels.AcceleratorOf(ctx.Device)
	wide := launch.Widest(size, dst.Address(), uint64(dst.DataSize()))
	count := dst.DataSize() / wide
	a.Launch(ctx, launch.PerElement(a, launch.CellFunction("fill", wide), count, dst.Address(), words[0], words[1], uint64(count)))
}

// joinOn puts parts side by side in before rows.
func joinOn(ctx *kernels.Context, dst *tensor.Tensor, before int, parts []*tensor.Tensor) {
	a, size := kernels.AcceleratorOf(ctx.Device), dst.DType().Size()
	full := make([]*tensor.Tensor, 0, len(parts))
	all := dst.Address()
	for _, p := range parts {
		if p.Len() > 0 {
			full = append(full, p)
			all |= p.Address() | uint64(p.DataSize()/before)
		}
	}
	wide := launch.Widest(size, all)
	total, at := dst.DataSize()/before/wide, 0
	for len(full) > 0 {
		n := min(len(full), partsLimit)
		words, width := make([]uint64, 1+2*partsLimit), 0
		words[0] = uint64(n)
		for i, p := range full[:n] {
			width += p.DataSize() / before / wide
			words[1+i], words[1+partsLimit+i] = p.Address(), uint64(width)
		}
		count := before * width
		by := launch.Divisor(width, count)
		args := append([]uint64{dst.Address() + uint64(at*wide)}, words...)
		a.Launch(ctx, launch.PerElement(a, launch.CellFunction("join", wide), count, append(args, by[0], by[1], uint64(total), uint64(count))...))
		full, at = full[n:], at+width
	}
}

package math

import (
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/fourier"
)

// singleFFT transforms single-precision blocks whose sizes are powers of two. It transforms the last dimension from the input to the
// output, then the others in place. The inverse of a real transform goes the other way round, on a copy.
type singleFFT struct {
	*fft
	in, out     []float32
	inDims      []int // of a block, the last one in elements
	outDims     []int
	sizes, used []int
	blocks      int
}

// With fewer than fewestRows rows of the last dimension, or sizes above longestLanes, double precision row by row is faster.
const (
	fewestRows   = 4
	longestLanes = 1 << 16
)

// newSingleFFT returns nil if singleFFT does not support the transform or would be slower.
func newSingleFFT(k *fft, in, out *tensor.Tensor, lead int, sizes, used []int) *singleFFT {
	for _, n := range sizes {
		if n < 1 || n&(n-1) != 0 || n > longestLanes {
			return nil
		}
	}
	last := len(sizes) - 1
	s := &singleFFT{
		fft: k, in: singles(in), out: singles(out), inDims: intsOf(in.Shape()[lead:]), outDims: intsOf(out.Shape()[lead:]),
		sizes: sizes, used: used, blocks: in.Shape()[:lead].Elements(),
	}
	if s.in == nil || s.out == nil || k.real && sizes[last] < 2 || s.blocks*product(sizes[:last]) < fewestRows {
		return nil
	}
	if in.DType() == tensor.Complex64 {
		s.inDims[last] *= 2
	}
	if out.DType() == tensor.Complex64 {
		s.outDims[last] *= 2
	}
	return s
}

// singles returns the elements of a single-precision tensor, complex ones as pairs. It returns nil for other types.
func singles(t *tensor.Tensor) []float32 {
	switch t.DType() {
	case tensor.Float32:
		return tensor.Of[float32](t)
	case tensor.Complex64:
		v := tensor.Of[complex64](t)
		return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(v))), 2*len(v))
	}
	return nil
}

func product(sizes []int) int {
	n := 1
	for _, d := range sizes {
		n *= d
	}
	return n
}

func (s *singleFFT) compute(ctx *kernels.Context) error {
	m := ctx.Meter()
	defer m.Done()
	for _, n := range s.sizes {
		if err := m.Take(fourier.Bytes(n)); err != nil {
			return err
		}
	}
	last := len(s.sizes) - 1
	if !s.real || !s.inverse {
		s.rows(ctx, s.in, s.inDims, s.out, s.outDims)
		s.columns(ctx, s.out, s.outDims[last])
		return nil
	}
	if last == 0 {
		s.rows(ctx, s.in, s.inDims, s.out, s.outDims)
		return nil
	}
	// The other dimensions come first. They are transformed in a copy, since the input must not change.
	dims := append(s.sizes[:last:last], 2*s.used[last])
	half, err := kernels.Scratch[float32](&m, s.blocks*product(dims))
	if err != nil {
		return err
	}
	s.eachRow(s.inDims, dims, func(from, to int) { copy(half[to:][:dims[last]], s.in[from:]) })
	s.columns(ctx, half, dims[last])
	s.rows(ctx, half, dims, s.out, s.outDims)
	return nil
}

// eachRow calls f with the offsets at which each row of the last dimension begins, in blocks of both shapes.
func (s *singleFFT) eachRow(inDims, outDims []int, f func(from, to int)) {
	last := len(s.sizes) - 1
	rows := product(s.sizes[:last])
	for r := range s.blocks * rows {
		f(rowAt(r/rows, r%rows, s.sizes[:last], inDims), rowAt(r/rows, r%rows, s.sizes[:last], outDims))
	}
}

// rowAt returns the offset of a row in a sequence of blocks with the given dimensions.
func rowAt(block, row int, sizes, dims []int) int {
	at, stride := 0, dims[len(dims)-1]
	for axis := len(sizes) - 1; axis >= 0; axis-- {
		at += row % sizes[axis] * stride
		row /= sizes[axis]
		stride *= dims[axis]
	}
	return at + block*stride
}

// rows transforms along the last dimension.
func (s *singleFFT) rows(ctx *kernels.Context, in []float32, inDims []int, out []float32, outDims []int) {
	last := len(s.sizes) - 1
	n, length := s.sizes[last], 2*s.sizes[last]
	if s.real {
		n, length = n/2, n
	}
	if s.real && s.inverse {
		length += 2
	}
	// Rows of one run are evenly spaced, in the input and in the output.
	run := s.blocks
	if last > 0 {
		run = s.sizes[last-1]
	}
	runs := s.blocks * product(s.sizes[:last]) / run
	groups := (run + fourier.Rows - 1) / fourier.Rows
	table := fourier.NewTable(n)
	if n >= fourier.LeastRow {
		ctx.Parallel(s.blocks*product(s.sizes[:last]), grain(n)*fourier.Rows, func(lo, hi int) {
			s.eachOf(lo, hi, inDims, outDims, table.Row(), in, out)
		})
		return
	}
	ctx.Parallel(runs*groups, grain(n), func(lo, hi int) {
		f := table.Lanes()
		for g := lo; g < hi; g++ {
			row := g/groups*run + g%groups*fourier.Rows
			count := min(run-g%groups*fourier.Rows, fourier.Rows)
			rows := product(s.sizes[:last])
			from := rowAt(row/rows, row%rows, s.sizes[:last], inDims)
			to := rowAt(row/rows, row%rows, s.sizes[:last], outDims)
			f.Load(in[from:], count, length, inDims[last])
			switch {
			case !s.real:
				f.Transform(s.inverse)
			case s.inverse:
				f.ToReal()
			default:
				f.FromReal()
			}
			f.Store(out[to:], count, outDims[last], outDims[last])
		}
	})
}

// eachOf transforms rows lo to hi of the last dimension, one by one.
func (s *singleFFT) eachOf(lo, hi int, inDims, outDims []int, f *fourier.Row, in, out []float32) {
	last := len(s.sizes) - 1
	rows := product(s.sizes[:last])
	for r := lo; r < hi; r++ {
		from := in[rowAt(r/rows, r%rows, s.sizes[:last], inDims):]
		to := out[rowAt(r/rows, r%rows, s.sizes[:last], outDims):]
		switch n := s.sizes[last]; {
		case !s.real:
			f.Transform(to[:2*n], from[:2*n], s.inverse)
		case s.inverse:
			f.ToReal(to[:n], from[:n+2])
		default:
			f.FromReal(to[:n+2], from[:n])
		}
	}
}

// grain returns the number of groups of rows that justify a part of their own.
func grain(n int) int { return max(1, element.BlockLen/n) }

// columns transforms along all dimensions but the last, which has width floats: two per number.
func (s *singleFFT) columns(ctx *kernels.Context, x []float32, width int) {
	inner := width
	for axis := len(s.sizes) - 2; axis >= 0; axis-- {
		n := s.sizes[axis]
		groups := (inner/2 + fourier.Rows - 1) / fourier.Rows
		table := fourier.NewTable(n)
		ctx.Parallel(len(x)/(n*inner)*groups, grain(n), func(lo, hi int) {
			f := table.Lanes()
			for g := lo; g < hi; g++ {
				first := g % groups * fourier.Rows
				part := x[g/groups*n*inner+2*first:]
				count := min(inner/2-first, fourier.Rows)
				f.LoadColumns(part, count, inner)
				f.Transform(s.inverse)
				f.StoreColumns(part, count, inner)
			}
		})
		inner *= n
	}
}

package simd

import "unsafe"

// selectTurn divides every length that the vector kernels of Select process.
const selectTurn = 64

// Cell is an element of 1, 2, 4 or 8 bytes that is moved unchanged.
type Cell interface {
	uint8 | uint16 | uint32 | uint64
}

// selections are the vector kernels of Select, for elements of 1, 2, 4 and 8 bytes.
type selections struct {
	select8, select16, select32, select64 func(dst, cond, a, b *uint8, n int)
}

// ofSize returns the kernel for elements of the given size in bytes.
func (s *selections) ofSize(size uintptr) func(dst, cond, a, b *uint8, n int) {
	switch size {
	case 1:
		return s.select8
	case 2:
		return s.select16
	case 4:
		return s.select32
	}
	return s.select64
}

// Select sets dst to the elements of a where cond is true, and to those of b elsewhere.
func Select[T Cell](dst []T, cond []bool, a, b []T) {
	checkLengths(len(dst), len(cond), len(a), len(b))
	if active.selections != nil {
		pick := active.selections.ofSize(unsafe.Sizeof(T(0)))
		for len(dst) >= selectTurn {
			n := min(len(dst), block) &^ (selectTurn - 1)
			pick(bytesOf(dst), bytesOf(cond), bytesOf(a), bytesOf(b), n)
			dst, cond, a, b = dst[n:], cond[n:], a[n:], b[n:]
		}
	}
	selectEach(dst, cond, a, b)
}

// bytesOf returns a pointer to the start of a slice.
func bytesOf[T any](s []T) *uint8 { return (*uint8)(unsafe.Pointer(unsafe.SliceData(s))) }

func selectEach[T Cell](dst []T, cond []bool, a, b []T) {
	cond, a, b = cond[:len(dst)], a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, v := a[i], b[i]
		if cond[i] {
			v = x
		}
		dst[i] = v
	}
}

// Truncate sets dst to src without fractions. Values that do not fit, and NaN, become the least integer.
func Truncate(dst []int32, src []float32) { converted(active.truncate, truncate, 1, dst, src) }

// Doubles sets dst to src, widened.
func Doubles(dst []float64, src []float32) {
	converted(active.toDouble, convert, bfloatTurn, dst, src)
}

// FloatsOfDoubles sets dst to the floats nearest to src.
func FloatsOfDoubles(dst []float32, src []float64) {
	converted(active.fromDouble, convert, bfloatTurn, dst, src)
}

// converted runs a kernel on as many elements as it can process, a multiple of turn, and rest on the others.
func converted[D, S any](kernel, rest func(dst []D, src []S), turn int, dst []D, src []S) {
	checkLengths(len(dst), len(src))
	for len(dst) >= turn {
		n := min(len(dst), block) / turn * turn
		kernel(dst[:n], src[:n])
		dst, src = dst[n:], src[n:]
	}
	rest(dst, src)
}

// The portable kernels, of any length.

func truncate(dst []int32, src []float32) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] = -1 << 31
		if v > -1<<31 && v < 1<<31 {
			dst[i] = int32(v)
		}
	}
}

func convert[D, S float32 | float64](dst []D, src []S) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] = D(v)
	}
}

// Transpose sets row i of dst to column i of src, for a block of rows by columns elements of dst. The rows of dst are ldd elements apart,
// those of src lds. The two must not overlap.
func Transpose[E uint32 | float32](dst []E, ldd int, src []E, lds, rows, columns int) {
	t := active.tiles
	if t == nil || rows < t.transposeBlockSize || columns < t.transposeBlockSize {
		TransposeAny(dst, ldd, src, lds, rows, columns)
		return
	}
	_, _ = dst[(rows-1)*ldd+columns-1], src[(columns-1)*lds+rows-1]
	// Where the sides are not multiples of the block, the last block overlaps the one before.
	side := t.transposeBlockSize
	for j := 0; j < columns; j += side {
		j := min(j, columns-side)
		for i := 0; i < rows; i += side {
			i := min(i, rows-side)
			t.transpose(floatAt(src, j*lds+i), 4*lds, floatAt(dst, i*ldd+j), 4*ldd)
		}
	}
}

func floatAt[E uint32 | float32](s []E, i int) *float32 { return (*float32)(unsafe.Pointer(&s[i])) }

// transposeSide is the number of columns that TransposeAny writes at once, which keeps what it reads in the first-level cache.
const transposeSide = 32

// TransposeAny is Transpose for elements of any type.
func TransposeAny[E any](dst []E, ldd int, src []E, lds, rows, columns int) {
	for from := 0; from < columns; from += transposeSide {
		transposeLines(dst[from:], ldd, src[from*lds:], lds, rows, min(transposeSide, columns-from))
	}
}

func transposeLines[E any](dst []E, ldd int, src []E, lds, rows, columns int) {
	i := 0
	// Four lines at once: their elements are adjacent in the source.
	for ; i+4 <= rows; i += 4 {
		at := i * ldd
		line0, line1, line2, line3 := dst[at:][:columns], dst[at+ldd:][:columns], dst[at+2*ldd:][:columns], dst[at+3*ldd:][:columns]
		at = i
		for j := range line0 {
			four := (*[4]E)(src[at : at+4])
			line0[j], line1[j], line2[j], line3[j] = four[0], four[1], four[2], four[3]
			at += lds
		}
	}
	for ; i < rows; i++ {
		line, at := dst[i*ldd:][:columns], i
		for j := range line {
			line[j] = src[at]
			at += lds
		}
	}
}

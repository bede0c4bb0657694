package linalg

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// reflector computes the reflection 1 - tau·v·vᵀ that clears x except for its first element. It replaces x by v, whose first element is 1.
// beta is the value that the first element becomes.
func reflector[T simd.Real](x []T) (beta, tau T) {
	head := float64(x[0])
	rest := norm(x[1:])
	x[0] = 1
	if rest == 0 {
		return T(head), 0
	}
	size := -math.Copysign(math.Hypot(head, rest), head)
	multiplyBy(x[1:], T(1/(head-size)))
	return T(size), T((size - head) / size)
}

// norm returns the length of a vector, without overflow.
func norm[T simd.Real](x []T) float64 {
	if len(x) == 0 {
		return 0
	}
	least, most := 0x1p-80, 0x1p100
	if _, single := any(x).([]float32); !single {
		least, most = 0x1p-900, 0x1p1000
	}
	if square := float64(dot(x, x)); square > least && square < most || math.IsNaN(square) {
		return math.Sqrt(square)
	}
	top := 0.0
	for _, v := range x {
		top = max(top, math.Abs(float64(v)))
	}
	if top == 0 || math.IsInf(top, 0) {
		return top
	}
	square := 0.0
	for _, v := range x {
		square += float64(v) / top * (float64(v) / top)
	}
	return top * math.Sqrt(square)
}

// reflectors is a product of reflections, grouped in blocks. The vectors are the rows of v, with leading zeros. A block forms the matrix 1
// - vᵀ·t·v of Schreiber and Van Loan ("A storage-efficient WY representation for products of Householder transformations", 1989).
type reflectors[T simd.Real] struct {
	v    view[T]
	taus []T
	t    view[T] // the upper triangles, stacked
	// skip is the number of leading zeros of the first vector.
	skip int
}

// newReflectors allocates space for count reflections.
func (s *scratch[T]) newReflectors(count, length, skip int) reflectors[T] {
	return reflectors[T]{v: s.zeros(count, length), taus: s.list(count), t: s.zeros(count, panel), skip: skip}
}

// block returns the reflections, starting at index from, that are applied together.
func (r reflectors[T]) block(from int) (v, t view[T]) {
	size, zeros := min(panel, r.v.rows-from), min(from+r.skip, r.v.cols)
	return r.v.part(from, zeros, size, r.v.cols-zeros), r.t.part(from, 0, size, size)
}

// apply multiplies c by a block of reflections, or by its transpose. c has only the rows in which v is not zero.
func (s *scratch[T]) apply(c, v, t view[T], transposed bool) {
	if c.empty() || v.empty() {
		return
	}
	defer s.reset(s.mark())
	w, tw := s.matrix(v.rows, c.cols), s.matrix(v.rows, c.cols)
	setProduct(w, v, c, false, false)
	setProduct(tw, t, w, transposed, false)
	negate(tw.data, tw.data)
	addProduct(c, v, tw, true, false)
}

// applyAll multiplies c by all reflections, the last one first. If identity is set, c started as the identity, so each reflection skips the
// columns before its own.
func (s *scratch[T]) applyAll(c view[T], r reflectors[T], identity bool) {
	if r.v.rows == 0 {
		return
	}
	for from := (r.v.rows - 1) / panel * panel; from >= 0; from -= panel {
		v, t := r.block(from)
		column := 0
		if identity {
			column = from
		}
		s.apply(c.tail(c.rows-v.cols, column), v, t, false)
	}
}

// join computes the triangles from the vectors and taus.
func (s *scratch[T]) join(r reflectors[T]) {
	defer s.reset(s.mark())
	products := s.matrix(panel, panel)
	for from := 0; from < r.v.rows; from += panel {
		v, t := r.block(from)
		if v.empty() {
			continue
		}
		g := products.part(0, 0, v.rows, v.rows)
		setProduct(g, v, v, false, true)
		for j := range v.rows {
			var column [panel]T
			for i := range j {
				column[i] = g.row(i)[j]
			}
			appendReflection(t, j, r.taus[from+j], column[:j])
		}
	}
}

// appendReflection sets column j of a triangle from the products of its vector with the preceding ones.
func appendReflection[T simd.Real](t view[T], j int, tau T, products []T) {
	for i := range j {
		var sum T
		for k := i; k < j; k++ {
			sum += t.row(i)[k] * products[k]
		}
		t.row(i)[j] = -tau * sum
	}
	t.row(j)[j] = tau
}

// qr replaces the upper triangle of a by r, and returns the reflections that make up q.
func (s *scratch[T]) qr(a view[T]) reflectors[T] {
	size := min(a.rows, a.cols)
	r := s.newReflectors(size, a.rows, 0)
	defer s.reset(s.mark())
	work := s.list(panel * a.rows)
	for from := 0; from < size; from += panel {
		v, t := r.block(from)
		columns := viewOf(v.rows, v.cols, work[:v.rows*v.cols])
		columns.transposeFrom(a.part(from, from, v.cols, v.rows))
		qrOfColumns(columns, v, t)
		for k := range columns.rows {
			for i, x := range columns.row(k)[:k+1] {
				a.data[(from+i)*a.stride+from+k] = x
			}
		}
		s.apply(a.tail(from, from+v.rows), v, t, true)
	}
	return r
}

// qrOfColumns is qr for a few columns, which are the rows of c.
func qrOfColumns[T simd.Real](c, v, t view[T]) {
	var dots, factors [panel]T
	for k := range c.rows {
		column := c.row(k)
		simd.DotRows(dots[:k], v.data, v.stride, column)
		for j := range k {
			factors[j] = 0
			for i := range j + 1 {
				factors[j] += t.row(i)[j] * dots[i]
			}
		}
		subtractRows(column, v, 0, 0, factors[:k])
		u := v.row(k)[k:]
		copy(u, column[k:])
		var tau T
		column[k], tau = reflector(u)
		simd.DotRows(dots[:k], v.from(0, k), v.stride, u)
		appendReflection(t, k, tau, dots[:k])
	}
}

package simd

import (
	"fmt"
	"slices"
)

// Mix sets dst to a linear interpolation between a and b: a where part is 0, b where it is 1.
func Mix(dst, a, b []float32, part float32) {
	checkLengths(len(dst), len(a), len(b))
	for len(dst) > block {
		active.mix(dst[:block], a[:block], b[:block], part)
		dst, a, b = dst[block:], a[block:], b[block:]
	}
	active.mix(dst, a, b, part)
}

// Interpolation computes rows of numbers, each interpolated between two numbers of another row.
type Interpolation struct {
	left, right []int32
	part        []float32
	width       int
}

// NewInterpolation returns an Interpolation whose number i is interpolated from number left[i] to number right[i] with weight part[i]. It
// keeps the slices.
func NewInterpolation(left, right []int32, part []float32) Interpolation {
	checkLengths(len(part), len(left), len(right))
	p := Interpolation{left: left, right: right, part: part}
	if len(part) > 0 {
		if first := min(slices.Min(left), slices.Min(right)); first < 0 {
			panic(fmt.Sprintf("simd: interpolation of number %d", first))
		}
		p.width = int(max(slices.Max(left), slices.Max(right))) + 1
	}
	return p
}

// Len returns the length of the computed rows.
func (p *Interpolation) Len() int { return len(p.part) }

// Row computes one row.
func (p *Interpolation) Row(dst, src []float32) {
	checkLengths(len(p.part), len(dst))
	if len(src) < p.width {
		panic(fmt.Sprintf("simd: interpolation of %d numbers, of which there are %d", p.width, len(src)))
	}
	if active.mixAt == nil {
		p.row(dst, src)
		return
	}
	for at := 0; at < len(dst); at += block {
		n := min(block, len(dst)-at)
		active.mixAt(dst[at:at+n], p.part[at:at+n], &src[0], &p.left[at], &p.right[at])
	}
}

func (p *Interpolation) row(dst, src []float32) {
	for i, part := range p.part {
		dst[i] = between(src[p.left[i]], src[p.right[i]], part)
	}
}

func mix(dst, a, b []float32, part float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = between(a[i], b[i], part)
	}
}

// between rounds the product separately.
func between(a, b, part float32) float32 { return a + float32((b-a)*part) }

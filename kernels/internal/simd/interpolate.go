package simd

import (
	"fmt"
	"slices"
)

// Mix sets dst to what lies part of the way from a to b.
func Mix(dst, a, b []float32, part float32) {
	checkLengths(len(dst), len(a), len(b))
	for len(dst) > block {
		active.mix(dst[:block], a[:block], b[:block], part)
		dst, a, b = dst[block:], a[block:], b[block:]
	}
	active.mix(dst, a, b, part)
}

// Interpolation makes rows of numbers that lie between two numbers of another row each.
type Interpolation struct {
	left, right []int32
	part        []float32
	width       int
}

// NewInterpolation makes an Interpolation whose number i lies part[i] of the way from number left[i] to number right[i]. It keeps
// the lists.
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

// Len is how many numbers a row has that is made.
func (p *Interpolation) Len() int { return len(p.part) }

// Row makes one row.
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

// between rounds the product by itself.
func between(a, b, part float32) float32 { return a + float32((b-a)*part) }

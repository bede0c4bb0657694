package layout

import (
	"github.com/troupe-run/troupe/graph/tensor"
)

// Roll copies src to dst, shifted cyclically. Both have the same type and shape, are on the host and are not empty. There is one shift for
// each dimension, less than the dimension's size.
func Roll(dst, src *tensor.Tensor, shifts []int) {
	MoverOf(dst.DType()).roll(dst, src, shifts)
}

// rollRows moves each row of the last shifted dimension in two runs.
func rollRows[E any](dst, src []E, shape tensor.Shape, shifts []int) {
	last := len(shape) - 1
	run := 1
	for last > 0 && shifts[last] == 0 {
		run *= int(shape[last])
		last--
	}
	n := int(shape[last])
	line := n * run
	cut := (n - shifts[last]) * run
	for l := range len(src) / line {
		to, rest, step := 0, l, 1
		for d := last - 1; d >= 0; d-- {
			size := int(shape[d])
			to += (rest%size + shifts[d]) % size * step
			rest /= size
			step *= size
		}
		from, into := src[l*line:(l+1)*line], dst[to*line:(to+1)*line]
		copy(into[line-cut:], from[:cut])
		copy(into, from[cut:])
	}
}

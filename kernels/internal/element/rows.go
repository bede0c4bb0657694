package element

import (
	"github.com/troupe-run/troupe/kernels"
)

// EachRow runs body for the rows of a matrix, in parallel where they are many.
func EachRow(dev kernels.Device, rows, columns int, body func(lo, hi int)) {
	if rows*columns <= CostlyGrain {
		body(0, rows)
		return
	}
	dev.Parallel(rows, max(1, CostlyGrain/columns), body)
}

// fillRun is how many elements Fill sets one by one before it copies them to where the others are.
const fillRun = 256

// Fill sets all elements of d to v.
func Fill[E any](d []E, v E) {
	n := min(len(d), fillRun)
	for i := range n {
		d[i] = v
	}
	for at := n; at < len(d); {
		at += copy(d[at:], d[:n])
	}
}

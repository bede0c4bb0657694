package element

import (
	"github.com/troupe-run/troupe/kernels"
)

// EachRow runs body for the rows of a matrix, in parallel if they are large enough. Once the step has ended, it skips rows as
// Context.Parallel does.
func EachRow(ctx *kernels.Context, rows, columns int, body func(lo, hi int)) {
	if rows*columns <= CostlyGrain {
		body(0, rows)
		return
	}
	ctx.Parallel(rows, max(1, CostlyGrain/columns), body)
}

// fillRun is the number of elements that Fill sets one by one before it copies them to the rest.
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

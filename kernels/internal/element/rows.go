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

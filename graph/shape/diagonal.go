package shape

import "github.com/troupe-run/troupe/graph/tensor"

var diagonalOps = []row{
	{"Diag", func(c *call) {
		s := c.atLeast(c.in(0), 1)
		c.set(0, join(s, s))
	}},
	{"DiagPart", func(c *call) {
		s := c.in(0)
		if !s.known {
			return
		}
		if n := len(s.dims); n%2 != 0 || n == 0 {
			c.fail("Input must have even and non-zero rank, input rank is %d", n)
			return
		}
		half := len(s.dims) / 2
		dims := make(tensor.Shape, half)
		for i := range dims {
			dims[i] = c.equal(s.dims[i], s.dims[i+half])
		}
		c.set(0, Shape{dims, true})
	}},
	{"MatrixDiag", func(c *call) {
		s := c.atLeast(c.in(0), 1)
		if s.known {
			c.set(0, join(s, Of(s.at(-1))))
		}
	}},
	{"MatrixDiagPart", func(c *call) {
		s := c.atLeast(c.in(0), 2)
		if s.known {
			c.set(0, join(c.sub(s, 0, -2), Of(least(s.at(-2), s.at(-1)))))
		}
	}},
	{"MatrixSetDiag", func(c *call) {
		in, diag := c.atLeast(c.in(0), 2), c.atLeast(c.in(1), 1)
		if in.known {
			diag = c.is(c.in(1), len(in.dims)-1)
		}
		c.equal(least(in.at(-2), in.at(-1)), diag.at(-1))
		if diag.known && !in.Full() {
			in = c.merge(in, join(c.sub(diag, 0, -1), UnknownOf(2)))
		}
		c.set(0, in)
	}},
	{"MatrixDiagV2 MatrixDiagV3", matrixDiag},
	{"MatrixDiagPartV2 MatrixDiagPartV3", matrixDiagPart},
	{"MatrixSetDiagV2 MatrixSetDiagV3", matrixSetDiag},
}

// diagonals returns the lowest and the highest diagonal specified by an input.
func (c *call) diagonals(i int) (low, high int64, ok bool) {
	k := c.atMost(c.in(i), 1)
	v, known := c.ints(i)
	if !known || !k.Full() {
		return 0, 0, false
	}
	switch len(v) {
	case 1:
		low, high = v[0], v[0]
	case 2:
		low, high = v[0], v[1]
	default:
		c.fail("diag_index must be a vector with one or two elements. It has %d elements.", len(v))
		return 0, 0, false
	}
	if low > high {
		c.fail("lower_diag_index is greater than upper_diag_index: %d and %d", low, high)
		return 0, 0, false
	}
	return low, high, true
}

// within checks that diagonals lie within a matrix.
func (c *call) within(low, high, rows, cols int64) {
	if low != 0 && (-rows >= low || low >= cols) {
		c.fail("lower_diag_index is out of bound: it is %d for a matrix of shape [%d,%d]", low, rows, cols)
	}
	if high != 0 && (-rows >= high || high >= cols) {
		c.fail("upper_diag_index is out of bound: it is %d for a matrix of shape [%d,%d]", high, rows, cols)
	}
}

func matrixDiagPart(c *call) {
	in := c.atLeast(c.in(0), 2)
	c.scalar(2)
	low, high, ok := c.diagonals(1)
	if !ok || !in.known || c.Err() != nil {
		return
	}
	rows, cols, longest := in.at(-2), in.at(-1), int64(-1)
	if rows >= 0 && cols >= 0 {
		c.within(low, high, rows, cols)
		longest = min(rows+min(high, 0), cols-max(low, 0))
	}
	out := c.sub(in, 0, -2)
	if low < high {
		out = join(out, Of(high-low+1))
	}
	c.set(0, join(out, Of(longest)))
}

func matrixDiag(c *call) {
	in := c.atLeast(c.in(0), 1)
	c.scalar(2)
	c.scalar(3)
	c.scalar(4)
	low, high, ok := c.diagonals(1)
	if !ok || !in.known || c.Err() != nil {
		return
	}
	if low < high {
		if n := in.at(-2); len(in.dims) < 2 || n != high-low+1 {
			c.fail("The number of rows of `diagonal` doesn't match the number of diagonals implied from `d_lower` and `d_upper`.\nnum_diags = %d, d_lower = %d, d_upper = %d %d %d", n, low, high, len(in.dims), in.at(-1))
			return
		}
	}
	rows, hasRows := c.scalarInt(2)
	cols, hasCols := c.scalarInt(3)
	rows, cols = orUnknown(rows, hasRows), orUnknown(cols, hasCols)
	leastRows, leastCols := in.at(-1)-min(high, 0), in.at(-1)+max(low, 0)
	if rows == -1 && cols == -1 {
		rows = max(leastRows, leastCols)
		cols = rows
	}
	switch {
	case rows == -1:
		rows = leastRows
	case rows < leastRows:
		c.fail("num_rows is too small: %d, it must be at least %d", rows, leastRows)
	}
	switch {
	case cols == -1:
		cols = leastCols
	case cols < leastCols:
		c.fail("num_cols is too small: %d, it must be at least %d", cols, leastCols)
	}
	if rows != leastRows && cols != leastCols {
		c.fail("num_rows and num_cols are not consistent with lower_diag_index, upper_diag_index, and the length of the given diagonals.\nnum_rows = %d != min_num_rows = %d, num_cols = %d != min_num_cols = %d", rows, leastRows, cols, leastCols)
	}
	out := c.sub(in, 0, -1)
	if low < high {
		out = c.sub(in, 0, -2)
	}
	c.set(0, join(out, Of(max(rows, -1), max(cols, -1))))
}

func matrixSetDiag(c *call) {
	in, diag := c.atLeast(c.in(0), 2), c.atLeast(c.in(1), 1)
	low, high, ok := c.diagonals(2)
	if in.known && c.Err() == nil {
		rank := len(in.dims)
		switch {
		case ok && low == high:
			diag = c.is(diag, rank-1)
		case ok:
			diag = c.is(diag, rank)
		default:
			diag = c.atMost(c.atLeast(diag, rank-1), rank)
		}
		if rows, cols := in.at(-2), in.at(-1); rows >= 0 && cols >= 0 {
			c.within(low, high, rows, cols)
		}
	}
	if diag.known && !in.Full() {
		drop := -1
		if low != high {
			drop = -2
		}
		in = c.merge(in, join(c.sub(diag, 0, drop), UnknownOf(2)))
	}
	c.set(0, in)
}

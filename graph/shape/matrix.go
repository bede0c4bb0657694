package shape

import "strings"

var matrixOps = []row{
	{"MatMul SparseMatMul", matMul},
	{"BatchMatMul", func(c *call) { c.batchMatMul(c.merge) }},
	{"BatchMatMulV2 BatchMatMulV3", func(c *call) { c.batchMatMul(c.broadcast) }},
	{"Einsum", einsum},
	{`BatchCholesky BatchCholeskyGrad BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart BatchMatrixSetDiag
		BatchMatrixDeterminant BatchMatrixInverse BatchMatrixSolve BatchMatrixSolveLs BatchMatrixTriangularSolve
		BatchSelfAdjointEig BatchSelfAdjointEigV2 BatchSvd`, unknown},
	{"SelfAdjointEig", func(c *call) {
		s := c.square(c.in(0))
		c.set(0, join(c.sub(s, 0, -2), Of(c.add(s.at(-1), 1), s.at(-1))))
	}},
	{"Cholesky CholeskyGrad MatrixInverse MatrixSquareRoot MatrixExponential MatrixLogarithm", func(c *call) { c.set(0, c.square(c.in(0))) }},
	{"MatrixDeterminant LogMatrixDeterminant", func(c *call) {
		s := c.atLeast(c.in(0), 2)
		c.equal(s.at(-1), s.at(-2))
		c.setAll(c.sub(s, 0, -2))
	}},
	{"MatrixSolve", func(c *call) {
		lhs, rhs := c.square(c.in(0)), c.atLeast(c.in(1), 2)
		batch := c.merge(c.sub(lhs, 0, -2), c.sub(rhs, 0, -2))
		c.set(0, join(batch, Of(c.equal(c.equal(lhs.at(-2), rhs.at(-2)), lhs.at(-1)), rhs.at(-1))))
	}},
	{"MatrixSolveLs", func(c *call) {
		c.scalar(2)
		lhs, rhs := c.atLeast(c.in(0), 2), c.atLeast(c.in(1), 2)
		batch := c.merge(c.sub(lhs, 0, -2), c.sub(rhs, 0, -2))
		c.equal(lhs.at(-2), rhs.at(-2))
		c.set(0, join(batch, Of(lhs.at(-1), rhs.at(-1))))
	}},
	{"MatrixTriangularSolve", func(c *call) {
		lhs, rhs := c.square(c.in(0)), c.atLeast(c.in(1), 2)
		batch := c.broadcast(c.sub(lhs, 0, -2), c.sub(rhs, 0, -2))
		c.set(0, join(batch, Of(c.equal(lhs.at(-1), rhs.at(-2)), rhs.at(-1))))
	}},
	{"BandedTriangularSolve", func(c *call) {
		lhs, rhs := c.atLeast(c.in(0), 2), c.atLeast(c.in(1), 2)
		bands, m := lhs.at(-2), lhs.at(-1)
		if bands == 0 {
			c.fail("Number of bands must be positive, but is 0")
		}
		if bands >= 0 && m >= 0 && bands > m {
			c.fail("Number of bands %d cannot exceed the size of the matrix %d", bands, m)
		}
		batch := c.broadcast(c.sub(lhs, 0, -2), c.sub(rhs, 0, -2))
		c.set(0, join(batch, Of(c.equal(m, rhs.at(-2)), rhs.at(-1))))
	}},
	{"Eig SelfAdjointEigV2", func(c *call) {
		s := c.square(c.in(0))
		batch, n := c.sub(s, 0, -2), s.at(-1)
		c.set(0, join(batch, Of(n)))
		c.set(1, c.when("compute_v", join(batch, Of(n, n))))
	}},
	{"Lu", func(c *call) {
		s := c.atLeast(c.in(0), 2)
		batch, n := c.sub(s, 0, -2), c.equal(s.at(-2), s.at(-1))
		c.set(0, join(batch, Of(n, n)))
		c.set(1, join(batch, Of(n)))
	}},
	{"Qr", func(c *call) {
		s := c.atLeast(c.in(0), 2)
		batch, m, n := c.sub(s, 0, -2), s.at(-2), s.at(-1)
		p := least(m, n)
		if c.Bool("full_matrices") {
			p = m
		}
		c.set(0, join(batch, Of(m, p)))
		c.set(1, join(batch, Of(p, n)))
	}},
	{"Svd", func(c *call) {
		s := c.atLeast(c.in(0), 2)
		batch, m, n := c.sub(s, 0, -2), s.at(-2), s.at(-1)
		p := least(m, n)
		u, v := p, p
		if c.Bool("full_matrices") {
			u, v = m, n
		}
		c.set(0, join(batch, Of(p)))
		c.set(1, c.when("compute_uv", join(batch, Of(m, u))))
		c.set(2, c.when("compute_uv", join(batch, Of(n, v))))
	}},
	{"TridiagonalMatMul", func(c *call) {
		super, main, sub, rhs := c.atLeast(c.in(0), 2), c.atLeast(c.in(1), 2), c.atLeast(c.in(2), 2), c.atLeast(c.in(3), 2)
		batch := c.merge(c.sub(main, 0, -2), c.sub(rhs, 0, -2))
		c.merge(c.sub(sub, 0, -2), batch)
		main = c.merge(sub, c.merge(super, main))
		c.equal(main.at(-1), rhs.at(-2))
		c.size(main.at(-2), 1)
		c.set(0, rhs)
	}},
	{"TridiagonalSolve", func(c *call) {
		lhs, rhs := c.atLeast(c.in(0), 2), c.atLeast(c.in(1), 2)
		c.merge(c.sub(lhs, 0, -2), c.sub(rhs, 0, -2))
		c.equal(lhs.at(-1), rhs.at(-2))
		c.size(lhs.at(-2), 3)
		c.set(0, rhs)
	}},
}

// square checks that matrices have as many rows as columns.
func (c *call) square(s Shape) Shape {
	s = c.atLeast(s, 2)
	n := c.equal(s.at(-2), s.at(-1))
	return join(c.sub(s, 0, -2), Of(n, n))
}

// when returns the shape of an output that an attribute turns on; otherwise the output is empty.
func (c *call) when(attr string, s Shape) Shape {
	if !c.Bool(attr) {
		return Of(0)
	}
	return s
}

func matMul(c *call) {
	c.set(0, c.product(c.matrix(0), c.matrix(1), "transpose_a", "transpose_b"))
}

// product returns the shape of the product of two matrices, which attributes may transpose.
func (c *call) product(a, b Shape, turnA, turnB string) Shape {
	rows, inner := a.at(-2), a.at(-1)
	if c.Bool(turnA) {
		rows, inner = inner, rows
	}
	other, cols := b.at(-2), b.at(-1)
	if c.Bool(turnB) {
		other, cols = cols, other
	}
	c.equal(inner, other)
	return Of(rows, cols)
}

func (c *call) batchMatMul(batch func(x, y Shape) Shape) {
	a, b := c.atLeast(c.in(0), 2), c.atLeast(c.in(1), 2)
	one := c.product(a, b, "adj_x", "adj_y")
	c.set(0, join(batch(c.sub(a, 0, -2), c.sub(b, 0, -2)), one))
}

// einsum parses an equation such as ab,bc->ac. A label stands for the same size everywhere.
func einsum(c *call) {
	equation := c.Str("equation")
	left, right, ok := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	switch {
	case !ok || strings.Contains(right, "->"):
		c.fail("Expecting exactly one '->' in einsum equation: %s", equation)
	case len(terms) != 1 && len(terms) != 2:
		c.fail("Expecting 1 or 2 input subscripts in equation '%s' but got: %d", equation, len(terms))
	case len(c.In) != len(terms):
		c.fail("Expected %d inputs for equation %s but got: %d", len(terms), equation, len(c.In))
	}
	if c.Err() != nil {
		return
	}
	sizes := map[byte]int64{}
	stretch := Scalar()
	for i, term := range terms {
		s := c.term(i, term, equation, sizes)
		if i == 0 {
			stretch = s
		} else {
			stretch = c.broadcast(stretch, s)
		}
	}
	before, after, found := c.ellipsis(right)
	if c.Err() != nil {
		return
	}
	if !found {
		if stretch.known && len(stretch.dims) > 0 {
			c.fail("Shape must be at most rank 0 but is rank %d for einsum equation '%s' without ellipsis (...) in the output subscripts where input(s) have non-empty broadcasting shape", len(stretch.dims), equation)
			return
		}
		stretch = Scalar()
	}
	c.set(0, join(c.labels(before, equation, sizes), stretch, c.labels(after, equation, sizes)))
}

// ellipsis splits labels at "...".
func (c *call) ellipsis(labels string) (before, after string, found bool) {
	n := strings.Count(labels, ".")
	before, after, found = strings.Cut(labels, "...")
	switch {
	case n != 0 && n != 3:
		c.fail("Expected at most one ellipsis (...), but found %d periods (.) in the input subscript: %s", n, labels)
	case n == 3 && !found:
		c.fail("Periods found outside of ellipsis in subscript: %s", labels)
	}
	return before, after, found
}

// term merges the sizes of an input's labels into sizes, and returns the dimensions that its ellipsis stands for.
func (c *call) term(i int, term, equation string, sizes map[byte]int64) Shape {
	before, after, found := c.ellipsis(term)
	if c.Err() != nil {
		return Scalar()
	}
	in, n := c.in(i), len(before)+len(after)
	if in.known && (len(in.dims) < n || !found && len(in.dims) != n) {
		kind := ""
		if found {
			kind = "at least "
		}
		c.fail("Shape must be %srank %d but is rank %d for %dth input and equation: %s", kind, n, len(in.dims), i, equation)
		return Scalar()
	}
	merge := func(label byte, d int64) {
		if have, ok := sizes[label]; ok {
			d = c.equal(have, d)
		}
		sizes[label] = d
	}
	for j := range len(before) {
		merge(before[j], in.at(j))
	}
	for j := range len(after) {
		merge(after[j], in.at(j-len(after)))
	}
	switch {
	case !found:
		return Scalar()
	case !in.known:
		return Shape{}
	}
	return c.sub(in, len(before), len(in.dims)-len(after))
}

func (c *call) labels(labels, equation string, sizes map[byte]int64) Shape {
	out := Scalar()
	for i := range len(labels) {
		d, ok := sizes[labels[i]]
		if !ok {
			c.fail("Einsum output subscripts for equation '%s' has label '%c', which is not present in the input subscripts", equation, labels[i])
		}
		out = join(out, Of(d))
	}
	return out
}

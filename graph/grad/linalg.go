package grad

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	register(map[string]unary{
		"MatrixInverse": func(g *call, x, y, dy op.Output) op.Output {
			adjoint := g.flag("adjoint")
			return g.neg(g.matmul(y, g.matmul(dy, y, adjoint, !adjoint), !adjoint, false))
		},
		"MatrixDeterminant": func(g *call, x, y, dy op.Output) op.Output {
			return g.mul(g.eachMatrix(g.mul(dy, g.conj(y))), g.adjointInverse(x))
		},
		"MatrixSquareRoot": squareRoot,
		"Cholesky": func(g *call, x, l, dl op.Output) op.Output {
			inverse := g.op("MatrixTriangularSolve", l, g.identity(l))
			middle := g.matmul(l, dl, true, false)
			middle = g.op("MatrixSetDiag", middle, g.scaled(g.op("MatrixDiagPart", middle), 0.5))
			d := g.matmul(g.matmul(inverse, g.lower(middle), true, false), inverse, false, false)
			return g.scaled(g.add(d, g.adjoint(d)), 0.5)
		},
	}, one)
	register(map[string]func(g *call) []op.Output{
		"LogMatrixDeterminant": func(g *call) []op.Output {
			return []op.Output{g.mul(g.eachMatrix(g.d(1)), g.adjointInverse(g.x(0)))}
		},
		"MatrixSolve": func(g *call) []op.Output {
			da, db := g.solved("MatrixSolve", map[string]any{"adjoint": !g.flag("adjoint")})
			return []op.Output{da, db}
		},
		"MatrixTriangularSolve": func(g *call) []op.Output {
			da, db := g.solved("MatrixTriangularSolve", map[string]any{"adjoint": !g.flag("adjoint"), "lower": g.flag("lower")})
			if g.flag("lower") {
				da = g.lower(da)
			} else {
				da = g.op("MatrixBandPart", da, g.long(0), g.long(-1))
			}
			da, db = g.unbatch(g.x(0), g.x(1), da, db)
			return []op.Output{da, db}
		},
		"BandedTriangularSolve": func(g *call) []op.Output {
			da, db := g.solved("BandedTriangularSolve", map[string]any{"adjoint": !g.flag("adjoint"), "lower": g.flag("lower")})
			last := g.sub(g.at(g.shape(g.x(0)), -2), g.int(1))
			band := op.List{g.int(0), last}
			if g.flag("lower") {
				band = op.List{g.neg(last), g.int(0)}
			}
			da = g.make("MatrixDiagPartV3", map[string]any{"align": "LEFT_RIGHT"}, da, g.make("Pack", nil, band), g.number(da, 0))
			da, db = g.unbatch(g.x(0), g.x(1), da, db)
			return []op.Output{da, db}
		},
		"SelfAdjointEigV2": selfAdjointEig,
		"Eig":              eig,
		"TridiagonalMatMul": func(g *call) []op.Output {
			super, main, sub := g.adjoint(g.x(0)), g.adjoint(g.x(1)), g.adjoint(g.x(2))
			x, dy := g.conj(g.x(3)), g.d(0)
			row := func(v op.Output) op.Output { return g.expand(g.total(g.mul(v, dy), g.ints(-1), false), -2) }
			dx := g.add(g.add(g.down(g.mul(super, dy)), g.mul(main, dy)), g.up(g.mul(sub, dy)))
			return []op.Output{row(g.up(x)), row(x), row(g.down(x)), dx}
		},
		"TridiagonalSolve": func(g *call) []op.Output {
			diagonals, y := g.x(0), g.Output(0)
			row := func(v op.Output, i, end int32) op.Output { return g.index(v, -2, i, end) }
			// In the transposed matrix, the superdiagonal becomes the subdiagonal, shifted by one.
			turned := g.concat(-2, g.left(row(diagonals, 2, 3)), row(diagonals, 1, 2), g.right(row(diagonals, 0, 1)))
			db := g.make("TridiagonalSolve", g.attrs("partial_pivoting", "perturb_singular"), turned, g.d(0))
			diagonal := func(v op.Output) op.Output { return g.neg(g.total(g.mul(db, v), g.ints(-1), false)) }
			da := g.make("Pack", map[string]any{"axis": -2}, op.List{diagonal(g.up(y)), diagonal(y), diagonal(g.down(y))})
			return []op.Output{da, db}
		},
	}, many)
	register(map[string]rule{"Qr": qr, "Svd": svd, "MatrixSolveLs": leastSquares}, func(r rule) rule { return r })
}

// squareRoot solves y*·dx + dx·y* = dy, which is linear in the elements of dx.
func squareRoot(g *call, x, y, dy op.Output) op.Output {
	batch, n := g.head(g.shape(y), 2), g.expand(g.at(g.shape(y), -1), 0)
	square := g.op("Square", n)
	kronecker := func(a, b op.Output) op.Output {
		return g.reshape(g.einsum("...ij,...kl->...ikjl", a, b), g.concat(0, batch, square, square))
	}
	identity := g.identity(y)
	h := g.adjoint(y)
	sum := g.add(kronecker(h, identity), kronecker(identity, g.conj(y)))
	flat := g.reshape(dy, g.concat(0, batch, square, g.ints(1)))
	return g.reshape(g.op("MatrixSolve", sum, flat), g.shape(y))
}

// eachMatrix appends two axes of size 1.
func (g *call) eachMatrix(v op.Output) op.Output { return g.expand(g.expand(v, -1), -1) }

func (g *call) adjointInverse(x op.Output) op.Output {
	return g.make("MatrixInverse", map[string]any{"adjoint": true}, x)
}

// identity returns a batch of identity matrices like x.
func (g *call) identity(x op.Output) op.Output {
	return g.op("MatrixSetDiag", g.zeros(x), g.op("OnesLike", g.op("MatrixDiagPart", x)))
}

// lower returns the lower triangle.
func (b builder) lower(x op.Output) op.Output {
	return b.op("MatrixBandPart", x, b.long(-1), b.long(0))
}

// solved returns the gradients of a system of equations, given the op that solves the adjoint system.
func (g *call) solved(name string, attrs map[string]any) (da, db op.Output) {
	db = g.make(name, attrs, g.x(0), g.d(0))
	if g.flag("adjoint") {
		return g.neg(g.matmul(g.Output(0), db, false, true)), db
	}
	return g.neg(g.matmul(db, g.Output(0), false, true)), db
}

// up moves the rows of matrices up by one and down moves them down; left and right do so with the columns. The gap is filled with 0.
func (b builder) up(x op.Output) op.Output    { return b.padded(b.index(x, -2, 1, 0), 0, 1, 0, 0) }
func (b builder) down(x op.Output) op.Output  { return b.padded(b.index(x, -2, 0, -1), 1, 0, 0, 0) }
func (b builder) left(x op.Output) op.Output  { return b.padded(b.index(x, -1, 1, 0), 0, 0, 0, 1) }
func (b builder) right(x op.Output) op.Output { return b.padded(b.index(x, -1, 0, -1), 0, 0, 1, 0) }

// padded adds zeros before and after the rows and the columns.
func (b builder) padded(x op.Output, pads ...int32) op.Output {
	outer := b.fill(b.make("Pack", nil, op.List{b.sub(b.op("Rank", x), b.int(2)), b.int(2)}), b.int(0))
	return b.op("Pad", x, b.concat(0, outer, constant(b, tensor.Int32, tensor.Shape{2, 2}, pads...)))
}

// safeReciprocal returns 1/x, or 0 where x is 0.
func (g *call) safeReciprocal(x op.Output) op.Output {
	return g.mul(x, g.op("Reciprocal", g.add(g.mul(x, x), g.number(x, 1e-20))))
}

// gaps returns 1/(e_j − e_i) at row i and column j, and 0 on the diagonal.
func (g *call) gaps(e op.Output) op.Output {
	return g.op("MatrixSetDiag", g.safeReciprocal(g.sub(g.expand(e, -2), g.expand(e, -1))), g.zeros(e))
}

func selfAdjointEig(g *call) []op.Output {
	e, de := g.Output(0), g.op("MatrixDiag", g.d(0))
	var v op.Output
	if g.flag("compute_v") {
		v = g.Output(1)
		if g.dy[1].Connected() {
			de = g.add(de, g.mul(g.gaps(e), g.matmul(v, g.d(1), true, false)))
		}
	} else {
		v = g.node("SelfAdjointEigV2", nil, g.x(0)).Output(1)
	}
	// The op reads only the lower triangle.
	d := g.matmul(v, g.matmul(de, v, false, true), false, false)
	d = g.lower(g.add(d, g.adjoint(d)))
	return []op.Output{g.op("MatrixSetDiag", d, g.scaled(g.op("MatrixDiagPart", d), 0.5))}
}

func eig(g *call) []op.Output {
	e, middle := g.Output(0), g.op("MatrixDiag", g.d(0))
	var v op.Output
	if g.flag("compute_v") {
		v = g.Output(1)
		if g.dy[1].Connected() {
			vdv := g.matmul(v, g.d(1), true, false)
			real := g.cast(g.make("Real", map[string]any{"Tout": realType(vdv.DType())}, g.op("MatrixDiagPart", vdv)), vdv.DType().Base())
			inner := g.matmul(g.matmul(v, v, true, false), g.op("MatrixDiag", real), false, false)
			middle = g.add(middle, g.mul(g.conj(g.gaps(e)), g.sub(vdv, inner)))
		}
	} else {
		v = g.node("Eig", g.attrs("Tout"), g.x(0)).Output(1)
	}
	vt := g.adjoint(v)
	d := g.op("MatrixSolve", vt, g.matmul(middle, vt, false, false))
	return []op.Output{g.cast(d, g.x(0).DType().Base())}
}

// realType returns the type of the parts of a complex type.
func realType(t tensor.DType) tensor.DType {
	switch t.Base() {
	case tensor.Complex64:
		return tensor.Float32
	case tensor.Complex128:
		return tensor.Float64
	}
	return t.Base()
}

// matrixSize returns the numbers of rows and columns, which some formulas need.
func matrixSize(x op.Output, what string) (rows, columns int64, err error) {
	if x.Shape().Rank() >= 2 {
		rows, columns = x.Shape().Dim(-2), x.Shape().Dim(-1)
	}
	if rows <= 0 || columns <= 0 {
		return 0, 0, status.Unimplementedf("The gradient of %s needs to know the numbers of rows and columns; the shape is %v", what, x.Shape())
	}
	return rows, columns, nil
}

func qr(g *call) ([]Gradient, error) {
	q, r, dq, dr := g.Output(0), g.Output(1), g.d(0), g.d(1)
	rows, columns, err := matrixSize(g.x(0), "Qr")
	switch {
	case err != nil:
		return nil, err
	case rows > columns && g.flag("full_matrices"):
		return nil, status.Unimplementedf("Qr with full_matrices has no gradient for more rows than columns, here %d and %d", rows, columns)
	case rows >= columns:
		return dense(g.deepQR(q, r, dq, dr)), nil
	}
	n := int32(rows)
	y := g.index(g.x(0), -1, n, 0)
	dv := g.index(dr, -1, n, 0)
	dx := g.deepQR(q, g.index(r, -1, 0, n), g.add(dq, g.matmul(y, dv, false, true)), g.index(dr, -1, 0, n))
	return dense(g.concat(-1, dx, g.matmul(q, dv, false, false))), nil
}

func (g *call) deepQR(q, r, dq, dr op.Output) op.Output {
	solve := func(x op.Output) op.Output {
		return g.adjoint(g.make("MatrixTriangularSolve", map[string]any{"lower": false}, r, g.adjoint(x)))
	}
	qdq, rdr := g.matmul(q, dq, true, false), g.matmul(r, dr, false, true)
	skew := func(x op.Output) op.Output { return g.sub(x, g.adjoint(x)) }
	inner := g.lower(g.add(skew(qdq), skew(rdr)))
	d := g.add(g.matmul(q, g.add(dr, solve(inner)), false, false), solve(g.sub(dq, g.matmul(q, qdq, false, false))))
	if !q.DType().Base().IsComplex() {
		return d
	}
	diagonal := g.op("MatrixDiagPart", g.sub(rdr, g.adjoint(qdq)))
	imaginary := g.sub(diagonal, g.cast(g.make("Real", map[string]any{"Tout": realType(q.DType())}, diagonal), q.DType().Base()))
	return g.add(d, solve(g.matmul(q, g.adjoint(g.op("MatrixDiag", imaginary)), false, false)))
}

func svd(g *call) ([]Gradient, error) {
	x := g.x(0)
	ds := g.op("MatrixDiag", g.cast(g.d(0), x.DType().Base()))
	if !g.flag("compute_uv") {
		o := g.node("Svd", nil, x)
		return dense(g.matmul(o.Output(1), g.matmul(ds, o.Output(2), false, true), false, false)), nil
	}
	m, n, err := matrixSize(x, "Svd")
	if err != nil {
		return nil, err
	}
	full := g.flag("full_matrices")
	s := g.cast(g.Output(0), x.DType().Base())
	u, v, du, dv := g.Output(1), g.Output(2), g.d(1), g.d(2)
	turned := m > n
	if turned {
		m, n, u, v, du, dv = n, m, v, u, dv, du
	}
	if full && n-m > 1 {
		return nil, status.Unimplementedf("Svd with full_matrices has no gradient if rows and columns differ by more than 1, here %d and %d", m, n)
	}
	diagonal, gaps := g.op("MatrixDiag", s), g.gaps(g.square(s))
	inverse := g.op("MatrixDiag", g.safeReciprocal(s))
	v1, dv1 := v, dv
	if full && n > m {
		v1, dv1 = g.index(v, -1, 0, int32(m)), g.index(dv, -1, 0, int32(m))
	}
	both := func(x op.Output) op.Output { return g.add(x, g.adjoint(x)) }
	vdv := g.matmul(v1, dv1, true, false)
	fu, fv := g.mul(gaps, g.matmul(u, du, true, false)), g.mul(gaps, vdv)
	inner := g.add(g.add(ds, g.matmul(both(fu), diagonal, false, false)), g.matmul(diagonal, both(fv), false, false))
	d := g.matmul(u, g.matmul(inner, v1, false, true), false, false)
	if m != n {
		dv1t := g.adjoint(dv1)
		rest := g.sub(dv1t, g.matmul(g.matmul(dv1t, v1, false, false), v1, false, true))
		if full {
			v2, dv2 := g.index(v, -1, int32(m), 0), g.index(dv, -1, int32(m), 0)
			rest = g.sub(rest, g.matmul(g.matmul(v1, dv2, true, false), v2, false, true))
		}
		d = g.add(d, g.matmul(g.matmul(u, inverse, false, false), rest, false, false))
	}
	if x.DType().Base().IsComplex() {
		l := g.mul(g.identity(vdv), vdv)
		inner := g.matmul(inverse, g.sub(g.adjoint(l), l), false, false)
		d = g.add(d, g.scaled(g.matmul(u, g.matmul(inner, v1, false, true), false, false), 0.5))
	}
	if turned {
		d = g.adjoint(d)
	}
	return dense(d), nil
}

// leastSquares differentiates min |ax − b|² + l2·|x|², by the normal equations.
func leastSquares(g *call) ([]Gradient, error) {
	if !g.flag("fast") {
		return nil, status.Unimplementedf("MatrixSolveLs has a gradient for fast=true only")
	}
	a, b, x, dx := g.x(0), g.x(1), g.Output(0), g.d(0)
	rows, columns, err := matrixSize(a, "MatrixSolveLs")
	if err != nil {
		return nil, err
	}
	tall := rows >= columns
	gram := g.matmul(a, a, tall, !tall)
	gram = g.add(gram, g.mul(g.identity(gram), g.cast(g.x(2), a.DType().Base())))
	chol := g.op("Cholesky", gram)
	solve := func(v op.Output) op.Output {
		v = g.op("MatrixTriangularSolve", chol, v)
		return g.make("MatrixTriangularSolve", map[string]any{"adjoint": true}, chol, v)
	}
	if tall {
		z := solve(dx)
		xz := g.matmul(x, z, false, true)
		da := g.sub(g.matmul(b, z, false, true), g.matmul(a, g.add(xz, g.adjoint(xz)), false, false))
		return dense(da, g.matmul(a, z, false, false), none), nil
	}
	db := solve(g.matmul(a, dx, false, false))
	t := solve(b)
	first := g.neg(g.matmul(db, g.matmul(t, a, true, false), false, false))
	second := g.matmul(t, g.sub(dx, g.matmul(a, db, true, false)), false, true)
	return dense(g.add(first, second), db, none), nil
}

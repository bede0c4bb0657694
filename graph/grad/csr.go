package grad

import (
	"math"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
)

// The gradient of a sparse matrix is a sparse matrix with elements at the same positions.

func init() {
	register(map[string]func(g *call) []op.Output{
		"DenseToCSRSparseMatrix": func(g *call) []op.Output {
			return []op.Output{g.make("CSRSparseMatrixToDense", typeOf(g.x(0)), g.d(0)), none}
		},
		"CSRSparseMatrixToDense": func(g *call) []op.Output {
			places := g.node("CSRSparseMatrixToSparseTensor", typeOf(g.d(0)), g.x(0))
			return []op.Output{g.sparseLike(places, g.op("GatherNd", g.d(0), places.Output(0)))}
		},
		"SparseTensorToCSRSparseMatrix": func(g *call) []op.Output {
			return []op.Output{none, g.node("CSRSparseMatrixToSparseTensor", typeOf(g.x(1)), g.d(0)).Output(1), none}
		},
		"CSRSparseMatrixToSparseTensor": func(g *call) []op.Output {
			return []op.Output{g.sparseLike(g.Operation, g.d(1))}
		},
		"SparseMatrixTranspose": func(g *call) []op.Output {
			return []op.Output{g.make("SparseMatrixTranspose", g.attrs("conjugate", "type"), g.d(0))}
		},
		"SparseMatrixMatMul":       sparseTimesDense,
		"SparseMatrixSparseMatMul": sparseTimesSparse,
	}, many)
}

// typeOf returns the attribute that specifies the element type for ops on a sparse matrix.
func typeOf(x op.Output) map[string]any { return map[string]any{"type": x.DType().Base()} }

// sparseLike returns a sparse matrix with other values at the positions that CSRSparseMatrixToSparseTensor returned.
func (b builder) sparseLike(places *op.Operation, values op.Output) op.Output {
	return b.op("SparseTensorToCSRSparseMatrix", places.Output(0), values, places.Output(2))
}

// matrixTranspose swaps the last two axes, and conjugates if conj is set.
func (b builder) matrixTranspose(x op.Output, conj bool) op.Output {
	if conj {
		return b.adjoint(x)
	}
	return b.conj(b.adjoint(x))
}

// sparseTimesDense differentiates C = P·Q, where P is a or its transpose or adjoint, and Q likewise for b. The gradients of P and Q are
// G·Q* and P*·G. The former is needed only where a has elements.
func sparseTimesDense(g *call) []op.Output {
	a, b, dc := g.x(0), g.x(1), g.d(0)
	transposeA, adjointA, transposeB, adjointB := g.flag("transpose_a"), g.flag("adjoint_a"), g.flag("transpose_b"), g.flag("adjoint_b")
	if g.flag("conjugate_output") {
		dc = g.conj(dc)
	}
	dout := dc
	if g.flag("transpose_output") {
		dc = g.matrixTranspose(dc, false)
	}
	q := b
	if transposeB || adjointB {
		q = g.matrixTranspose(b, adjointB)
	}
	places := g.node("CSRSparseMatrixToSparseTensor", typeOf(b), a)
	indices := places.Output(0)
	matrices := g.index(indices, -1, 0, -2)
	rowsAt := g.index(indices, -1, 0, -1)
	columnsAt := g.concat(-1, matrices, g.index(indices, -1, -1, 0))
	if transposeA || adjointA {
		rowsAt, columnsAt = columnsAt, rowsAt
	}
	values := g.total(g.mul(g.op("GatherNd", dc, rowsAt), g.conj(g.op("GatherNd", q, columnsAt))), g.ints(-1), false)
	if adjointA {
		values = g.conj(values)
	}

	if transposeA {
		a = g.op("Conj", a)
	}
	db := g.make("SparseMatrixMatMul", map[string]any{
		"adjoint_a": !transposeA && !adjointA, "transpose_b": g.flag("transpose_output"),
		"transpose_output": transposeB || adjointB, "conjugate_output": adjointB,
	}, a, dout)
	return []op.Output{g.sparseLike(places, values), db}
}

// turn is how a matrix is transposed and conjugated in a product.
type turn struct{ transpose, conj bool }

func (t turn) adjoint() turn    { return turn{!t.transpose, !t.conj} }
func (t turn) transposed() turn { return turn{!t.transpose, t.conj} }
func (t turn) conjugate() turn  { return turn{t.transpose, !t.conj} }

// factor is a matrix in a product.
type factor struct {
	m op.Output
	turn
}

// sparseProduct multiplies sparse matrices.
func (g *call) sparseProduct(x, y factor) op.Output {
	attrs := g.attrs("type")
	in := func(f factor, name string) op.Output {
		if f.conj && !f.transpose {
			return g.op("Conj", f.m)
		}
		attrs["adjoint_"+name], attrs["transpose_"+name] = f.conj, f.transpose && !f.conj
		return f.m
	}
	a := in(x, "a")
	b := in(y, "b")
	return g.make("SparseMatrixSparseMatMul", attrs, a, b)
}

// sparseTimesSparse differentiates C = P·Q, where P is a or its transpose or adjoint, and Q likewise for b. The gradients of P and Q are
// G·Q* and P*·G.
func sparseTimesSparse(g *call) []op.Output {
	read := func(i int, name string) factor {
		adjoint := g.flag("adjoint_" + name)
		return factor{g.x(i), turn{g.flag("transpose_"+name) || adjoint, adjoint}}
	}
	p, q, dc := read(0, "a"), read(1, "b"), factor{m: g.d(0)}
	if x, y := g.batch(0), g.batch(1); x != y && x >= 0 && y >= 0 {
		g.s.Fail(status.Unimplementedf("The gradient of %s %s for batches of %d and %d matrices is not supported", g.Type(), g.Name(), x, y))
	}
	// Apply t, which is its own inverse, to the product of x and y.
	turned := func(t turn, x, y factor) op.Output {
		if t.conj {
			x.turn, y.turn = x.conjugate(), y.conjugate()
		}
		if t.transpose {
			x, y = y, x
			x.turn, y.turn = x.transposed(), y.transposed()
		}
		return g.sparseProduct(x, y)
	}
	da := turned(p.turn, dc, factor{q.m, q.adjoint()})
	db := turned(q.turn, factor{p.m, p.adjoint()}, dc)
	return []op.Output{g.restrict(da, p.m), g.restrict(db, q.m)}
}

// batch returns the number of matrices in input i, -1 if it is unknown, and 0 for a single matrix.
func (g *call) batch(i int) int64 {
	h := g.x(i).Handles()
	switch {
	case len(h) != 1 || !h[0].Shape.HasRank():
		return -1
	case h[0].Shape.Rank() == 3:
		return h[0].Shape.Dim(0)
	}
	return 0
}

// restrict returns m, whose elements are in order, with the positions of like: positions without an element in m get zeros.
func (g *call) restrict(m, like op.Output) op.Output {
	have := g.node("CSRSparseMatrixToSparseTensor", g.attrs("type"), m)
	want := g.node("CSRSparseMatrixToSparseTensor", g.attrs("type"), like)
	flat := func(o *op.Operation) op.Output {
		at := g.node("SparseReshape", nil, o.Output(0), o.Output(2), g.longs(-1)).Output(0)
		return g.reshape(at, g.ints(-1))
	}
	// A zero follows the last element.
	places, wanted := g.concat(0, flat(have), g.longs(math.MaxInt64)), flat(want)
	values := g.concat(0, have.Output(1), g.expand(g.number(have.Output(1), 0), 0))
	at := g.reshape(g.op("LowerBound", g.expand(places, 0), g.expand(wanted, 0)), g.ints(-1))
	found := g.op("Equal", g.gather(places, at), wanted)
	values = g.where(found, g.gather(values, at), g.number(have.Output(1), 0))
	return g.sparseLike(want, values)
}

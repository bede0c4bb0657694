package grad

import "github.com/troupe-run/troupe/graph/op"

func init() {
	register(map[string]func(g *call) []op.Output{
		"MatMul": func(g *call) []op.Output {
			multiply := func(x, y op.Output, transposeX, transposeY bool) op.Output {
				return g.make("MatMul", map[string]any{"transpose_a": transposeX, "transpose_b": transposeY}, x, y)
			}
			// MatMul transposes without conjugating.
			dx, dy := products(multiply, g.conj(g.x(0)), g.conj(g.x(1)), g.d(0), g.flag("transpose_a"), g.flag("transpose_b"))
			return []op.Output{dx, dy}
		},
		"SparseMatMul": sparseMatMul,
		"BatchMatMul": func(g *call) []op.Output {
			dx, dy := g.batchProducts()
			return []op.Output{dx, dy}
		},
		"BatchMatMulV2": batchMatMul,
		"BatchMatMulV3": batchMatMul,
	}, many)
}

// sparseMatMul preserves the hints about which operands are mostly zeros, and adds one for a gradient from ReluGrad.
func sparseMatMul(g *call) []op.Output {
	zeros := map[op.Output]bool{g.d(0): g.d(0).Op.Type() == "ReluGrad"}
	zeros[g.x(0)] = g.flag("a_is_sparse")
	zeros[g.x(1)] = g.flag("b_is_sparse")
	multiply := func(x, y op.Output, turnX, turnY bool) op.Output {
		return g.make("SparseMatMul", map[string]any{"transpose_a": turnX, "transpose_b": turnY, "a_is_sparse": zeros[x], "b_is_sparse": zeros[y]}, x, y)
	}
	dx, dy := products(multiply, g.x(0), g.x(1), g.d(0), g.flag("transpose_a"), g.flag("transpose_b"))
	return []op.Output{g.cast(dx, g.x(0).DType().Base()), g.cast(dy, g.x(1).DType().Base())}
}

// products returns the gradients of a matrix product; multiply multiplies two matrices, transposing them first as requested.
func products(multiply func(x, y op.Output, tx, ty bool) op.Output, x, y, dz op.Output, tx, ty bool) (dx, dy op.Output) {
	if tx {
		dx = multiply(y, dz, ty, true)
	} else {
		dx = multiply(dz, y, false, !ty)
	}
	if ty {
		dy = multiply(dz, x, true, tx)
	} else {
		dy = multiply(x, dz, !tx, false)
	}
	return dx, dy
}

func (g *call) batchProducts() (dx, dy op.Output) {
	return products(g.matmul, g.x(0), g.x(1), g.d(0), g.flag("adj_x"), g.flag("adj_y"))
}

func batchMatMul(g *call) []op.Output {
	dx, dy := g.batchProducts()
	dx, dy = g.unbatch(g.x(0), g.x(1), dx, dy)
	return []op.Output{dx, dy}
}

// unbatch sums the gradients of two inputs whose axes before the last two were broadcast, to restore the inputs' shapes.
func (g *call) unbatch(x, y, dx, dy op.Output) (op.Output, op.Output) {
	sx, knownX := x.Shape().Dims()
	sy, knownY := y.Shape().Dims()
	if knownX && knownY && len(sx) >= 2 && len(sx) == len(sy) {
		same := true
		for i := range len(sx) - 2 {
			same = same && sx[i] >= 0 && sx[i] == sy[i]
		}
		if same {
			return dx, dy
		}
	}
	shapeX, shapeY := g.shape(x), g.shape(y)
	axes := g.node("BroadcastGradientArgs", nil, g.head(shapeX, 2), g.head(shapeY, 2))
	return g.reshape(g.total(dx, axes.Output(0), true), shapeX), g.reshape(g.total(dy, axes.Output(1), true), shapeY)
}

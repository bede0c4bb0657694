package gradients

import (
	"slices"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

// regular returns a batch of invertible matrices.
func regular(n int64) input {
	i := in(2, n, n)
	for b := range 2 {
		for r := range int(n) {
			for c := range int(n) {
				v := 0.3*float64((r*5+c*3+b*2)%7) - 0.8
				if r == c {
					v += 2 + 0.5*float64(r)
				}
				i.values = append(i.values, v)
			}
		}
	}
	return i
}

// symmetric returns a function of x + xᵀ for a matrix x, so that differences keep its argument symmetric.
func symmetric(name string, a attrs, pick func(s *op.Scope, o *op.Operation) []op.Output) gradCase {
	return gradCase{name: name, in: []input{regular(3)}, tolerance: 1e-6, f: func(s *op.Scope, x []op.Output) []op.Output {
		perm := node(s, "Const", attrs{"dtype": tensor.Int32, "value": int32s(0, 2, 1)}).Output(0)
		turned := node(s, "Transpose", nil, x[0], perm).Output(0)
		return pick(s, node(s, name, a, node(s, "AddV2", nil, x[0], turned).Output(0)))
	}}
}

func int32s(v ...int32) *tensor.Tensor {
	t, err := tensor.FromSlice(tensor.Int32, tensor.Shape{int64(len(v))}, v)
	if err != nil {
		panic(err)
	}
	return t
}

func all(s *op.Scope, o *op.Operation) []op.Output { return floats(o) }

// squares returns the squared outputs, which do not depend on the signs of eigenvectors.
func squares(s *op.Scope, o *op.Operation) (out []op.Output) {
	for _, y := range floats(o) {
		out = append(out, node(s, "Square", nil, y).Output(0))
	}
	return out
}

var linalgCases = slices.Concat([]gradCase{
	call("MatrixInverse", nil, regular(3)), call("MatrixInverse", attrs{"adjoint": true}, regular(3)),
	call("MatrixDeterminant", nil, regular(3)), call("MatrixDeterminant", nil, in(2, 2).of(tensor.Complex128)),
	call("MatrixSquareRoot", nil, regular(3)), call("MatrixSquareRoot", nil, in(2, 2).of(tensor.Complex128)),
	symmetric("Cholesky", nil, all),
	symmetric("SelfAdjointEigV2", attrs{"compute_v": false}, func(s *op.Scope, o *op.Operation) []op.Output { return floats(o)[:1] }),
	symmetric("SelfAdjointEigV2", nil, squares),
	{name: "LogMatrixDeterminant", in: []input{regular(3)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		return floats(node(s, "LogMatrixDeterminant", nil, x[0]))[1:]
	}},
	call("MatrixSolve", nil, regular(3), in(2, 3, 2)), call("MatrixSolve", attrs{"adjoint": true}, regular(3), in(2, 3, 2)),
	{name: "Eig", in: []input{regular(3)}, tolerance: 1e-6, f: eigenvalues(false)},
	{name: "Eig", in: []input{regular(3)}, tolerance: 1e-6, f: eigenvalues(true)},
	sparseMatMul(false, false), sparseMatMul(true, false), sparseMatMul(false, true), sparseMatMul(true, true),
	call("TridiagonalMatMul", nil, in(2, 1, 3), in(2, 1, 3), in(2, 1, 3), in(2, 3, 2)),
	call("TridiagonalSolve", nil, in(2, 3, 3).with(.1, .2, .3, 2, 3, 2.5, .3, .4, .2, .1, .2, .3, 2, 3, 2.5, .3, .4, .2), in(2, 3, 2)),
	tolerant(shaped(call("Qr", nil, regular(3))), 1e-6), shaped(call("Qr", nil, in(2, 3, 2))), shaped(call("Qr", nil, in(2, 2, 3))),
	shaped(call("Svd", attrs{"compute_uv": false}, in(2, 3, 2))), shaped(svdCase(3, 2, false)), shaped(svdCase(2, 3, false)), shaped(svdCase(2, 2, true)), shaped(svdCase(2, 3, true)),
	shaped(call("MatrixSolveLs", nil, in(4, 2), in(4, 2), number(0.1).fixed())), shaped(call("MatrixSolveLs", nil, in(2, 4), in(2, 2), number(0.1).fixed())),
}, triangular(), einsums(), transforms(), []gradCase{
	call("RGBToHSV", nil, in(2, 3, 3).between(0.1, 0.9).apart()),
	call("ResizeBilinear", attrs{"half_pixel_centers": true}, in(2, 3, 4, 2).of(tensor.Float32), ints(5, 3)),
	// The gradient is exact if the matrix maps pixels onto pixels.
	call("ImageProjectiveTransformV2", attrs{"interpolation": "NEAREST"}, in(2, 3, 4, 2), in(1, 8).of(tensor.Float32).with(1, 0, 1, 0, 1, -2, 0, 0).fixed(), ints(4, 3)),
	call("ImageProjectiveTransformV3", attrs{"interpolation": "NEAREST"}, in(2, 3, 4, 2), in(2, 8).of(tensor.Float32).with(1, 0, 1, 0, 1, -2, 0, 0, -1, 0, 3, 0, 1, 0, 0, 0).fixed(), ints(4, 3), number(2).of(tensor.Float32).fixed()),
	call("ResizeBicubic", attrs{"half_pixel_centers": true}, in(2, 3, 4, 2).of(tensor.Float32), ints(5, 3)),
	call("ScaleAndTranslate", attrs{"kernel_type": "lanczos3"}, in(2, 3, 4, 2).of(tensor.Float32), ints(5, 3),
		in(2).with(1.7, .8).of(tensor.Float32).fixed(), in(2).with(.3, -.2).of(tensor.Float32).fixed()),
	call("CropAndResize", nil, in(2, 4, 5, 2).of(tensor.Float32), in(2, 4).with(.11, .13, .87, .95, .72, .81, .17, .23).of(tensor.Float32), ints(1, 0), ints(3, 2)),
	call("CropAndResize", attrs{"method": "nearest"}, in(2, 4, 5, 2).of(tensor.Float32), in(2, 4).with(.11, .13, .87, .95, .72, .81, .17, .23).of(tensor.Float32).fixed(), ints(1, 0), ints(3, 2)),
	call("ResizeNearestNeighbor", attrs{"align_corners": true}, in(2, 3, 4, 2), ints(5, 3)),
})

func triangular() (out []gradCase) {
	for _, lower := range []bool{true, false} {
		for _, adjoint := range []bool{true, false} {
			a := attrs{"lower": lower, "adjoint": adjoint}
			single := regular(3)
			single.shape, single.values = tensor.Shape{3, 3}, single.values[:9]
			out = append(out, call("MatrixTriangularSolve", a, regular(3), in(2, 3, 2)), call("MatrixTriangularSolve", a, single, in(2, 3, 1)))
			// The main diagonal is the first row of the bands of a lower triangle, the last of an upper one.
			bands := in(2, 3).with(2, 3, 2.5, .3, .4, .2)
			if !lower {
				bands = in(2, 3).with(.3, .4, .2, 2, 3, 2.5)
			}
			out = append(out, call("BandedTriangularSolve", a, bands, in(3, 2)))
		}
	}
	return out
}

// eigenvalues returns a function for eigenvalues, or for the squared absolute values of eigenvectors, since their phases are arbitrary.
func eigenvalues(vectors bool) func(s *op.Scope, x []op.Output) []op.Output {
	return func(s *op.Scope, x []op.Output) []op.Output {
		o := node(s, "Eig", attrs{"Tout": tensor.Complex128, "compute_v": vectors}, x[0])
		y := []op.Output{o.Output(0)}
		if vectors {
			v := o.Output(1)
			y = append(y, node(s, "Mul", nil, v, node(s, "Conj", nil, v).Output(0)).Output(0))
		}
		return y
	}
}

// svdCase takes squares, so that the signs of the vectors do not matter.
func svdCase(rows, columns int64, full bool) gradCase {
	return gradCase{name: "Svd", in: []input{in(2, rows, columns)}, tolerance: 1e-5, f: func(s *op.Scope, x []op.Output) []op.Output {
		return squares(s, node(s, "Svd", attrs{"full_matrices": full}, x[0]))
	}}
}

func einsums() (out []gradCase) {
	for _, c := range []struct {
		equation string
		in       []input
	}{
		{"ab->ba", []input{in(2, 3)}}, {"abc->b", []input{in(2, 3, 2)}}, {"aa->a", []input{in(3, 3)}}, {"aab->b", []input{in(2, 2, 3)}}, {"a->", []input{in(3)}}, {"a...->...", []input{in(2, 3)}},
		{"ab,bc->ac", []input{in(2, 3), in(3, 2)}}, {"ab,cb->a", []input{in(2, 3), in(2, 3)}}, {"abc,cd->abd", []input{in(2, 2, 3), in(3, 2)}},
		{"...ab,...bc->...ac", []input{in(2, 2, 3), in(3, 2)}}, {"...a,a->...", []input{in(2, 3), in(3)}}, {"ab...,b...->a...", []input{in(2, 3, 1), in(3, 2)}},
		{"ab,ab->", []input{in(2, 3), in(2, 3)}}, {"ab,bc->ca", []input{in(2, 2).of(tensor.Complex128), in(2, 2).of(tensor.Complex128)}},
	} {
		out = append(out, gradCase{name: "Einsum", in: c.in, f: func(s *op.Scope, x []op.Output) []op.Output {
			return floats(node(s, "Einsum", attrs{"equation": c.equation}, op.List(x)))
		}})
	}
	return out
}

func transforms() (out []gradCase) {
	z := func(sizes ...int64) input { return in(sizes...).of(tensor.Complex128) }
	real := attrs{"Treal": tensor.Float64, "Tcomplex": tensor.Complex128}
	for _, name := range []string{"FFT", "IFFT"} {
		out = append(out, call(name, nil, z(2, 3)), call(name+"2D", nil, z(2, 2, 3)), call(name+"3D", nil, z(2, 1, 3)))
	}
	return append(out,
		call("RFFT", real, in(2, 4), ints(4)), call("RFFT", real, in(5), ints(5)), call("RFFT", real, in(5), ints(3)),
		call("RFFT2D", real, in(2, 3, 4), ints(3, 4)), call("RFFT3D", real, in(2, 1, 3), ints(2, 1, 3)),
		call("IRFFT", real, z(2, 3), ints(4)), call("IRFFT", real, z(3), ints(5)), call("IRFFT", real, z(4), ints(4)),
		call("IRFFT2D", real, z(2, 3), ints(2, 4)), call("IRFFT3D", real, z(2, 1, 2), ints(2, 1, 3)))
}

// sparseMatMul returns a product of matrices, one of which is declared sparse.
func sparseMatMul(turnA, turnB bool) gradCase {
	a, b := in(2, 3), in(3, 4)
	if turnA {
		a.shape = tensor.Shape{3, 2}
	}
	if turnB {
		b.shape = tensor.Shape{4, 3}
	}
	attrs := attrs{"transpose_a": turnA, "transpose_b": turnB, "a_is_sparse": turnB, "b_is_sparse": !turnA}
	return call("SparseMatMul", attrs, a.of(tensor.Float32), b.of(tensor.Float32))
}

package gradients

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

// csrCases convert tensors to sparse matrices and back.
var csrCases = sparseCases()

// places returns the indices of the elements of the cases' sparse matrices, in a batch of two matrices of 3 rows and 2 columns, or in the
// first of these.
func places(s *op.Scope, shape []int64) op.Output {
	all := [][]int32{{0, 0, 1}, {0, 2, 0}, {0, 2, 1}, {1, 0, 0}, {1, 1, 1}}
	n, v := int64(0), []int32{}
	for _, at := range all {
		if len(shape) == 3 || at[0] == 0 {
			v = append(v, at[3-len(shape):]...)
			n++
		}
	}
	flat := node(s, "Cast", attrs{"DstT": tensor.Int64}, vector(s, v...)).Output(0)
	return node(s, "Reshape", nil, flat, vector(s, int32(n), int32(len(shape)))).Output(0)
}

func compressed(s *op.Scope, x op.Output, shape []int64) op.Output {
	return node(s, "DenseToCSRSparseMatrix", nil, x, places(s, shape)).Output(0)
}

func sparseType(x op.Output, a attrs) attrs {
	out := attrs{"type": x.DType()}
	for k, v := range a {
		out[k] = v
	}
	return out
}

func dense(s *op.Scope, m, like op.Output) []op.Output {
	return []op.Output{node(s, "CSRSparseMatrixToDense", sparseType(like, nil), m).Output(0)}
}

func sparseCases() (cases []gradCase) {
	for _, shape := range [][]int64{{3, 2}, {2, 3, 2}} {
		for _, t := range []tensor.DType{tensor.Float64, tensor.Complex128} {
			add := func(name string, inputs []input, f func(s *op.Scope, x []op.Output) []op.Output) {
				cases = append(cases, gradCase{name: name, in: inputs, f: f})
			}
			x := []input{in(shape...).of(t)}
			add("DenseToCSRSparseMatrix", x, func(s *op.Scope, x []op.Output) []op.Output {
				o := node(s, "CSRSparseMatrixToSparseTensor", sparseType(x[0], nil), compressed(s, x[0], shape))
				return []op.Output{o.Output(1)}
			})
			add("CSRSparseMatrixToDense", x, func(s *op.Scope, x []op.Output) []op.Output { return dense(s, compressed(s, x[0], shape), x[0]) })
			for _, name := range []string{"SparseTensorToCSRSparseMatrix", "CSRSparseMatrixToSparseTensor"} {
				add(name, x, func(s *op.Scope, x []op.Output) []op.Output {
					o := node(s, "CSRSparseMatrixToSparseTensor", sparseType(x[0], nil), compressed(s, x[0], shape))
					m := node(s, "SparseTensorToCSRSparseMatrix", nil, o.Output(0), node(s, "Square", nil, o.Output(1)).Output(0), o.Output(2)).Output(0)
					return dense(s, m, x[0])
				})
			}
			for _, conj := range []bool{false, true} {
				add("SparseMatrixTranspose", x, func(s *op.Scope, x []op.Output) []op.Output {
					m := node(s, "SparseMatrixTranspose", sparseType(x[0], attrs{"conjugate": conj}), compressed(s, x[0], shape)).Output(0)
					return dense(s, node(s, "Conj", nil, m).Output(0), x[0])
				})
			}
			cases = append(cases, productCases(t, shape)...)
		}
	}
	return cases
}

// productCases returns cases of products of matrices that are transposed or conjugated in every way.
func productCases(t tensor.DType, shape []int64) (cases []gradCase) {
	batch, turns := shape[:len(shape)-2], []string{"", "transpose", "adjoint"}
	sized := func(rows, columns int64) input {
		return in(append(append([]int64{}, batch...), rows, columns)...).of(t)
	}
	for _, left := range turns {
		for _, right := range turns {
			a := attrs{}
			if left != "" {
				a[left+"_a"] = true
			}
			if right != "" {
				a[right+"_b"] = true
			}
			inner, rows := int64(2), int64(4)
			if left != "" {
				inner = 3
			}
			b := sized(inner, rows)
			if right != "" {
				b = sized(rows, inner)
			}
			for _, out := range []attrs{{}, {"transpose_output": true}, {"conjugate_output": true}} {
				all := attrs{}
				for _, m := range []attrs{a, out} {
					for k, v := range m {
						all[k] = v
					}
				}
				cases = append(cases, gradCase{name: "SparseMatrixMatMul", in: []input{in(shape...).of(t), b}, f: func(s *op.Scope, x []op.Output) []op.Output {
					return []op.Output{node(s, "SparseMatrixMatMul", all, compressed(s, x[0], shape), x[1]).Output(0)}
				}})
			}
			// The second factor has the size of the first one, transposed if necessary.
			if (left != "") == (right != "") {
				continue
			}
			cases = append(cases, gradCase{name: "SparseMatrixSparseMatMul", in: []input{in(shape...).of(t), in(shape...).of(t)}, f: func(s *op.Scope, x []op.Output) []op.Output {
				m := node(s, "SparseMatrixSparseMatMul", sparseType(x[0], a), compressed(s, x[0], shape), compressed(s, x[1], shape)).Output(0)
				return dense(s, m, x[0])
			}})
		}
	}
	// Factors that are both transposed, or both not, fit if one of them was transposed before.
	for _, a := range []attrs{{}, {"transpose_a": true, "transpose_b": true}, {"adjoint_a": true, "adjoint_b": true}, {"transpose_a": true, "adjoint_b": true}, {"adjoint_a": true, "transpose_b": true}} {
		cases = append(cases, gradCase{name: "SparseMatrixSparseMatMul", in: []input{in(shape...).of(t), in(shape...).of(t)}, f: func(s *op.Scope, x []op.Output) []op.Output {
			other := node(s, "SparseMatrixTranspose", sparseType(x[1], nil), compressed(s, x[1], shape)).Output(0)
			return dense(s, node(s, "SparseMatrixSparseMatMul", sparseType(x[0], a), compressed(s, x[0], shape), other).Output(0), x[0])
		}})
	}
	return cases
}

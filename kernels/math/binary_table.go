package math

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
)

// The errors of integer arithmetic, in TensorFlow's words.
var (
	errDivisionByZero = status.New(status.InvalidArgument, "Integer division by zero")
	errNegativePower  = status.New(status.InvalidArgument, "Integers to negative integer powers are not allowed")
)

func isZero(v int64) bool { return v == 0 }

func isNegative(v int64) bool { return v < 0 }

// untyped removes the type attribute from the rows of ops that have none.
func untyped(rows []kernels.Def) []kernels.Def {
	for i := range rows {
		rows[i].Types = nil
	}
	return rows
}

// perComplex2 returns the rows of a function of two complex numbers.
func perComplex2(f func(a, b complex128) complex128) elementwise.BinaryRows {
	return elementwise.Complex2(
		func(dst, a, b []complex64) {
			for i := range dst {
				dst[i] = complex64(f(complex128(a[i]), complex128(b[i])))
			}
		},
		func(dst, a, b []complex128) {
			for i := range dst {
				dst[i] = f(elementwise.ReadComplex(a[i]), elementwise.ReadComplex(b[i]))
			}
		})
}

package gpu

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// product is a batch of matrix products for the vendor's library, in its column-major order: the row-major C = A·B is C' = B'·A', so the
// operands are swapped.
type product struct {
	dtype          tensor.DType
	transA, transB bool
	m, n, k, count int64
	alpha, beta    float64
	a, b, c        matrices
}

// matrices describes one operand of a batch: the address of the first matrix, and the distances in elements between its columns and between
// the matrices.
type matrices struct {
	addr         uint64
	lead, stride int64
}

var _ kernels.MatrixMultiplier = (*core)(nil)

// Gemm queues products for the vendor's library. It returns false if there is none. The library decides whether to round float32 to TF32;
// it respects NVIDIA_TF32_OVERRIDE.
func (d *core) Gemm(ctx *kernels.Context, g kernels.Gemm) bool {
	if d.life.Load().blas == nil {
		return false
	}
	p := &product{
		dtype: g.DType, transA: g.TransB, transB: g.TransA, m: int64(g.N), n: int64(g.M), k: int64(g.K), count: int64(g.Batch),
		alpha: g.Alpha, beta: g.Beta,
		a: matrices{g.B.Address(), rowLength(g.TransB, g.K, g.N), int64(g.StrideB)},
		b: matrices{g.A.Address(), rowLength(g.TransA, g.M, g.K), int64(g.StrideA)},
		c: matrices{g.C.Address(), int64(g.N), int64(g.StrideC)},
	}
	d.logError(ctx, d.submit(ctx, command{kind: productCommand, function: "a matrix product of cuBLAS", product: p}, nil))
	return true
}

// rowLength returns the number of columns of the stored matrix. Its size is rows by columns after an optional transposition.
func rowLength(transposed bool, rows, columns int) int64 {
	if transposed {
		return int64(rows)
	}
	return int64(columns)
}

// multiply adds products to the compute stream.
func (l *life) multiply(p *product) error {
	if p.count == 1 {
		return l.blas.Gemm(l.compute, p.dtype, p.transA, p.transB, p.m, p.n, p.k, p.alpha, p.a.addr, p.a.lead,
			p.b.addr, p.b.lead, p.beta, p.c.addr, p.c.lead)
	}
	return l.blas.GemmStridedBatched(l.compute, p.dtype, p.transA, p.transB, p.m, p.n, p.k, p.alpha, p.a.addr, p.a.lead, p.a.stride,
		p.b.addr, p.b.lead, p.b.stride, p.beta, p.c.addr, p.c.lead, p.c.stride, p.count)
}

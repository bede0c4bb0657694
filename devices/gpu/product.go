package gpu

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// product is a batch of matrix products for the vendor's library, in its column-major order: by rows
// C = A·B is C' = B'·A', so the operands have changed places.
type product struct {
	dtype          tensor.DType
	transA, transB bool
	m, n, k, count int64
	alpha, beta    float64
	a, b, c        matrices
}

// matrices are those of one operand of a batch: the first one's address, and the distances in elements between
// its columns and between the matrices.
type matrices struct {
	addr         uint64
	lead, stride int64
}

var _ kernels.MatrixMultiplier = (*core)(nil)

// Gemm queues products for the vendor's library, where that is there. Whether it rounds float32 to TF32 is
// its own affair: it heeds NVIDIA_TF32_OVERRIDE.
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
	d.tell(ctx, d.give(ctx, command{kind: productCommand, function: "a matrix product of cuBLAS", product: p}, nil))
	return true
}

// rowLength is how many columns a matrix has that is rows by columns once it is transposed, or as it is.
func rowLength(transposed bool, rows, columns int) int64 {
	if transposed {
		return int64(rows)
	}
	return int64(columns)
}

// multiply puts products into the compute stream.
func (l *life) multiply(p *product) error {
	if p.count == 1 {
		return l.blas.Gemm(l.compute, p.dtype, p.transA, p.transB, p.m, p.n, p.k, p.alpha, p.a.addr, p.a.lead,
			p.b.addr, p.b.lead, p.beta, p.c.addr, p.c.lead)
	}
	return l.blas.GemmStridedBatched(l.compute, p.dtype, p.transA, p.transB, p.m, p.n, p.k, p.alpha, p.a.addr, p.a.lead, p.a.stride,
		p.b.addr, p.b.lead, p.b.stride, p.beta, p.c.addr, p.c.lead, p.c.stride, p.count)
}

package gemm

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// MultiplyOn computes a batch of products with the device's library if it has one, otherwise with the functions in matmul.cu and
// matmul_sm80.cu.
func MultiplyOn(ctx *kernels.Context, p *MatProduct, ta, tb, tf32 bool, a, b, out *tensor.Tensor) error {
	if out.Len() == 0 {
		return nil
	}
	dev := kernels.AcceleratorOf(ctx.Device)
	if p.K == 0 {
		dev.Fill(ctx, out, 0)
		return nil
	}
	batch := p.batches()
	if batch.rank == 1 {
		if library, ok := dev.(kernels.MatrixMultiplier); ok && library.Gemm(ctx, kernels.Gemm{
			DType: out.DType(), TransA: ta, TransB: tb, M: p.M, N: p.N, K: p.K, Batch: p.Count, Alpha: 1, TF32: tf32,
			A: a, B: b, C: out, StrideA: batch.a[0], StrideB: batch.b[0], StrideC: p.M * p.N,
		}) {
			return nil
		}
	}
	cores := TensorCores(dev, out.DType(), tf32)
	g := Launch{Tiling: matmulTiling(dev, p, ta, tb, cores, out.DType()), M: p.M, N: p.N, K: p.K, Batch: p.Count, Out: out}
	if batch.rank > mostBatchDims {
		return status.Unimplementedf("A product of batches that are broadcast in %d dimensions, after merging; %s does %d", batch.rank, dev.Name(), mostBatchDims)
	}
	return g.Run(ctx, func(partial uint64) []uint64 {
		args := MatrixWords(a, p.M, p.K, ta, batch.a)
		if !cores {
			args = append(args, Flag(!ta))
		}
		args = append(args, MatrixWords(b, p.N, p.K, !tb, batch.b)...)
		if !cores {
			args = append(args, Flag(tb))
		}
		return slices.Concat(args, OutputWords(out, partial, p.N, p.N), batch.words())
	})
}

// matmulTiling chooses the function: large tiles read less of the operands, small tiles give more parallelism.
func matmulTiling(dev kernels.Accelerator, p *MatProduct, ta, tb, cores bool, dtype tensor.DType) Tiling {
	size, t := "small", Tiling{Rows: 64, Columns: 64, Threads: 256}
	large := Tiling{Rows: 128, Columns: 128, Threads: 256}
	hasLarge := dtype == tensor.Float32
	if cores {
		t.Threads = 128
		hasLarge = !ta || !tb
	}
	if hasLarge && large.tiles(p.M, p.N)*p.Count >= dev.Card().Processors {
		size, t = "large", large
	}
	name := "matmul_"
	if cores {
		name += "mma_"
	}
	name += size + "_"
	if cores {
		name += map[bool]string{false: "n", true: "t"}[ta] + map[bool]string{false: "n", true: "t"}[tb] + "_"
	}
	t.Function = name + launch.Suffixes[dtype]
	return t
}

// OutputWords returns the parameters of an output with n written elements per row; rows start row elements apart.
func OutputWords(t *tensor.Tensor, partial uint64, n, row int) []uint64 {
	runs := t.Address()%16 == 0 && n%4 == 0 && row%4 == 0
	return []uint64{t.Address(), partial, uint64(row), uint64(t.Len()), Flag(runs)}
}

// MatrixWords returns the parameters of a stored matrix with outer rows or columns and inner steps along k. If across is true, neighbours
// along k are a whole row apart. strides are those of the batch.
func MatrixWords(t *tensor.Tensor, outer, inner int, across bool, strides []int) []uint64 {
	runs := Aligned(t, append([]int{outer}, strides...)...)
	outerStep, innerStep := 1, outer
	if !across {
		runs = Aligned(t, append([]int{inner}, strides...)...)
		outerStep, innerStep = inner, 1
	}
	return []uint64{t.Address(), uint64(outer), uint64(inner), uint64(outerStep), uint64(innerStep), Flag(runs)}
}

// batches holds the dimensions of a batch of products and the strides of their operands, in elements.
type batches struct {
	rank       int
	dims, a, b []int
}

// mostBatchDims is the maximum number of batch dimensions that the functions support.
const mostBatchDims = 8

// batches merges the dimensions of the batch as far as its operands allow.
func (p *MatProduct) batches() batches {
	sizeA, sizeB := p.M*p.K, p.K*p.N
	if p.Batch == nil {
		return batches{1, []int{p.Count}, []int{sizeA}, []int{sizeB}}
	}
	b := batches{rank: len(p.Batch.Dims), dims: p.Batch.Dims}
	for i := range b.dims {
		b.a = append(b.a, p.Batch.Strides[0][i]*sizeA)
		b.b = append(b.b, p.Batch.Strides[1][i]*sizeB)
	}
	return b
}

// words returns the device function's parameters.
func (b *batches) words() []uint64 {
	words := make([]uint64, 1+3*mostBatchDims)
	words[0] = uint64(b.rank)
	for i := range b.dims {
		words[1+i] = uint64(b.dims[i])
		words[1+mostBatchDims+i] = uint64(b.a[i])
		words[1+2*mostBatchDims+i] = uint64(b.b[i])
	}
	return words
}

// MatProduct is a batch of matrix products: the sizes of each, and which operand matrices each result uses.
type MatProduct struct {
	M, N, K int
	Out     tensor.Shape
	Batch   *elementwise.Walk // nil if matrix i of both operands goes into result i
	Count   int
}

package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// deviceMatmul is MatMul and its like on an accelerator.
type deviceMatmul struct {
	rule         matmulRule
	dtype        tensor.DType
	ta, tb, tf32 bool
}

func (k *deviceMatmul) Compute(ctx *Context) error {
	a, b := ctx.Input(0), ctx.Input(1)
	if err := firstError(checkType(ctx, 0, k.dtype), checkType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	p, err := k.rule.plan(a.Shape(), b.Shape(), k.ta, k.tb)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, p.out)
	if err != nil {
		return err
	}
	return multiplyOn(ctx, &p, k.ta, k.tb, k.tf32, a, b, out)
}

// multiplyOn computes a batch of products: with the device's library if it has one, else by the
// functions in matmul.cu and matmul_sm80.cu.
func multiplyOn(ctx *Context, p *matProduct, ta, tb, tf32 bool, a, b, out *tensor.Tensor) error {
	if out.Len() == 0 {
		return nil
	}
	dev := accelerator(ctx.Device)
	if p.k == 0 {
		dev.Fill(ctx, out, 0)
		return nil
	}
	batch := p.batches()
	if batch.rank == 1 {
		if library, ok := dev.(MatrixMultiplier); ok && library.Gemm(ctx, Gemm{
			DType: out.DType(), TransA: ta, TransB: tb, M: p.m, N: p.n, K: p.k, Batch: p.count, Alpha: 1, TF32: tf32,
			A: a, B: b, C: out, StrideA: batch.a[0], StrideB: batch.b[0], StrideC: p.m * p.n,
		}) {
			return nil
		}
	}
	cores := tensorCores(dev, out.DType(), tf32)
	g := gemmLaunch{tiling: matmulTiling(dev, p, ta, tb, cores, out.DType()), m: p.m, n: p.n, k: p.k, batch: p.count, out: out}
	if batch.rank > mostBatchDims {
		return status.Unimplementedf("A product of batches that are broadcast in %d dimensions, after merging; %s does %d", batch.rank, dev.Name(), mostBatchDims)
	}
	return g.run(ctx, func(partial uint64) []uint64 {
		args := matrixWords(a, p.m, p.k, ta, batch.a)
		if !cores {
			args = append(args, flag(!ta))
		}
		args = append(args, matrixWords(b, p.n, p.k, !tb, batch.b)...)
		if !cores {
			args = append(args, flag(tb))
		}
		return slices.Concat(args, outputWords(out, partial, p.n, p.n), batch.words())
	})
}

// matmulTiling chooses the function: large tiles read less of the operands, small ones are more.
func matmulTiling(dev Accelerator, p *matProduct, ta, tb, cores bool, dtype tensor.DType) tiling {
	size, t := "small", tiling{rows: 64, columns: 64, threads: 256}
	large := tiling{rows: 128, columns: 128, threads: 256}
	hasLarge := dtype == tensor.Float32
	if cores {
		t.threads = 128
		hasLarge = !ta || !tb
	}
	if hasLarge && large.tiles(p.m, p.n)*p.count >= dev.Card().Processors {
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
	t.function = name + suffixes[dtype]
	return t
}

// outputWords are the parameters of an output whose rows, of n elements that are written, are row
// elements apart.
func outputWords(t *tensor.Tensor, partial uint64, n, row int) []uint64 {
	runs := t.Address()%16 == 0 && n%4 == 0 && row%4 == 0
	return []uint64{t.Address(), partial, uint64(row), uint64(t.Len()), flag(runs)}
}

// matrixWords are the parameters of a stored matrix, with outer rows or columns and inner steps
// along k. across tells that neighbours along k are a whole row apart. strides are those of the batch.
func matrixWords(t *tensor.Tensor, outer, inner int, across bool, strides []int) []uint64 {
	runs := aligned(t, append([]int{outer}, strides...)...)
	outerStep, innerStep := 1, outer
	if !across {
		runs = aligned(t, append([]int{inner}, strides...)...)
		outerStep, innerStep = inner, 1
	}
	return []uint64{t.Address(), uint64(outer), uint64(inner), uint64(outerStep), uint64(innerStep), flag(runs)}
}

// batches are the dimensions of a batch of products and the strides of their operands, in elements.
type batches struct {
	rank       int
	dims, a, b []int
}

// mostBatchDims is how many dimensions the functions take.
const mostBatchDims = 8

// batches merges the dimensions of the batch as far as its operands allow.
func (p *matProduct) batches() batches {
	sizeA, sizeB := p.m*p.k, p.k*p.n
	if p.batch == nil {
		return batches{1, []int{p.count}, []int{sizeA}, []int{sizeB}}
	}
	b := batches{rank: len(p.batch.dims), dims: p.batch.dims}
	for i := range b.dims {
		b.a = append(b.a, p.batch.strides[0][i]*sizeA)
		b.b = append(b.b, p.batch.strides[1][i]*sizeB)
	}
	return b
}

// words are the parameters.
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

func init() {
	eachDenseType(func(dtype tensor.DType) {
		one := []tensor.DType{dtype}
		row := func(op string, rule matmulRule, attrA, attrB string, types ...string) {
			def := Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{}, Expensive: true, New: func(c *Construction) (any, error) {
				ta, errA := c.Attrs().Bool(attrA)
				tb, errB := c.Attrs().Bool(attrB)
				return &deviceMatmul{rule, dtype, ta, tb, allowTF32()}, firstError(errA, errB)
			}}
			for _, attr := range types {
				def.Types[attr] = one
			}
			Register(def)
		}
		row("MatMul", oneMatrix, "transpose_a", "transpose_b", "T")
		row("BatchMatMul", equalBatch, "adj_x", "adj_y", "T")
		row("BatchMatMulV2", stretchBatch, "adj_x", "adj_y", "T")
		row("BatchMatMulV3", stretchBatch, "adj_x", "adj_y", "Ta", "Tb", "Tout")
	})
}

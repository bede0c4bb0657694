package linalg

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// deviceMatmul is MatMul or a related op on an accelerator.
type deviceMatmul struct {
	rule         matmulRule
	dtype        tensor.DType
	ta, tb, tf32 bool
}

func (k *deviceMatmul) Compute(ctx *kernels.Context) error {
	a, b := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	p, err := k.rule.plan(a.Shape(), b.Shape(), k.ta, k.tb)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, p.Out)
	if err != nil {
		return err
	}
	return gemm.MultiplyOn(ctx, &p, k.ta, k.tb, k.tf32, a, b, out)
}

func addMatmulGPU(table *kernels.Table) {
	launch.EachDenseType(func(dtype tensor.DType) {
		one := []tensor.DType{dtype}
		row := func(op string, rule matmulRule, attrA, attrB string, types ...string) {
			def := kernels.Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{}, Expensive: true, New: func(c *kernels.Construction) (any, error) {
				a := c.Attrs().Reader()
				return &deviceMatmul{rule, dtype, a.Bool(attrA), a.Bool(attrB), gemm.AllowTF32()}, a.Err()
			}}
			for _, attr := range types {
				def.Types[attr] = one
			}
			table.Add(def)
		}
		row("MatMul", oneMatrix, "transpose_a", "transpose_b", "T")
		row("BatchMatMul", equalBatch, "adj_x", "adj_y", "T")
		row("BatchMatMulV2", stretchBatch, "adj_x", "adj_y", "T")
		row("BatchMatMulV3", stretchBatch, "adj_x", "adj_y", "Ta", "Tb", "Tout")
	})
}

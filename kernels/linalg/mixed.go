package linalg

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// widening is a kernel that first converts its 8-bit operands. BatchMatMulV3 multiplies them with each other, yielding int32, and with
// bfloat16.
type widening[W int32 | float32] struct {
	inner kernels.Kernel
	dtype tensor.DType // the type to convert to
}

func (k *widening[W]) Compute(ctx *kernels.Context) error {
	sub := *ctx
	sub.Inputs = append([]kernels.Value(nil), ctx.Inputs...)
	defer func() {
		for i, v := range sub.Inputs {
			if v.Tensor != ctx.Inputs[i].Tensor {
				v.Release()
			}
		}
	}()
	for i, v := range ctx.Inputs {
		dtype := v.Tensor.DType()
		if dtype != tensor.Int8 && dtype != tensor.Uint8 {
			continue
		}
		wide, err := tensor.New(ctx.Device.Pool(), k.dtype, v.Tensor.Shape())
		if err != nil {
			return err
		}
		sub.Inputs[i].Tensor = wide
		if dtype == tensor.Int8 {
			element.Convert(element.ViewOf[W](wide), element.ViewOf[int8](v.Tensor))
		} else {
			element.Convert(element.ViewOf[W](wide), element.ViewOf[uint8](v.Tensor))
		}
	}
	return k.inner.Compute(&sub)
}

// mixedProducts returns the rows of BatchMatMulV3 with 8-bit operands. ints and halves are the entries of the types to compute in.
func mixedProducts(ints, halves matmulEntry) []kernels.Def {
	bytes := []tensor.DType{tensor.Int8, tensor.Uint8}
	row := func(a, b []tensor.DType, out matmulEntry, widen func(kernels.Kernel) kernels.Kernel) kernels.Def {
		construct := out.constructor(stretchBatch, "adj_x", "adj_y")
		return kernels.Def{Types: map[string][]tensor.DType{"Ta": a, "Tb": b, "Tout": {out.dtype}}, Expensive: true,
			New: func(c *kernels.Construction) (any, error) {
				inner, err := construct(c)
				if err != nil {
					return nil, err
				}
				return widen(inner.(kernels.Kernel)), nil
			}}
	}
	toInts := func(k kernels.Kernel) kernels.Kernel { return &widening[int32]{k, tensor.Int32} }
	toFloats := func(k kernels.Kernel) kernels.Kernel { return &widening[float32]{k, tensor.Float32} }
	return []kernels.Def{
		row(bytes, bytes, ints, toInts),
		row(bytes, []tensor.DType{halves.dtype}, halves, toFloats),
		row([]tensor.DType{halves.dtype}, bytes, halves, toFloats),
	}
}

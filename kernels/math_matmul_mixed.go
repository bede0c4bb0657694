package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// widening is a kernel whose operands of 8 bits are converted for it: BatchMatMulV3 multiplies them with each other, to
// int32, and with bfloat16.
type widening[W int32 | float32] struct {
	inner Kernel
	dtype tensor.DType // the one to convert to
}

func (k *widening[W]) Compute(ctx *Context) error {
	sub := *ctx
	sub.Inputs = append([]Value(nil), ctx.Inputs...)
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
			convert(viewOf[W](wide), viewOf[int8](v.Tensor))
		} else {
			convert(viewOf[W](wide), viewOf[uint8](v.Tensor))
		}
	}
	return k.inner.Compute(&sub)
}

// mixedProducts makes the rows of BatchMatMulV3 whose operands have 8 bits, from the entries of the types to compute in.
func mixedProducts(ints, halves matmulEntry) {
	bytes := []tensor.DType{tensor.Int8, tensor.Uint8}
	add := func(a, b []tensor.DType, out matmulEntry, widen func(Kernel) Kernel) {
		construct := out.constructor(stretchBatch, "adj_x", "adj_y")
		Register(Def{Op: "BatchMatMulV3", Types: map[string][]tensor.DType{"Ta": a, "Tb": b, "Tout": {out.dtype}}, Expensive: true,
			New: func(c *Construction) (any, error) {
				inner, err := construct(c)
				if err != nil {
					return nil, err
				}
				return widen(inner.(Kernel)), nil
			}})
	}
	toInts := func(k Kernel) Kernel { return &widening[int32]{k, tensor.Int32} }
	toFloats := func(k Kernel) Kernel { return &widening[float32]{k, tensor.Float32} }
	add(bytes, bytes, ints, toInts)
	add(bytes, []tensor.DType{halves.dtype}, halves, toFloats)
	add([]tensor.DType{halves.dtype}, bytes, halves, toFloats)
}

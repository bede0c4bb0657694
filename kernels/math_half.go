package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// viaFloat is a float kernel made to serve a half type: inputs of the type are widened before
// and the float outputs rounded after. Elementwise ops have a way of their own, block by block.
type viaFloat struct {
	inner Kernel
	half  tensor.DType
	// firstOnly says that only output 0 has the half type, others may well be floats.
	firstOnly bool
}

// halves makes the constructor of viaFloat of that of a float kernel.
func halves(half tensor.DType, construct func(*Construction) (any, error)) func(*Construction) (any, error) {
	return func(c *Construction) (any, error) {
		inner, err := construct(c)
		if err != nil {
			return nil, err
		}
		return &viaFloat{inner: inner.(Kernel), half: half}, nil
	}
}

func (k *viaFloat) Compute(ctx *Context) error {
	sub := *ctx
	sub.Inputs = make([]Value, len(ctx.Inputs))
	sub.Outputs = make([]Value, len(ctx.Outputs))
	defer func() {
		for i, v := range sub.Inputs {
			if v.Tensor != ctx.Inputs[i].Tensor {
				v.Release()
			}
		}
		for _, v := range sub.Outputs {
			v.Release()
		}
	}()
	copy(sub.Inputs, ctx.Inputs)
	for i, v := range ctx.Inputs {
		if v.Tensor == nil || v.Tensor.DType() != k.half {
			continue
		}
		wide, err := tensor.New(ctx.Device.Pool(), tensor.Float32, v.Tensor.Shape())
		if err != nil {
			return err
		}
		sub.Inputs[i].Tensor = wide
		k.convert(ctx.Device, v.Tensor, wide, true)
	}
	if err := k.inner.Compute(&sub); err != nil {
		return err
	}
	for i, v := range sub.Outputs {
		if v.Tensor == nil || v.Tensor.DType() != tensor.Float32 || i > 0 && k.firstOnly {
			ctx.Outputs[i], sub.Outputs[i] = v, Value{}
			continue
		}
		out, err := ctx.Allocate(i, k.half, v.Tensor.Shape())
		if err != nil {
			return err
		}
		k.convert(ctx.Device, out, v.Tensor, false)
	}
	return nil
}

// convert widens half to wide, or rounds wide to half.
func (k *viaFloat) convert(dev Device, half, wide *tensor.Tensor, widening bool) {
	if k.half == tensor.Float16 {
		convertHalf(dev, viewOf[float16](half), viewOf[float32](wide), widening)
	} else {
		convertHalf(dev, viewOf[bfloat16](half), viewOf[float32](wide), widening)
	}
}

func convertHalf[H halfFloat](dev Device, half []H, wide []float32, widening bool) {
	dev.Parallel(len(half), cheapGrain, func(lo, hi int) {
		if widening {
			widen(wide[lo:hi], half[lo:hi])
		} else {
			narrow(half[lo:hi], wide[lo:hi])
		}
	})
}

// halfTypes are the types that viaFloat serves.
var halfTypes = []tensor.DType{tensor.Float16, tensor.BFloat16}

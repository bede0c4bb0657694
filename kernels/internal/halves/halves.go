package halves

import (
	"maps"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// ViaFloat adapts a float kernel to a half type: it widens inputs of that type and rounds the float outputs. Elementwise ops have their own
// way, which works block by block.
type ViaFloat struct {
	Inner kernels.Kernel
	Half  tensor.DType
	// FirstOnly limits rounding to output 0; other outputs may be floats.
	FirstOnly bool
}

// Constructor returns the constructor of a ViaFloat, given that of a float kernel.
func Constructor(half tensor.DType, construct func(*kernels.Construction) (any, error)) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		inner, err := construct(c)
		if err != nil {
			return nil, err
		}
		return &ViaFloat{Inner: inner.(kernels.Kernel), Half: half}, nil
	}
}

// Compute runs the float kernel on widened inputs. Float outputs are rounded to the half type; others are passed through.
func (k *ViaFloat) Compute(ctx *kernels.Context) error {
	sub := *ctx
	sub.Inputs = make([]kernels.Value, len(ctx.Inputs))
	sub.Outputs = make([]kernels.Value, len(ctx.Outputs))
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
		if v.Tensor == nil || v.Tensor.DType() != k.Half {
			continue
		}
		wide, err := tensor.New(ctx.Device.Pool(), tensor.Float32, v.Tensor.Shape())
		if err != nil {
			return err
		}
		sub.Inputs[i].Tensor = wide
		k.convert(ctx, v.Tensor, wide, true)
	}
	if err := k.Inner.Compute(&sub); err != nil {
		return err
	}
	for i, v := range sub.Outputs {
		if v.Tensor == nil || v.Tensor.DType() != tensor.Float32 || i > 0 && k.FirstOnly {
			ctx.Outputs[i], sub.Outputs[i] = v, kernels.Value{}
			continue
		}
		out, err := ctx.Allocate(i, k.Half, v.Tensor.Shape())
		if err != nil {
			return err
		}
		k.convert(ctx, out, v.Tensor, false)
	}
	return nil
}

// convert widens half to wide, or rounds wide to half.
func (k *ViaFloat) convert(ctx *kernels.Context, half, wide *tensor.Tensor, widening bool) {
	if k.Half == tensor.Float16 {
		convertHalf(ctx, element.ViewOf[element.Float16](half), element.ViewOf[float32](wide), widening)
	} else {
		convertHalf(ctx, element.ViewOf[element.BFloat16](half), element.ViewOf[float32](wide), widening)
	}
}

func convertHalf[H element.HalfFloat](ctx *kernels.Context, half []H, wide []float32, widening bool) {
	ctx.Parallel(len(half), element.CheapGrain, func(lo, hi int) {
		if widening {
			element.Widen(wide[lo:hi], half[lo:hi])
		} else {
			element.Narrow(half[lo:hi], wide[lo:hi])
		}
	})
}

// Types are the types that ViaFloat supports.
var Types = []tensor.DType{tensor.Float16, tensor.BFloat16}

// Rows returns an op's rows for an element type; for float, it includes those of the half types. The rows are expensive and do not name the
// op.
func Rows(attr string, dtype tensor.DType, construct func(*kernels.Construction) (any, error)) []kernels.Def {
	rows := With(attr, kernels.Def{New: construct}, dtype)
	for i := range rows {
		rows[i].Expensive = true
	}
	return rows
}

// With returns copies of a row, where attr is an element type: for this type and, for float, also for the half types.
func With(attr string, like kernels.Def, dtype tensor.DType) []kernels.Def {
	row := func(dtype tensor.DType, construct func(*kernels.Construction) (any, error)) kernels.Def {
		r := like
		r.Types = maps.Clone(like.Types)
		if r.Types == nil {
			r.Types = map[string][]tensor.DType{}
		}
		r.Types[attr], r.New = []tensor.DType{dtype}, construct
		return r
	}
	rows := []kernels.Def{row(dtype, like.New)}
	if dtype == tensor.Float32 {
		for _, half := range Types {
			rows = append(rows, row(half, Constructor(half, like.New)))
		}
	}
	return rows
}

package sdca

import (
	"math"

	"github.com/dgryski/go-farm"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/variable"
)

// regularization shrinks weights towards zero: by L2 in proportion to them, and by L1 by a fixed amount.
type regularization struct {
	l2        float32
	shrinkage float64 // L1 over L2
}

func newRegularization(a *graph.AttrReader) regularization {
	l1, l2 := a.Float("l1"), a.Float("l2")
	return regularization{l2, float64(l1 / l2)}
}

// shrink returns a weight after L1 shrinkage.
func (r regularization) shrink(weight float64) float64 {
	if left := math.Abs(weight) - r.shrinkage; left > 0 {
		return math.Copysign(left, weight)
	}
	return 0
}

// shrink32 is shrink in float32. NaN stays NaN.
func (r regularization) shrink32(weight float32) float32 {
	switch left := float32(math.Abs(float64(weight))) - float32(r.shrinkage); {
	case weight > 0:
		return max(left, 0)
	case weight < 0:
		return -max(left, 0)
	default:
		return weight * 0
	}
}

// newShrink returns the kernel of SdcaShrinkL1, which shrinks the weights of variables.
func newShrink(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	r := newRegularization(&a)
	return kernels.Func(func(ctx *kernels.Context) error {
		for i := range ctx.NumInputs() {
			v := ctx.Ref(i)
			if v.DType() != tensor.Float32 {
				return status.InvalidArgumentf("Weights must be float, but variable %d is %v", i, v.DType())
			}
			err := variable.Update(ctx, v, func(t *tensor.Tensor) error {
				weights := tensor.Of[float32](t)
				ctx.Device.Parallel(len(weights), element.CheapGrain, func(lo, hi int) {
					for j, w := range weights[lo:hi] {
						weights[lo+j] = r.shrink32(w)
					}
				})
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}), a.Err()
}

// fingerprint is SdcaFprint, which returns 128 bits for each example id.
func fingerprint(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.CheckType(ctx, 0, tensor.String); err != nil {
		return err
	}
	if in.Rank() != 1 {
		return status.InvalidArgumentf("Input must be a vector, got shape %v", in.Shape())
	}
	out, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(in.Len()), 2})
	if err != nil {
		return err
	}
	dst := tensor.Of[int64](out)
	for i, id := range in.Strings() {
		low, high := farm.Fingerprint128([]byte(id))
		if low < 2 {
			low -= 2 // 0 and 1 are reserved for tables that mark empty slots with them
		}
		dst[2*i], dst[2*i+1] = int64(low), int64(high)
	}
	return nil
}

package math

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
)

// betaincOf returns the row of Betainc for one element type. Its inputs have the same shape or are scalars.
func betaincOf[T element.Floating]() []kernels.Def {
	dtype := element.DTypeOf[T]()
	return kernels.ForType("T", dtype, func(*kernels.Construction) (any, error) {
		return kernels.Func(func(ctx *kernels.Context) error {
			shape := tensor.Shape(nil)
			for i := range 3 {
				if err := args.CheckType(ctx, i, dtype); err != nil {
					return err
				}
				s := ctx.Input(i).Shape()
				switch {
				case len(shape) == 0:
					shape = s
				case len(s) > 0 && !s.Equal(shape):
					names := [3]string{"a", "b", "x"}
					return status.InvalidArgumentf("Shapes of %s and %s are inconsistent: %v vs. %v", names[0], names[i], shape, s)
				}
			}
			out, err := ctx.Allocate(0, dtype, shape)
			if err != nil {
				return err
			}
			var in [3][]T
			var stride [3]int
			for i := range in {
				in[i] = element.ViewOf[T](ctx.Input(i))
				stride[i] = min(1, ctx.Input(i).Rank())
			}
			dst := element.ViewOf[T](out)
			ctx.Parallel(len(dst), element.BlockLen, func(lo, hi int) {
				for i := lo; i < hi && ctx.Ended() == nil; i++ {
					operand := func(n int) float64 { return elementwise.Read(float64(in[n][i*stride[n]])) }
					dst[i] = T(betainc(operand(0), operand(1), operand(2)))
				}
			})
			return ctx.Ended()
		}), nil
	})
}

package linalg

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// cross returns the rows of Cross, the cross product of vectors of three elements, for one element type.
func cross[T element.Numeric]() []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, kernels.Always(func(ctx *kernels.Context) error {
		a, b := ctx.Input(0), ctx.Input(1)
		if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, dtype)); err != nil {
			return err
		}
		switch {
		case !a.Shape().Equal(b.Shape()):
			return status.InvalidArgumentf("Both inputs must be of same shape: %v vs. %v", a.Shape(), b.Shape())
		case a.Rank() == 0:
			return status.InvalidArgumentf("Input must be at least 1D%v", a.Shape())
		case a.Dim(a.Rank()-1) != 3:
			return status.Errorf(status.FailedPrecondition, "Cross-products are only defined for 3-element vectors.")
		}
		out, err := ctx.Allocate(0, dtype, a.Shape())
		if err != nil {
			return err
		}
		dst, u, v := element.ViewOf[T](out), element.ViewOf[T](a), element.ViewOf[T](b)
		for i := 0; i < len(dst); i += 3 {
			dst[i] = u[i+1]*v[i+2] - u[i+2]*v[i+1]
			dst[i+1] = u[i+2]*v[i] - u[i]*v[i+2]
			dst[i+2] = u[i]*v[i+1] - u[i+1]*v[i]
		}
		return nil
	}))
}

package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// maxPoolGradGradKernel is MaxPoolGradGrad, and MaxPoolGradGradV2, whose window comes from inputs. Input 2 has the image's shape. Each
// place takes the element of input 2 at the first element of its window that equals MaxPool's result, or 0 if none does.
type maxPoolGradGradKernel[T element.Ordered] struct {
	pooling
	dtype      tensor.DType
	fromInputs bool
}

// Compute implements kernels.Kernel.
func (k *maxPoolGradGradKernel[T]) Compute(ctx *kernels.Context) error {
	image, result, grad := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	attrs := k.pooling
	if k.fromInputs {
		if err := attrs.windowInputs(ctx, 3); err != nil {
			return err
		}
	}
	if attrs.sizeDepth != 1 || attrs.strideDepth != 1 {
		return status.Unimplementedf("MaxPoolingGradGrad is not yet supported on the depth dimension.")
	}
	p, err := attrs.plan(image.Shape())
	if err != nil {
		return err
	}
	if err := args.FirstError(expectShape("orig_output", p.outShape(), result.Shape()), expectShape("grad", image.Shape(), grad.Shape())); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, result.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	dst, src, greatest, g := element.ViewOf[T](out), element.ViewOf[T](image), element.ViewOf[T](result), element.ViewOf[T](grad)
	ctx.Parallel(p.batch*p.rows.out, p.grain(), func(lo, hi int) {
		p.eachPlace(lo, hi, func(place, image int, rows, cols [3]int) {
			for c := range p.depth {
				first := -1
				for y := rows[0]; y < rows[1] && first < 0; y++ {
					for x := cols[0]; x < cols[1]; x++ {
						if at := image + ((rows[2]+y)*p.cols.in+cols[2]+x)*p.depth + c; src[at] == greatest[place*p.depth+c] {
							first = at
							break
						}
					}
				}
				dst[place*p.depth+c] = picked(g, first)
			}
		})
	})
	return nil
}

// picked returns an element, or 0 for a window that has none.
func picked[T element.Ordered](values []T, at int) T {
	if at < 0 {
		return 0
	}
	return values[at]
}

// maxPool3GradGrad is MaxPool3DGradGrad. Each place takes the gradient at the first element of its window that equals MaxPool3D's result,
// or 0 if none does.
func maxPool3GradGrad[T element.Floating](p pooling3) kernels.Func {
	return func(ctx *kernels.Context) error {
		image, result, grad, dtype := ctx.Input(0), ctx.Input(1), ctx.Input(2), element.DTypeOf[T]()
		if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, dtype), args.CheckType(ctx, 2, dtype)); err != nil {
			return err
		}
		plan, err := p.plan(image.Shape())
		if err != nil {
			return err
		}
		if err := args.FirstError(expectShape("orig_output", plan.outShape(), result.Shape()), expectShape("grad", image.Shape(), grad.Shape())); err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, result.Shape())
		if err != nil || out.Len() == 0 {
			return err
		}
		dst, src, y, g := element.ViewOf[T](out), element.ViewOf[T](image), element.ViewOf[T](result), element.ViewOf[T](grad)
		ctx.Parallel(plan.batch, 1, func(lo, hi int) {
			plan.each(ctx, lo, hi, func(place int, pixels []int) {
				for c := range plan.depth {
					first := -1
					for _, at := range pixels {
						if src[at+c] == y[place+c] {
							first = at + c
							break
						}
					}
					dst[place+c] = picked(g, first)
				}
			})
		})
		return nil
	}
}

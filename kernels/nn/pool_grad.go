package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// planGrad is plan for the gradient of max pooling, whose other inputs must have the result's shape.
func (p *pooling) planGrad(image, result, grad tensor.Shape) (pool, error) {
	if p.sizeDepth != 1 || p.strideDepth != 1 {
		return pool{}, status.Unimplementedf("MaxPoolingGrad is not yet supported on the depth dimension.")
	}
	out, err := p.plan(image)
	if err != nil {
		return pool{}, err
	}
	if err := args.FirstError(expectShape("orig_output", out.outShape(), result), expectShape("grad", out.outShape(), grad)); err != nil {
		return pool{}, err
	}
	return out, nil
}

func expectShape(name string, want, have tensor.Shape) error {
	if !have.Equal(want) {
		return status.InvalidArgumentf("Expected %s shape to be %v, but got %v", name, want, have)
	}
	return nil
}

// maxPoolGradKernel is MaxPoolGrad, and MaxPoolGradV2, whose window comes from inputs. It adds the gradient of each place to the first
// maximum of the place's window.
type maxPoolGradKernel[T element.Ordered] struct {
	pooling
	dtype      tensor.DType
	maxGrad    func(t *simd.Taps, dst, a, grad []T, at, n int)
	fromInputs bool
}

func (k *maxPoolGradKernel[T]) Compute(ctx *kernels.Context) error {
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
	p, err := attrs.planGrad(image.Shape(), result.Shape(), grad.Shape())
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, image.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	dst, src, g := element.ViewOf[T](out), element.ViewOf[T](image), element.ViewOf[T](grad)
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	// Windows overlap, so each image belongs to one goroutine.
	runs := p.cols.runs()
	ctx.Parallel(p.batch, max(1, p.grain()/max(1, p.rows.out)), func(lo, hi int) {
		p.eachRun(lo*p.rows.out, hi*p.rows.out, runs, func(place int, t *simd.Taps, at int) {
			if t.Rows*t.Cols > 0 {
				k.maxGrad(t, dst, src, g[place*p.depth:], at, p.depth)
			}
		})
	})
	return nil
}

// avgPoolGradKernel is AvgPoolGrad. It divides the gradient of each place among the elements of the place's window that lie in the image.
type avgPoolGradKernel[T element.Floating] struct {
	pooling
	poolMath[T]
	dtype tensor.DType
}

func (k *avgPoolGradKernel[T]) Compute(ctx *kernels.Context) error {
	grad := ctx.Input(1)
	if err := args.CheckType(ctx, 1, k.dtype); err != nil {
		return err
	}
	if t := ctx.Input(0); t.Rank() != 1 || t.Len() != 4 {
		return status.InvalidArgumentf("out_backprop must be 1-dimensional and 4 elements")
	}
	shape, err := sizesInput(ctx, 0, 4, "orig_input_shape")
	if err != nil {
		return err
	}
	p, err := k.planAvg(shape)
	if err != nil {
		return err
	}
	if want := p.outShape(); !grad.Shape().Equal(want) {
		return status.InvalidArgumentf("Expected grad shape to be %v, but got %v", want, grad.Shape())
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	g := element.ViewOf[T](grad)
	if len(g) == 0 {
		if err := kernels.Clear(ctx, element.ViewOf[T](out)); err != nil {
			return err
		}
		return nil
	}
	shares, release, err := element.Scratch[T](ctx.Device, len(g))
	if err != nil {
		return err
	}
	defer release()
	k.share(ctx, &p, shares, g)
	k.sumShares(ctx, &p, element.ViewOf[T](out), shares)
	return nil
}

// share divides the gradient of each place by the number of elements of its window that lie in the image.
func (k *avgPoolGradKernel[T]) share(ctx *kernels.Context, p *pool, shares, grad []T) {
	runs := p.cols.runs()
	ctx.Parallel(p.batch*p.rows.out, max(1, element.CheapGrain/max(1, p.cols.out*p.depth)), func(lo, hi int) {
		p.eachRun(lo, hi, runs, func(place int, t *simd.Taps, _ int) {
			k.divide(shares[place*p.depth:][:t.Places*p.depth], grad[place*p.depth:][:t.Places*p.depth], T(t.Rows*t.Cols))
		})
	})
}

// sumShares sets each pixel of dst to the sum of the shares of the places that see it. Pixels a stride apart are seen by windows of the
// same form: see inputGradDirectly.
func (k *avgPoolGradKernel[T]) sumShares(ctx *kernels.Context, p *pool, dst, shares []T) {
	rows, columns := p.rows.phases(), p.cols.phases()
	over := make([]pool, len(columns))
	runs := make([][]run, len(columns))
	for x, cols := range columns {
		over[x] = pool{batch: p.batch, cols: cols, depth: p.depth}
		runs[x] = cols.runs()
	}
	every := p.cols.stride * p.depth
	ctx.Parallel(p.batch*p.rows.in, max(1, element.CostlyGrain/max(1, p.cols.in*p.depth)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			n, y := r/p.rows.in, r%p.rows.in
			for x := range columns {
				seen := over[x]
				seen.rows = rows[y%len(rows)]
				row := n*seen.rows.out + y/len(rows)
				seen.eachRun(row, row+1, runs[x], func(place int, t *simd.Taps, at int) {
					to := dst[(r*p.cols.in+x)*p.depth+place%seen.cols.out*every:]
					t.PlaceDst = every
					if t.Rows*t.Cols > 0 {
						k.sum(t, to, shares, at, p.depth)
						return
					}
					for i := range t.Places {
						clear(to[i*every:][:p.depth])
					}
				})
			}
		}
	})
}

package nn

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/powers"
)

// lrn is local response normalization over neighbouring channels, and its gradient.
type lrn struct {
	radius            int
	bias, alpha, beta float32
}

func newLRN(c *kernels.Construction) (l lrn, err error) {
	a := c.Attrs().Reader()
	radius := a.Int("depth_radius")
	if radius < 0 || radius > math.MaxInt32 {
		a.Failf("depth_radius = %d larger than int max", radius)
	}
	return lrn{int(radius), a.Float("bias"), a.Float("alpha"), a.Float("beta")}, a.Err()
}

// newLRNKernel returns the constructor of LRN or of its gradient.
func newLRNKernel(run func(*lrn, *kernels.Context) error) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		l, err := newLRN(c)
		return kernels.Func(func(ctx *kernels.Context) error { return run(&l, ctx) }), err
	}
}

func checkLRN(in tensor.Shape) error {
	if len(in) != 4 {
		return status.InvalidArgumentf("in must be 4-dimensional")
	}
	return nil
}

func checkLRNGrad(grad, in, out tensor.Shape) error {
	if len(grad) != 4 || len(in) != 4 {
		return status.InvalidArgumentf("inputs must be 4-dimensional")
	}
	if !in.Equal(grad) || !out.Equal(grad) {
		return status.InvalidArgumentf("input_grads, input_image, and out_image should have the same shape")
	}
	return nil
}

// scale sets dst to the bias plus alpha times the sum of the squares around each channel.
func (l *lrn) scale(dst, row []float32) {
	for c := range row {
		sum := float32(0)
		for _, v := range row[max(0, c-l.radius):min(len(row), c+l.radius+1)] {
			sum += v * v
		}
		dst[c] = l.bias + l.alpha*sum
	}
}

func (l *lrn) forward(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.FirstError(args.CheckType(ctx, 0, tensor.Float32), checkLRN(in.Shape())); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.Float32, in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	depth := in.Dim(3)
	src, dst := tensor.Of[float32](in), tensor.Of[float32](out)
	element.EachRow(ctx, len(src)/depth, depth*(2*min(l.radius, depth)+1), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row, to := src[r*depth:(r+1)*depth], dst[r*depth:(r+1)*depth]
			l.scale(to, row)
			for i, s := range to {
				to[i] = row[i] * float32(powers.Of(float64(s), -float64(l.beta)))
			}
		}
	})
	return nil
}

func (l *lrn) backward(ctx *kernels.Context) error {
	grad, in, out := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, tensor.Float32), args.CheckType(ctx, 1, tensor.Float32), args.CheckType(ctx, 2, tensor.Float32), checkLRNGrad(grad.Shape(), in.Shape(), out.Shape())); err != nil {
		return err
	}
	result, err := ctx.Allocate(0, tensor.Float32, grad.Shape())
	if err != nil || result.Len() == 0 {
		return err
	}
	depth := in.Dim(3)
	g, x, y, dst := tensor.Of[float32](grad), tensor.Of[float32](in), tensor.Of[float32](out), tensor.Of[float32](result)
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	element.EachRow(ctx, len(x)/depth, depth*(2*min(l.radius, depth)+1), func(lo, hi int) {
		norm := make([]float32, depth)
		for r := lo; r < hi; r++ {
			at := r * depth
			l.scale(norm, x[at:at+depth])
			for c, n := range norm {
				own := g[at+c]
				if own == 0 {
					continue
				}
				dst[at+c] += own * float32(powers.Of(float64(n), -float64(l.beta)))
				share := -2 * l.alpha * l.beta * y[at+c] / n * own
				for i := max(0, c-l.radius); i < min(depth, c+l.radius+1); i++ {
					dst[at+i] += x[at+i] * share
				}
			}
		}
	})
	return nil
}

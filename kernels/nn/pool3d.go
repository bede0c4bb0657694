package nn

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// pooling3 holds the attributes of a pooling op on volumes.
type pooling3 struct {
	windowing
	size, stride [3]int64
}

func newPooling3(c *kernels.Construction) (p pooling3, err error) {
	if p.channelsFirst, err = args.ChannelsFirst(c); err != nil {
		return p, err
	}
	a := c.Attrs().Reader()
	ksize, strides, kind := a.IntList("ksize"), a.IntList("strides"), a.Str("padding")
	if err := a.Err(); err != nil {
		return p, err
	}
	p.kind = kind
	if err := checkWindow(c.Node.Op, ksize, strides, 5); err != nil {
		return p, err
	}
	first, depth := 1, 4
	if p.channelsFirst {
		first, depth = 2, 1
	}
	if ksize[depth] != 1 || strides[depth] != 1 {
		return p, status.Unimplementedf("Pooling is not yet supported on the depth dimension.")
	}
	copy(p.size[:], ksize[first:first+3])
	copy(p.stride[:], strides[first:first+3])
	return p, nil
}

// pool3 holds the sizes of a pooling over volumes whose channels come last.
type pool3 struct {
	batch, depth int
	dims         [3]window
}

func (p *pooling3) plan(image tensor.Shape) (out pool3, err error) {
	if len(image) != 5 {
		return out, status.InvalidArgumentf("tensor_in must be 5-dimensional")
	}
	out.batch, out.depth = int(image[0]), int(image[4])
	for i := range out.dims {
		if out.dims[i], err = p.over(image[i+1], p.size[i], p.stride[i], 1, 0, 0); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (p *pool3) outShape() tensor.Shape {
	return tensor.Shape{int64(p.batch), int64(p.dims[0].out), int64(p.dims[1].out), int64(p.dims[2].out), int64(p.depth)}
}

// each calls visit for the places of volumes lo to hi, until the step ends. It passes the offset of each pixel of the window that lies in
// the volume. It reuses the slice.
func (p *pool3) each(ctx *kernels.Context, lo, hi int, visit func(place int, pixels []int)) {
	a, b, c := &p.dims[0], &p.dims[1], &p.dims[2]
	var pixels []int
	end := ctx.Lookout()
	for n := lo; n < hi; n++ {
		for z := range a.out {
			z0, z1, zAt := a.clip(z)
			for y := range b.out {
				y0, y1, yAt := b.clip(y)
				for x := range c.out {
					x0, x1, xAt := c.clip(x)
					if end.After((z1-z0)*(y1-y0)*(x1-x0)*(1+p.depth)) != nil {
						return
					}
					pixels = pixels[:0]
					for k := z0; k < z1; k++ {
						for j := y0; j < y1; j++ {
							for i := x0; i < x1; i++ {
								pixels = append(pixels, (((n*a.in+zAt+k)*b.in+yAt+j)*c.in+xAt+i)*p.depth)
							}
						}
					}
					visit((((n*a.out+z)*b.out+y)*c.out+x)*p.depth, pixels)
				}
			}
		}
	}
}

func maxPool3[T element.Floating](p pooling3) kernels.Func {
	return func(ctx *kernels.Context) error {
		image, dtype := ctx.Input(0), element.DTypeOf[T]()
		if err := args.CheckType(ctx, 0, dtype); err != nil {
			return err
		}
		plan, err := p.plan(image.Shape())
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, plan.outShape())
		if err != nil || out.Len() == 0 {
			return err
		}
		dst, src := element.ViewOf[T](out), element.ViewOf[T](image)
		ctx.Parallel(plan.batch, 1, func(lo, hi int) {
			plan.each(ctx, lo, hi, func(place int, pixels []int) {
				to := dst[place : place+plan.depth]
				for i := range to {
					to[i] = T(math.Inf(-1))
				}
				for _, at := range pixels {
					elementwise.Maximum(to, to, src[at:at+plan.depth])
				}
			})
		})
		return nil
	}
}

func avgPool3[T element.Floating](p pooling3) kernels.Func {
	return func(ctx *kernels.Context) error {
		image, dtype := ctx.Input(0), element.DTypeOf[T]()
		if err := args.CheckType(ctx, 0, dtype); err != nil {
			return err
		}
		plan, err := p.plan(image.Shape())
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, plan.outShape())
		if err != nil || out.Len() == 0 {
			return err
		}
		dst, src := element.ViewOf[T](out), element.ViewOf[T](image)
		if err := kernels.Clear(ctx, dst); err != nil {
			return err
		}
		ctx.Parallel(plan.batch, 1, func(lo, hi int) {
			plan.each(ctx, lo, hi, func(place int, pixels []int) {
				to := dst[place : place+plan.depth]
				for _, at := range pixels {
					elementwise.Add(to, to, src[at:at+plan.depth])
				}
				for i := range to {
					to[i] /= T(len(pixels))
				}
			})
		})
		return nil
	}
}

func maxPool3Grad[T element.Floating](p pooling3) kernels.Func {
	return func(ctx *kernels.Context) error {
		image, result, grad, dtype := ctx.Input(0), ctx.Input(1), ctx.Input(2), element.DTypeOf[T]()
		if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, dtype), args.CheckType(ctx, 2, dtype)); err != nil {
			return err
		}
		plan, err := p.plan(image.Shape())
		if err != nil {
			return err
		}
		for _, t := range []*tensor.Tensor{result, grad} {
			if want := plan.outShape(); !t.Shape().Equal(want) {
				return status.InvalidArgumentf("Expected grad shape to be %v, but got %v", want, t.Shape())
			}
		}
		out, err := ctx.Allocate(0, dtype, image.Shape())
		if err != nil || out.Len() == 0 {
			return err
		}
		// Every element equal to the maximum gets the gradient. As in TensorFlow, elements that are this close count as equal.
		const close = 1e-5
		dst, src, y, g := element.ViewOf[T](out), element.ViewOf[T](image), element.ViewOf[T](result), element.ViewOf[T](grad)
		if err := kernels.Clear(ctx, dst); err != nil {
			return err
		}
		ctx.Parallel(plan.batch, 1, func(lo, hi int) {
			plan.each(ctx, lo, hi, func(place int, pixels []int) {
				for c := range plan.depth {
					for _, at := range pixels {
						if element.Absolute(src[at+c]-y[place+c]) < close {
							dst[at+c] += g[place+c]
						}
					}
				}
			})
		})
		return nil
	}
}

func avgPool3Grad[T element.Floating](p pooling3) kernels.Func {
	return func(ctx *kernels.Context) error {
		grad, dtype := ctx.Input(1), element.DTypeOf[T]()
		if err := args.CheckType(ctx, 1, dtype); err != nil {
			return err
		}
		shape, err := sizesInput(ctx, 0, 5, "orig_input_shape")
		if err != nil {
			return err
		}
		plan, err := p.plan(shape)
		if err != nil {
			return err
		}
		if want := plan.outShape(); !grad.Shape().Equal(want) {
			return status.InvalidArgumentf("Expected grad shape to be %v, but got %v", want, grad.Shape())
		}
		out, err := ctx.Allocate(0, dtype, shape)
		if err != nil || out.Len() == 0 {
			return err
		}
		dst, g := element.ViewOf[T](out), element.ViewOf[T](grad)
		if err := kernels.Clear(ctx, dst); err != nil {
			return err
		}
		ctx.Parallel(plan.batch, 1, func(lo, hi int) {
			plan.each(ctx, lo, hi, func(place int, pixels []int) {
				for _, at := range pixels {
					for c := range plan.depth {
						dst[at+c] += g[place+c] / T(len(pixels))
					}
				}
			})
		})
		return nil
	}
}

// pool3Rows returns the rows of a pooling op on volumes, given the op's kernels for two types, like windowRows.
func pool3Rows(make32, make64 func(p pooling3) kernels.Func, images []int, sizes int) []kernels.Def {
	row := func(dtype tensor.DType, make func(p pooling3) kernels.Func) []kernels.Def {
		return halves.Rows("T", dtype, func(c *kernels.Construction) (any, error) {
			p, err := newPooling3(c)
			return p.inLayout(make(p), images, sizes, 0), err
		})
	}
	return append(row(tensor.Float32, make32), row(tensor.Float64, make64)...)
}

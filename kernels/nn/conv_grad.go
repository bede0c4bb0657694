package nn

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// sizesInput returns the shape that input i, a vector of rank integers, holds.
func sizesInput(ctx *kernels.Context, i, rank int, what string) (tensor.Shape, error) {
	t := ctx.Input(i)
	if t.Rank() != 1 {
		return nil, status.InvalidArgumentf("%s must be a 1-D tensor, not %v", what, t.Shape())
	}
	dims, err := ctx.Ints(i)
	if err != nil {
		return nil, err
	}
	if len(dims) != rank {
		return nil, status.InvalidArgumentf("%s must have %d elements, not %d", what, rank, len(dims))
	}
	shape := tensor.Shape(dims)
	_, err = shape.NumElements()
	return shape, err
}

// imageSizes returns the shape of the image whose gradient Conv2DBackpropInput computes. The input has either all four sizes or only height
// and width; the batch size then comes from the gradient and the number of channels from the filter.
func imageSizes(ctx *kernels.Context) (tensor.Shape, error) {
	sizes, filter, grad := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	switch {
	case sizes.Rank() != 1:
		return nil, status.InvalidArgumentf("Conv2DBackpropInput: input_sizes input must be 1-dim, not %d", sizes.Rank())
	case sizes.Len() == 4:
		return sizesInput(ctx, 0, 4, "input_sizes")
	case sizes.Len() != 2:
		return nil, status.InvalidArgumentf("Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: %d", sizes.Len())
	case filter.Rank() != 4 || grad.Rank() != 4:
		return nil, status.InvalidArgumentf("Conv2DBackpropInput: filter and out_backprop must be 4-dimensional: %v and %v", filter.Shape(), grad.Shape())
	}
	dims, err := ctx.Ints(0)
	if err != nil {
		return nil, err
	}
	if dims[0] < 0 || dims[1] < 0 {
		return nil, status.InvalidArgumentf("Conv2DBackpropInput: elements of input_sizes must be >= 0, not %dx%d", dims[0], dims[1])
	}
	shape := tensor.Shape{grad.Shape()[0], dims[0], dims[1], filter.Shape()[2]}
	_, err = shape.NumElements()
	return shape, err
}

// withoutFilter outputs zeros of the given shape if a filter has no elements. The gradients of its convolution, which is refused, are
// defined: like TensorFlow, they look at nothing else then.
func withoutFilter(ctx *kernels.Context, dtype tensor.DType, filter, shape tensor.Shape) (done bool, err error) {
	if !slices.Contains(filter, 0) {
		return false, nil
	}
	out, err := ctx.Allocate(0, dtype, shape)
	switch {
	case err != nil || out.Len() == 0:
	case out.OnHost():
		err = kernels.Clear(ctx, out.Data())
	default:
		kernels.AcceleratorOf(ctx.Device).Fill(ctx, out, 0)
	}
	return true, err
}

// checkGradient rejects a gradient that does not have the shape of the convolution's result.
func (c *convolution) checkGradient(grad tensor.Shape) error {
	want := tensor.Shape{int64(c.batch), int64(c.rows.out), int64(c.cols.out), int64(c.outDepth)}
	if len(grad) != 4 {
		return status.InvalidArgumentf("out_backprop must be 4-dimensional: %v", grad)
	}
	for i, d := range want {
		if grad[i] != d {
			return status.InvalidArgumentf("Size of out_backprop doesn't match computed: actual = %d, computed = %d dimension: %d out_backprop shape: %v expected: %v",
				grad[i], d, i, grad, want)
		}
	}
	return nil
}

// convInputGradKernel is Conv2DBackpropInput: each place adds the filter, weighted with its
// gradient, to the part of the image that it saw.
type convInputGradKernel[T element.Numeric] struct {
	windowing
	dtype tensor.DType
	methods[T]
}

func (k *convInputGradKernel[T]) Compute(ctx *kernels.Context) error {
	filter, grad := ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	shape, err := imageSizes(ctx)
	if err != nil {
		return err
	}
	if done, err := withoutFilter(ctx, k.dtype, filter.Shape(), shape); done {
		return err
	}
	c, err := k.plan(shape, filter.Shape())
	if err != nil {
		return err
	}
	if err := c.checkGradient(grad.Shape()); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	return inputGrad(ctx, &c, k.methods, element.ViewOf[T](out), element.ViewOf[T](filter), element.ViewOf[T](grad), false)
}

// inputGrad computes the gradient with respect to the image. If accumulate is set, it adds the gradient to image.
func inputGrad[T element.Numeric](ctx *kernels.Context, c *convolution, by methods[T], image, filter, grad []T, accumulate bool) error {
	if c.outDepth == 0 || c.patch() == 0 || len(grad) == 0 {
		if !accumulate {
			clear(image)
		}
		return nil
	}
	if c.pointwise() {
		by.mul(ctx.Parallel, false, true, c.places(), c.inDepth, c.outDepth, grad, c.outDepth, filter, c.outDepth, image, c.inDepth, accumulate)
		return nil
	}
	if by.byImage != nil && c.directByImage() {
		return by.byImage(ctx, c, image, filter, grad, accumulate)
	}
	return inputGradByPatches(ctx, c, by, image, filter, grad, accumulate)
}

// inputGradByPatches computes the gradients of all patches and sums them.
func inputGradByPatches[T element.Numeric](ctx *kernels.Context, c *convolution, by methods[T], image, filter, grad []T, accumulate bool) error {
	if !accumulate {
		clear(image)
	}
	perImage, width := c.rows.out*c.cols.out, c.outDepth/c.groups
	tile := min(c.tile(), perImage)
	par := ctx.Parallel
	if c.batch > 1 {
		par = nil // there are enough images to run in parallel
	}
	return element.WithScratch(ctx, c.batch, 1, tile*c.patch(), func(work []T, lo, hi int) {
		for p := lo * perImage; p < hi*perImage; {
			// A tile ends with its image, so that no two goroutines add to the same one.
			end := min(p+tile, (p/perImage+1)*perImage)
			for g := range c.groups {
				by.mul(par, false, true, end-p, c.patch(), width, grad[p*c.outDepth+g*width:], c.outDepth, filter[g*width:], c.outDepth, work, c.patch(), false)
				addPatches(c, by.add, image, work, g, p, end)
			}
			p = end
		}
	})
}

// addPatches adds the patches of a group at places lo to hi to the images.
func addPatches[T element.Numeric](c *convolution, add func(t *simd.Taps, dst, a []T, at, n int), image, work []T, group, lo, hi int) {
	perImage := c.rows.out * c.cols.out
	imageSize, line := c.rows.in*c.cols.in*c.inDepth, c.cols.in*c.inDepth
	run := c.cols.size * c.groupDepth
	dense := c.cols.dilation == 1 && c.groups == 1
	t := simd.Taps{PlaceDst: c.rows.dilation * line, PlaceA: run, Rows: 1, Cols: 1} // a place is a row of the patch
	for p := lo; p < hi; p++ {
		dst := image[p/perImage*imageSize:][:imageSize]
		place := p % perImage
		top, bottom, y := c.rows.clip(place / c.cols.out)
		left, right, x := c.cols.clip(place % c.cols.out)
		if left >= right || top >= bottom {
			continue
		}
		patch := work[(p-lo)*c.patch():][:c.patch()]
		if dense && add != nil {
			t.Places = bottom - top
			add(&t, dst[(y+top*c.rows.dilation)*line+(x+left)*c.inDepth:], patch, top*run+left*c.inDepth, (right-left)*c.inDepth)
			continue
		}
		for ky := top; ky < bottom; ky++ {
			from := patch[ky*run:][:run]
			to := dst[(y+ky*c.rows.dilation)*line:][:line]
			if dense {
				part := to[(x+left)*c.inDepth : (x+right)*c.inDepth]
				elementwise.Add(part, part, from[left*c.groupDepth:right*c.groupDepth])
				continue
			}
			for kx := left; kx < right; kx++ {
				part := to[(x+kx*c.cols.dilation)*c.inDepth+group*c.groupDepth:][:c.groupDepth]
				elementwise.Add(part, part, from[kx*c.groupDepth:][:c.groupDepth])
			}
		}
	}
}

// convFilterGradKernel is Conv2DBackpropFilter: the product of the transposed patches with the gradient.
type convFilterGradKernel[T element.Numeric] struct {
	windowing
	dtype tensor.DType
	methods[T]
}

func (k *convFilterGradKernel[T]) Compute(ctx *kernels.Context) error {
	image, grad := ctx.Input(0), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	shape, err := sizesInput(ctx, 1, 4, "filter_sizes")
	if err != nil {
		return err
	}
	if done, err := withoutFilter(ctx, k.dtype, shape, shape); done {
		return err
	}
	c, err := k.plan(image.Shape(), shape)
	if err != nil {
		return err
	}
	if err := c.checkGradient(grad.Shape()); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	return filterGrad(ctx, &c, k.methods, element.ViewOf[T](out), element.ViewOf[T](image), element.ViewOf[T](grad), false)
}

// placesPerPart is the number of places in a part of a filter's gradient, mostParts the maximum number of parts. They do not depend on the
// number of workers, so neither does rounding.
const (
	placesPerPart = 1 << 12
	mostParts     = 8
)

// filterGrad computes the gradient with respect to the filter. If accumulate is set, it adds the gradient to filter.
func filterGrad[T element.Numeric](ctx *kernels.Context, c *convolution, by methods[T], filter, image, grad []T, accumulate bool) error {
	if len(image) == 0 || len(grad) == 0 {
		if !accumulate {
			clear(filter)
		}
		return nil
	}
	if c.pointwise() {
		by.mul(ctx.Parallel, true, false, c.inDepth, c.outDepth, c.places(), image, c.inDepth, grad, c.outDepth, filter, c.outDepth, accumulate)
		return nil
	}
	if by.byFilter != nil && c.direct() {
		return by.byFilter(ctx, c, filter, image, grad, accumulate)
	}
	par := ctx.Parallel
	if c.parts() > 1 {
		par = nil
	}
	places := c.places()
	tile, width := min(c.tile(), (places+c.parts()-1)/c.parts()), c.outDepth/c.groups
	return sumInParts(ctx, c, places, tile*c.patch(), filter, accumulate, func(work, sum []T, lo, hi int) {
		for p := lo; p < hi; p += tile {
			end := min(p+tile, hi)
			for g := range c.groups {
				patches(c, work, image, g, p, end)
				by.mul(par, true, false, c.patch(), width, end-p, work, c.patch(), grad[p*c.outDepth+g*width:], c.outDepth, sum[g*width:], c.outDepth, p > lo)
			}
		}
	})
}

// parts returns the number of parts that a filter's gradient is summed in.
func (c *convolution) parts() int { return min(mostParts, (c.places()+placesPerPart-1)/placesPerPart) }

// sumInParts calls add for parts of [0,n) in parallel, each with its own working memory and its own sum, which add sets. It then adds the
// sums into filter.
func sumInParts[T element.Numeric](ctx *kernels.Context, c *convolution, n, work int, filter []T, accumulate bool, add func(work, sum []T, lo, hi int)) error {
	parts, size := min(c.parts(), n), len(filter)
	sums, release, err := element.Scratch[T](ctx.Device, parts*size)
	if err != nil {
		return err
	}
	defer release()
	err = element.WithScratch(ctx, parts, 1, work, func(work []T, lo, hi int) {
		for part := lo; part < hi; part++ {
			add(work, sums[part*size:(part+1)*size], part*n/parts, (part+1)*n/parts)
		}
	})
	if err != nil {
		return err
	}
	if !accumulate {
		clear(filter)
	}
	for part := range parts {
		elementwise.Add(filter, filter, sums[part*size:(part+1)*size])
	}
	return nil
}

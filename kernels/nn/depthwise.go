package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
)

// depthwise is the sizes of a convolution that filters each channel by itself, with some
// results for each.
type depthwise struct {
	convolution
	times int // results a channel
}

// planDepthwise checks the shapes of image and filter.
func (w *windowing) planDepthwise(image, filter tensor.Shape) (d depthwise, err error) {
	if len(image) != 4 {
		return d, status.InvalidArgumentf("input must be 4-dimensional%v", image)
	}
	if len(filter) != 4 {
		return d, status.InvalidArgumentf("filter must be 4-dimensional: %v", filter)
	}
	if image[3] != filter[2] {
		return d, status.InvalidArgumentf("input and filter must have the same depth: %d vs %d", image[3], filter[2])
	}
	if w.strideRows != w.strideCol {
		return d, status.InvalidArgumentf("Current implementation only supports equal length strides in the row and column dimensions.")
	}
	out, err := tensor.Shape{filter[2], filter[3]}.NumElements()
	if err != nil {
		return d, err
	}
	if d.rows, err = w.rows(image[1], filter[0]); err != nil {
		return d, err
	}
	if d.cols, err = w.columns(image[2], filter[1]); err != nil {
		return d, err
	}
	d.batch, d.inDepth, d.outDepth, d.times = int(image[0]), int(image[3]), int(out), int(filter[3])
	return d, nil
}

// each calls visit for places lo to hi (rows of the result, over all images) and each part of the
// window that lies in the image: where the result, the image's pixel and the filter's start.
func (d *depthwise) each(lo, hi int, visit func(out, pixel, filter int)) {
	imageSize := d.rows.in * d.cols.in * d.inDepth
	for r := lo; r < hi; r++ {
		top, bottom, y := d.rows.clip(r % d.rows.out)
		for c := range d.cols.out {
			left, right, x := d.cols.clip(c)
			out := (r*d.cols.out + c) * d.outDepth
			for ky := top; ky < bottom; ky++ {
				for kx := left; kx < right; kx++ {
					pixel := r/d.rows.out*imageSize + ((y+ky*d.rows.dilation)*d.cols.in+x+kx*d.cols.dilation)*d.inDepth
					visit(out, pixel, (ky*d.cols.size+kx)*d.outDepth)
				}
			}
		}
	}
}

// grain is how many rows of the result are worth a part of their own.
func (d *depthwise) grain() int {
	return max(1, element.CheapGrain/max(1, d.cols.out*d.outDepth*d.rows.size*d.cols.size))
}

// depthwiseKernel is DepthwiseConv2dNative.
type depthwiseKernel[T element.Floating] struct {
	windowing
	dtype tensor.DType
}

func (k *depthwiseKernel[T]) Compute(ctx *kernels.Context) error {
	image, filter := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	d, err := k.planDepthwise(image.Shape(), filter.Shape())
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, tensor.Shape{int64(d.batch), int64(d.rows.out), int64(d.cols.out), int64(d.outDepth)})
	if err != nil || out.Len() == 0 {
		return err
	}
	dst, src, f := element.ViewOf[T](out), element.ViewOf[T](image), element.ViewOf[T](filter)
	clear(dst)
	ctx.Device.Parallel(d.batch*d.rows.out, d.grain(), func(lo, hi int) {
		d.each(lo, hi, func(o, pixel, at int) {
			to, in, w := dst[o:o+d.outDepth], src[pixel:pixel+d.inDepth], f[at:at+d.outDepth]
			if d.times == 1 {
				for i, v := range in {
					to[i] += v * w[i]
				}
				return
			}
			for i, v := range in {
				for j := i * d.times; j < (i+1)*d.times; j++ {
					to[j] += v * w[j]
				}
			}
		})
	})
	return nil
}

// depthwiseInputGradKernel is DepthwiseConv2dNativeBackpropInput.
type depthwiseInputGradKernel[T element.Floating] struct {
	windowing
	dtype tensor.DType
}

func (k *depthwiseInputGradKernel[T]) Compute(ctx *kernels.Context) error {
	filter, grad := ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	shape, err := sizesInput(ctx, 0, 4, "input_sizes")
	if err != nil {
		return err
	}
	d, err := k.planDepthwise(shape, filter.Shape())
	if err != nil {
		return err
	}
	if err := d.checkGradient(grad.Shape()); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	dst, g, f := element.ViewOf[T](out), element.ViewOf[T](grad), element.ViewOf[T](filter)
	clear(dst)
	ctx.Device.Parallel(d.batch, max(1, d.grain()/max(1, d.rows.out)), func(lo, hi int) {
		d.each(lo*d.rows.out, hi*d.rows.out, func(o, pixel, at int) {
			from, to, w := g[o:o+d.outDepth], dst[pixel:pixel+d.inDepth], f[at:at+d.outDepth]
			for i := range to {
				for j := i * d.times; j < (i+1)*d.times; j++ {
					to[i] += from[j] * w[j]
				}
			}
		})
	})
	return nil
}

// depthwiseFilterGradKernel is DepthwiseConv2dNativeBackpropFilter.
type depthwiseFilterGradKernel[T element.Floating] struct {
	windowing
	dtype tensor.DType
}

func (k *depthwiseFilterGradKernel[T]) Compute(ctx *kernels.Context) error {
	image, grad := ctx.Input(0), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	shape, err := sizesInput(ctx, 1, 4, "filter_sizes")
	if err != nil {
		return err
	}
	d, err := k.planDepthwise(image.Shape(), shape)
	if err != nil {
		return err
	}
	if err := d.checkGradient(grad.Shape()); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	dst := element.ViewOf[T](out)
	rows := d.batch * d.rows.out
	parts := min(mostParts, max(1, rows*d.cols.out/placesPerPart))
	per := (rows + parts - 1) / parts
	sums, release, err := element.Scratch[T](ctx.Device, parts*len(dst))
	if err != nil {
		return err
	}
	defer release()
	clear(sums)
	src, g := element.ViewOf[T](image), element.ViewOf[T](grad)
	ctx.Device.Parallel(parts, 1, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			sum := sums[p*len(dst) : (p+1)*len(dst)]
			d.each(min(rows, p*per), min(rows, (p+1)*per), func(o, pixel, at int) {
				from, in, to := g[o:o+d.outDepth], src[pixel:pixel+d.inDepth], sum[at:at+d.outDepth]
				for i, v := range in {
					for j := i * d.times; j < (i+1)*d.times; j++ {
						to[j] += v * from[j]
					}
				}
			})
		}
	})
	clear(dst)
	for p := range parts {
		elementwise.Add(dst, dst, sums[p*len(dst):(p+1)*len(dst)])
	}
	return nil
}

// depthwiseRows, depthwiseInputGradRows and depthwiseFilterGradRows are the rows of the convolution of each channel and its gradients
// for one element type.
func depthwiseRows[T element.Floating]() []kernels.Def {
	dtype := element.DTypeOf[T]()
	return windowRows(dtype, func(w windowing) kernels.Kernel { return &depthwiseKernel[T]{w, dtype} }, []int{0}, -1, 0)
}

func depthwiseInputGradRows[T element.Floating]() []kernels.Def {
	dtype := element.DTypeOf[T]()
	return windowRows(dtype, func(w windowing) kernels.Kernel { return &depthwiseInputGradKernel[T]{w, dtype} }, []int{2}, 0, 0)
}

func depthwiseFilterGradRows[T element.Floating]() []kernels.Def {
	dtype := element.DTypeOf[T]()
	return windowRows(dtype, func(w windowing) kernels.Kernel { return &depthwiseFilterGradKernel[T]{w, dtype} }, []int{0, 2}, -1)
}

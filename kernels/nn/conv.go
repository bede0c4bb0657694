package nn

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// convolution holds the sizes of a convolution over images whose channels come last. A place is a position of the result. Places are
// numbered through all images. A patch is what the filter sees at one place: channels, columns and rows, with zeros outside the image. The
// convolution is the product of the matrix of patches, which is built one tile of rows at a time, with the filter.
type convolution struct {
	batch              int
	rows, cols         window
	inDepth, outDepth  int
	groups, groupDepth int // groups of input channels, and the channels in each
}

// places returns the number of places, patch the length of a patch of one group.
func (c *convolution) places() int { return c.batch * c.rows.out * c.cols.out }

func (c *convolution) patch() int { return c.rows.size * c.cols.size * c.groupDepth }

// pointwise reports whether the image itself is the matrix of patches.
func (c *convolution) pointwise() bool {
	one := func(w *window) bool { return w.size == 1 && w.stride == 1 && w.before == 0 && w.out == w.in }
	return c.groups == 1 && one(&c.rows) && one(&c.cols)
}

// tile returns the number of patches in a tile: as many as fit into the second-level cache.
func (c *convolution) tile() int { return max(16, (1<<17)/max(1, c.patch())) }

// plan checks the shapes of image and filter and computes the windows.
func (w *windowing) plan(image, filter tensor.Shape) (c convolution, err error) {
	if len(image) != 4 {
		return c, status.InvalidArgumentf("convolution input must be 4-dimensional: %v", image)
	}
	if len(filter) != 4 {
		return c, status.InvalidArgumentf("filter must be 4-dimensional: %v", filter)
	}
	inDepth, patchDepth := image[3], filter[2]
	if patchDepth <= 0 {
		return c, status.InvalidArgumentf("filter depth must be stricly positive, got %d", patchDepth)
	}
	if inDepth%patchDepth != 0 {
		return c, status.InvalidArgumentf("input depth must be evenly divisible by filter depth: %d vs %d", inDepth, patchDepth)
	}
	groups := max(1, inDepth/patchDepth)
	if filter[3]%groups != 0 {
		return c, status.InvalidArgumentf("output depth must be evenly divisible by number of groups: %d vs %d", filter[3], groups)
	}
	if filter[0] == 0 || filter[1] == 0 {
		return c, errEmptyFilter()
	}
	rows, err := w.rows(image[1], filter[0])
	if err != nil {
		return c, err
	}
	cols, err := w.columns(image[2], filter[1])
	if err != nil {
		return c, err
	}
	if n, err := (tensor.Shape{image[0], int64(rows.out), int64(cols.out), filter[0], filter[1], inDepth}).NumElements(); err != nil || n > 1<<46 {
		return c, status.Errorf(status.ResourceExhausted, "A convolution of %v with %v is too large", image, filter)
	}
	return convolution{
		batch: int(image[0]), rows: rows, cols: cols, inDepth: int(inDepth), outDepth: int(filter[3]),
		groups: int(groups), groupDepth: int(patchDepth),
	}, nil
}

func errEmptyFilter() error {
	return status.InvalidArgumentf("filter must not have zero elements (i.e. all dimensions must be non-zero)")
}

// patches writes the patches of a group at places lo to hi.
func patches[T any](c *convolution, dst, image []T, group, lo, hi int) {
	perImage := c.rows.out * c.cols.out
	imageSize, line := c.rows.in*c.cols.in*c.inDepth, c.cols.in*c.inDepth
	run := c.cols.size * c.groupDepth
	dense := c.cols.dilation == 1 && c.groups == 1
	for p := lo; p < hi; p++ {
		src := image[p/perImage*imageSize:][:imageSize]
		place := p % perImage
		top, bottom, y := c.rows.clip(place / c.cols.out)
		left, right, x := c.cols.clip(place % c.cols.out)
		patch := dst[(p-lo)*c.patch():][:c.patch()]
		for ky := range c.rows.size {
			to := patch[ky*run:][:run]
			if ky < top || ky >= bottom || left >= right {
				clear(to)
				continue
			}
			from := src[(y+ky*c.rows.dilation)*line:][:line]
			clear(to[:left*c.groupDepth])
			clear(to[right*c.groupDepth:])
			if dense {
				copy(to[left*c.groupDepth:right*c.groupDepth], from[(x+left)*c.inDepth:])
				continue
			}
			for kx := left; kx < right; kx++ {
				copy(to[kx*c.groupDepth:][:c.groupDepth], from[(x+kx*c.cols.dilation)*c.inDepth+group*c.groupDepth:])
			}
		}
	}
}

// convKernel is Conv2D.
type convKernel[T element.Numeric] struct {
	windowing
	dtype tensor.DType
	methods[T]
}

func (k *convKernel[T]) Compute(ctx *kernels.Context) error {
	image, filter := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	c, err := k.plan(image.Shape(), filter.Shape())
	if err == nil && slices.Contains(filter.Shape(), 0) {
		err = errEmptyFilter()
	}
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, tensor.Shape{image.Shape()[0], int64(c.rows.out), int64(c.cols.out), filter.Shape()[3]})
	if err != nil || out.Len() == 0 {
		return err
	}
	return convolve(ctx, &c, k.methods, element.ViewOf[T](out), element.ViewOf[T](image), element.ViewOf[T](filter), false)
}

// convolve computes a convolution. If accumulate is set, it adds the result to out.
func convolve[T element.Numeric](ctx *kernels.Context, c *convolution, by methods[T], out, image, filter []T, accumulate bool) error {
	if len(image) == 0 || c.patch() == 0 {
		if !accumulate {
			clear(out)
		}
		return nil
	}
	if c.pointwise() {
		by.mul(ctx.Parallel, false, false, c.places(), c.outDepth, c.inDepth, image, c.inDepth, filter, c.outDepth, out, c.outDepth, accumulate)
		return nil
	}
	if by.forward != nil && c.direct() {
		return by.forward(ctx, c, out, image, filter, accumulate)
	}
	tile, width := c.tile(), c.outDepth/c.groups
	places := c.places()
	tile = min(tile, max(16, (places+15)/16))
	return element.WithScratch(ctx, (places+tile-1)/tile, 1, tile*c.patch(), func(work []T, lo, hi int) {
		for t := lo; t < hi; t++ {
			from, to := t*tile, min((t+1)*tile, places)
			for g := range c.groups {
				patches(c, work, image, g, from, to)
				by.mul(nil, false, false, to-from, width, c.patch(), work, c.patch(), filter[g*width:], c.outDepth, out[from*c.outDepth+g*width:], c.outDepth, accumulate)
			}
		}
	})
}

// newWindowing reads the attributes of a convolution.
func newWindowing(c *kernels.Construction) (w windowing, err error) {
	if w.channelsFirst, err = args.ChannelsFirst(c); err != nil {
		return w, err
	}
	a := c.Attrs().Reader()
	strides, dilations := a.IntList("strides"), a.IntList("dilations")
	if err := a.Err(); err != nil {
		return w, err
	}
	if len(dilations) != 4 {
		return w, status.InvalidArgumentf("Sliding window dilations field must specify 4 dimensions")
	}
	if len(strides) != 4 {
		return w, status.InvalidArgumentf("Sliding window strides field must specify 4 dimensions")
	}
	h, wd, d := w.height(), w.width(), w.depth()
	if strides[0] != 1 || strides[d] != 1 {
		return w, beyondImage(c.Node.Op, "strides")
	}
	if strides[h] <= 0 || strides[wd] <= 0 {
		return w, status.InvalidArgumentf("Row and column strides should be larger than 0.")
	}
	if dilations[0] != 1 || dilations[d] != 1 {
		if c.Node.Op == "Conv2DBackpropInput" {
			return w, beyondImage(c.Node.Op, "dilations")
		}
		return w, status.InvalidArgumentf("Current implementation does not yet support dilations in the batch and depth dimensions.")
	}
	if dilations[h] <= 0 || dilations[wd] <= 0 {
		return w, status.InvalidArgumentf("Dilated rates should be larger than 0.")
	}
	w.strideRows, w.strideCol, w.dilateRows, w.dilateCol = strides[h], strides[wd], dilations[h], dilations[wd]
	return w, w.readPadding(c)
}

// wrongBeyondImage lists the ops for which a window that moves over the batch or the channels is an invalid argument. For all other ops it
// is unimplemented.
var wrongBeyondImage = []string{"Conv", "Conv2DBackpropFilter", "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput"}

// beyondImage returns the error for a window that moves or is dilated along dimensions other than the image's own.
func beyondImage(op, what string) error {
	code := status.Unimplemented
	if slices.Contains(wrongBeyondImage, op) {
		code = status.InvalidArgument
	}
	return status.Errorf(code, "Current implementation does not yet support %s in the batch and depth dimensions.", what)
}

// inLayout adapts a kernel to the layout that the attributes ask for.
func (w *windowing) inLayout(inner kernels.Kernel, images []int, sizes int, results ...int) kernels.Kernel {
	if !w.channelsFirst {
		return inner
	}
	return &channelLayout{inner: inner, images: images, sizes: sizes, results: results}
}

// windowRows returns the rows of an op on images for one element type. make returns the kernel for images whose channels come last. images
// are the inputs that are images, sizes is the input that holds a shape (-1 for none), and results are the outputs that are images.
func windowRows(dtype tensor.DType, make func(w windowing) kernels.Kernel, images []int, sizes int, results ...int) []kernels.Def {
	return halves.Rows("T", dtype, func(c *kernels.Construction) (any, error) {
		w, err := newWindowing(c)
		if err != nil {
			return nil, err
		}
		return w.inLayout(make(w), images, sizes, results...), nil
	})
}

// convolveInputGradRows and convolveFilterGradRows return the rows of the gradients of Conv2D for one element type.
func convolveInputGradRows[T element.Numeric](by methods[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return windowRows(dtype, func(w windowing) kernels.Kernel { return &convInputGradKernel[T]{w, dtype, by} }, []int{2}, 0, 0)
}

func convolveFilterGradRows[T element.Numeric](by methods[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return windowRows(dtype, func(w windowing) kernels.Kernel { return &convFilterGradKernel[T]{w, dtype, by} }, []int{0, 2}, -1)
}

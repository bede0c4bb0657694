package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/printing"
)

// padConvKernel is FusedPadConv2D, a convolution of images that are first padded by mirroring their borders. It is also
// FusedResizeAndPadConv2D, which first resizes them.
type padConvKernel[T element.Floating] struct {
	windowing
	methods[T]
	// edge is 1 if mirroring excludes the border itself, as in mode REFLECT.
	edge   int64
	resize bool
	// align keeps the corner pixels of resized images in place.
	align bool
}

// padConvRows returns the rows of FusedPadConv2D for one element type.
func padConvRows[T element.Floating](by methods[T]) []kernels.Def {
	return halves.Rows("T", element.DTypeOf[T](), newPadConv(by, false))
}

// resizeConvRows returns the rows of FusedResizeAndPadConv2D for one element type. The op does not support bfloat16.
func resizeConvRows[T element.Floating](by methods[T]) []kernels.Def {
	construct := newPadConv(by, true)
	rows := kernels.ForType("T", element.DTypeOf[T](), construct)
	if element.DTypeOf[T]() == tensor.Float32 {
		rows = append(rows, kernels.ForType("T", tensor.Float16, halves.Constructor(tensor.Float16, construct))...)
	}
	return rows
}

func newPadConv[T element.Floating](by methods[T], resize bool) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		k := &padConvKernel[T]{methods: by, resize: resize}
		var err error
		if resize {
			k.align, err = c.Attrs().Bool("resize_align_corners")
		}
		mode, err1 := c.Attrs().Str("mode")
		strides, err2 := c.Attrs().IntList("strides")
		if err := args.FirstError(err, err1, err2); err != nil {
			return nil, err
		}
		switch mode {
		case "REFLECT":
			k.edge = 1
		case "SYMMETRIC":
		default:
			return nil, status.InvalidArgumentf("mode must be either REFLECT or SYMMETRIC.")
		}
		if len(strides) != 4 {
			return nil, status.InvalidArgumentf("Sliding window strides field must specify 4 dimensions")
		}
		if strides[0] != 1 || strides[3] != 1 {
			return nil, status.InvalidArgumentf("Current implementation does not yet support strides in the batch and depth dimensions.")
		}
		k.strideRows, k.strideCol, k.dilateRows, k.dilateCol = strides[1], strides[2], 1, 1
		return k, k.readPadding(c)
	}
}

func (k *padConvKernel[T]) Compute(ctx *kernels.Context) error {
	at := 1 // the index of the paddings; the filter follows them
	if k.resize {
		at = 2
	}
	image, paddings, filter := ctx.Input(0), ctx.Input(at), ctx.Input(at+1)
	dtype := element.DTypeOf[T]()
	if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, at, tensor.Int32), args.CheckType(ctx, at+1, dtype)); err != nil {
		return err
	}
	if image.Len() == 0 {
		return status.InvalidArgumentf("Input tensor can't be empty")
	}
	if image.Rank() != 4 {
		return status.InvalidArgumentf("input must be 4-dimensional%v", image.Shape())
	}
	sized := image.Shape()
	if k.resize {
		var err error
		if sized, err = resizedShape(ctx); err != nil {
			return err
		}
	}
	shape, err := k.padded(sized, paddings)
	if err != nil {
		return err
	}
	if filter.Rank() != 4 {
		return status.InvalidArgumentf("filter must be 4-dimensional: %v", filter.Shape())
	}
	if shape[3] != filter.Shape()[2] {
		return status.InvalidArgumentf("input and filter must have the same depth: %d vs %d", shape[3], filter.Shape()[2])
	}
	conv := &convKernel[T]{k.windowing, dtype, k.methods}
	c, err := conv.plan(shape, filter.Shape())
	if err != nil {
		return err
	}
	if min(c.batch, c.rows.out, c.cols.out, c.outDepth) == 0 {
		return status.InvalidArgumentf("Output tensor can't be empty")
	}
	wide, err := k.prepare(ctx, sized, shape, paddings)
	if err != nil {
		return err
	}
	defer wide.Release()
	sub := *ctx
	sub.Inputs = []kernels.Value{{Tensor: wide}, ctx.Inputs[at+1]}
	return conv.Compute(&sub)
}

// prepare returns the images to convolve.
func (k *padConvKernel[T]) prepare(ctx *kernels.Context, sized, shape tensor.Shape, paddings *tensor.Tensor) (*tensor.Tensor, error) {
	image := ctx.Input(0)
	if k.resize {
		small, err := k.resized(ctx, sized)
		if err != nil {
			return nil, err
		}
		defer small.Release()
		image = small
	}
	wide, err := tensor.New(ctx.Device.Pool(), element.DTypeOf[T](), shape)
	if err == nil {
		k.mirror(ctx, wide, image, paddings)
	}
	return wide, err
}

// padded returns the shape of the images with their mirrored borders.
func (k *padConvKernel[T]) padded(shape tensor.Shape, paddings *tensor.Tensor) (tensor.Shape, error) {
	if paddings.Rank() != 2 || paddings.Dim(1) != 2 {
		return nil, status.InvalidArgumentf("paddings must be a matrix with 2 columns: %v", paddings.Shape())
	}
	if paddings.Dim(0) != 4 {
		return nil, status.InvalidArgumentf("The first dimension of paddings must be the rank of inputs: 4 %v %v", paddings.Shape(), shape)
	}
	p := tensor.Of[int32](paddings)
	out := shape.Clone()
	for d, size := range shape {
		before, after := int64(p[2*d]), int64(p[2*d+1])
		switch {
		case before < 0 || after < 0:
			return nil, status.InvalidArgumentf("paddings must be non-negative: %d %d", before, after)
		case max(before, after) > size-k.edge && k.edge == 0:
			return nil, status.InvalidArgumentf("paddings must be no greater than the dimension size: %d, %d greater than %d", before, after, size)
		case max(before, after) > size-k.edge:
			return nil, status.InvalidArgumentf("paddings must be less than the dimension size: %d, %d not less than %d", before, after, size)
		}
		out[d] += before + after
	}
	for i, what := range []string{0: "batches", 3: "channels"} {
		if what != "" && (p[2*i] != 0 || p[2*i+1] != 0) {
			return nil, status.InvalidArgumentf("Fused mirror padding only support spatial padding, not %s: %s", what, printing.DebugText(paddings))
		}
	}
	return out, nil
}

// mirror fills the padded images.
func (k *padConvKernel[T]) mirror(ctx *kernels.Context, wide, image, paddings *tensor.Tensor) {
	p := tensor.Of[int32](paddings)
	src, dst := element.ViewOf[T](image), element.ViewOf[T](wide)
	height, width, depth := image.Dim(1), image.Dim(2), image.Dim(3)
	rows, cols := wide.Dim(1), wide.Dim(2)
	from := func(at, before, size int) int {
		switch at -= before; {
		case at < 0:
			return int(k.edge) - 1 - at
		case at >= size:
			return 2*size - 1 - int(k.edge) - at
		}
		return at
	}
	ctx.Parallel(wide.Dim(0)*rows, max(1, element.CheapGrain/(cols*depth)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			line := src[(r/rows*height+from(r%rows, int(p[2]), height))*width*depth:]
			for x := range cols {
				copy(dst[(r*cols+x)*depth:][:depth], line[from(x, int(p[4]), width)*depth:])
			}
		}
	})
}

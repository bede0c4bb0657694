package nn

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// deviceConv is Conv2D or one of its gradients on an accelerator, for images whose channels come last.
type deviceConv struct {
	windowing
	dtype tensor.DType
	tf32  bool
}

// mostPixels bounds the sides of an image, padding included, that the functions can index.
const mostPixels = 1 << 28

// check rejects images that are too large for the functions to index.
func (k *deviceConv) check(ctx *kernels.Context, c *convolution) error {
	for _, w := range []*window{&c.rows, &c.cols} {
		if w.in >= mostPixels || w.size >= mostPixels/max(w.dilation, 1) || w.out >= mostPixels/max(w.stride, 1) || c.batch*c.rows.in*c.cols.in > 1<<31-1 {
			return status.Errorf(status.ResourceExhausted, "A convolution of %d images of %d by %d is too large for %s", c.batch, c.rows.in, c.cols.in, ctx.Device.Name())
		}
	}
	return nil
}

// forward is Conv2D: the product of patches and filter.
func (k *deviceConv) forward(ctx *kernels.Context) error {
	image, filter := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	c, err := k.plan(image.Shape(), filter.Shape())
	if err == nil && slices.Contains(filter.Shape(), 0) {
		err = errEmptyFilter()
	}
	if err := args.FirstError(err, k.check(ctx, &c)); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, tensor.Shape{image.Shape()[0], int64(c.rows.out), int64(c.cols.out), filter.Shape()[3]})
	if err != nil || out.Len() == 0 {
		return err
	}
	if image.Len() == 0 || c.patch() == 0 {
		kernels.AcceleratorOf(ctx.Device).Fill(ctx, out, 0)
		return nil
	}
	if c.pointwise() {
		p := gemm.MatProduct{M: c.places(), N: c.outDepth, K: c.inDepth, Count: 1}
		return gemm.MultiplyOn(ctx, &p, false, false, k.tf32, image, filter, out)
	}
	width := c.outDepth / c.groups
	return k.run(ctx, "forward", out, c.places(), width, c.patch(), c.groups, func(partial uint64) []uint64 {
		return slices.Concat(
			[]uint64{image.Address(), uint64(c.places()), uint64(c.patch()), gemm.Flag(gemm.Aligned(image, c.inDepth, c.groupDepth))}, c.patchWords(),
			matrixOf(filter, width, c.patch(), c.outDepth), gemm.OutputWords(out, partial, width, c.outDepth),
			[]uint64{uint64(c.groupDepth), uint64(width), uint64(width)})
	})
}

// filterGrad is Conv2DBackpropFilter: the product of the transposed patches and the gradient.
func (k *deviceConv) filterGrad(ctx *kernels.Context) error {
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
	if err := args.FirstError(c.checkGradient(grad.Shape()), k.check(ctx, &c)); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	if image.Len() == 0 || grad.Len() == 0 {
		kernels.AcceleratorOf(ctx.Device).Fill(ctx, out, 0)
		return nil
	}
	if c.pointwise() {
		p := gemm.MatProduct{M: c.inDepth, N: c.outDepth, K: c.places(), Count: 1}
		return gemm.MultiplyOn(ctx, &p, true, false, k.tf32, image, grad, out)
	}
	width := c.outDepth / c.groups
	return k.run(ctx, "filter", out, c.patch(), width, c.places(), c.groups, func(partial uint64) []uint64 {
		return slices.Concat(
			[]uint64{image.Address(), uint64(c.patch()), uint64(c.places()), gemm.Flag(gemm.Aligned(image, c.inDepth, c.groupDepth))}, c.patchWords(),
			matrixOf(grad, width, c.places(), c.outDepth), gemm.OutputWords(out, partial, width, c.outDepth),
			[]uint64{uint64(c.groupDepth), uint64(width), uint64(width)})
	})
}

// inputGrad is Conv2DBackpropInput: the product of patches of the gradient and the filter taps that saw the pixel. These taps are the same
// for all pixels of a phase, which lie a stride apart.
func (k *deviceConv) inputGrad(ctx *kernels.Context) error {
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
	if err := args.FirstError(c.checkGradient(grad.Shape()), k.check(ctx, &c)); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	if c.outDepth == 0 || c.patch() == 0 || grad.Len() == 0 {
		kernels.AcceleratorOf(ctx.Device).Fill(ctx, out, 0)
		return nil
	}
	if c.pointwise() {
		p := gemm.MatProduct{M: c.places(), N: c.inDepth, K: c.outDepth, Count: 1}
		return gemm.MultiplyOn(ctx, &p, false, true, k.tf32, grad, filter, out)
	}
	width := c.outDepth / c.groups
	y, x := acrossOf(&c.rows), acrossOf(&c.cols)
	sy, sx := c.rows.stride, c.cols.stride
	// No phase has more pixels or taps than the first.
	pixels := c.batch * ((c.rows.in + sy - 1) / sy) * ((c.cols.in + sx - 1) / sx)
	taps := ((c.rows.size + y.step - 1) / y.step) * ((c.cols.size + x.step - 1) / x.step)
	return k.run(ctx, "input", out, pixels, c.groupDepth, taps*width, c.groups*sy*sx, func(partial uint64) []uint64 {
		back := []uint64{uint64(c.rows.out), uint64(c.cols.out), uint64(c.outDepth), 0, 0, 0, uint64(width), 1, 1, 0, 0,
			-uint64(y.step * c.rows.dilation / sy), -uint64(x.step * c.cols.dilation / sx)}
		return slices.Concat(
			[]uint64{grad.Address(), 0, 0, gemm.Flag(gemm.Aligned(grad, c.outDepth, width))}, back,
			[]uint64{filter.Address(), uint64(c.groupDepth), 0, gemm.Flag(gemm.Aligned(filter, c.outDepth, width)), 0, uint64(width),
				uint64(c.cols.size), uint64(c.groupDepth * c.outDepth), uint64(c.outDepth), 0, 0, uint64(y.step), uint64(x.step)},
			[]uint64{out.Address(), partial, uint64(out.Len()), gemm.Flag(out.Address()%16 == 0 && c.groupDepth%4 == 0),
				0, 0, uint64(c.rows.in), uint64(c.cols.in), uint64(c.inDepth), uint64(sy), uint64(sx), 0, 0},
			[]uint64{uint64(width), uint64(width), uint64(c.groupDepth)},
			y.words(), x.words(), []uint64{uint64(c.batch), uint64(c.groups)})
	})
}

// run launches a function of conv.cu or conv_sm80.cu.
func (k *deviceConv) run(ctx *kernels.Context, what string, out *tensor.Tensor, m, n, depth, batch int, args func(partial uint64) []uint64) error {
	g := gemm.Launch{Tiling: convTiling(ctx, "conv_"+what, k.dtype, k.tf32), M: m, N: n, K: depth, Batch: batch, Out: out}
	return g.Run(ctx, args)
}

// convTiling names the convolution function for the card, which uses tensor cores if the card has them.
func convTiling(ctx *kernels.Context, function string, dtype tensor.DType, tf32 bool) gemm.Tiling {
	t := gemm.Tiling{Function: function + "_", Rows: 64, Columns: 64, Threads: 256}
	if gemm.TensorCores(kernels.AcceleratorOf(ctx.Device), dtype, tf32) {
		t = gemm.Tiling{Function: function + "_mma_", Rows: 128, Columns: 64, Threads: 128}
	}
	t.Function += launch.Suffixes[dtype]
	return t
}

// patchWords returns the parameters that describe how the window moves over the image.
func (c *convolution) patchWords() []uint64 {
	return []uint64{uint64(c.rows.in), uint64(c.cols.in), uint64(c.inDepth), uint64(c.rows.out), uint64(c.cols.out), uint64(c.cols.size), uint64(c.groupDepth),
		uint64(c.rows.stride), uint64(c.cols.stride), -uint64(c.rows.before), -uint64(c.cols.before), uint64(c.rows.dilation), uint64(c.cols.dilation)}
}

// matrixOf is gemm.MatrixWords for a part of a matrix that is read across its rows, which lie row elements apart.
func matrixOf(t *tensor.Tensor, outer, inner, row int) []uint64 {
	w := gemm.MatrixWords(t, outer, inner, true, []int{row})
	w[4] = uint64(row)
	return w
}

// across is a window as the gradient with respect to the image uses it: the pixels of a phase see every step-th tap.
type across struct {
	*window
	step int
}

func acrossOf(w *window) across {
	a, b := w.stride, w.dilation
	for b != 0 {
		a, b = b, a%b
	}
	return across{w, w.stride / a}
}

func (a *across) words() []uint64 {
	return []uint64{uint64(a.in), uint64(a.stride), uint64(a.dilation), uint64(a.before), uint64(a.size), uint64(a.step)}
}

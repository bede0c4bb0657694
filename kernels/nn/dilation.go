package nn

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// dilated is what a kernel of grayscale dilation makes.
type dilated int

const (
	dilatedImage dilated = iota
	dilatedInputGrad
	dilatedFilterGrad
)

// dilation is Dilation2D and its gradients: grayscale dilation, which gives the greatest sum of an element of a window
// and of the filter.
type dilation[T element.Ordered] struct {
	windowing
	makes dilated
	least T // what a window without a sum above it gives: as in TensorFlow, one of NaN gives it, too
}

func newDilation[T element.Ordered](c *kernels.Construction, makes dilated, least T) (d dilation[T], err error) {
	strides, err1 := c.Attrs().IntList("strides")
	rates, err2 := c.Attrs().IntList("rates")
	if err := args.FirstError(err1, err2); err != nil {
		return d, err
	}
	switch {
	case len(strides) != 4:
		return d, status.InvalidArgumentf("Sliding window stride field must specify 4 dimensions")
	case strides[0] != 1 || strides[3] != 1:
		return d, status.Unimplementedf("Stride is only supported across spatial dimensions.")
	case len(rates) != 4:
		return d, status.InvalidArgumentf("Input stride (atrous rate) field must specify 4 dimensions")
	case rates[0] != 1 || rates[3] != 1:
		return d, status.Unimplementedf("Rate is only supported across spatial dimensions.")
	case rates[1] < 1 || rates[2] < 1:
		return d, status.InvalidArgumentf("Dilation rate must be >= 1, but got %d", min(rates[1], rates[2]))
	}
	d.makes, d.least = makes, least
	d.strideRows, d.strideCol, d.dilateRows, d.dilateCol = strides[1], strides[2], rates[1], rates[2]
	return d, d.readPadding(c)
}

// plan checks the inputs and works out the windows.
func (d *dilation[T]) plan(ctx *kernels.Context) (p pool, err error) {
	for i := range ctx.Inputs {
		if err := args.CheckType(ctx, i, element.DTypeOf[T]()); err != nil {
			return p, err
		}
	}
	in, filter := ctx.Input(0), ctx.Input(1)
	switch {
	case in.Rank() != 4:
		return p, status.InvalidArgumentf("input must be 4-dimensional%v", in.Shape())
	case filter.Rank() != 3:
		return p, status.InvalidArgumentf("filter must be 3-dimensional: %v", filter.Shape())
	case in.Dim(3) != filter.Dim(2):
		return p, status.InvalidArgumentf("input and filter must have the same depth: %d vs %d", in.Dim(3), filter.Dim(2))
	}
	rows, err1 := d.rows(in.Shape()[1], filter.Shape()[0])
	cols, err2 := d.columns(in.Shape()[2], filter.Shape()[1])
	p = pool{batch: in.Dim(0), rows: rows, cols: cols, depth: in.Dim(3), over: 1}
	if err := args.FirstError(err1, err2); err != nil || len(ctx.Inputs) < 3 {
		return p, err
	}
	grad := ctx.Input(2)
	if grad.Rank() != 4 {
		return p, status.InvalidArgumentf("out_backprop must be 4-dimensional%v", grad.Shape())
	}
	if !grad.Shape().Equal(p.outShape()) {
		return p, status.InvalidArgumentf("out_backprop has incompatible size.")
	}
	return p, nil
}

// eachSum calls body for each place from lo to hi, rows of the result counted through all images, with the channels'
// greatest sums, and the elements of the image and of the filter that made them. Where there is none, these are the
// first of the window, -1 if that lies beside the image.
func (d *dilation[T]) eachSum(ctx *kernels.Context, p *pool, lo, hi int, body func(place int, sums []T, image, filter []int)) {
	src, f := element.ViewOf[T](ctx.Input(0)), element.ViewOf[T](ctx.Input(1))
	sums, image, filter := make([]T, p.depth), make([]int, p.depth), make([]int, p.depth)
	p.eachPlace(lo, hi, func(place, start int, rows, cols [3]int) {
		top, left := max(0, rows[2]), max(0, cols[2])
		for c := range sums {
			sums[c], image[c], filter[c] = d.least, start+(top*p.cols.in+left)*p.depth+c, c
			if top >= p.rows.in || left >= p.cols.in {
				image[c] = -1
			}
		}
		for y := rows[0]; y < rows[1]; y++ {
			for x := cols[0]; x < cols[1]; x++ {
				from := start + ((rows[2]+y*p.rows.dilation)*p.cols.in+cols[2]+x*p.cols.dilation)*p.depth
				by := (y*p.cols.size + x) * p.depth
				for c, v := range src[from:][:p.depth] {
					if v += f[by+c]; v > sums[c] {
						sums[c], image[c], filter[c] = v, from+c, by+c
					}
				}
			}
		}
		body(place, sums, image, filter)
	})
}

func (d *dilation[T]) Compute(ctx *kernels.Context) error {
	switch d.makes {
	case dilatedInputGrad:
		return d.inputGrad(ctx)
	case dilatedFilterGrad:
		return d.filterGrad(ctx)
	}
	return d.forward(ctx)
}

func (d *dilation[T]) forward(ctx *kernels.Context) error {
	p, err := d.plan(ctx)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, element.DTypeOf[T](), p.outShape())
	if err != nil || out.Len() == 0 {
		return err
	}
	dst := element.ViewOf[T](out)
	ctx.Device.Parallel(p.batch*p.rows.out, p.grain(), func(lo, hi int) {
		d.eachSum(ctx, &p, lo, hi, func(place int, sums []T, _, _ []int) { copy(dst[place*p.depth:], sums) })
	})
	return nil
}

// inputGrad gives the gradient of each place to the element of the image that its sum was made of.
func (d *dilation[T]) inputGrad(ctx *kernels.Context) error {
	return d.backward(ctx, 0, func(p *pool, dst, grad []T) {
		// Windows overlap, so that an image is one goroutine's.
		ctx.Device.Parallel(p.batch, max(1, p.grain()/max(1, p.rows.out)), func(lo, hi int) {
			d.eachSum(ctx, p, lo*p.rows.out, hi*p.rows.out, func(place int, _ []T, image, _ []int) {
				for c, to := range image {
					if to >= 0 {
						dst[to] += grad[place*p.depth+c]
					}
				}
			})
		})
	})
}

// filterGrad gives the gradient of each place to the element of the filter that its sum was made of.
func (d *dilation[T]) filterGrad(ctx *kernels.Context) error {
	return d.backward(ctx, 1, func(p *pool, dst, grad []T) {
		d.eachSum(ctx, p, 0, p.batch*p.rows.out, func(place int, _ []T, _, filter []int) {
			for c, to := range filter {
				dst[to] += grad[place*p.depth+c]
			}
		})
	})
}

// backward makes the gradient of an input.
func (d *dilation[T]) backward(ctx *kernels.Context, of int, fill func(p *pool, dst, grad []T)) error {
	p, err := d.plan(ctx)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, element.DTypeOf[T](), ctx.Input(of).Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	dst := element.ViewOf[T](out)
	clear(dst)
	fill(&p, dst, element.ViewOf[T](ctx.Input(2)))
	return nil
}

// dilationRows are an op's rows for all types. Halves have their own least numbers.
func dilationRows(makes dilated) []kernels.Def {
	half := func(dtype tensor.DType, least float32) []kernels.Def {
		return kernels.ForType("T", dtype, halves.Constructor(dtype, newDilationKernel(makes, least)))
	}
	return slices.Concat(dilationRowsOf[float32](makes, -math.MaxFloat32), dilationRowsOf[float64](makes, -math.MaxFloat64),
		half(tensor.Float16, -65504), half(tensor.BFloat16, -0x1.fep127),
		dilationRowsOf[int8](makes, math.MinInt8), dilationRowsOf[int16](makes, math.MinInt16), dilationRowsOf[int32](makes, math.MinInt32), dilationRowsOf[int64](makes, math.MinInt64),
		dilationRowsOf[uint8](makes, 0), dilationRowsOf[uint16](makes, 0), dilationRowsOf[uint32](makes, 0), dilationRowsOf[uint64](makes, 0))
}

func dilationRowsOf[T element.Ordered](makes dilated, least T) []kernels.Def {
	return kernels.ForType("T", element.DTypeOf[T](), newDilationKernel(makes, least))
}

func newDilationKernel[T element.Ordered](makes dilated, least T) func(c *kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		d, err := newDilation(c, makes, least)
		return &d, err
	}
}

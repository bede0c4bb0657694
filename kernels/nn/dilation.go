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

// dilated says what a kernel of grayscale dilation computes.
type dilated int

const (
	dilatedImage dilated = iota
	dilatedInputGrad
	dilatedFilterGrad
)

// dilation is Dilation2D and its gradients: grayscale dilation, which yields the greatest sum of an element of the window and the
// corresponding element of the filter.
type dilation[T element.Ordered] struct {
	windowing
	makes dilated
	least T // the result of a window without a greater sum; as in TensorFlow, that includes windows of NaN
}

func newDilation[T element.Ordered](c *kernels.Construction, makes dilated, least T) (d dilation[T], err error) {
	a := c.Attrs().Reader()
	strides, rates := a.IntList("strides"), a.IntList("rates")
	if err := a.Err(); err != nil {
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

// plan checks the inputs and computes the windows.
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

// eachSum calls body for each place in result rows lo to hi, counted through all images. It passes the greatest sum of each channel, and
// the elements of the image and the filter that it was made from. If no sum exceeds least, these are the first elements of the window; the
// image's is -1 if it lies outside the image.
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
	ctx.Parallel(p.batch*p.rows.out, p.grain(), func(lo, hi int) {
		d.eachSum(ctx, &p, lo, hi, func(place int, sums []T, _, _ []int) { copy(dst[place*p.depth:], sums) })
	})
	return nil
}

// inputGrad adds the gradient of each place to the element of the image that the place's sum was made from.
func (d *dilation[T]) inputGrad(ctx *kernels.Context) error {
	return d.backward(ctx, 0, func(p *pool, dst, grad []T) {
		// Windows overlap, so each image belongs to one goroutine.
		ctx.Parallel(p.batch, max(1, p.grain()/max(1, p.rows.out)), func(lo, hi int) {
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

// filterGrad adds the gradient of each place to the element of the filter that the place's sum was made from.
func (d *dilation[T]) filterGrad(ctx *kernels.Context) error {
	return d.backward(ctx, 1, func(p *pool, dst, grad []T) {
		d.eachSum(ctx, p, 0, p.batch*p.rows.out, func(place int, _ []T, _, filter []int) {
			for c, to := range filter {
				dst[to] += grad[place*p.depth+c]
			}
		})
	})
}

// backward computes the gradient with respect to an input.
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
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	fill(&p, dst, element.ViewOf[T](ctx.Input(2)))
	return nil
}

// dilationRows returns an op's rows for all types. Half types have their own least numbers.
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

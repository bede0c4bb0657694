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

// depthwise holds the sizes of a convolution that filters each channel separately, with times results for each.
type depthwise struct {
	convolution
	times int // results per channel
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
	if slices.Contains(filter, 0) {
		return d, errEmptyFilter()
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

// each calls visit for each place in result rows lo to hi, counted through all images, and each element of its window that lies in the
// image. It passes the offsets in the result, the image and the filter.
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

// grain returns the number of rows of the result that justify a part of their own.
func (d *depthwise) grain() int {
	return max(1, element.CheapGrain/max(1, d.cols.out*d.outDepth*d.rows.size*d.cols.size))
}

// sumsOfProducts is simd.Taps.SumOfProducts for an element type.
type sumsOfProducts[T element.Floating] func(t *simd.Taps, dst, a, b []T, atA, atB, n int, accumulate bool)

// depthwiseKernel is DepthwiseConv2dNative.
type depthwiseKernel[T element.Floating] struct {
	windowing
	dtype tensor.DType
	sums  sumsOfProducts[T]
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
	if d.times == 1 {
		k.sums.filter(ctx, &filtering{
			grain: d.grain(), batch: d.batch, depth: d.inDepth, rows: d.rows, cols: d.cols,
			height: d.rows.out, width: d.cols.out, everyRow: 1, everyCol: 1,
			rowB: d.cols.size * d.inDepth, colB: d.inDepth,
		}, dst, src, f)
		return nil
	}
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	ctx.Parallel(d.batch*d.rows.out, d.grain(), func(lo, hi int) {
		d.each(lo, hi, func(o, pixel, at int) {
			to, in, w := dst[o:o+d.outDepth], src[pixel:pixel+d.inDepth], f[at:at+d.outDepth]
			for i, v := range in {
				for j := i * d.times; j < (i+1)*d.times; j++ {
					to[j] += v * w[j]
				}
			}
		})
	})
	return nil
}

// filtering describes sums over windows of images with the given depth, with a weight for each channel of each window element. The results
// are those pixels of height × width images that lie everyRow and everyCol apart, starting at (top, left).
type filtering struct {
	grain, batch, depth int
	rows, cols          window
	height, width       int
	top, left           int
	everyRow, everyCol  int
	atB, rowB, colB     int // the offset of the first element's weights, and the steps to the next row's and column's
}

// filter computes all sums. Windows outside the image yield zero.
func (sums sumsOfProducts[T]) filter(ctx *kernels.Context, f *filtering, dst, src, weights []T) {
	down, across := f.rows.runs(), f.cols.runs()
	ctx.Parallel(f.batch*f.rows.out, f.grain, func(lo, hi int) {
		eachRectangle(&f.rows, lo, hi, down, across, func(n int, y, x run) { sums.rectangle(f, n, y, x, dst, src, weights) })
	})
}

// rectangle computes the sums over windows that image n clips alike.
func (sums sumsOfProducts[T]) rectangle(f *filtering, n int, y, x run, dst, src, weights []T) {
	line := f.cols.in * f.depth
	t := simd.BorrowTaps()
	defer t.Return()
	*t = simd.Taps{
		Rows: y.hi - y.lo, RowA: f.rows.dilation * line, RowB: f.rowB,
		Cols: x.hi - x.lo, ColA: f.cols.dilation * f.depth, ColB: f.colB,
	}
	lines, rowDst, rowA := y.n, f.everyRow*f.width*f.depth, f.rows.stride*line
	t.Places, t.PlaceDst, t.PlaceA = x.n, f.everyCol*f.depth, f.cols.stride*f.depth
	if x.n < y.n { // at the edge of an image, places run down
		lines, t.Places = t.Places, lines
		rowDst, t.PlaceDst = t.PlaceDst, rowDst
		rowA, t.PlaceA = t.PlaceA, rowA
	}
	pixel := (n*f.rows.in+y.at+y.lo*f.rows.dilation)*line + (x.at+x.lo*f.cols.dilation)*f.depth
	to := dst[((n*f.height+f.top+y.first*f.everyRow)*f.width+f.left+x.first*f.everyCol)*f.depth:]
	for i := range lines {
		if t.Rows > 0 && t.Cols > 0 {
			sums(t, to[i*rowDst:], src, weights, pixel+i*rowA, f.atB+y.lo*f.rowB+x.lo*f.colB, f.depth, false)
			continue
		}
		for p := range t.Places {
			clear(to[i*rowDst+p*t.PlaceDst:][:f.depth])
		}
	}
}

// depthwiseInputGradKernel is DepthwiseConv2dNativeBackpropInput.
type depthwiseInputGradKernel[T element.Floating] struct {
	windowing
	dtype tensor.DType
	sums  sumsOfProducts[T]
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
	if done, err := withoutFilter(ctx, k.dtype, filter.Shape(), shape); done {
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
	if d.times == 1 && d.rows.dilation == 1 && d.cols.dilation == 1 {
		k.byPhases(ctx, &d, dst, g, f)
		return nil
	}
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	ctx.Parallel(d.batch, max(1, d.grain()/max(1, d.rows.out)), func(lo, hi int) {
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

// byPhases computes the gradient as sums over windows of the results. See inputGradDirectly.
func (k *depthwiseInputGradKernel[T]) byPhases(ctx *kernels.Context, d *depthwise, dst, grad, filter []T) {
	for y := range min(d.rows.stride, d.rows.in) {
		for x := range min(d.cols.stride, d.cols.in) {
			rows, ky := d.rows.reversed(y)
			cols, kx := d.cols.reversed(x)
			rowB, colB := d.rows.stride*d.cols.size*d.inDepth, d.cols.stride*d.inDepth
			k.sums.filter(ctx, &filtering{
				grain: d.grain(), batch: d.batch, depth: d.inDepth, rows: rows, cols: cols,
				height: d.rows.in, width: d.cols.in, top: y, left: x, everyRow: d.rows.stride, everyCol: d.cols.stride,
				atB:  (ky*d.cols.size+kx)*d.inDepth + (rows.size-1)*rowB + (cols.size-1)*colB,
				rowB: -rowB, colB: -colB,
			}, dst, grad, filter)
		}
	}
}

// depthwiseFilterGradKernel is DepthwiseConv2dNativeBackpropFilter.
type depthwiseFilterGradKernel[T element.Floating] struct {
	windowing
	dtype tensor.DType
	add   addedProducts[T]
}

// addedProducts is simd.Taps.AddProducts for an element type.
type addedProducts[T element.Floating] func(t *simd.Taps, dst, a, b []T, atA, atB, n int)

func (k *depthwiseFilterGradKernel[T]) Compute(ctx *kernels.Context) error {
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
	down, across := d.rows.runs(), d.cols.runs()
	ctx.Parallel(parts, 1, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			sum := sums[p*len(dst) : (p+1)*len(dst)]
			first, last := min(rows, p*per), min(rows, (p+1)*per)
			if d.times == 1 {
				eachRectangle(&d.rows, first, last, down, across, func(n int, y, x run) {
					if y.lo < y.hi && x.lo < x.hi {
						k.addRectangle(&d, n, y, x, sum, src, g)
					}
				})
				continue
			}
			d.each(first, last, func(o, pixel, at int) {
				from, in, to := g[o:o+d.outDepth], src[pixel:pixel+d.inDepth], sum[at:at+d.outDepth]
				for i, v := range in {
					for j := i * d.times; j < (i+1)*d.times; j++ {
						to[j] += v * from[j]
					}
				}
			})
		}
	})
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	for p := range parts {
		elementwise.Add(dst, dst, sums[p*len(dst):(p+1)*len(dst)])
	}
	return nil
}

// addRectangle adds the contribution of the windows that image n clips alike.
func (k *depthwiseFilterGradKernel[T]) addRectangle(d *depthwise, n int, y, x run, sum, src, grad []T) {
	line, results := d.cols.in*d.inDepth, d.cols.out*d.inDepth
	t := simd.BorrowTaps()
	defer t.Return()
	*t = simd.Taps{
		Rows: y.hi - y.lo, RowA: d.rows.dilation * line, RowB: d.cols.size * d.inDepth,
		Cols: x.hi - x.lo, ColA: d.cols.dilation * d.inDepth, ColB: d.inDepth,
	}
	pixel := (n*d.rows.in+y.at+y.lo*d.rows.dilation)*line + (x.at+x.lo*d.cols.dilation)*d.inDepth
	place := (n*d.rows.out+y.first)*results + x.first*d.inDepth
	to := sum[(y.lo*d.cols.size+x.lo)*d.inDepth:]
	lines, rowA, rowB := y.n, d.rows.stride*line, results
	t.Places, t.PlaceA, t.PlaceB = x.n, d.cols.stride*d.inDepth, d.inDepth
	if x.n < y.n { // at the edge of an image, places run down
		lines, t.Places = t.Places, lines
		rowA, t.PlaceA = t.PlaceA, rowA
		rowB, t.PlaceB = t.PlaceB, rowB
	}
	for i := range lines {
		k.add(t, to, src, grad, pixel+i*rowA, place+i*rowB, d.inDepth)
	}
}

// depthwiseRows, depthwiseInputGradRows and depthwiseFilterGradRows return the rows of depthwise convolution and its gradients for one
// element type.
func depthwiseRows[T element.Floating](sums sumsOfProducts[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return windowRows(dtype, func(w windowing) kernels.Kernel { return &depthwiseKernel[T]{w, dtype, sums} }, []int{0}, -1, 0)
}

func depthwiseInputGradRows[T element.Floating](sums sumsOfProducts[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return windowRows(dtype, func(w windowing) kernels.Kernel { return &depthwiseInputGradKernel[T]{w, dtype, sums} }, []int{2}, 0, 0)
}

func depthwiseFilterGradRows[T element.Floating](add addedProducts[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return windowRows(dtype, func(w windowing) kernels.Kernel { return &depthwiseFilterGradKernel[T]{w, dtype, add} }, []int{0, 2}, -1)
}

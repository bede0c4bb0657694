package nn

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// methods holds the functions that compute the convolutions of an element type: by products with a matrix of patches or, where the
// functions are not nil, directly.
type methods[T element.Numeric] struct {
	mul gemm.Gemm[T]
	// forward, byImage and byFilter have the parameters of convolve, inputGrad and filterGrad.
	forward, byImage, byFilter func(ctx *kernels.Context, c *convolution, result, a, b []T, accumulate bool) error
	// first is forward for images whose channels come first, in the input and in the result.
	first func(ctx *kernels.Context, c *convolution, result, image, filter []T) error
	// add is simd.Taps.Add. If it is nil, taps are added one by one.
	add func(t *simd.Taps, dst, a []T, at, n int)
}

// floats holds the methods of float32. They multiply windows in place in the image, once it is padded.
var floats = methods[float32]{mul: simd.Gemm, forward: convolveDirectly, byImage: inputGradDirectly, byFilter: filterGradDirectly, first: convolveFirst, add: (*simd.Taps).Add}

// direct reports whether the direct methods apply: the columns of a window are adjacent, and the copies that the methods make (padded image
// lines, and the filter in panels) are not much larger than the originals.
func (c *convolution) direct() bool {
	const muchLarger, fewLines, smallFilter = 4, 64, 1 << 20
	return c.groups == 1 && c.cols.dilation == 1 &&
		c.rows.extent(1) <= muchLarger*c.rows.in+fewLines && c.cols.extent(c.cols.out) <= muchLarger*c.cols.in+fewLines &&
		simd.PanelsLen(c.patch(), c.outDepth) <= muchLarger*c.patch()*c.outDepth+smallFilter
}

// extent returns the number of elements that the window covers while it moves over n results.
func (w *window) extent(n int) int { return (n-1)*w.stride + (w.size-1)*w.dilation + 1 }

// inside reports whether all windows lie within the image.
func (w *window) inside() bool { return w.before == 0 && w.extent(w.out) <= w.in }

// bands divides images into bands. A band computes up to rows rows of the result; an image has count bands.
type bands struct {
	*convolution
	rows, count int
}

const (
	// mostBand bounds the numbers in the part of an image that a band needs, so that they stay in the second-level cache.
	mostBand = 1 << 16
	// leastBands is the number of bands that a batch is divided into if it is large enough, to occupy as many workers.
	leastBands = 16
)

// bands divides images into bands of at most the given number of places.
func (c *convolution) bands(places int) bands {
	line := c.cols.extent(c.cols.out) * c.inDepth
	rows := (mostBand/line - c.rows.extent(1)) / c.rows.stride
	rows = min(rows, places/c.cols.out, (c.batch*c.rows.out+leastBands-1)/leastBands)
	rows = max(1, min(rows, c.rows.out))
	return bands{c, rows, (c.rows.out + rows - 1) / rows}
}

// place returns the extent of band i: rows rows of the result of image n, starting at row first.
func (b *bands) place(i int) (n, first, rows int) {
	n, first = i/b.count, i%b.count*b.rows
	return n, first, min(b.rows, b.convolution.rows.out-first)
}

// scratch returns the amount of working memory that windows needs.
func (b *bands) scratch() int {
	if b.convolution.rows.inside() && b.cols.inside() {
		return 0
	}
	return b.convolution.rows.extent(b.rows) * b.cols.extent(b.cols.out) * b.inDepth
}

// windows returns the windows of a band, over the image itself or over a padded copy in work.
func (b *bands) windows(work, images []float32, n, first, rows int) (image []float32, w simd.Windows) {
	height, line := &b.convolution.rows, b.cols.in*b.inDepth
	image = images[n*height.in*line:][:height.in*line]
	if b.scratch() == 0 {
		image = image[first*height.stride*line:]
	} else {
		line = b.cols.extent(b.cols.out) * b.inDepth
		image = work[:height.extent(rows)*line]
		b.pad(image, images[n*height.in*b.cols.in*b.inDepth:], first*height.stride-height.before, line)
	}
	return image, b.over(rows, line)
}

// over returns the windows of some rows of the result, over an image whose lines have length line.
func (b *bands) over(rows, line int) simd.Windows {
	height := &b.convolution.rows
	return simd.Windows{
		Rows: rows, Columns: b.cols.out, RowStep: height.stride * line, ColumnStep: b.cols.stride * b.inDepth,
		Pieces: height.size, Length: b.cols.size * b.inDepth, PieceStep: height.dilation * line,
	}
}

// pad copies lines of an image, starting at line y, and pads them with zeros. y may lie outside the image.
func (c *convolution) pad(dst, image []float32, y, line int) {
	width := c.cols.in * c.inDepth
	c.eachLine(dst, y, line, func(to []float32, y, column int) {
		copy(to, image[y*width+column*c.inDepth:])
	})
}

// eachLine splits dst into lines of length line, starting at line y of the image. It calls fill with the part of each line that the image
// covers, the image's line and the first column there. It clears everything else.
func (c *convolution) eachLine(dst []float32, y, line int, fill func(to []float32, y, column int)) {
	left := min(max(0, c.cols.before*c.inDepth), line)
	skipped := min(max(0, -c.cols.before), c.cols.in)
	seen := min((c.cols.in-skipped)*c.inDepth, line-left)
	for ; len(dst) > 0; dst, y = dst[line:], y+1 {
		to := dst[:line]
		if y < 0 || y >= c.rows.in {
			clear(to)
			continue
		}
		clear(to[:left])
		fill(to[left:left+seen], y, skipped)
		clear(to[left+seen:])
	}
}

// times multiplies all windows by the filter b. grid returns where the results of a row of image n go.
func (c *convolution) times(ctx *kernels.Context, images []float32, b *simd.Panels, grid func(n, row int) simd.Grid) error {
	bands := c.bands(c.places())
	stream := simd.ToStream(c.places() * c.outDepth)
	return element.WithScratch(ctx, c.batch*bands.count, 1, bands.scratch(), func(work []float32, lo, hi int) {
		for i := lo; i < hi; i++ {
			n, first, rows := bands.place(i)
			image, w := bands.windows(work, images, n, first, rows)
			to := grid(n, first)
			to.Stream = stream
			w.TimesPanels(image, b, to)
		}
	})
}

// convolveDirectly is convolve without a matrix of patches.
func convolveDirectly(ctx *kernels.Context, c *convolution, out, image, filter []float32, accumulate bool) error {
	work, release, err := element.Scratch[float32](ctx.Device, simd.PanelsLen(c.patch(), c.outDepth))
	if err != nil {
		return err
	}
	defer release()
	panels := simd.PackPanels(work, filter, c.outDepth, c.patch(), c.outDepth)
	line := c.cols.out * c.outDepth
	return c.times(ctx, image, &panels, func(n, row int) simd.Grid {
		return simd.Grid{C: out[(n*c.rows.out+row)*line:], RowStep: line, ColumnStep: c.outDepth, Accumulate: accumulate}
	})
}

// filterGradDirectly is filterGrad without a matrix of patches.
func filterGradDirectly(ctx *kernels.Context, c *convolution, filter, image, grad []float32, accumulate bool) error {
	const mostPlaces = 1 << 10 // per band, so that their gradients stay in the second-level cache
	b := c.bands(mostPlaces)
	line, padded := c.cols.out*c.outDepth, b.scratch()
	work := padded + simd.PanelsLen(b.rows*c.cols.out, c.outDepth)
	return sumInParts(ctx, c, c.batch*b.count, work, filter, accumulate, func(work, sum []float32, lo, hi int) {
		for i := lo; i < hi; i++ {
			n, first, rows := b.place(i)
			from, w := b.windows(work, image, n, first, rows)
			panels := simd.PackPanels(work[padded:], grad[(n*c.rows.out+first)*line:], c.outDepth, rows*c.cols.out, c.outDepth)
			w.TransposedTimesPanels(from, &panels, sum, c.outDepth, i > lo)
		}
	})
}

// inputGradDirectly is inputGrad by convolutions of the gradient. The filter elements that see a pixel of the image are a stride apart. The
// first of them depends on the pixel's position modulo the stride: its phase. The pixels of a phase are therefore the results of a stride-1
// convolution of the gradient with these elements, in reverse order.
func inputGradDirectly(ctx *kernels.Context, c *convolution, image, filter, grad []float32, accumulate bool) error {
	if !accumulate && (c.rows.size < c.rows.stride || c.cols.size < c.cols.stride) {
		clear(image) // some phases see no element
	}
	for y := range min(c.rows.stride, c.rows.in) {
		for x := range min(c.cols.stride, c.cols.in) {
			p := phase{convolution: c, y: y, x: x}
			if err := p.compute(ctx, image, filter, grad, accumulate); err != nil {
				return err
			}
		}
	}
	return nil
}

// directByImage reports whether inputGradDirectly applies.
func (c *convolution) directByImage() bool {
	const fewChannels = 8 // fewer leave most of a result vector empty
	return c.direct() && c.rows.dilation == 1 && c.inDepth >= fewChannels
}

// phase is the pixels of an image that lie a stride apart in each dimension, starting at row y and column x.
type phase struct {
	*convolution
	y, x int
}

func (p *phase) compute(ctx *kernels.Context, image, filter, grad []float32, accumulate bool) error {
	rows, ky := p.rows.reversed(p.y)
	cols, kx := p.cols.reversed(p.x)
	if rows.size <= 0 || cols.size <= 0 {
		return nil
	}
	over := convolution{batch: p.batch, rows: rows, cols: cols, inDepth: p.outDepth, outDepth: p.inDepth, groups: 1, groupDepth: p.outDepth}
	size := over.patch() * over.outDepth
	work, release, err := element.Scratch[float32](ctx.Device, size+simd.PanelsLen(over.patch(), over.outDepth))
	if err != nil {
		return err
	}
	defer release()
	p.reverse(work[:size], filter, ky, kx, rows.size, cols.size)
	panels := simd.PackPanels(work[size:], work[:size], over.outDepth, over.patch(), over.outDepth)
	line := p.cols.in * p.inDepth
	return over.times(ctx, grad, &panels, func(n, row int) simd.Grid {
		at := (n*p.rows.in+p.y+row*p.rows.stride)*line + p.x*p.inDepth
		return simd.Grid{C: image[at:], RowStep: p.rows.stride * line, ColumnStep: p.cols.stride * p.inDepth, Accumulate: accumulate}
	})
}

// reverse writes the filter elements that the phase sees, starting at (ky, kx), in reverse order and with input and output channels
// exchanged.
func (p *phase) reverse(dst, filter []float32, ky, kx, rows, cols int) {
	size := p.inDepth * p.outDepth
	for y := rows - 1; y >= 0; y-- {
		for x := cols - 1; x >= 0; x-- {
			at := (ky+y*p.rows.stride)*p.cols.size + kx + x*p.cols.stride
			simd.Transpose(dst[:size], p.inDepth, filter[at*size:][:size], p.outDepth, p.outDepth, p.inDepth)
			dst = dst[size:]
		}
	}
}

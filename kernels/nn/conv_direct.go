package nn

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// methods are how the convolutions of an element type are computed: by products with a matrix of patches, and, where
// these are not nil, directly.
type methods[T element.Numeric] struct {
	mul gemm.Gemm[T]
	// forward, byImage and byFilter take what convolve, inputGrad and filterGrad take.
	forward, byImage, byFilter func(dev kernels.Device, c *convolution, result, a, b []T, accumulate bool) error
	// first is forward for images whose channels come first, as do those of the result.
	first func(dev kernels.Device, c *convolution, result, image, filter []T) error
	// add is simd.Taps.Add; nil adds one after the other.
	add func(t *simd.Taps, dst, a []T, at, n int)
}

// floats are the methods of float32: windows over an image are multiplied where they lie, once it has its padding.
var floats = methods[float32]{mul: simd.Gemm, forward: convolveDirectly, byImage: inputGradDirectly, byFilter: filterGradDirectly, first: convolveFirst, add: (*simd.Taps).Add}

// direct tells that the direct methods serve: a window's columns lie side by side, and what is made for them, an image's
// lines with padding and the filter in panels, is not much larger than what there is.
func (c *convolution) direct() bool {
	const muchLarger, fewLines, smallFilter = 4, 64, 1 << 20
	return c.groups == 1 && c.cols.dilation == 1 &&
		c.rows.extent(1) <= muchLarger*c.rows.in+fewLines && c.cols.extent(c.cols.out) <= muchLarger*c.cols.in+fewLines &&
		simd.PanelsLen(c.patch(), c.outDepth) <= muchLarger*c.patch()*c.outDepth+smallFilter
}

// extent is how many elements the window sees while it moves over n results.
func (w *window) extent(n int) int { return (n-1)*w.stride + (w.size-1)*w.dilation + 1 }

// inside tells that no window reaches out of the image.
func (w *window) inside() bool { return w.before == 0 && w.extent(w.out) <= w.in }

// bands are how images are divided: so many rows of the result are computed at a time, of which there are count in an
// image.
type bands struct {
	*convolution
	rows, count int
}

const (
	// mostBand is how many numbers the part of an image that a band needs may have: it stays in the second-level cache.
	mostBand = 1 << 16
	// leastBands is how many bands a batch is divided into where it can be, for as many workers.
	leastBands = 16
)

// bands divides images into bands of at most so many places.
func (c *convolution) bands(places int) bands {
	line := c.cols.extent(c.cols.out) * c.inDepth
	rows := (mostBand/line - c.rows.extent(1)) / c.rows.stride
	rows = min(rows, places/c.cols.out, (c.batch*c.rows.out+leastBands-1)/leastBands)
	rows = max(1, min(rows, c.rows.out))
	return bands{c, rows, (c.rows.out + rows - 1) / rows}
}

// place gives what band i is: rows first to first+rows of the result of image n.
func (b *bands) place(i int) (n, first, rows int) {
	n, first = i/b.count, i%b.count*b.rows
	return n, first, min(b.rows, b.convolution.rows.out-first)
}

// scratch is how much working memory windows needs.
func (b *bands) scratch() int {
	if b.convolution.rows.inside() && b.cols.inside() {
		return 0
	}
	return b.convolution.rows.extent(b.rows) * b.cols.extent(b.cols.out) * b.inDepth
}

// windows gives the windows of a band, over the image itself or a copy in work that has its padding.
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

// over is the windows of some rows of the result over an image whose lines are of so many numbers.
func (b *bands) over(rows, line int) simd.Windows {
	height := &b.convolution.rows
	return simd.Windows{
		Rows: rows, Columns: b.cols.out, RowStep: height.stride * line, ColumnStep: b.cols.stride * b.inDepth,
		Pieces: height.size, Length: b.cols.size * b.inDepth, PieceStep: height.dilation * line,
	}
}

// pad copies lines of an image from line y, which may lie outside, with zeros around it.
func (c *convolution) pad(dst, image []float32, y, line int) {
	width := c.cols.in * c.inDepth
	c.eachLine(dst, y, line, func(to []float32, y, column int) {
		copy(to, image[y*width+column*c.inDepth:])
	})
}

// eachLine calls fill for lines of so many numbers: with what they have of a line of the image, and which column of line y
// comes first there. All else it clears.
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

// times multiplies all windows by the filter b. grid tells where the results of a row of image n go.
func (c *convolution) times(dev kernels.Device, images []float32, b *simd.Panels, grid func(n, row int) simd.Grid) error {
	bands := c.bands(c.places())
	stream := simd.ToStream(c.places() * c.outDepth)
	return element.WithScratch(dev, c.batch*bands.count, 1, bands.scratch(), func(work []float32, lo, hi int) {
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
func convolveDirectly(dev kernels.Device, c *convolution, out, image, filter []float32, accumulate bool) error {
	work, release, err := element.Scratch[float32](dev, simd.PanelsLen(c.patch(), c.outDepth))
	if err != nil {
		return err
	}
	defer release()
	panels := simd.PackPanels(work, filter, c.outDepth, c.patch(), c.outDepth)
	line := c.cols.out * c.outDepth
	return c.times(dev, image, &panels, func(n, row int) simd.Grid {
		return simd.Grid{C: out[(n*c.rows.out+row)*line:], RowStep: line, ColumnStep: c.outDepth, Accumulate: accumulate}
	})
}

// filterGradDirectly is filterGrad without a matrix of patches.
func filterGradDirectly(dev kernels.Device, c *convolution, filter, image, grad []float32, accumulate bool) error {
	const mostPlaces = 1 << 10 // at a time: their gradients stay in the second-level cache
	b := c.bands(mostPlaces)
	line, padded := c.cols.out*c.outDepth, b.scratch()
	work := padded + simd.PanelsLen(b.rows*c.cols.out, c.outDepth)
	return sumInParts(dev, c, c.batch*b.count, work, filter, accumulate, func(work, sum []float32, lo, hi int) {
		for i := lo; i < hi; i++ {
			n, first, rows := b.place(i)
			from, w := b.windows(work, image, n, first, rows)
			panels := simd.PackPanels(work[padded:], grad[(n*c.rows.out+first)*line:], c.outDepth, rows*c.cols.out, c.outDepth)
			w.TransposedTimesPanels(from, &panels, sum, c.outDepth, i > lo)
		}
	})
}

// inputGradDirectly is inputGrad as convolutions of the gradient. A place of the image is seen by those elements of the
// filter that are a stride apart, from the first one that depends on the place modulo the stride: its phase. The places of
// a phase are therefore the results of a convolution of stride 1 of the gradient with these elements, in reverse order.
func inputGradDirectly(dev kernels.Device, c *convolution, image, filter, grad []float32, accumulate bool) error {
	if !accumulate && (c.rows.size < c.rows.stride || c.cols.size < c.cols.stride) {
		clear(image) // some phases see no element
	}
	for y := range min(c.rows.stride, c.rows.in) {
		for x := range min(c.cols.stride, c.cols.in) {
			p := phase{convolution: c, y: y, x: x}
			if err := p.compute(dev, image, filter, grad, accumulate); err != nil {
				return err
			}
		}
	}
	return nil
}

// directByImage tells that inputGradDirectly serves.
func (c *convolution) directByImage() bool {
	const fewChannels = 8 // leave most of a vector of results empty
	return c.direct() && c.rows.dilation == 1 && c.inDepth >= fewChannels
}

// phase is the places of the image in every so many-th row and column, a stride apart, from row y and column x.
type phase struct {
	*convolution
	y, x int
}

func (p *phase) compute(dev kernels.Device, image, filter, grad []float32, accumulate bool) error {
	rows, ky := p.rows.reversed(p.y)
	cols, kx := p.cols.reversed(p.x)
	if rows.size <= 0 || cols.size <= 0 {
		return nil
	}
	over := convolution{batch: p.batch, rows: rows, cols: cols, inDepth: p.outDepth, outDepth: p.inDepth, groups: 1, groupDepth: p.outDepth}
	size := over.patch() * over.outDepth
	work, release, err := element.Scratch[float32](dev, size+simd.PanelsLen(over.patch(), over.outDepth))
	if err != nil {
		return err
	}
	defer release()
	p.reverse(work[:size], filter, ky, kx, rows.size, cols.size)
	panels := simd.PackPanels(work[size:], work[:size], over.outDepth, over.patch(), over.outDepth)
	line := p.cols.in * p.inDepth
	return over.times(dev, grad, &panels, func(n, row int) simd.Grid {
		at := (n*p.rows.in+p.y+row*p.rows.stride)*line + p.x*p.inDepth
		return simd.Grid{C: image[at:], RowStep: p.rows.stride * line, ColumnStep: p.cols.stride * p.inDepth, Accumulate: accumulate}
	})
}

// reverse writes the elements of the filter that the phase sees, from (ky, kx), last first and with input and output
// channels exchanged.
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

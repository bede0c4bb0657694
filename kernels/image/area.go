package image

import (
	"math"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// stretch is the range of pixels, in one direction, that an output pixel covers: from start up to end, which may be beyond the image.
type stretch struct {
	start, end  int
	first, last float32 // the fractions of the first and the last pixel that are covered
}

// cover lists what each of to pixels covers in an image of from pixels.
func (c centres) cover(m *kernels.Meter, from, to int) ([]stretch, error) {
	list, err := kernels.Scratch[stretch](m, to)
	if err != nil {
		return nil, err
	}
	scale := c.scale(from, to)
	for i := range list {
		list[i] = cover(float32(float32(i)*scale), float32(float32(i+1)*scale), scale)
	}
	return list, nil
}

// cover returns the stretch between two positions, which are scale apart.
func cover(from, to, scale float32) stretch {
	s := stretch{start: int(math.Floor(float64(from))), end: int(math.Ceil(float64(to)))}
	s.first, s.last = covered(s.start, from, to, scale), covered(s.end-1, from, to, scale)
	return s
}

// covered returns the fraction of pixel i between two positions.
func covered(i int, from, to, scale float32) float32 {
	switch beyond := float32(i+1) > to; {
	case float32(i) < from && beyond:
		return scale
	case float32(i) < from:
		return float32(i+1) - from
	case beyond:
		return to - float32(i)
	}
	return 1
}

// part returns the covered fraction of pixel i.
func (s stretch) part(i int) float32 {
	switch i {
	case s.start:
		return s.first
	case s.end - 1:
		return s.last
	}
	return 1
}

// averageArea computes each output pixel as the mean of those that it covers.
func averageArea[T pixel](ctx *kernels.Context, c centres, dst []float32, src []T, from, to extent) error {
	meter := ctx.Meter()
	defer meter.Done()
	ys, err1 := c.cover(&meter, from.height, to.height)
	xs, err2 := c.cover(&meter, from.width, to.width)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	density := float32(1 / float64(c.scale(from.height, to.height)*c.scale(from.width, to.width)))
	in, out := from.width*from.channels, to.width*to.channels
	ctx.Parallel(to.batch*to.height, max(1, element.CostlyGrain/(in+out)), func(lo, hi int) {
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			line, y := dst[r*out:][:out], ys[r%to.height]
			clear(line)
			for i := y.start; i < y.end && ctx.Ended() == nil; i++ {
				row := src[(r/to.height*from.height+inside(i, from.height))*in:][:in]
				addStretches(line, row, xs, y.part(i), from.width, from.channels)
			}
			for i, v := range line {
				line[i] = v * density
			}
		}
	})
	return ctx.Ended()
}

// inside returns the pixel at i or, beyond the edge, the one at the edge.
func inside(i, n int) int { return max(0, min(i, n-1)) }

// addStretches adds the sums of a row's stretches, times part.
func addStretches[T pixel](dst []float32, row []T, xs []stretch, part float32, width, channels int) {
	for i, x := range xs {
		for c := range channels {
			at := func(j int) float32 { return float32(row[inside(j, width)*channels+c]) }
			sum := float32(at(x.start) * x.first)
			if x.start+1 != x.end {
				for j := x.start + 1; j < x.end-1; j++ {
					sum += at(j)
				}
				sum += float32(at(x.end-1) * x.last)
			}
			dst[i*channels+c] += float32(sum * part)
		}
	}
}

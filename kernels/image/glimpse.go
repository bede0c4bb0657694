package image

import (
	"math"
	"math/rand/v2"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// glimpse holds the attributes of ExtractGlimpse, which cuts a window out of each image. The first version centres all windows; the second
// one only those whose positions are fractions of the image.
type glimpse struct {
	first                bool
	normalized, centered bool
	noise                func(r *rand.Rand, dst, image []float32, channels int)
}

// newGlimpse returns the constructor of a version of ExtractGlimpse.
func newGlimpse(first bool) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		g := glimpse{first: first}
		a := c.Attrs().Reader()
		g.normalized, g.centered = a.Bool("normalized"), a.Bool("centered")
		uniform, noise := a.Bool("uniform_noise"), a.Str("noise")
		if err := a.Err(); err != nil {
			return nil, err
		}
		if uniform && noise != "" && noise != "uniform" {
			return nil, status.InvalidArgumentf("The uniform_noise and noise could not be specified at the same time")
		}
		if noise == "" && !uniform {
			noise = "gaussian"
		}
		switch noise {
		case "uniform", "":
			g.noise = uniformNoise
		case "gaussian":
			g.noise = gaussianNoise
		case "zero":
			g.noise = func(_ *rand.Rand, dst, _ []float32, _ int) { clear(dst) }
		default:
			return nil, status.InvalidArgumentf("The noise could only be uniform, gaussian, or zero, got%s", noise)
		}
		return kernels.Func(g.compute), nil
	}
}

func (g *glimpse) compute(ctx *kernels.Context) error {
	if err := args.FirstError(args.CheckType(ctx, 0, tensor.Float32), args.CheckType(ctx, 1, tensor.Int32), args.CheckType(ctx, 2, tensor.Float32)); err != nil {
		return err
	}
	images, size, offsets := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if images.Rank() != 4 {
		return status.InvalidArgumentf("input must be 4-dimensional (batch_size, height, width, depth)%v", images.Shape())
	}
	if size.Rank() != 1 || size.Dim(0) != 2 {
		return status.InvalidArgumentf("input must be a vector of size 2 (height, width)%v", size.Shape())
	}
	from := extentOf(images)
	to := from
	to.height, to.width = int(tensor.Of[int32](size)[0]), int(tensor.Of[int32](size)[1])
	if to.height < 0 || to.width < 0 {
		return status.InvalidArgumentf("Expected a non-negative size, got %d", min(to.height, to.width))
	}
	switch {
	case offsets.Rank() != 2:
		return status.InvalidArgumentf("input must be a matrix%v", offsets.Shape())
	case offsets.Dim(0) != from.batch:
		return status.InvalidArgumentf("first dimension should be batch%v", offsets.Shape())
	case offsets.Dim(1) != 2:
		return status.InvalidArgumentf("second dimension should be of size 2 (y,x)%v", offsets.Shape())
	}
	out, err := to.allocate(ctx, tensor.Float32)
	if err != nil || out.Len() == 0 {
		return err
	}
	places, src, dst := tensor.Of[float32](offsets), tensor.Of[float32](images), tensor.Of[float32](out)
	in, each := from.height*from.width*from.channels, to.height*to.width*to.channels
	ctx.Parallel(from.batch, max(1, element.CheapGrain/each), func(lo, hi int) {
		r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		for b := lo; b < hi && ctx.Ended() == nil; b++ {
			y, x := g.corner(places[2*b], from.height, to.height), g.corner(places[2*b+1], from.width, to.width)
			g.cut(r, dst[b*each:][:each], src[b*in:][:in], window{from, to, y, x})
		}
	})
	return ctx.Ended()
}

// corner returns where a window of to pixels begins in from pixels.
func (g *glimpse) corner(at float32, from, to int) int {
	pixels, window := float32(from), float32(to)
	switch {
	case g.first:
		if g.normalized {
			at *= pixels
		}
		if g.centered {
			at = at/2 + pixels/2
		}
		at -= window / 2
	case g.normalized:
		at *= pixels
		if g.centered {
			at = at/2 + pixels/2
			at -= window / 2
		}
	case g.centered:
		at += pixels / 2
	}
	return toInt(float64(at))
}

// window is a window at a position in an image.
type window struct {
	from, to extent
	y, x     int
}

// overlap returns the part of a window of to pixels that lies in the image: its start in both, and its length.
func (w window) overlap(at, from, to int) (in, out, n int) {
	if at < 0 {
		n = max(0, to+at)
		return 0, to - n, min(n, from)
	}
	return at, 0, max(0, min(from-at, to))
}

// cut fills a window, using noise for what lies outside the image.
func (g *glimpse) cut(r *rand.Rand, dst, image []float32, w window) {
	inY, outY, height := w.overlap(w.y, w.from.height, w.to.height)
	inX, outX, width := w.overlap(w.x, w.from.width, w.to.width)
	n := w.from.channels
	if height < w.to.height || width < w.to.width {
		g.noise(r, dst, image, n)
	}
	if width == 0 {
		return
	}
	for y := range height {
		copy(dst[((outY+y)*w.to.width+outX)*n:][:width*n], image[((inY+y)*w.from.width+inX)*n:])
	}
}

// uniformNoise is distributed uniformly over the range of the image's values.
func uniformNoise(r *rand.Rand, dst, image []float32, _ int) {
	low, high := rangeOf(image, 0, 1)
	for i := range dst {
		dst[i] = low + float32(r.Float32()*(high-low))
	}
}

// gaussianNoise has each channel's mean and standard deviation, within the range of its values.
func gaussianNoise(r *rand.Rand, dst, image []float32, channels int) {
	for c := range channels {
		low, high := rangeOf(image, c, channels)
		mean, deviation := moments(image, c, channels)
		for i := c; i < len(dst); i += channels {
			dst[i] = max(low, min(high, mean+float32(float32(r.NormFloat64())*deviation)))
		}
	}
}

// rangeOf returns the minimum and maximum of every step-th value, zeros if there are none.
func rangeOf(list []float32, from, step int) (low, high float32) {
	if len(list) == 0 {
		return 0, 0
	}
	low, high = list[from], list[from]
	for i := from; i < len(list); i += step {
		low, high = min(low, list[i]), max(high, list[i])
	}
	return low, high
}

// moments returns the mean and the standard deviation of every step-th value.
func moments(list []float32, from, step int) (mean, deviation float32) {
	n := float64(max(1, len(list)/step))
	var sum, squares float64
	for i := from; i < len(list); i += step {
		sum += float64(list[i])
	}
	for i := from; i < len(list); i += step {
		d := float64(list[i]) - sum/n
		squares += d * d
	}
	return float32(sum / n), float32(math.Sqrt(squares / n))
}

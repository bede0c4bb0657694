package image

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// resizeBilinear returns the constructor of ResizeBilinear.
func resizeBilinear[T pixel](load loader[T]) func(*kernels.Construction) (any, error) {
	return resizeFloats(load, interpolate[T])
}

// interpolate computes rows of the output, each from two rows of the images.
func interpolate[T pixel](ctx *kernels.Context, c centres, dst []float32, src []T, from, to extent) error {
	if from == to {
		ctx.Parallel(len(src), element.CheapGrain, func(lo, hi int) { element.Convert(dst[lo:hi], src[lo:hi]) })
		return nil
	}
	meter := ctx.Meter()
	defer meter.Done()
	ys, err1 := c.neighbours(&meter, from.height, to.height)
	across, err2 := c.across(&meter, from, to)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	in, out := from.width*from.channels, to.width*to.channels
	// Two rows of the images at the width of the output, and one as floats.
	err := element.WithScratch(ctx, to.batch*to.height, max(1, element.CostlyGrain/out), 2*out+in, func(work []float32, lo, hi int) {
		rows := rowPair[T]{across: &across, src: src, width: in, wide: work[2*out:], rows: [2][]float32{work[:out], work[out : 2*out]}, of: [2]int{-1, -1}}
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			image, y := r/to.height*from.height, ys[r%to.height]
			top, bottom := rows.at(image+int(y.lower), image+int(y.upper))
			simd.Mix(dst[r*out:][:out], top, bottom, y.part)
		}
	})
	return args.FirstError(err, ctx.Ended())
}

// across resizes rows of images to the output's width: pixel by pixel if each has many channels, otherwise all numbers in one pass.
type across struct {
	xs       []between
	channels int
	numbers  simd.Interpolation
}

func (c centres) across(m *kernels.Meter, from, to extent) (a across, err error) {
	const manyChannels = 32
	a = across{channels: to.channels}
	if a.xs, err = c.neighbours(m, from.width, to.width); err != nil || a.channels >= manyChannels || from.width > math.MaxInt32/manyChannels {
		return a, err
	}
	n := len(a.xs) * a.channels
	left, err1 := kernels.Scratch[int32](m, n)
	right, err2 := kernels.Scratch[int32](m, n)
	part, err3 := kernels.Scratch[float32](m, n)
	if err := args.FirstError(err1, err2, err3); err != nil {
		return a, err
	}
	for i := range part {
		x, channel := a.xs[i/a.channels], int32(i%a.channels)
		left[i], right[i] = x.lower*int32(a.channels)+channel, x.upper*int32(a.channels)+channel
		part[i] = x.part
	}
	a.numbers = simd.NewInterpolation(left, right, part)
	return a, nil
}

func (a *across) row(dst, src []float32) {
	if a.numbers.Len() > 0 {
		a.numbers.Row(dst, src)
		return
	}
	for i, x := range a.xs {
		left, right := src[int(x.lower)*a.channels:][:a.channels], src[int(x.upper)*a.channels:][:a.channels]
		simd.Mix(dst[i*a.channels:][:a.channels], left, right, x.part)
	}
}

// rowPair caches the last two resized rows of an image: the output's next row often lies between the same two.
type rowPair[T pixel] struct {
	across *across
	src    []T
	width  int // of a row of src
	wide   []float32
	rows   [2][]float32
	of     [2]int // the source row of each
}

// at returns the resized forms of rows top and bottom.
func (p *rowPair[T]) at(top, bottom int) (above, below []float32) {
	if p.of[1] == top {
		p.rows[0], p.rows[1] = p.rows[1], p.rows[0]
		p.of[0], p.of[1] = p.of[1], p.of[0]
	}
	p.make(0, top)
	if top == bottom {
		return p.rows[0], p.rows[0]
	}
	p.make(1, bottom)
	return p.rows[0], p.rows[1]
}

// make computes row i of the pair from row r of the images.
func (p *rowPair[T]) make(i, r int) {
	if p.of[i] == r {
		return
	}
	src := p.src[r*p.width:][:p.width]
	floats, ok := any(src).([]float32)
	if !ok {
		floats = p.wide
		element.Convert(floats, src)
	}
	p.across.row(p.rows[i], floats)
	p.of[i] = r
}

// resizeBilinearGradHalves returns the kernel of ResizeBilinearGrad for a half type. It accumulates floats.
func resizeBilinearGradHalves[H element.HalfFloat](c *kernels.Construction) (any, error) {
	centres, err := newCentres(c)
	return kernels.Func(func(ctx *kernels.Context) error {
		dtype := element.DTypeOf[H]()
		from, to, err := gradientOf(ctx, centres, dtype)
		if err != nil {
			return err
		}
		out, err := to.allocate(ctx, dtype)
		if err != nil || out.Len() == 0 {
			return err
		}
		wide, release, err := element.Scratch[float32](ctx.Device, out.Len())
		if err != nil {
			return err
		}
		defer release()
		if err := spread(ctx, centres, wide, from, to); err != nil {
			return err
		}
		dst := element.ViewOf[H](out)
		ctx.Parallel(len(dst), element.CheapGrain, func(lo, hi int) { element.Narrow(dst[lo:hi], wide[lo:hi]) })
		return nil
	}), err
}

// spread adds the gradient of each pixel to those of its four source pixels.
func spread[T element.Floating](ctx *kernels.Context, c centres, dst []T, from, to extent) error {
	meter := ctx.Meter()
	defer meter.Done()
	ys, err1 := c.neighbours(&meter, to.height, from.height)
	xs, err2 := c.neighbours(&meter, to.width, from.width)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	src := tensor.Of[float32](ctx.Input(0))
	in, out := from.width*from.channels, to.width*to.channels
	ctx.Parallel(to.batch, max(1, element.CostlyGrain/(in*from.height)), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			for i, y := range ys {
				if ctx.Ended() != nil {
					return
				}
				top, bottom := dst[(b*to.height+int(y.lower))*out:][:out], dst[(b*to.height+int(y.upper))*out:][:out]
				spreadRow(top, bottom, src[(b*from.height+i)*in:][:in], xs, y.part, from.channels)
			}
		}
	})
	return ctx.Ended()
}

func spreadRow[T element.Floating](top, bottom []T, src []float32, xs []between, down float32, channels int) {
	for i, x := range xs {
		left, right := int(x.lower)*channels, int(x.upper)*channels
		for c, v := range src[i*channels:][:channels] {
			above, below := v*(1-down), v*down
			top[left+c] += T(above * (1 - x.part))
			top[right+c] += T(above * x.part)
			bottom[left+c] += T(below * (1 - x.part))
			bottom[right+c] += T(below * x.part)
		}
	}
}

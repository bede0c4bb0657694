package image

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// edges are the modes that map a position outside a line of n pixels to one inside. They map [abcd] to [dcba|abcd|dcba], [abcd|abcd|abcd]
// and [aaaa|abcd|dddd]; CONSTANT leaves positions unchanged.
var edges = map[string]func(at float32, n int) float32{
	"CONSTANT": func(at float32, _ int) float32 { return at },
	"NEAREST":  clampPlace,
	"REFLECT":  func(at float32, n int) float32 { return clampPlace(reflect(at, n), n) },
	"WRAP":     func(at float32, n int) float32 { return clampPlace(wrap(at, n), n) },
}

func clampPlace(at float32, n int) float32 {
	if at < 0 {
		return 0
	}
	if last := float32(n - 1); at > last {
		return last
	}
	return at
}

func reflect(at float32, n int) float32 {
	twice := float32(2 * n)
	periods := func(v float32) float32 { return float32(2 * n * toInt(float64(v/twice))) }
	switch {
	case at >= 0 && !(at > float32(n-1)) || at != at:
		return at
	case n <= 1:
		return 0
	case at < 0:
		if at += periods(-at); at < float32(-n) {
			return at + twice
		}
		return -at - 1
	}
	if at -= periods(at); at >= float32(n) {
		at = twice - at - 1
	}
	return at
}

func wrap(at float32, n int) float32 {
	switch {
	case at >= 0 && !(at > float32(n-1)) || at != at:
		return at
	case n <= 1:
		return 0
	case at < 0:
		return at + float32(n*(toInt(float64(-at/float32(n-1)))+1))
	}
	return at - float32(n*toInt(float64(at/float32(n-1))))
}

// projection holds the attributes of ImageProjectiveTransform, and the function that mixes pixels.
type projection[T any] struct {
	nearest bool
	edge    func(at float32, n int) float32
	filled  bool // the fill value is an input
	from    func(float32) T
	mix     func(dst, a, b, c, d []T, right, down [2]float32)
}

// project returns the constructor of a version of ImageProjectiveTransform.
func project[T any](filled bool, from func(float32) T, mix func(dst, a, b, c, d []T, right, down [2]float32)) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		interpolation, mode := a.Str("interpolation"), a.Str("fill_mode")
		if err := a.Err(); err != nil {
			return nil, err
		}
		edge, ok := edges[mode]
		if !ok {
			return nil, status.InvalidArgumentf("Invalid mode %s. Supported types: REFLECT, WRAP, CONSTANT, NEAREST", mode)
		}
		if interpolation != "NEAREST" && interpolation != "BILINEAR" {
			return nil, status.InvalidArgumentf("Invalid interpolation %s. Supported types: NEAREST, BILINEAR", interpolation)
		}
		p := projection[T]{interpolation == "NEAREST", edge, filled, from, mix}
		return kernels.Func(p.compute), nil
	}
}

func (p *projection[T]) compute(ctx *kernels.Context) error {
	dtype := element.DTypeOf[T]()
	if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, tensor.Float32), args.CheckType(ctx, 2, tensor.Int32)); err != nil {
		return err
	}
	images, transforms, size := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if images.Rank() != 4 {
		return status.InvalidArgumentf("Input images must have rank 4")
	}
	if transforms.Rank() != 2 || transforms.Dim(0) != images.Dim(0) && transforms.Dim(0) != 1 || transforms.Dim(1) != 8 {
		return status.InvalidArgumentf("Input transform should be num_images x 8 or 1 x 8")
	}
	if size.Rank() != 1 {
		return status.InvalidArgumentf("output shape must be 1-dimensional%v", size.Shape())
	}
	if size.Len() != 2 {
		return status.InvalidArgumentf("output shape must have two elements%v", size.Shape())
	}
	from := extentOf(images)
	to := from
	to.height, to.width = int(tensor.Of[int32](size)[0]), int(tensor.Of[int32](size)[1])
	if to.height <= 0 || to.width <= 0 {
		return status.InvalidArgumentf("output dimensions must be positive")
	}
	var outside float32
	if p.filled {
		if err := args.NeedScalar(ctx.Input(3), tensor.Float32, "fill_value must be a scalar%v"); err != nil {
			return err
		}
		outside = tensor.Of[float32](ctx.Input(3))[0]
	}
	out, err := to.allocate(ctx, dtype)
	if err != nil || out.Len() == 0 {
		return err
	}
	meter := ctx.Meter()
	defer meter.Done()
	blank, err := kernels.Scratch[T](&meter, from.channels)
	if err != nil {
		return err
	}
	for i := range blank {
		blank[i] = p.from(outside)
	}
	return p.transform(ctx, element.ViewOf[T](out), from, to, blank)
}

// transform computes rows of the output; blank is a pixel outside of the images.
func (p *projection[T]) transform(ctx *kernels.Context, dst []T, from, to extent, blank []T) error {
	src, matrices, n := element.ViewOf[T](ctx.Input(0)), tensor.Of[float32](ctx.Input(1)), from.channels
	size := from.height * from.width * n
	ctx.Parallel(to.batch*to.height, max(1, element.CostlyGrain/(to.width*n)), func(lo, hi int) {
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			b, y := r/to.height, r%to.height
			matrix := (*[8]float32)(matrices)
			if len(matrices) > 8 {
				matrix = (*[8]float32)(matrices[8*b:])
			}
			s := sampler[T]{src[b*size:][:size], from, blank}
			for x := range to.width {
				p.pixel(dst[(r*to.width+x)*n:][:n], &s, matrix, float32(x), float32(y))
			}
		}
	})
	return ctx.Ended()
}

// sampler is an image surrounded by blank pixels.
type sampler[T any] struct {
	image []T
	of    extent
	blank []T
}

func (s *sampler[T]) at(y, x float32) []T {
	i, j := toInt(float64(y)), toInt(float64(x))
	if i < 0 || i >= s.of.height || j < 0 || j >= s.of.width {
		return s.blank
	}
	return s.image[(i*s.of.width+j)*s.of.channels:][:s.of.channels]
}

// pixel computes the output pixel at x, y from the position that the matrix maps it to in the image.
func (p *projection[T]) pixel(dst []T, s *sampler[T], m *[8]float32, x, y float32) {
	dot := func(a, b, c float32) float32 { return float32(float32(a*x)+float32(b*y)) + c }
	depth := dot(m[6], m[7], 1)
	if depth == 0 {
		copy(dst, s.blank)
		return
	}
	inX, inY := p.edge(dot(m[0], m[1], m[2])/depth, s.of.width), p.edge(dot(m[3], m[4], m[5])/depth, s.of.height)
	if p.nearest {
		copy(dst, s.at(float32(math.Round(float64(inY))), float32(math.Round(float64(inX)))))
		return
	}
	left, top := float32(math.Floor(float64(inX))), float32(math.Floor(float64(inY)))
	right, bottom := left+1, top+1
	p.mix(dst, s.at(top, left), s.at(top, right), s.at(bottom, left), s.at(bottom, right), [2]float32{right - inX, inX - left}, [2]float32{bottom - inY, inY - top})
}

// weighted returns the weighted sum of the pixels a and b above c and d.
func weighted(a, b, c, d float32, right, down [2]float32) float32 {
	above := float32(right[0]*a) + float32(right[1]*b)
	below := float32(right[0]*c) + float32(right[1]*d)
	return float32(down[0]*above) + float32(down[1]*below)
}

func mixPixels[T pixel](dst, a, b, c, d []T, right, down [2]float32) {
	for i := range dst {
		dst[i] = T(weighted(float32(a[i]), float32(b[i]), float32(c[i]), float32(d[i]), right, down))
	}
}

func mixHalves[H interface{ Float() float32 }](to func(float32) H) func(dst, a, b, c, d []H, right, down [2]float32) {
	return func(dst, a, b, c, d []H, right, down [2]float32) {
		for i := range dst {
			dst[i] = to(weighted(a[i].Float(), b[i].Float(), c[i].Float(), d[i].Float(), right, down))
		}
	}
}

// convertFloat converts a float to the type of pixels.
func convertFloat[T pixel](v float32) T { return T(v) }

package image

import (
	"math"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// filter weights the pixels around a position by their distance, up to a radius.
type filter struct {
	radius float32
	weight func(distance float32) float32
}

// filters are the values of the attribute kernel_type.
var filters = map[string]filter{
	"lanczos1":      {1, lanczos(1)},
	"lanczos3":      {3, lanczos(3)},
	"lanczos5":      {5, lanczos(5)},
	"gaussian":      {1.5, gaussian},
	"box":           {1, box0},
	"triangle":      {1, triangle},
	"keyscubic":     {2, keys},
	"mitchellcubic": {2, mitchell},
}

func lanczos(radius float32) func(float32) float32 {
	sin := func(x float32) float32 { return float32(math.Sin(float64(x))) }
	return func(x float32) float32 {
		const pi = float32(3.14159265359)
		switch {
		case x > radius:
			return 0
		case float64(x) <= 1e-3:
			return 1
		}
		angle := pi * x
		return float32(float32(radius*sin(angle))*sin(angle/radius)) / float32(float32(pi*pi*x)*x)
	}
}

// gaussian is the bell curve whose standard deviation is a third of the radius.
func gaussian(x float32) float32 {
	const radius, sigma = 1.5, 0.5
	if x >= radius {
		return 0
	}
	return float32(math.Exp(float64(float32(-x*x)) / (2 * sigma * sigma)))
}

func box0(x float32) float32 {
	switch {
	case x < 0.5:
		return 1
	case x == 0.5:
		return 0.5
	}
	return 0
}

func triangle(x float32) float32 {
	if x < 1 {
		return 1 - x
	}
	return 0
}

// keys is the cubic of R. Keys, "Cubic convolution interpolation for digital image processing" (1981).
func keys(x float32) float32 {
	switch {
	case x >= 2:
		return 0
	case x >= 1:
		return poly(x, -0.5, 2.5, -4, 2)
	}
	return poly(x, 1.5, -2.5, 0, 1)
}

// mitchell is the cubic of D. Mitchell and A. Netravali, "Reconstruction filters in computer graphics" (1988).
func mitchell(x float32) float32 {
	switch {
	case x >= 2:
		return 0
	case x >= 1:
		return poly(x, -7.0/18, 2, -10.0/3, 16.0/9)
	}
	return poly(x, 7.0/6, -2, 0, 8.0/9)
}

// poly is ((a·x + b)·x + c)·x + d, rounded after each step.
func poly(x, a, b, c, d float32) float32 {
	return float32(float32((float32(float32(float32(a*x)+b)*x)+c)*x) + d)
}

// sampling holds the attributes of ops that sample images.
type sampling struct {
	filter
	antialias bool // shrinking widens the filter
}

func newSampling(c *kernels.Construction) (sampling, error) {
	antialias, err1 := c.Attrs().Bool("antialias")
	name, err2 := c.Attrs().Str("kernel_type")
	f, ok := filters[strings.ToLower(name)]
	if err1 == nil && err2 == nil && !ok {
		err2 = status.InvalidArgumentf("Unrecognized kernel type: %s", name)
	}
	return sampling{f, antialias}, args.FirstError(err1, err2)
}

// spans describes each pixel of a line as a weighted sum of pixels of another line: size consecutive ones from a start, clipped to the
// line.
type spans struct {
	size    int
	starts  []int32
	weights []float32
}

// of returns the start and the weights of pixel i's span in a line of n pixels.
func (s *spans) of(i, n int) (start int, weights []float32) {
	start = int(s.starts[i])
	return start, s.weights[i*s.size:][:min(s.size, n-start)]
}

// spans computes the spans of to pixels in a line of from pixels that is scaled and moved.
func (s sampling) spans(ctx *kernels.Context, m *kernels.Meter, to, from int, scale, move float32) (spans, error) {
	pace := 1 / scale // in pixels of the sampled line, like what follows
	offset := float32(-pace * move)
	widened := float32(1)
	if s.antialias && pace > 1 {
		widened = pace
	}
	reach := float32(s.radius * widened)
	size := from
	if r := math.Ceil(float64(reach)); r < float64(from) {
		size = min(2*int(r)+1, from)
	}
	starts, err1 := kernels.Scratch[int32](m, to)
	if err := m.TakeMany(size, 4*to); err != nil || err1 != nil {
		return spans{}, args.FirstError(err1, err)
	}
	out := spans{size, starts, make([]float32, size*to)}
	for i := range to {
		if err := ctx.Ended(); err != nil {
			return out, err
		}
		at := float32((float32(i)+0.5)*pace) + offset
		if at < 0 || at > float32(from) {
			continue // outside the line
		}
		start := inside(toInt(math.Ceil(float64(at-reach-0.5))), from)
		end := inside(toInt(math.Floor(float64(at+reach-0.5))), from) + 1
		if end-start > size {
			return out, status.Internalf("Span is too large: %d vs %d.", end-start, size)
		}
		s.weigh(out.weights[i*size:][:max(0, end-start)], start, at, 1/widened)
		starts[i] = int32(start)
	}
	return out, nil
}

// toInt converts a whole number to an int; NaN, infinities and numbers out of range become the smallest int.
func toInt(v float64) int {
	if v > -1<<62 && v < 1<<62 {
		return int(v)
	}
	return math.MinInt
}

// weigh computes the weights of a span, which are normalized to a sum of 1 unless they are almost zero.
func (s sampling) weigh(weights []float32, start int, at, scale float32) {
	sum := float32(0)
	for j := range weights {
		distance := float32(start+j) + 0.5 - at
		weights[j] = s.weight(float32(math.Abs(float64(distance * scale))))
		sum += weights[j]
	}
	if !(math.Abs(float64(sum)) >= leastSum) {
		clear(weights)
		return
	}
	for j := range weights {
		weights[j] *= 1 / sum
	}
}

// transposed returns the spans of the gradient: for each of the from pixels, its weights in the to pixels.
func (s *spans) transposed(m *kernels.Meter, from int) (spans, error) {
	starts, err1 := kernels.Scratch[int32](m, from)
	ends, err2 := kernels.Scratch[int32](m, from)
	if err := args.FirstError(err1, err2); err != nil {
		return spans{}, err
	}
	each := func(f func(to, from int, weight float32)) {
		for i := range s.starts {
			start, weights := s.of(i, from)
			for j, w := range weights {
				if w != 0 {
					f(i, start+j, w)
				}
			}
		}
	}
	size := 0
	each(func(to, from int, _ float32) {
		if ends[from] == 0 {
			starts[from] = int32(to)
		}
		ends[from] = int32(to + 1)
		size = max(size, int(ends[from]-starts[from]))
	})
	if err := m.TakeMany(size, 4*from); err != nil {
		return spans{}, err
	}
	out := spans{size, starts, make([]float32, size*from)}
	each(func(to, from int, weight float32) { out.weights[from*size+to-int(starts[from])] += weight })
	return out, nil
}

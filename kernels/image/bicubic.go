package image

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// cubicSteps is the number of tabulated weights between two pixels.
const cubicSteps = 1 << 10

// cubicTable holds, for each step away from a pixel, the weights of that pixel and of the one behind it.
type cubicTable [cubicSteps + 1][2]float32

func newCubicTable(a float64) *cubicTable {
	var table cubicTable
	for i := range table {
		x := float32(i) / cubicSteps
		near := float64(x)
		table[i][0] = float32(((a+2)*near-(a+3))*near*near + 1)
		far := float64(x + 1)
		table[i][1] = float32(((a*far-5*a)*far+8*a)*far - 4*a)
	}
	return &table
}

// Two cubics of the family of R. Keys, "Cubic convolution interpolation for digital image processing" (1981). keysCubic is his own.
// oldCubic is the one that TensorFlow used before it supported pixel centres.
var keysCubic, oldCubic = newCubicTable(-0.5), newCubicTable(-0.75)

// among is a position among four pixels, with their weights.
type among struct {
	pixel  [4]int32
	weight [4]float32
}

// amongFour lists the four pixels of from that contribute to each of to pixels. Beyond the edge, the pixel at the edge is repeated. If
// pixels are positioned by their centres, it is omitted instead, and the other weights are scaled up.
func (c centres) amongFour(m *kernels.Meter, from, to int) ([]among, error) {
	list, err := kernels.Scratch[among](m, to)
	if err != nil {
		return nil, err
	}
	scale := c.scale(from, to)
	for i := range list {
		list[i] = c.amongFourAt(c.at(i, scale), from)
	}
	return list, nil
}

func (c centres) amongFourAt(at float32, from int) among {
	table := oldCubic
	if c.half {
		table = keysCubic
	}
	floor := int(math.Floor(float64(at)))
	step := int(math.RoundToEven(float64((at - float32(floor)) * cubicSteps)))
	a := among{weight: [4]float32{table[step][1], table[step][0], table[cubicSteps-step][0], table[cubicSteps-step][1]}}
	sum := float32(0)
	for j := range a.pixel {
		place := floor - 1 + j
		inside := max(0, min(place, from-1))
		a.pixel[j] = int32(inside)
		if c.half && inside != place {
			a.weight[j] = 0
		}
		sum += a.weight[j]
	}
	if c.half && math.Abs(float64(sum)) >= leastSum {
		for j := range a.weight {
			a.weight[j] *= 1 / sum
		}
	}
	return a
}

// leastSum is the sum of weights below which weights are not normalized.
const leastSum = 1000 * 0x1p-126

// mix returns the weighted sum of four values.
func (a *among) mix(v0, v1, v2, v3 float32) float32 {
	return float32(v0*a.weight[0]) + float32(v1*a.weight[1]) + float32(v2*a.weight[2]) + float32(v3*a.weight[3])
}

// bicubic computes rows of the output. It first mixes the four rows of the images that each depends on.
func bicubic[T pixel](ctx *kernels.Context, c centres, dst []float32, src []T, from, to extent) error {
	meter := ctx.Meter()
	defer meter.Done()
	ys, err1 := c.amongFour(&meter, from.height, to.height)
	xs, err2 := c.amongFour(&meter, from.width, to.width)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	in, out := from.width*from.channels, to.width*to.channels
	err := element.WithScratch(ctx, to.batch*to.height, max(1, element.CostlyGrain/(in+out)), in, func(mixed []float32, lo, hi int) {
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			y := &ys[r%to.height]
			var rows [4][]T
			for j := range rows {
				rows[j] = src[(r/to.height*from.height+int(y.pixel[j]))*in:][:in]
			}
			bicubicRow(dst[r*out:][:out], mixed, rows, y, xs, to.channels)
		}
	})
	return args.FirstError(err, ctx.Ended())
}

// bicubicRow mixes the needed columns of four rows, and then four columns for each pixel.
func bicubicRow[T pixel](dst, mixed []float32, rows [4][]T, y *among, xs []among, channels int) {
	ready := 0
	for i := range xs {
		x := &xs[i]
		for j := max(ready, int(x.pixel[0])*channels); j < (int(x.pixel[3])+1)*channels; j++ {
			mixed[j] = y.mix(float32(rows[0][j]), float32(rows[1][j]), float32(rows[2][j]), float32(rows[3][j]))
			ready = j + 1
		}
		v0, v1, v2, v3 := mixed[int(x.pixel[0])*channels:], mixed[int(x.pixel[1])*channels:], mixed[int(x.pixel[2])*channels:], mixed[int(x.pixel[3])*channels:]
		for k := range channels {
			dst[i*channels+k] = x.mix(v0[k], v1[k], v2[k], v3[k])
		}
	}
}

// bicubicGrad adds the gradient of each pixel to those of its sixteen source pixels.
func bicubicGrad[T element.Floating](ctx *kernels.Context, c centres, dst []T, from, to extent) error {
	meter := ctx.Meter()
	defer meter.Done()
	ys, err1 := c.amongFour(&meter, to.height, from.height)
	xs, err2 := c.amongFour(&meter, to.width, from.width)
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
			image := dst[b*to.height*out:][:to.height*out]
			for i := range ys {
				if ctx.Ended() != nil {
					return
				}
				bicubicGradRow(image, src[(b*from.height+i)*in:][:in], &ys[i], xs, out, from.channels)
			}
		}
	})
	return ctx.Ended()
}

func bicubicGradRow[T element.Floating](image []T, src []float32, y *among, xs []among, row, channels int) {
	for i := range xs {
		x := &xs[i]
		for k, v := range src[i*channels:][:channels] {
			for j, down := range y.weight {
				line := image[int(y.pixel[j])*row:]
				part := T(v) * T(down)
				for l, across := range x.weight {
					line[int(x.pixel[l])*channels+k] += part * T(across)
				}
			}
		}
	}
}

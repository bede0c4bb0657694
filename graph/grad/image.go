package grad

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	register(map[string]func(g *call) []op.Output{
		"RGBToHSV":      rgbToHSV,
		"CropAndResize": cropAndResize,
		"ImageProjectiveTransformV2": func(g *call) []op.Output {
			return []op.Output{g.projectBack("ImageProjectiveTransformV2"), none, none}
		},
		"ImageProjectiveTransformV3": func(g *call) []op.Output {
			return []op.Output{g.projectBack("ImageProjectiveTransformV3", g.number(g.x(3), 0)), none, none, none}
		},
		"ResizeBicubic": func(g *call) []op.Output {
			if t := g.x(0).DType().Base(); t != tensor.Float32 && t != tensor.Float64 {
				return []op.Output{none, none}
			}
			return []op.Output{g.make("ResizeBicubicGrad", g.attrs(resizing...), g.d(0), g.x(0)), none}
		},
		"ScaleAndTranslate": func(g *call) []op.Output {
			return []op.Output{g.make("ScaleAndTranslateGrad", g.attrs("kernel_type", "antialias"), g.d(0), g.x(0), g.x(2), g.x(3)), none, none, none}
		},
		"ResizeBilinear": func(g *call) []op.Output {
			return []op.Output{g.make("ResizeBilinearGrad", g.attrs(resizing...), g.d(0), g.x(0)), none}
		},
		"ResizeNearestNeighbor": func(g *call) []op.Output {
			size := g.op("Slice", g.shape(g.x(0)), g.ints(1), g.ints(2))
			return []op.Output{g.make("ResizeNearestNeighborGrad", g.attrs(resizing...), g.d(0), size), none}
		},
	}, many)
}

var resizing = []string{"align_corners", "half_pixel_centers"}

// projectBack transforms the gradient by the inverse matrices, as TensorFlow does. Where pixels are interpolated, this is only close to
// the derivative. The last element of a matrix is 1 and omitted.
func (g *call) projectBack(name string, fill ...op.Output) op.Output {
	rows := g.reshape(g.x(1), g.ints(-1, 8))
	one := g.op("OnesLike", g.index(rows, -1, 0, 1))
	inverse := g.reshape(g.op("MatrixInverse", g.reshape(g.concat(-1, rows, one), g.ints(-1, 3, 3))), g.ints(-1, 9))
	inverse = g.op("RealDiv", inverse, g.index(inverse, -1, 8, 9))
	size := g.op("Slice", g.shape(g.x(0)), g.ints(1), g.ints(2))
	in := []op.Input{g.d(0), g.index(inverse, -1, 0, 8), size}
	for _, v := range fill {
		in = append(in, v)
	}
	return g.make(name, g.attrs("interpolation", "fill_mode"), in...)
}

// cropAndResize differentiates with respect to images of floats, and with respect to boxes unless the method is nearest neighbour.
func cropAndResize(g *call) []op.Output {
	d := []op.Output{none, none, none, none}
	image := g.x(0)
	if t := image.DType().Base(); t == tensor.Float16 || t == tensor.Float32 || t == tensor.Float64 {
		attrs := g.attrs("method")
		attrs["T"] = t
		d[0] = g.make("CropAndResizeGradImage", attrs, g.d(0), g.x(1), g.x(2), g.shape(image))
	}
	if g.text("method") == "bilinear" {
		d[1] = g.make("CropAndResizeGradBoxes", g.attrs("method"), g.d(0), image, g.x(1), g.x(2))
	}
	return d
}

// rgbToHSV differentiates value = max, saturation = (max−min)/max, and hue, which is an angle on a circle of six sectors, by each color's
// part in max and min: 1 for the largest, −1 for the smallest.
func rgbToHSV(g *call) []op.Output {
	x, dy := g.x(0), g.d(0)
	t := x.DType().Base()
	parts := func(v op.Output) []op.Output {
		return g.node("Unpack", map[string]any{"axis": -1, "num": 3}, v).OutputList(0)
	}
	as := func(b op.Output) op.Output { return g.cast(b, t) }
	c, d := parts(x), parts(dy)
	if len(c) != 3 || len(d) != 3 {
		return nil // the graph has an error
	}
	above := func(strict bool, a, b int) op.Output {
		if strict {
			return g.op("Greater", c[a], c[b])
		}
		return g.op("GreaterEqual", c[a], c[b])
	}
	and := func(a, b op.Output) op.Output { return as(g.op("LogicalAnd", a, b)) }
	largest := [3]op.Output{and(above(false, 0, 2), above(false, 0, 1)), and(above(true, 1, 0), above(false, 1, 2)), and(above(true, 2, 0), above(true, 2, 1))}
	smallest := [3]op.Output{and(above(true, 2, 0), above(true, 1, 0)), and(above(false, 0, 1), above(true, 2, 1)), and(above(false, 0, 2), above(false, 1, 2))}
	pick := func(which [3]op.Output) op.Output {
		return g.add(g.add(g.mul(which[0], c[0]), g.mul(which[1], c[1])), g.mul(which[2], c[2]))
	}
	high, low := pick(largest), pick(smallest)
	over := func(a, b op.Output) op.Output { return g.op("DivNoNan", a, b) }
	span := g.sub(high, low)
	out := make(op.List, 3)
	for i := range 3 {
		dValue := largest[i]
		dSaturation := g.sub(over(g.mul(largest[i], low), g.square(high)), over(smallest[i], high))
		// In the sector where colour k is the largest, the hue is (c[k+1] − c[k+2]) / (6·span) plus a constant.
		dSpan := g.sub(largest[i], smallest[i])
		var dHue op.Output
		for k := range 3 {
			difference := g.sub(c[(k+1)%3], c[(k+2)%3])
			slope := g.neg(over(g.mul(difference, dSpan), g.square(span)))
			switch i {
			case (k + 1) % 3:
				slope = g.add(slope, over(g.number(x, 1), span))
			case (k + 2) % 3:
				slope = g.sub(slope, over(g.number(x, 1), span))
			}
			term := g.mul(largest[k], slope)
			if k == 0 {
				dHue = term
			} else {
				dHue = g.add(dHue, term)
			}
		}
		out[i] = g.add(g.add(g.mul(d[2], dValue), g.mul(d[1], dSaturation)), g.scaled(g.mul(d[0], dHue), 1.0/6))
	}
	return []op.Output{g.make("Pack", map[string]any{"axis": -1}, out)}
}

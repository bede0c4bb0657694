package image

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// palette holds the colours that boxes cycle through if none are given: yellow, blue, red, lime, purple, olive, maroon, navy, aqua and
// fuchsia.
var palette = [][4]float32{
	{1, 1, 0, 1}, {0, 0, 1, 1}, {1, 0, 0, 1}, {0, 1, 0, 1}, {0.5, 0, 0.5, 1},
	{0.5, 0.5, 0, 1}, {0.5, 0, 0, 1}, {0, 0, 0.5, 1}, {0, 1, 1, 1}, {1, 0, 1, 1},
}

// drawBoxes returns the constructor of DrawBoundingBoxes, whose colours may be an input.
func drawBoxes[T any](coloured bool, from func(float32) T) func(*kernels.Construction) (any, error) {
	return kernels.Always(func(ctx *kernels.Context) error {
		if err := checkDrawing(ctx, element.DTypeOf[T]()); err != nil {
			return err
		}
		images, boxes := ctx.Input(0), ctx.Input(1)
		meter := ctx.Meter()
		defer meter.Done()
		colours, err := boxColours(ctx, &meter, coloured, images.Dim(3), from)
		if err != nil {
			return err
		}
		out, err := ctx.Forward(0, 0, images.DType(), images.Shape())
		if err != nil || out.Len() == 0 {
			return err
		}
		src, dst := element.ViewOf[T](images), element.ViewOf[T](out)
		of, places, n := extentOf(images), tensor.Of[float32](boxes), boxes.Dim(1)
		size := of.height * of.width * of.channels
		ctx.Parallel(of.batch, max(1, element.CheapGrain/size), func(lo, hi int) {
			copy(dst[lo*size:hi*size], src[lo*size:hi*size])
			for b := lo; b < hi; b++ {
				for i := range n {
					if ctx.Ended() != nil {
						return
					}
					drawBox(dst[b*size:][:size], of, boxAt(places, b*n+i), colours[i%(len(colours)/of.channels)*of.channels:][:of.channels])
				}
			}
		})
		return ctx.Ended()
	})
}

func checkDrawing(ctx *kernels.Context, dtype tensor.DType) error {
	if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, tensor.Float32)); err != nil {
		return err
	}
	images, boxes := ctx.Input(0), ctx.Input(1)
	switch {
	case images.Rank() != 4:
		return status.InvalidArgumentf("The rank of the images should be 4")
	case boxes.Rank() != 3:
		return status.InvalidArgumentf("The rank of the boxes tensor should be 3")
	case images.Dim(0) != boxes.Dim(0):
		return status.InvalidArgumentf("The batch sizes should be the same")
	}
	if depth := images.Dim(3); depth != 1 && depth != 3 && depth != 4 {
		return status.InvalidArgumentf("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)")
	}
	if n := boxes.Dim(2); n != 4 {
		return status.InvalidArgumentf("The size of the third dimension of the box must be 4. Received: %d", n)
	}
	return nil
}

// boxColours lists the channels of colours, one after another.
func boxColours[T any](ctx *kernels.Context, m *kernels.Meter, given bool, channels int, from func(float32) T) ([]T, error) {
	var own []float32
	width := len(palette[0])
	for _, c := range palette {
		if channels == 1 {
			c[0] = 1
		}
		own = append(own, c[:]...)
	}
	if given {
		t := ctx.Input(2)
		if err := args.CheckType(ctx, 2, tensor.Float32); err != nil {
			return nil, err
		}
		if t.Rank() != 2 {
			return nil, status.InvalidArgumentf("colors must be a 2-D matrix%v", t.Shape())
		}
		if t.Dim(1) < channels {
			return nil, status.InvalidArgumentf("colors must have equal or more channels than the image provided: %v", t.Shape())
		}
		if t.Len() > 0 {
			own, width = tensor.Of[float32](t), t.Dim(1)
		}
	}
	list, err := kernels.Scratch[T](m, len(own)/width*channels)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i] = from(own[i/channels*width+i%channels])
	}
	return list, nil
}

// drawBox draws the sides of a box that lie in the image. An inverted box is not drawn.
func drawBox[T any](image []T, of extent, b box, colour []T) {
	place := func(v float32, n int) int { return toInt(float64(float32(v * float32(n-1)))) }
	top, bottom := place(b.y1, of.height), place(b.y2, of.height)
	left, right := place(b.x1, of.width), place(b.x2, of.width)
	if top > bottom || left > right || top >= of.height || bottom < 0 || left >= of.width || right < 0 {
		return
	}
	dot := func(y, x int) { copy(image[(y*of.width+x)*of.channels:], colour) }
	for x := max(left, 0); x <= min(right, of.width-1); x++ {
		if top >= 0 {
			dot(top, x)
		}
		if bottom < of.height {
			dot(bottom, x)
		}
	}
	for y := max(top, 0); y <= min(bottom, of.height-1); y++ {
		if left >= 0 {
			dot(y, left)
		}
		if right < of.width {
			dot(y, right)
		}
	}
}

package image

import (
	"math"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/png"
)

// png decodes a PNG, whose samples may have 16 bits.
func (d *decoder) png(ctx *kernels.Context, data string) error {
	h, err := png.ReadHeader(data, d.channels)
	if err != nil {
		return err
	}
	if err := d.allows("PNG"); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, d.dtype, d.still(h.Height, h.Width, h.Channels()))
	if err != nil {
		return err
	}
	return pngSamples[d.dtype](data, h, out)
}

// pngSamples maps the number types in the ops' rows to the functions that read a PNG's samples into a tensor of that type.
var pngSamples = map[tensor.DType]func(data string, h png.Header, out *tensor.Tensor) error{
	tensor.Uint8: decodeSamples[uint8], tensor.Uint16: decodeSamples[uint16], tensor.Float32: decodeScaled,
}

func decodeSamples[T uint8 | uint16](data string, h png.Header, out *tensor.Tensor) error {
	return png.Decode(data, h, tensor.Of[T](out))
}

// decodeScaled scales samples to the range from 0 to 1.
func decodeScaled(data string, h png.Header, out *tensor.Tensor) error {
	samples := make([]uint16, out.Len())
	if err := png.Decode(data, h, samples); err != nil {
		return err
	}
	scaled := tensor.Of[float32](out)
	for i, v := range samples {
		scaled[i] = float32(v) * (1.0 / math.MaxUint16)
	}
	return nil
}

func newEncodePNG(c *kernels.Construction) (any, error) {
	level, err := c.Attrs().Int("compression")
	if err != nil {
		return nil, err
	}
	if level < -1 || level > 9 {
		return nil, status.InvalidArgumentf("compression should be in [-1,9], got %d", level)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if ctx.Input(0).DType() == tensor.Uint16 {
			return encodePNGs(ctx, int(level), tensor.Of[uint16](ctx.Input(0)))
		}
		if err := args.CheckType(ctx, 0, tensor.Uint8); err != nil {
			return err
		}
		return encodePNGs(ctx, int(level), tensor.Of[uint8](ctx.Input(0)))
	}), nil
}

// encodePNGs encodes the images along all dimensions before the last three.
func encodePNGs[T uint8 | uint16](ctx *kernels.Context, level int, pixels []T) error {
	images := ctx.Input(0)
	outer := images.Rank() - 3
	if outer < 0 {
		return status.InvalidArgumentf("images must be at least rank 3%v", images.Shape())
	}
	if images.Len() >= math.MaxInt32 {
		return status.InvalidArgumentf("image cannot have >= int32 max elements")
	}
	height, width, channels := images.Shape()[outer], images.Shape()[outer+1], images.Shape()[outer+2]
	if channels > math.MaxInt32 || width > math.MaxInt32 || width*channels >= math.MaxInt32/2 {
		return status.InvalidArgumentf("image too wide to encode")
	}
	if channels < 1 || channels > 4 {
		return status.InvalidArgumentf("image must have 1, 2, 3, or 4 channels, got %d", channels)
	}
	out, err := ctx.Allocate(0, tensor.String, images.Shape()[:outer])
	if err != nil {
		return err
	}
	files, each := out.Strings(), int(height*width*channels)
	var mu sync.Mutex
	ctx.Parallel(len(files), 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			file, e := png.Encode(pixels[i*each:][:each], int(width), int(height), int(channels), level)
			if e != nil {
				mu.Lock()
				err = status.Internalf("PNG encoding failed at the following flattened batch indices: %d", i)
				mu.Unlock()
				return
			}
			files[i] = string(file)
		}
	})
	return err
}

package image

import (
	"math"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/gif"
	"github.com/troupe-run/troupe/kernels/internal/png"
	"github.com/troupe-run/troupe/kernels/internal/webp"
)

// decoder is the kernel of the ops that decode image files. The file's first bytes determine the format, regardless of the op's name, but
// each op accepts only some formats. The op also determines what happens to animations.
type decoder struct {
	op       string
	dtype    tensor.DType
	channels int  // 0 means those of the file
	expand   bool // formats with animations get a dimension of frames
	jpeg     jpegOptions
}

func newDecoder(c *kernels.Construction) (_ any, err error) {
	d := &decoder{op: c.Node.Op, dtype: tensor.Uint8, channels: 3, expand: true, jpeg: jpegOptions{fraction: 1}}
	a := c.Attrs()
	switch d.op {
	case "DecodeJpeg", "DecodeAndCropJpeg":
		if d.jpeg, err = newJPEGOptions(a); err != nil {
			return nil, err
		}
	case "DecodeImage":
		if d.expand, err = a.Bool("expand_animations"); err != nil {
			return nil, err
		}
		fallthrough
	case "DecodePng":
		if d.dtype, err = a.Type("dtype"); err != nil {
			return nil, err
		}
	}
	if d.op != "DecodeGif" {
		channels, err := a.Int("channels")
		if err != nil {
			return nil, err
		}
		if !slices.Contains([]int64{0, 1, 3, 4}, channels) {
			return nil, status.InvalidArgumentf("`channels` must be 0, 1, 3 or 4 but got %d", channels)
		}
		d.channels = int(channels)
	}
	return kernels.Func(d.compute), nil
}

func (d *decoder) compute(ctx *kernels.Context) error {
	if err := args.NeedScalar(ctx.Input(0), tensor.String, "`contents` must be scalar but got shape%v"); err != nil {
		return err
	}
	data := ctx.Input(0).Strings()[0]
	switch {
	case data == "":
		return status.InvalidArgumentf("Input is empty.")
	case len(data) > math.MaxInt32:
		return status.InvalidArgumentf("Input contents are too large for int: %d", len(data))
	case strings.HasPrefix(data, "\xff\xd8\xff"):
		return d.readJPEG(ctx, data)
	case png.Is(data):
		return d.png(ctx, data)
	case gif.Is(data):
		return d.gif(ctx, data)
	case strings.HasPrefix(data, "BM"):
		return d.bmp(ctx, data)
	case webp.Is(data):
		return d.webp(ctx, data)
	case strings.HasPrefix(data, "\xff\x0a"), strings.HasPrefix(data, "\x00\x00\x00\x0cJXL \r\n\x87\n"):
		return status.Unimplementedf("%s does not support JPEG XL files", d.op)
	}
	return status.InvalidArgumentf("Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP, WebP required.")
}

// allows returns an error if the op accepts only its own format, and format is another one.
func (d *decoder) allows(format string) error {
	switch d.op {
	case "DecodeBmp":
		return status.InvalidArgumentf("Trying to decode %s format using DecodeBmp op. Use `decode_%s` or `decode_image` instead.",
			format, strings.ToLower(format))
	case "DecodeAndCropJpeg":
		return status.InvalidArgumentf("DecodeAndCropJpeg operation can run on JPEG only, but detected %s.", format)
	}
	return nil
}

// still returns the shape of an image in a format without animations.
func (d *decoder) still(height, width, channels int) tensor.Shape {
	s := tensor.Shape{int64(height), int64(width), int64(channels)}
	if d.op == "DecodeGif" {
		return append(tensor.Shape{1}, s...)
	}
	return s
}

// emit allocates the output. read fills in its samples, row by row; emit returns read's error.
func (d *decoder) emit(ctx *kernels.Context, m *kernels.Meter, shape tensor.Shape, read func(pixels []uint8) error) error {
	out, err := ctx.Allocate(0, d.dtype, shape)
	if err != nil {
		return err
	}
	if d.dtype == tensor.Uint8 {
		return read(tensor.Of[uint8](out))
	}
	pixels, err := kernels.Scratch[uint8](m, out.Len())
	if err != nil {
		return err
	}
	if err := read(pixels); err != nil {
		return err
	}
	switch d.dtype {
	case tensor.Uint16:
		for i, dst := 0, tensor.Of[uint16](out); i < len(dst); i++ {
			dst[i] = uint16(pixels[i]) << 8
		}
	case tensor.Float32:
		for i, dst := 0, tensor.Of[float32](out); i < len(dst); i++ {
			dst[i] = float32(pixels[i]) * (1.0 / math.MaxUint8)
		}
	}
	return nil
}

// gif decodes a GIF, which has three channels and may have several frames.
func (d *decoder) gif(ctx *kernels.Context, data string) error {
	if d.channels != 0 && d.channels != 3 {
		return status.InvalidArgumentf("channels must be 0 or 3 for GIF, got %d", d.channels)
	}
	if err := d.allows("GIF"); err != nil {
		return err
	}
	f, err := gif.Parse(data)
	if err != nil {
		return status.InvalidArgumentf("Invalid GIF data (size %d), %v", len(data), err)
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.Take(f.Bytes()); err != nil {
		return err
	}
	for {
		again, err := d.drawGIF(ctx, &m, f, len(data))
		if !again {
			return err
		}
		ctx.Outputs[0].Tensor.Release()
		ctx.Outputs[0] = kernels.Value{}
	}
}

// drawGIF draws a file. If an image turns out to be broken, it cuts off the rest, and the file must be drawn again.
func (d *decoder) drawGIF(ctx *kernels.Context, m *kernels.Meter, f *gif.File, size int) (again bool, err error) {
	frames := f.Frames()
	width, height := f.Size()
	shape := tensor.Shape{int64(frames), int64(height), int64(width), 3}
	switch {
	case d.op == "DecodePng" || d.op == "DecodeJpeg":
		if frames > 1 {
			return false, status.InvalidArgumentf("Got %d frames, but animated gifs can only be decoded by tf.io.decode_gif or tf.io.decode_image", frames)
		}
		shape = shape[1:]
	case !d.expand:
		frames, shape = 1, shape[1:]
	case d.op == "DecodeWebP":
		return false, status.InvalidArgumentf("Bad op type DecodeWebP")
	}
	err = d.emit(ctx, m, shape, func(pixels []uint8) error {
		drawn, err := f.Draw(frames, pixels)
		if err != nil {
			return status.InvalidArgumentf("Invalid GIF data (size %d), %v", size, err)
		}
		if again = drawn < frames; again {
			f.Truncate(drawn)
		}
		return nil
	})
	return again, err
}

// webp decodes a WebP, which may have several frames.
func (d *decoder) webp(ctx *kernels.Context, data string) error {
	if d.channels == 1 {
		return status.InvalidArgumentf("WebP only supports 3 or 4 channels")
	}
	if d.dtype != tensor.Uint8 {
		return status.InvalidArgumentf("WebP only supports uint8 for dtype")
	}
	f, err := webp.Parse(data)
	if err != nil {
		return status.InvalidArgumentf("%v", err)
	}
	if d.channels != 0 && d.channels != f.Channels {
		return status.InvalidArgumentf("Number of channels requested does not match input")
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.Take(f.Bytes()); err != nil {
		return err
	}
	frames := 1
	shape := tensor.Shape{int64(f.Height), int64(f.Width), int64(f.Channels)}
	if d.expand {
		frames = f.Frames()
		shape = append(tensor.Shape{int64(frames)}, shape...)
	}
	return d.emit(ctx, &m, shape, func(pixels []uint8) error {
		switch drawn, err := f.Draw(frames, pixels); {
		case err != nil && f.Animated:
			return status.InvalidArgumentf("Failed to decode WebP Animation: failed to decode frame: %d", drawn)
		case err != nil:
			return status.InvalidArgumentf("Failed to decode WebP image.")
		}
		return nil
	})
}

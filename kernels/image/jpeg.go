package image

import (
	"errors"
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/jpeg"
)

// jpegOptions are the attributes of the ops that decode JPEG files.
type jpegOptions struct {
	ratio    int     // side of the square of pixels that becomes one pixel; 0 means 1
	rough    bool    // no interpolation of colours
	exact    bool    // use the accurate transform
	recover  bool    // decode a truncated file, with grey for what is missing
	fraction float32 // fraction of the rows that a truncated file must have if it is not recovered
}

func newJPEGOptions(attrs graph.Attrs) (jpegOptions, error) {
	a := attrs.Reader()
	ratio, smooth, truncated := a.Int("ratio"), a.Bool("fancy_upscaling"), a.Bool("try_recover_truncated")
	fraction, method := a.Float("acceptable_fraction"), a.Str("dct_method")
	if err := a.Err(); err != nil {
		return jpegOptions{}, err
	}
	if !slices.Contains([]int64{1, 2, 4, 8}, ratio) {
		return jpegOptions{}, status.InvalidArgumentf("ratio must be 1, 2, 4, or 8, got %d", ratio)
	}
	if !slices.Contains([]string{"", "INTEGER_FAST", "INTEGER_ACCURATE"}, method) {
		return jpegOptions{}, status.InvalidArgumentf("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}")
	}
	return jpegOptions{
		ratio: int(ratio), rough: !smooth, exact: method == "INTEGER_ACCURATE", recover: truncated, fraction: min(fraction, 1),
	}, nil
}

// errJPEG is TensorFlow's error for a file that it cannot read.
var errJPEG = status.New(status.InvalidArgument, "jpeg::Uncompress failed. Invalid JPEG data or crop window.")

// cutout is a window of an image.
type cutout struct {
	y, x, height, width int
}

// readJPEG decodes a JPEG, or a window of one.
func (d *decoder) readJPEG(ctx *kernels.Context, data string) error {
	if d.channels == 4 {
		return status.InvalidArgumentf("JPEG does not support 4 channels")
	}
	if d.op == "DecodeBmp" {
		return d.allows("JPEG")
	}
	ratio := max(d.jpeg.ratio, 1)
	h, ok := jpeg.ReadHeader(data)
	width, height, fits := h.Shrunk(ratio)
	w := cutout{0, 0, height, width}
	if d.op == "DecodeAndCropJpeg" {
		var err error
		if w, err = cropWindow(ctx.Input(1)); err != nil {
			return err
		}
	}
	channels := d.channels
	if channels == 0 {
		channels = min(h.Components, 3)
	}
	if !ok || !fits || channels == 2 || !w.within(height, width) {
		return errJPEG
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.Take(h.Bytes(ratio)); err != nil {
		return err
	}
	return d.emit(ctx, &m, d.still(w.height, w.width, channels), func(pixels []uint8) error {
		rows, err := jpeg.Decode(data, jpeg.DecodeOptions{
			Channels: channels, Ratio: ratio, Smooth: !d.jpeg.rough, Fast: !d.jpeg.exact, Recover: d.jpeg.recover,
			Top: w.y, Left: w.x, Height: w.height, Width: w.width,
		}, pixels)
		switch {
		case errors.Is(err, jpeg.ErrTruncated) && float32(rows)/float32(w.height) >= d.jpeg.fraction:
			return nil
		case errors.Is(err, jpeg.ErrTruncated), errors.Is(err, jpeg.ErrInvalid):
			return errJPEG
		}
		return err
	})
}

// cropWindow reads the input of DecodeAndCropJpeg.
func cropWindow(t *tensor.Tensor) (cutout, error) {
	switch {
	case t.Rank() != 1:
		return cutout{}, status.InvalidArgumentf("crop_window must be 1-D, got shape %v", t.Shape())
	case t.Len() != 4:
		return cutout{}, status.InvalidArgumentf("crop_size must have four elements %v", t.Shape())
	case t.DType() != tensor.Int32:
		return cutout{}, status.InvalidArgumentf("crop_window must be int32, not %v", t.DType())
	}
	v := tensor.Of[int32](t)
	return cutout{int(v[0]), int(v[1]), int(v[2]), int(v[3])}, nil
}

func (w cutout) within(height, width int) bool {
	return w.height > 0 && w.width > 0 && w.y >= 0 && w.x >= 0 && w.y+w.height <= height && w.x+w.width <= width
}

// newJPEGShape returns the kernel that reads the shape of the image in a JPEG.
func newJPEGShape(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("output_type")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.NeedScalar(ctx.Input(0), tensor.String, "contents must be scalar, got shape %v"); err != nil {
			return err
		}
		data := ctx.Input(0).Strings()[0]
		h, ok := jpeg.ReadHeader(data)
		if !ok || h.Width == 0 || h.Height == 0 {
			return status.InvalidArgumentf("Invalid JPEG data, size %d", len(data))
		}
		out, err := ctx.Allocate(0, dtype, tensor.Shape{3})
		if err != nil {
			return err
		}
		if dtype == tensor.Int32 {
			copy(tensor.Of[int32](out), []int32{int32(h.Height), int32(h.Width), int32(h.Components)})
		} else {
			copy(tensor.Of[int64](out), []int64{int64(h.Height), int64(h.Width), int64(h.Components)})
		}
		return nil
	}), nil
}

func newEncodeJPEG(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	format, quality := a.Str("format"), a.Int("quality")
	progressive, optimize, subsample := a.Bool("progressive"), a.Bool("optimize_size"), a.Bool("chroma_downsampling")
	unit, xDensity, yDensity := a.Str("density_unit"), a.Int("x_density"), a.Int("y_density")
	xmp := a.Str("xmp_metadata")
	if err := a.Err(); err != nil {
		return nil, err
	}
	o := jpeg.Options{
		Quality: int(quality), Subsample: subsample, Progressive: progressive, Optimize: optimize,
		XDensity: int(xDensity), YDensity: int(yDensity), XMP: xmp,
	}
	switch {
	case format != "" && format != "grayscale" && format != "rgb":
		return nil, status.InvalidArgumentf("format must be '', grayscale or rgb, got %s", format)
	case quality < 0 || quality > 100:
		return nil, status.InvalidArgumentf("quality must be in [0,100], got %d", quality)
	case unit == "in":
		o.DensityUnit = 1
	case unit == "cm":
		o.DensityUnit = 2
	default:
		return nil, status.InvalidArgumentf("density_unit must be 'in' or 'cm'%s", unit)
	}
	wanted := map[string]int{"grayscale": 1, "rgb": 3}[format]
	return kernels.Func(func(ctx *kernels.Context) error {
		if image := ctx.Input(0); wanted != 0 && image.Rank() == 3 && image.Dim(2) != wanted {
			return status.InvalidArgumentf("format %s expects %d channels, got %v", format, wanted, image.Shape())
		}
		return encodeJPEG(ctx, o)
	}), nil
}

// encodeJPEGVariably is EncodeJpegVariableQuality, whose quality is an input.
func encodeJPEGVariably(ctx *kernels.Context) error {
	quality, err := args.ScalarInput32(ctx, 1, "quality must be scalar: %v")
	if err != nil {
		return err
	}
	if quality < 0 || quality > 100 {
		return status.InvalidArgumentf("quality must be in [0,100], got %d", quality)
	}
	return encodeJPEG(ctx, jpeg.Options{Quality: quality, Subsample: true, DensityUnit: 1, XDensity: 300, YDensity: 300})
}

func encodeJPEG(ctx *kernels.Context, o jpeg.Options) error {
	if err := args.CheckType(ctx, 0, tensor.Uint8); err != nil {
		return err
	}
	image := ctx.Input(0)
	switch {
	case image.Rank() != 3:
		return status.InvalidArgumentf("image must be 3-dimensional%v", image.Shape())
	case image.Len() >= math.MaxInt32:
		return status.InvalidArgumentf("Cannot encode images with >= max int32 elements")
	}
	height, width, channels := image.Dim(0), image.Dim(1), image.Dim(2)
	if channels != 1 && channels != 3 {
		return status.InvalidArgumentf("image must have 1 or 3 channels, got %v", image.Shape())
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.Take(jpeg.EncodeBytes(width, height, channels)); err != nil {
		return err
	}
	file, err := jpeg.Encode(tensor.Of[uint8](image), width, height, channels, o)
	if err != nil {
		return status.Internalf("%v", err)
	}
	out, err := ctx.Allocate(0, tensor.String, nil)
	if err != nil {
		return err
	}
	out.Strings()[0] = string(file)
	return nil
}

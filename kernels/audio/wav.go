package audio

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/wav"
)

// newDecodeWav returns the kernel of DecodeWav. The attributes hold the desired numbers of channels and frames, or -1 for those of the
// file. Missing frames are silent, and missing channels repeat the last one.
func newDecodeWav(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	channels, frames := a.Int("desired_channels"), a.Int("desired_samples")
	if err := a.Err(); err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.CheckType(ctx, 0, tensor.String); err != nil {
			return err
		}
		in := ctx.Input(0)
		if in.Rank() != 0 {
			return status.InvalidArgumentf("contents must be scalar, got shape %v", in.Shape())
		}
		data := in.Strings()[0]
		if len(data) > math.MaxInt32 {
			return status.InvalidArgumentf("WAV contents are too large for int: %d", len(data))
		}
		sound, err := wav.Decode(data)
		if err != nil {
			return err
		}
		shape := tensor.Shape{int64(sound.Frames), int64(sound.Channels)}
		if frames != -1 {
			shape[0] = frames
		}
		if channels != -1 {
			shape[1] = channels
		}
		if shape[0] < 0 || shape[1] < 0 {
			return status.InvalidArgumentf("desired_samples and desired_channels must be -1 or more, got %d and %d", frames, channels)
		}
		out, err := ctx.Allocate(0, tensor.Float32, shape)
		if err != nil {
			return err
		}
		dst, width := tensor.Of[float32](out), int(shape[1])
		clear(dst)
		for f := range min(int(shape[0]), sound.Frames) {
			for c := range width {
				dst[f*width+c] = sound.Sample(f, min(c, sound.Channels-1))
			}
		}
		rate, err := ctx.Allocate(1, tensor.Int32, nil)
		if err != nil {
			return err
		}
		tensor.Of[int32](rate)[0] = int32(sound.Rate)
		return nil
	}), nil
}

// encodeWav is EncodeWav.
func encodeWav(ctx *kernels.Context) error {
	if err := args.FirstError(args.CheckType(ctx, 0, tensor.Float32), args.CheckType(ctx, 1, tensor.Int32)); err != nil {
		return err
	}
	in := ctx.Input(0)
	if in.Rank() != 2 {
		return status.InvalidArgumentf("audio must be 2-dimensional%v", in.Shape())
	}
	rate, err := sampleRate(ctx)
	if err != nil {
		return err
	}
	if in.Len() >= math.MaxInt32 {
		return status.InvalidArgumentf("Cannot encode audio with >= max int32 elements")
	}
	if rate <= 0 {
		return status.InvalidArgumentf("sample_rate must be in (0, 2^32), got: %d", uint64(int64(rate)))
	}
	if in.Dim(1) == 0 {
		return status.InvalidArgumentf("num_channels must be in (0, 2^16), got: 0")
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.TakeMany(in.Len()+22, 2); err != nil {
		return err
	}
	b, err := wav.Encode(tensor.Of[float32](in), float64(rate), int64(in.Dim(1)), int64(in.Dim(0)))
	if err != nil {
		return err
	}
	return args.OutputString(ctx, string(b))
}

// sampleRate reads the sample rate from input 1.
func sampleRate(ctx *kernels.Context) (int32, error) {
	t := ctx.Input(1)
	if t.Rank() != 0 {
		return 0, status.InvalidArgumentf("Input sample_rate should be a scalar tensor, got %v instead.", t.Shape())
	}
	return tensor.Of[int32](t)[0], nil
}

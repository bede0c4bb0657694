package summary

import (
	"fmt"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/wav"
)

// newAudioSummary returns the kernel of AudioSummary, whose sample rate is an attribute, or of AudioSummaryV2, whose rate is an input.
func newAudioSummary(c *kernels.Construction) (any, error) {
	limit, err := maxOutputs(c)
	if err != nil {
		return nil, err
	}
	rate, err := c.Attrs().Float("sample_rate")
	fixed := err == nil
	return kernels.Func(func(ctx *kernels.Context) error {
		tag, err := args.ScalarString(ctx, 0, "Tag must be a scalar")
		if err != nil {
			return err
		}
		rate := rate
		if !fixed {
			if ctx.Input(2).Len() != 1 {
				return status.InvalidArgumentf("sample_rate must be rank-0 or contain a single value")
			}
			if err := args.CheckType(ctx, 2, tensor.Float32); err != nil {
				return err
			}
			rate = tensor.Of[float32](ctx.Input(2))[0]
		}
		values, err := audioValues(tag, ctx.Input(1), rate, limit)
		if err != nil {
			return err
		}
		return outputSummary(ctx, values...)
	}), nil
}

func maxOutputs(c *kernels.Construction) (int, error) {
	n, err := c.Attrs().Int("max_outputs")
	if err == nil && n <= 0 {
		err = status.InvalidArgumentf("max_outputs must be > 0")
	}
	return int(n), err
}

// partTag returns the tag of part i of a summary, which may have up to limit parts.
func partTag(tag, kind string, i, limit int) string {
	if limit > 1 {
		return fmt.Sprintf("%s/%s/%d", tag, kind, i)
	}
	return tag + "/" + kind
}

// audioValues returns the summaries of the first limit clips of a tensor of shape [clips, frames] or [clips, frames, channels], with
// samples between -1 and 1.
func audioValues(tag string, t *tensor.Tensor, rate float32, limit int) ([]*summarypb.Summary_Value, error) {
	if t.Rank() != 2 && t.Rank() != 3 {
		return nil, status.InvalidArgumentf("Tensor must be 3-D or 2-D, got: %v", t.Shape())
	}
	if !(rate > 0) {
		return nil, status.InvalidArgumentf("sample_rate must be > 0")
	}
	if t.DType() != tensor.Float32 {
		return nil, status.InvalidArgumentf("Audio must be float, got %v", t.DType())
	}
	frames, channels := t.Shape()[1], int64(1)
	if t.Rank() == 3 {
		channels = t.Shape()[2]
	}
	var values []*summarypb.Summary_Value
	for i := range min(limit, t.Dim(0)) {
		each := int(frames * channels)
		file, err := wav.Encode(tensor.Of[float32](t)[i*each:][:each], float64(rate), channels, frames)
		if err != nil {
			return nil, err
		}
		values = append(values, &summarypb.Summary_Value{Tag: partTag(tag, "audio", i, limit), Value: &summarypb.Summary_Value_Audio{Audio: &summarypb.Summary_Audio{
			SampleRate: rate, NumChannels: channels, LengthFrames: frames, ContentType: "audio/wav", EncodedAudioString: file,
		}}})
	}
	return values, nil
}

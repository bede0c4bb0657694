package summary

import (
	"fmt"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// valueTime is the time in nanoseconds to make or encode a small value.
const valueTime = 500

// outputSummary sets the kernel's output to the serialized summary.
func outputSummary(ctx *kernels.Context, values ...*summarypb.Summary_Value) error {
	const field = 1 // Summary.value
	var b []byte
	end := ctx.Lookout()
	for _, v := range values {
		if err := end.After(valueTime); err != nil {
			return err
		}
		part, err := proto.Marshal(v)
		if err != nil {
			return status.InvalidArgumentf("The summary of %s cannot be written: %v", ctx.Node.Name, err)
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), part)
	}
	return args.OutputString(ctx, string(b))
}

// scalarValue returns the summary of a number.
func scalarValue(tag string, v float32) *summarypb.Summary_Value {
	return &summarypb.Summary_Value{Tag: tag, Value: &summarypb.Summary_Value_SimpleValue{SimpleValue: v}}
}

func scalarSummary(ctx *kernels.Context) error {
	tags, values := ctx.Input(0), ctx.Input(1)
	if !tags.Shape().Equal(values.Shape()) {
		text := fmt.Sprintf("tags and values are not the same shape: %v != %v", tags.Shape(), values.Shape())
		if tags.Len() == 1 {
			text += " (tag '" + tags.Strings()[0] + "')"
		}
		return status.New(status.InvalidArgument, text)
	}
	numbers := make([]float32, values.Len())
	if !realParts32.read(numbers, values, 0) {
		return status.InvalidArgumentf("A summary of type %v is not supported", values.DType())
	}
	list := make([]*summarypb.Summary_Value, len(numbers))
	end := ctx.Lookout()
	for i, v := range numbers {
		if err := end.After(valueTime); err != nil {
			return err
		}
		list[i] = scalarValue(tags.Strings()[i], v)
	}
	return outputSummary(ctx, list...)
}

func histogramSummary(ctx *kernels.Context) error {
	tag, err := args.ScalarString(ctx, 0, "tags must be scalar")
	if err != nil {
		return err
	}
	v, err := histogramValue(ctx, tag, ctx.Input(1), "Nan in summary histogram for: "+ctx.Node.Name, "Infinity in Histogram for: "+ctx.Node.Name)
	if err != nil {
		return err
	}
	return outputSummary(ctx, v)
}

// tensorValue returns the summary of a whole tensor.
func tensorValue(ctx *kernels.Context, t *tensor.Tensor) (*summarypb.Summary_Value, error) {
	p, err := t.ProtoUntil(ctx.Ended)
	if err != nil {
		return nil, err
	}
	return &summarypb.Summary_Value{Value: &summarypb.Summary_Value_Tensor{Tensor: p}}, nil
}

func tensorSummary(ctx *kernels.Context) error {
	v, err := tensorValue(ctx, ctx.Input(0))
	if err != nil {
		return err
	}
	v.NodeName = ctx.Node.Name
	return outputSummary(ctx, v)
}

func tensorSummaryV2(ctx *kernels.Context) error {
	tag, err := args.ScalarString(ctx, 0, "tag must be scalar")
	if err != nil {
		return err
	}
	serialized, err := args.ScalarString(ctx, 2, "serialized_summary_metadata must be scalar")
	if err != nil {
		return err
	}
	v, err := tensorValue(ctx, ctx.Input(1))
	if err != nil {
		return err
	}
	v.Tag, v.Metadata = tag, metadata(serialized)
	return outputSummary(ctx, v)
}

// metadata reads the metadata of a plugin. As in TensorFlow, metadata that cannot be read counts as empty.
func metadata(serialized string) *summarypb.SummaryMetadata {
	m := &summarypb.SummaryMetadata{}
	if tensor.Unmarshal([]byte(serialized), m) != nil {
		return &summarypb.SummaryMetadata{}
	}
	return m
}

func mergeSummary(ctx *kernels.Context) error {
	seen := map[string]bool{}
	var all []*summarypb.Summary_Value
	for i := range ctx.Inputs {
		for _, serialized := range ctx.Input(i).Strings() {
			var s summarypb.Summary
			if tensor.Unmarshal([]byte(serialized), &s) != nil {
				return status.InvalidArgumentf("Could not parse one of the summary inputs")
			}
			for _, v := range s.Value {
				// Summaries of tensors have no tag.
				if v.Tag != "" && seen[v.Tag] {
					return status.InvalidArgumentf("Duplicate tag %s found in summary inputs ", v.Tag)
				}
				seen[v.Tag] = true
			}
			all = append(all, s.Value...)
		}
	}
	return outputSummary(ctx, all...)
}

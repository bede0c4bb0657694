package input

import (
	"encoding/base64"
	"unsafe"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"google.golang.org/protobuf/proto"
)

// newParseTensor returns the kernel that parses a serialized TensorProto.
func newParseTensor(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("out_type")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.NeedScalar(ctx.Input(0), tensor.String, "Expected `serialized` to be a scalar, got shape: %v"); err != nil {
			return err
		}
		t, err := parseTensor(ctx, ctx.Input(0).Strings()[0], dtype == tensor.Variant)
		if err != nil {
			return err
		}
		if have := t.DType(); have != dtype {
			t.Release()
			return status.InvalidArgumentf("Type mismatch between parsed tensor (%v) and dtype (%v)", have, dtype)
		}
		ctx.SetOutput(0, t)
		return nil
	}), nil
}

func parseTensor(ctx *kernels.Context, serialized string, variants bool) (*tensor.Tensor, error) {
	pool := ctx.Device.Pool()
	bytes := unsafe.Slice(unsafe.StringData(serialized), len(serialized))
	if !variants {
		t, err := tensor.ReadWireUntil(tensor.NewBytes(bytes), len(bytes), pool, ctx.Ended)
		if err == nil || ctx.Ended() != nil || status.CodeOf(err) == status.ResourceExhausted {
			return t, err
		}
	}
	// There are two different errors, and variants are parsed from a message.
	var p tensorpb.TensorProto
	if err := tensor.UnmarshalUntil(bytes, &p, ctx.Ended); err != nil {
		if err := ctx.Ended(); err != nil {
			return nil, err
		}
		return nil, status.InvalidArgumentf("Could not parse `serialized` as TensorProto, base64: %s", base64.StdEncoding.EncodeToString(bytes))
	}
	t, err := tensor.FromTensorProtoUntil(&p, pool, ctx.Ended)
	if err != nil && status.CodeOf(err) == status.InvalidArgument {
		err = status.InvalidArgumentf("Cannot parse tensor from proto: %v", err)
	}
	return t, err
}

// serializeTensor serializes a tensor as a TensorProto.
func serializeTensor(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if in.DType().Size() == 0 { // TensorFlow stores strings in string_val here
		if in.DType() == tensor.Variant {
			b, err := in.PackedVariants(ctx.Ended)
			if err != nil {
				return err
			}
			return args.OutputString(ctx, string(b))
		}
		p, err := in.ProtoUntil(ctx.Ended)
		if err != nil {
			return err
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			return err
		}
		return args.OutputString(ctx, string(b))
	}
	head, content, err := in.AppendWire(nil)
	if err != nil {
		return err
	}
	return args.OutputString(ctx, string(head)+string(content))
}

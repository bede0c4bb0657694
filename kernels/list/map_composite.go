package list

import (
	protos "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/printing"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// compositeClass reads the attribute metadata, a serialized CompositeTensorVariantMetadata.
func compositeClass(c *kernels.Construction, failure string) (class protos.TypeSpecProto_TypeSpecClass, text string, err error) {
	if text, err = c.Attrs().Str("metadata"); err != nil {
		return 0, "", err
	}
	var m protos.CompositeTensorVariantMetadata
	if err := tensor.Unmarshal([]byte(text), &m); err != nil {
		return 0, "", status.InvalidArgumentf("%s", failure)
	}
	return m.GetTypeSpecProto().GetTypeSpecClass(), text, nil
}

func newCompositeFromComponents(c *kernels.Construction) (any, error) {
	class, metadata, err := compositeClass(c, "Error parsing metadata")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		v := &variant.Composite{Class: class, Metadata: metadata, Components: make([]*tensor.Tensor, len(ctx.Inputs))}
		v.Refs.Store(1)
		for i := range ctx.Inputs {
			if v.Depth = max(v.Depth, variant.Nesting(ctx.Input(i))); v.Depth > variant.MaxNesting {
				return variant.TooDeep()
			}
		}
		out, err := ctx.Allocate(0, tensor.Variant, nil)
		if err != nil {
			return err
		}
		for i := range v.Components {
			v.Components[i] = ctx.Take(i)
		}
		out.Variants()[0] = v
		return nil
	}), nil
}

func newCompositeToComponents(c *kernels.Construction) (any, error) {
	class, _, err := compositeClass(c, "Error parsing `metadata`")
	if err != nil {
		return nil, err
	}
	want, err := c.Attrs().TypeList("Tcomponents")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t := ctx.Input(0)
		if err := args.CheckType(ctx, 0, tensor.Variant); err != nil {
			return err
		}
		if t.Len() == 0 {
			return status.InvalidArgumentf("Input `encoded` must not be an empty variant tensor, but got %s", printing.DebugText(t))
		}
		v, ok := t.Variants()[0].(*variant.Composite)
		switch {
		case !ok:
			return status.InvalidArgumentf("The input `encoded` is not a valid CompositeTensorVariant tensor, got %s", printing.DebugText(t))
		case v.Class != class:
			return status.InvalidArgumentf("Expected a %v (based on `type_spec`), but `encoded` contains a %v", class, v.Class)
		case len(v.Components) != len(want):
			return status.InvalidArgumentf("Encoded value has %d tensor components; expected %d components based on type_spec", len(v.Components), len(want))
		}
		for i, x := range v.Components {
			if x.DType() != want[i] {
				return status.InvalidArgumentf("Tensor component %d had dtype %v; expected dtype %v", i, x.DType().Proto(), want[i].Proto())
			}
		}
		for i, x := range v.Components {
			ctx.SetOutput(i, x.Retain())
		}
		return nil
	}), nil
}

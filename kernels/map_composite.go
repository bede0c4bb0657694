package kernels

import (
	"sync/atomic"

	protos "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// composite is what a variant scalar holds for a composite tensor: its components, and the class
// of the type that a client's type specification tells. It is not changed after it was made.
type composite struct {
	refs       atomic.Int32
	class      protos.TypeSpecProto_TypeSpecClass
	metadata   string // the specification that the class is of
	components []*tensor.Tensor
	depth      int // see tensorList
}

// Retain adds a reference.
func (c *composite) Retain() { c.refs.Add(1) }

// Release drops a reference, after the last one the components'.
func (c *composite) Release() {
	if c.refs.Add(-1) == 0 {
		releaseTensors(c.components)
		c.components = nil
	}
}

// nested is how deep the components go.
func (c *composite) nested() int { return c.depth }

// compositeClass reads the attribute metadata, a serialized CompositeTensorVariantMetadata.
func compositeClass(c *Construction, failure string) (class protos.TypeSpecProto_TypeSpecClass, text string, err error) {
	if text, err = c.Attrs().Str("metadata"); err != nil {
		return 0, "", err
	}
	var m protos.CompositeTensorVariantMetadata
	if err := proto.Unmarshal([]byte(text), &m); err != nil {
		return 0, "", status.InvalidArgumentf("%s", failure)
	}
	return m.GetTypeSpecProto().GetTypeSpecClass(), text, nil
}

func newCompositeFromComponents(c *Construction) (any, error) {
	class, metadata, err := compositeClass(c, "Error parsing metadata")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		v := &composite{class: class, metadata: metadata, components: make([]*tensor.Tensor, len(ctx.Inputs))}
		v.refs.Store(1)
		for i := range ctx.Inputs {
			if v.depth = max(v.depth, nesting(ctx.Input(i))); v.depth > maxNesting {
				return tooDeep()
			}
		}
		out, err := ctx.Allocate(0, tensor.Variant, nil)
		if err != nil {
			return err
		}
		for i := range v.components {
			v.components[i] = ctx.Take(i)
		}
		out.Variants()[0] = v
		return nil
	}), nil
}

func newCompositeToComponents(c *Construction) (any, error) {
	class, _, err := compositeClass(c, "Error parsing `metadata`")
	if err != nil {
		return nil, err
	}
	want, err := c.Attrs().TypeList("Tcomponents")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		t := ctx.Input(0)
		if err := checkType(ctx, 0, tensor.Variant); err != nil {
			return err
		}
		if t.Len() == 0 {
			return status.InvalidArgumentf("Input `encoded` must not be an empty variant tensor, but got %s", debugText(t))
		}
		v, ok := t.Variants()[0].(*composite)
		switch {
		case !ok:
			return status.InvalidArgumentf("The input `encoded` is not a valid CompositeTensorVariant tensor, got %s", debugText(t))
		case v.class != class:
			return status.InvalidArgumentf("Expected a %v (based on `type_spec`), but `encoded` contains a %v", class, v.class)
		case len(v.components) != len(want):
			return status.InvalidArgumentf("Encoded value has %d tensor components; expected %d components based on type_spec", len(v.components), len(want))
		}
		for i, x := range v.components {
			if x.DType() != want[i] {
				return status.InvalidArgumentf("Tensor component %d had dtype %v; expected dtype %v", i, x.DType().Proto(), want[i].Proto())
			}
		}
		for i, x := range v.components {
			ctx.SetOutput(i, x.Retain())
		}
		return nil
	}), nil
}

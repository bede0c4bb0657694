package kernels

import (
	protos "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

const compositeName = "CompositeTensorVariant"

func init() { tensor.RegisterVariant(compositeName, readComposite) }

// Portable describes the composite tensor: its type's specification, and its components.
func (c *composite) Portable() tensor.VariantData {
	return tensor.VariantData{Type: compositeName, Metadata: []byte(c.metadata), Tensors: c.components}
}

func readComposite(d tensor.VariantData) (any, error) {
	var m protos.CompositeTensorVariantMetadata
	if err := proto.Unmarshal(d.Metadata, &m); err != nil {
		return nil, status.InvalidArgumentf("The message of a composite tensor has malformed metadata: %v", err)
	}
	c := &composite{class: m.GetTypeSpecProto().GetTypeSpecClass(), metadata: string(d.Metadata), components: d.Tensors}
	for _, t := range d.Tensors {
		c.depth = max(c.depth, nesting(t))
	}
	if c.depth > maxNesting {
		return nil, tooDeep()
	}
	c.refs.Store(1)
	return c, nil
}

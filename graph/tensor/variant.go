package tensor

import (
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

// VariantData is an element of a variant tensor as it travels (TensorFlow's VariantTensorDataProto): the
// registered name of its type, what the type says of itself, and its tensors.
type VariantData struct {
	Type     string
	Metadata []byte
	Tensors  []*Tensor
}

// Portable is implemented by elements of variant tensors that may leave their process.
type Portable interface {
	// Portable describes the element. The tensors are borrowed.
	Portable() VariantData
}

// variantTypes maps names to the functions that make elements.
var variantTypes = map[string]func(VariantData) (any, error){}

// RegisterVariant tells how elements of a named type are made of what travelled. The function takes over
// references to the tensors when it succeeds. RegisterVariant is called from init functions only.
func RegisterVariant(name string, decode func(VariantData) (any, error)) { variantTypes[name] = decode }

// maxVariantDepth bounds how deep variants may lie in one another in a message.
const maxVariantDepth = 100

// Leaves tells with UNIMPLEMENTED why a tensor may not leave its process: a variant in it may not.
func (t *Tensor) Leaves() error { return t.leaves(0) }

func (t *Tensor) leaves(depth int) error {
	if t.dtype != Variant {
		return nil
	}
	for _, e := range t.Variants() {
		if e == nil {
			continue
		}
		p, ok := e.(Portable)
		if !ok || depth >= maxVariantDepth {
			return status.Unimplementedf("A variant that holds a %T cannot leave its process", e)
		}
		for _, part := range p.Portable().Tensors {
			if err := part.leaves(depth + 1); err != nil {
				return err
			}
		}
	}
	return nil
}

func variantsProto(elems []any, depth int) ([]*tensorpb.VariantTensorDataProto, error) {
	list := make([]*tensorpb.VariantTensorDataProto, len(elems))
	for i, e := range elems {
		list[i] = &tensorpb.VariantTensorDataProto{}
		if e == nil {
			continue
		}
		p, ok := e.(Portable)
		if !ok || depth >= maxVariantDepth {
			return nil, status.Unimplementedf("A variant that holds a %T cannot leave its process", e)
		}
		d := p.Portable()
		list[i].TypeName, list[i].Metadata = d.Type, d.Metadata
		for _, t := range d.Tensors {
			m, err := t.proto(depth + 1)
			if err != nil {
				return nil, err
			}
			list[i].Tensors = append(list[i].Tensors, m)
		}
	}
	return list, nil
}

// fillVariants sets the elements to what the messages tell; a short list leaves the others nil.
func fillVariants(t *Tensor, list []*tensorpb.VariantTensorDataProto, pool *Pool, depth int) error {
	for i, p := range list {
		if p.GetTypeName() == "" && len(p.GetTensors()) == 0 {
			continue
		}
		decode := variantTypes[p.GetTypeName()]
		if decode == nil || depth >= maxVariantDepth {
			return status.Unimplementedf("Variants of type %q cannot be read from a message", p.GetTypeName())
		}
		d := VariantData{Type: p.GetTypeName(), Metadata: p.GetMetadata()}
		var err error
		for _, m := range p.GetTensors() {
			var part *Tensor
			if part, err = fromProto(m, pool, depth+1); err != nil {
				break
			}
			d.Tensors = append(d.Tensors, part)
		}
		var e any
		if err == nil {
			e, err = decode(d)
		}
		if err != nil {
			for _, part := range d.Tensors {
				part.Release()
			}
			return err
		}
		t.Variants()[i] = e
	}
	return nil
}

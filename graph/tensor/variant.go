package tensor

import (
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// VariantData is an element of a variant tensor in encoded form (TensorFlow's VariantTensorDataProto): the
// registered name of its type, the type's metadata, and its tensors.
type VariantData struct {
	Type     string
	Metadata []byte
	Tensors  []*Tensor
}

// Portable is implemented by elements of variant tensors that may leave their process. An element that sometimes may
// not has a method Unportable, too, which tells why.
type Portable interface {
	// Portable describes the element. The tensors are borrowed.
	Portable() VariantData
}

// variantTypes maps names to the functions that make elements.
var variantTypes = map[string]func(VariantData) (any, error){}

// RegisterVariant sets the function that decodes elements of a named type. If the function succeeds, it takes
// over references to the tensors. RegisterVariant is called from init functions only.
func RegisterVariant(name string, decode func(VariantData) (any, error)) { variantTypes[name] = decode }

// What bounds a walk through variants: how deep they may lie in one another, and how many there may be in all, since
// one that several hold is met, and written, again for each of them.
const (
	maxVariantDepth = 100
	maxVariants     = 1 << 20
)

// nest is where a walk through variants is.
type nest struct {
	depth int
	left  *int // how many more may be met
}

func outermost() nest {
	left := maxVariants
	return nest{left: &left}
}

// enter is the walk within one more variant.
func (n nest) enter() (nest, error) {
	*n.left--
	switch {
	case n.depth >= maxVariantDepth:
		return n, status.Errorf(status.ResourceExhausted, "Variants are nested more than %d deep", maxVariantDepth)
	case *n.left < 0:
		return n, status.Errorf(status.ResourceExhausted, "A tensor holds more than %d variants", maxVariants)
	}
	return nest{n.depth + 1, n.left}, nil
}

// portable describes an element that may travel, and gives the walk within it. UNIMPLEMENTED for one that may not.
func (n nest) portable(e any) (d VariantData, inner nest, err error) {
	p, ok := e.(Portable)
	if !ok {
		return d, n, status.Unimplementedf("A variant that holds a %T cannot leave its process", e)
	}
	if inner, err = n.enter(); err != nil {
		return d, n, err
	}
	if u, ok := e.(interface{ Unportable() error }); ok {
		if err := u.Unportable(); err != nil {
			return d, n, err
		}
	}
	return p.Portable(), inner, nil
}

// Leaves returns why a tensor may not leave its process: it contains a variant that may not, or too many
// variants. nil means that it may.
func (t *Tensor) Leaves() error {
	if t.dtype != Variant {
		return nil
	}
	return t.leaves(outermost())
}

func (t *Tensor) leaves(at nest) error {
	if t.dtype != Variant {
		return nil
	}
	for _, e := range t.Variants() {
		if e == nil {
			continue
		}
		d, inner, err := at.portable(e)
		if err != nil {
			return err
		}
		for _, part := range d.Tensors {
			if err := part.leaves(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

func variantsProto(elems []any, at nest) ([]*tensorpb.VariantTensorDataProto, error) {
	list := make([]*tensorpb.VariantTensorDataProto, len(elems))
	for i, e := range elems {
		list[i] = &tensorpb.VariantTensorDataProto{}
		if e == nil {
			continue
		}
		d, inner, err := at.portable(e)
		if err != nil {
			return nil, err
		}
		list[i].TypeName, list[i].Metadata = d.Type, d.Metadata
		for _, t := range d.Tensors {
			m, err := t.proto(inner)
			if err != nil {
				return nil, err
			}
			list[i].Tensors = append(list[i].Tensors, m)
		}
	}
	return list, nil
}

// PackVariants moves the variants of a message into its tensor_content: the sizes of all, then all, which is how
// TensorFlow serializes a tensor of them (core/framework/variant.cc, EncodeVariantList).
func PackVariants(p *tensorpb.TensorProto) error {
	var sizes, messages []byte
	for _, v := range p.VariantVal {
		before := len(messages)
		var err error
		if messages, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(messages, v); err != nil {
			return err
		}
		sizes = protowire.AppendVarint(sizes, uint64(len(messages)-before))
	}
	p.VariantVal, p.TensorContent = nil, append(sizes, messages...)
	return nil
}

// unpackVariants reads n variants that PackVariants wrote.
func unpackVariants(content []byte, n int64) ([]*tensorpb.VariantTensorDataProto, error) {
	malformed := status.InvalidArgumentf("tensor_content of %d bytes does not hold %d variants", len(content), n)
	if n > int64(len(content)) { // each takes a byte or more
		return nil, malformed
	}
	sizes := make([]uint64, n)
	for i := range sizes {
		v, size := protowire.ConsumeVarint(content)
		if size < 0 {
			return nil, malformed
		}
		sizes[i], content = v, content[size:]
	}
	list := make([]*tensorpb.VariantTensorDataProto, n)
	for i, size := range sizes {
		list[i] = &tensorpb.VariantTensorDataProto{}
		if size > uint64(len(content)) || Unmarshal(content[:size], list[i]) != nil {
			return nil, malformed
		}
		content = content[size:]
	}
	if len(content) > 0 {
		return nil, malformed
	}
	return list, nil
}

// fillVariants sets the elements to what the messages tell; a short list leaves the others nil.
func fillVariants(t *Tensor, list []*tensorpb.VariantTensorDataProto, pool *Pool, at nest) error {
	for i, p := range list {
		if p.GetTypeName() == "" && len(p.GetTensors()) == 0 {
			continue
		}
		decode := variantTypes[p.GetTypeName()]
		if decode == nil {
			return status.Unimplementedf("Variants of type %q cannot be read from a message", p.GetTypeName())
		}
		inner, err := at.enter()
		if err != nil {
			return err
		}
		d := VariantData{Type: p.GetTypeName(), Metadata: p.GetMetadata()}
		for _, m := range p.GetTensors() {
			var part *Tensor
			if part, err = fromProto(m, pool, inner); err != nil {
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

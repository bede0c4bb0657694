package tensor

import (
	"math"

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

// Portable is implemented by elements of variant tensors that may leave their process. An element that may leave only under some
// conditions also has a method Unportable, which returns why it may not.
type Portable interface {
	// Portable describes the element. The tensors are borrowed.
	Portable() VariantData
}

// variantTypes maps type names to the functions that decode elements.
var variantTypes = map[string]func(VariantData) (any, error){}

// RegisterVariant sets the function that decodes elements of a named type. If the function succeeds, it takes over references to the
// tensors. RegisterVariant may only be called from init functions.
func RegisterVariant(name string, decode func(VariantData) (any, error)) { variantTypes[name] = decode }

// Limits on a walk through variants: the nesting depth, and the total number. A variant with several holders is visited, and written, once
// for each of them.
const (
	maxVariantDepth = 100
	maxVariants     = 1 << 20
)

// A walk counts the memory of what it creates for the variants that it visits, in steps of messageStep variants: a message for each, or a
// tensor.
const (
	messageBytes = 1280
	messageStep  = 256
)

// nest is a position in a walk through variants.
type nest struct {
	depth int
	walk  *walk
}

// walk is the state of a walk through variants. The caller must call end.
type walk struct {
	met     int
	each    int64 // bytes that it creates for each variant
	counted int64 // bytes
	ended   func() error
}

// outermost begins a walk that continues until ended, which may be nil, returns an error.
func outermost(ended func() error) nest { return nest{walk: &walk{each: messageBytes, ended: ended}} }

// end stops counting the walk's memory: what it created is about to be written or read, and is garbage after that.
func (n nest) end() { Host.Unreserve(n.walk.counted) }

// countVariant counts one more variant.
func (w *walk) countVariant() error {
	if w.met++; w.met > maxVariants {
		return status.Errorf(status.ResourceExhausted, "A tensor holds more than %d variants", maxVariants)
	}
	if w.met%messageStep > 0 {
		return nil
	}
	if w.ended != nil {
		if err := w.ended(); err != nil {
			return err
		}
	}
	return w.count(messageStep * w.each)
}

// maxEncoding is the maximum size in bytes of variants as a message, which protocol buffers cannot exceed.
const maxEncoding = math.MaxInt32

// count counts n more bytes.
func (w *walk) count(n int64) error {
	if n > 2*maxEncoding-w.counted { // of a message and its parts
		return status.Errorf(status.ResourceExhausted, "A tensor of variants takes more than %d bytes as a message", maxEncoding)
	}
	err := Host.Reserve(n)
	if err == nil {
		w.counted += n
	}
	return err
}

// enter returns the walk one variant deeper.
func (n nest) enter() (nest, error) {
	if n.depth >= maxVariantDepth {
		return n, status.Errorf(status.ResourceExhausted, "Variants are nested more than %d deep", maxVariantDepth)
	}
	return nest{n.depth + 1, n.walk}, n.walk.countVariant()
}

// portable describes an element that may leave its process, and returns the walk within it. It is UNIMPLEMENTED for other elements.
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

// Leaves returns nil if a tensor may leave its process, and otherwise why not: it contains a variant that may not, or too many variants,
// or ended, which may be nil, returned an error.
func (t *Tensor) Leaves(ended func() error) error {
	if t.dtype != Variant {
		return nil
	}
	at := outermost(ended)
	defer at.end()
	return t.leaves(at)
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

// unpack decodes n messages from a tensor_content in the format of PackedVariants.
func unpack[M any, P interface {
	*M
	proto.Message
}](content []byte, n int64, ended func() error) ([]P, error) {
	malformed := status.InvalidArgumentf("tensor_content of %d bytes does not hold %d messages", len(content), n)
	if n > int64(len(content)) { // each takes at least one byte
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
	list := make([]P, n)
	look := lookout{ended: ended}
	for i, size := range sizes {
		if err := look.another(); err != nil {
			return nil, err
		}
		list[i] = P(new(M))
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

// fillVariants decodes the messages into the elements; if there are fewer messages, the remaining elements stay nil.
func fillVariants(t *Tensor, list []*tensorpb.VariantTensorDataProto, pool *Pool, at nest) error {
	for i, p := range list {
		if p.GetTypeName() == "" && len(p.GetMetadata()) == 0 && len(p.GetTensors()) == 0 {
			continue
		}
		decode := variantTypes[p.GetTypeName()]
		if decode == nil {
			return status.InvalidArgumentf("a variant of type %q cannot be read from a message: no such type is registered", p.GetTypeName())
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

package tensor

import (
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Fields of tensorflow.TensorProto and tensorflow.VariantTensorDataProto that variants use.
const (
	fieldHandle  = 14
	fieldVariant = 15

	fieldTypeName = 1
	fieldMetadata = 2
	fieldTensors  = 3
)

// backward writes a message from its end to its beginning, so that the length of a part is known before it is written in front of it. A tensor
// of nested variants is encoded in one pass, with no memory but its message.
type backward struct {
	buf  []byte
	at   int // buf[at:] is written
	walk *walk
}

func (b *backward) len() int { return len(b.buf) - b.at }

func (b *backward) bytes() []byte { return b.buf[b.at:] }

// room makes room for n more bytes.
func (b *backward) room(n int) error {
	if n <= b.at {
		return nil
	}
	if n > maxEncoding-b.len() {
		return status.Errorf(status.ResourceExhausted, "A tensor of variants takes more than %d bytes as a message", maxEncoding)
	}
	size := min(max(2*len(b.buf), b.len()+n, 1<<10), maxEncoding)
	if err := b.walk.count(int64(size - len(b.buf))); err != nil {
		return err
	}
	grown := make([]byte, size)
	at := size - b.len()
	Copy(grown[at:], b.bytes())
	b.buf, b.at = grown, at
	return nil
}

// put writes bytes in front.
func (b *backward) put(p []byte) error {
	if err := b.room(len(p)); err != nil {
		return err
	}
	b.at -= len(p)
	Copy(b.buf[b.at:], p)
	return nil
}

// text writes a string in front.
func (b *backward) text(s string) error {
	if err := b.room(len(s)); err != nil {
		return err
	}
	b.at -= len(s)
	copy(b.buf[b.at:], s)
	return nil
}

// header makes what has been written since the message had mark bytes a field.
func (b *backward) header(field protowire.Number, mark int) error {
	var head [2 * 10]byte
	h := protowire.AppendTag(head[:0], field, protowire.BytesType)
	return b.put(protowire.AppendVarint(h, uint64(b.len()-mark)))
}

// field writes a field of bytes.
func (b *backward) field(field protowire.Number, p []byte) error {
	mark := b.len()
	if err := b.put(p); err != nil {
		return err
	}
	return b.header(field, mark)
}

// textField writes a field of a string.
func (b *backward) textField(field protowire.Number, s string) error {
	mark := b.len()
	if err := b.text(s); err != nil {
		return err
	}
	return b.header(field, mark)
}

// tensor writes a tensor as Tensor.Proto would.
func (b *backward) tensor(t *Tensor, at nest) error {
	var err error
	switch e := t.elems.(type) {
	case nil:
		if len(t.Data()) > 0 {
			err = b.field(fieldContent, t.Data())
		}
	case []string:
		for i := len(e) - 1; i >= 0 && err == nil; i-- {
			err = b.textField(fieldString, e[i])
		}
	case []Handle:
		for i := len(e) - 1; i >= 0 && err == nil; i-- {
			var h []byte
			if h, err = proto.Marshal(e[i].Proto()); err == nil {
				err = b.field(fieldHandle, h)
			}
		}
	case []any:
		for i := len(e) - 1; i >= 0 && err == nil; i-- {
			mark := b.len()
			if err = b.variant(e[i], at); err == nil {
				err = b.header(fieldVariant, mark)
			}
		}
	}
	if err != nil {
		return err
	}
	return b.head(t)
}

// head writes the fields in front of a tensor's elements.
func (b *backward) head(t *Tensor) error {
	var room [64]byte
	return b.put(t.appendHead(room[:0]))
}

// variant writes an element of a tensor; one that is nil is empty.
func (b *backward) variant(e any, at nest) error {
	if e == nil {
		return nil
	}
	d, inner, err := at.portable(e)
	for i := len(d.Tensors) - 1; i >= 0 && err == nil; i-- {
		mark := b.len()
		if err = b.tensor(d.Tensors[i], inner); err == nil {
			err = b.header(fieldTensors, mark)
		}
	}
	if err == nil && len(d.Metadata) > 0 {
		err = b.field(fieldMetadata, d.Metadata)
	}
	if err == nil && d.Type != "" {
		err = b.textField(fieldTypeName, d.Type)
	}
	return err
}

// encoding begins to encode variants, until ended returns an error. The caller must call end of the walk.
func encoding(ended func() error) (*backward, nest) {
	at := outermost(ended)
	at.walk.each = 0 // the message is counted, and there are no others
	return &backward{walk: at.walk}, at
}

// appendVariants appends the encoding of a tensor of variants, like AppendWire.
func (t *Tensor) appendVariants(dst []byte, ended func() error) (head, content []byte, err error) {
	b, at := encoding(ended)
	defer at.end()
	if err := b.tensor(t, at); err != nil {
		return nil, nil, err
	}
	if b.len() < packedApart {
		return append(dst, b.bytes()...), nil, nil
	}
	return dst, b.bytes(), nil
}

// PackedVariants encodes a tensor of variants as TensorFlow serializes it (core/framework/variant.cc, EncodeVariantList): its tensor_content holds
// the sizes of all, followed by all. It fails when ended returns an error.
func (t *Tensor) PackedVariants(ended func() error) ([]byte, error) {
	b, at := encoding(ended)
	defer at.end()
	elems := t.Variants()
	sizes := make([]int, len(elems))
	for i := len(elems) - 1; i >= 0; i-- {
		mark := b.len()
		if err := b.variant(elems[i], at); err != nil {
			return nil, err
		}
		sizes[i] = b.len() - mark
	}
	var room [10]byte
	for i := len(sizes) - 1; i >= 0; i-- {
		if err := b.put(protowire.AppendVarint(room[:0], uint64(sizes[i]))); err != nil {
			return nil, err
		}
	}
	if len(elems) > 0 {
		if err := b.header(fieldContent, 0); err != nil {
			return nil, err
		}
	}
	err := b.head(t)
	return b.bytes(), err
}

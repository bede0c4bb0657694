package tensor

import (
	"math"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Field numbers of tensorflow.TensorProto and tensorflow.TensorShapeProto.
const (
	fieldDType   = 1
	fieldShape   = 2
	fieldContent = 4
	fieldString  = 8
	fieldDim     = 2
	fieldSize    = 1
)

// AppendWire appends the tensor's encoding as a tensorflow.TensorProto, except for the bytes of a
// tensor_content, which must follow: they are the tensor's Data, to be sent from their own memory. content is
// nil if everything was appended.
func (t *Tensor) AppendWire(dst []byte) (head, content []byte, err error) {
	dst = protowire.AppendTag(dst, fieldDType, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(t.dtype))
	size := 0
	for _, d := range t.shape {
		size += 1 + protowire.SizeBytes(dimSize(d))
	}
	dst = protowire.AppendTag(dst, fieldShape, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	for _, d := range t.shape {
		dst = protowire.AppendTag(dst, fieldDim, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(dimSize(d)))
		if d != 0 {
			dst = protowire.AppendTag(dst, fieldSize, protowire.VarintType)
			dst = protowire.AppendVarint(dst, uint64(d))
		}
	}
	switch e := t.elems.(type) {
	case nil:
		if len(t.Data()) == 0 {
			return dst, nil, nil
		}
		dst = protowire.AppendTag(dst, fieldContent, protowire.BytesType)
		return protowire.AppendVarint(dst, uint64(len(t.Data()))), t.Data(), nil
	case []string:
		for _, s := range e {
			dst = protowire.AppendTag(dst, fieldString, protowire.BytesType)
			dst = protowire.AppendString(dst, s)
		}
		return dst, nil, nil
	case []Handle:
		p := tensorpb.TensorProto{}
		for _, h := range e {
			p.ResourceHandleVal = append(p.ResourceHandleVal, h.Proto())
		}
		dst, err = proto.MarshalOptions{}.MarshalAppend(dst, &p)
		return dst, nil, err
	case []any:
		p := tensorpb.TensorProto{}
		if p.VariantVal, err = variantsProto(e, outermost()); err != nil {
			return nil, nil, err
		}
		dst, err = proto.MarshalOptions{}.MarshalAppend(dst, &p)
		return dst, nil, err
	}
	return nil, nil, status.Internalf("A tensor of type %v has no elements", t.dtype)
}

// dimSize is the size of a dimension's message, in which zero is left out.
func dimSize(d int64) int {
	if d == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(d))
}

// Source is where ReadWire reads from: a message that may lie in several pieces.
type Source interface {
	// Next returns n bytes, which are valid until the next call of a method; it may copy.
	Next(n int) ([]byte, error)
	// ReadFull fills dst.
	ReadFull(dst []byte) error
	// Varint reads one varint.
	Varint() (uint64, error)
	// Offset is the number of bytes read.
	Offset() int
}

// errTruncated is the error of a message that ends or contradicts itself.
var errTruncated = status.InvalidArgumentf("A tensor's message is malformed")

// ReadWire reads a tensorflow.TensorProto of n bytes. tensor_content is copied once, straight
// into the tensor's memory from pool; everything else goes through the general parser.
func ReadWire(src Source, n int, pool *Pool) (*Tensor, error) {
	end := src.Offset() + n
	var rest []byte // the fields that the fast way does not know
	var dtype DType
	var shape Shape
	var t *Tensor
	fail := func(err error) (*Tensor, error) {
		if t != nil {
			t.Release()
		}
		return nil, err
	}
	for src.Offset() < end {
		tag, err := src.Varint()
		if err != nil {
			return fail(err)
		}
		num, typ := protowire.DecodeTag(tag)
		if num == fieldDType && typ == protowire.VarintType {
			v, err := src.Varint()
			if err != nil {
				return fail(err)
			}
			dtype = DType(v)
			continue
		}
		if typ != protowire.BytesType {
			if rest, err = appendField(rest, src, num, typ); err != nil {
				return fail(err)
			}
			continue
		}
		l, err := src.Varint()
		if err != nil {
			return fail(err)
		}
		if l > uint64(end-src.Offset()) {
			return fail(errTruncated)
		}
		switch {
		case num == fieldShape:
			b, err := src.Next(int(l))
			if err != nil {
				return fail(err)
			}
			if shape, err = appendShape(shape, b); err != nil {
				return fail(err)
			}
		case num == fieldContent && t == nil && l > 0 && dtype.Size() > 0 && contentFits(dtype, shape, l):
			if t, err = New(pool, dtype, shape); err != nil {
				return nil, err
			}
			if err := src.ReadFull(t.data); err != nil {
				return fail(err)
			}
		default:
			b, err := src.Next(int(l))
			if err != nil {
				return fail(err)
			}
			rest = protowire.AppendTag(rest, num, typ)
			rest = protowire.AppendBytes(rest, b)
		}
	}
	if src.Offset() != end {
		return fail(errTruncated)
	}
	if t != nil && len(rest) == 0 && t.dtype == dtype && t.shape.Equal(shape) {
		return t, nil
	}
	// The rare ways: typed lists, or content before its type or shape.
	var p tensorpb.TensorProto
	if err := Unmarshal(rest, &p); err != nil {
		if status.CodeOf(err) == status.ResourceExhausted {
			return fail(err)
		}
		return fail(status.InvalidArgumentf("A tensor's message is malformed: %v", err))
	}
	p.Dtype = dtype.Proto()
	if p.TensorShape == nil {
		p.TensorShape = shape.Proto()
	}
	if t != nil {
		p.TensorContent = append([]byte(nil), t.Data()...)
		t.Release()
		t = nil
	}
	return FromTensorProto(&p, pool)
}

func contentFits(dtype DType, shape Shape, l uint64) bool {
	n, err := shape.NumElements()
	return err == nil && n <= math.MaxInt64/16 && uint64(n)*uint64(dtype.Size()) == l
}

func appendField(dst []byte, src Source, num protowire.Number, typ protowire.Type) ([]byte, error) {
	dst = protowire.AppendTag(dst, num, typ)
	var n int
	switch typ {
	case protowire.VarintType:
		v, err := src.Varint()
		return protowire.AppendVarint(dst, v), err
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	default:
		return nil, errTruncated
	}
	b, err := src.Next(n)
	return append(dst, b...), err
}

// appendShape reads a tensorflow.TensorShapeProto.
func appendShape(shape Shape, b []byte) (Shape, error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, errTruncated
		}
		b = b[n:]
		if num != fieldDim || typ != protowire.BytesType {
			if num == 3 && typ == protowire.VarintType { // unknown_rank
				if v, _ := protowire.ConsumeVarint(b); v != 0 {
					return nil, status.InvalidArgumentf("A tensor's shape must be fully known")
				}
			}
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return nil, errTruncated
			}
			b = b[n:]
			continue
		}
		dim, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return nil, errTruncated
		}
		b = b[n:]
		size, err := readDim(dim)
		if err != nil {
			return nil, err
		}
		if shape = append(shape, size); len(shape) > MaxRank {
			return nil, status.InvalidArgumentf("A tensor may have at most %d dimensions", MaxRank)
		}
	}
	return shape, nil
}

func readDim(b []byte) (size int64, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, errTruncated
		}
		b = b[n:]
		if num == fieldSize && typ == protowire.VarintType {
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return 0, errTruncated
			}
			size, b = int64(v), b[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return 0, errTruncated
		}
		b = b[n:]
	}
	return size, nil
}

// Bytes is a Source over one slice.
type Bytes struct {
	data []byte
	off  int
}

// NewBytes makes a Source over b.
func NewBytes(b []byte) *Bytes { return &Bytes{data: b} }

// Next returns the next n bytes without copying.
func (s *Bytes) Next(n int) ([]byte, error) {
	if n < 0 || n > len(s.data)-s.off {
		return nil, errTruncated
	}
	s.off += n
	return s.data[s.off-n : s.off : s.off], nil
}

// ReadFull fills dst.
func (s *Bytes) ReadFull(dst []byte) error {
	b, err := s.Next(len(dst))
	Copy(dst, b)
	return err
}

// Varint reads one varint.
func (s *Bytes) Varint() (uint64, error) {
	v, n := protowire.ConsumeVarint(s.data[s.off:])
	if n < 0 {
		return 0, errTruncated
	}
	s.off += n
	return v, nil
}

// Offset is the number of bytes read.
func (s *Bytes) Offset() int { return s.off }

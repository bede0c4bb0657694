package tensor

import (
	"math"
	"unsafe"

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

// packedApart is the size in bytes from which AppendWire returns packed strings separately instead of appending them.
const packedApart = 4 << 10

// AppendMessage appends the tensor's whole encoding as a tensorflow.TensorProto. Unlike Proto, it needs no memory but that of the message. It fails
// when ended, which may be nil, returns an error.
func (t *Tensor) AppendMessage(dst []byte, ended func() error) ([]byte, error) {
	head, content, err := t.AppendWireUntil(dst, ended)
	return append(head, content...), err
}

// AppendWire appends the tensor's encoding as a tensorflow.TensorProto, except for the bytes of a tensor_content, which must follow: the
// tensor's Data, sent from its own memory, or a large list of strings or variants. content is nil if everything was appended. Strings are packed, as
// in TensorFlow's messages, so a reader does not need one field per string.
func (t *Tensor) AppendWire(dst []byte) (head, content []byte, err error) {
	return t.AppendWireUntil(dst, nil)
}

// AppendWireUntil is like AppendWire, but fails when ended returns an error: a tensor may hold many variants.
func (t *Tensor) AppendWireUntil(dst []byte, ended func() error) (head, content []byte, err error) {
	if t.dtype == Variant {
		return t.appendVariants(dst, ended)
	}
	dst = t.appendHead(dst)
	switch e := t.elems.(type) {
	case nil:
		if len(t.Data()) == 0 {
			return dst, nil, nil
		}
		dst = protowire.AppendTag(dst, fieldContent, protowire.BytesType)
		return protowire.AppendVarint(dst, uint64(len(t.Data()))), t.Data(), nil
	case []string:
		if len(e) == 0 {
			return dst, nil, nil
		}
		size := 0
		for _, s := range e {
			size += protowire.SizeBytes(len(s))
		}
		dst = protowire.AppendTag(dst, fieldContent, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(size))
		if size < packedApart {
			return appendPacked(dst, e), nil, nil
		}
		return dst, appendPacked(make([]byte, 0, size), e), nil
	case []Handle:
		p := tensorpb.TensorProto{}
		for _, h := range e {
			p.ResourceHandleVal = append(p.ResourceHandleVal, h.Proto())
		}
		dst, err = proto.MarshalOptions{}.MarshalAppend(dst, &p)
		return dst, nil, err
	}
	return nil, nil, status.Internalf("A tensor of type %v has no elements", t.dtype)
}

// appendHead appends the fields of the tensor's type and shape.
func (t *Tensor) appendHead(dst []byte) []byte {
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
	return dst
}

// appendPacked appends strings in the format of a tensor_content: all lengths as varints, then all bytes
// (tensorflow/core/platform/tensor_coding.cc).
func appendPacked(dst []byte, list []string) []byte {
	for _, s := range list {
		dst = protowire.AppendVarint(dst, uint64(len(s)))
	}
	for _, s := range list {
		dst = append(dst, s...)
	}
	return dst
}

// dimSize returns the size of a dimension's message, in which zero is omitted.
func dimSize(d int64) int {
	if d == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(d))
}

// Source is what ReadWire reads from: a message that may be in several pieces.
type Source interface {
	// Next returns n bytes, which are valid until the next method call; it may copy.
	Next(n int) ([]byte, error)
	// ReadFull fills dst.
	ReadFull(dst []byte) error
	// Varint reads one varint.
	Varint() (uint64, error)
	// Offset returns the number of bytes read.
	Offset() int
}

// errTruncated is the error for a message that is truncated or inconsistent.
var errTruncated = status.InvalidArgumentf("A tensor's message is malformed")

// ReadWire decodes a tensorflow.TensorProto of n bytes. tensor_content is copied once, directly into the tensor's memory from pool, and so
// are strings. Everything else goes through the general parser.
func ReadWire(src Source, n int, pool *Pool) (*Tensor, error) {
	return ReadWireUntil(src, n, pool, nil)
}

// ReadWireUntil is like ReadWire, but fails when ended, which may be nil, returns an error: a message may hold many strings and variants.
func ReadWireUntil(src Source, n int, pool *Pool, ended func() error) (*Tensor, error) {
	look := lookout{ended: ended}
	end := src.Offset() + n
	var rest []byte // the fields that the fast path does not handle
	var dtype DType
	var shape Shape
	var t *Tensor
	var texts texts
	shaped, packed := false, false
	fail := func(err error) (*Tensor, error) {
		if t != nil {
			t.Release()
		}
		return nil, err
	}
	for src.Offset() < end {
		if err := look.another(); err != nil {
			return fail(err)
		}
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
			if shaped = true; texts.n > 0 {
				return fail(errTruncated) // a shape in two parts with strings in between, which no program writes
			}
		case num == fieldContent && t == nil && l > 0 && dtype.Size() > 0 && contentFits(dtype, shape, l):
			if t, err = New(pool, dtype, shape); err != nil {
				return nil, err
			}
			if err := src.ReadFull(t.data); err != nil {
				return fail(err)
			}
			if err := t.checkBools(); err != nil {
				return fail(err)
			}
		case num == fieldContent && t == nil && l > 0 && dtype == String && shaped && len(rest) == 0 && holdsElements(shape):
			b, err := src.Next(int(l))
			if err != nil {
				return fail(err)
			}
			if t, err = unpackStrings(b, shape, pool, ended); err != nil {
				return nil, err
			}
			packed = true
		default:
			b, err := src.Next(int(l))
			if err != nil {
				return fail(err)
			}
			if packed && num == fieldString {
				continue // tensor_content takes precedence
			}
			if num == fieldString && dtype == String && shaped && len(rest) == 0 {
				if t == nil {
					if t, err = New(pool, dtype, shape); err != nil {
						return nil, err
					}
				}
				texts.put(t, b)
				continue
			}
			rest = protowire.AppendTag(rest, num, typ)
			rest = protowire.AppendBytes(rest, b)
		}
	}
	if src.Offset() != end {
		return fail(errTruncated)
	}
	if t != nil && len(rest) == 0 && t.dtype == dtype && t.shape.Equal(shape) {
		if err := texts.end(t, pool); err != nil {
			return fail(err)
		}
		return t, nil
	}
	// The rare cases: typed lists, or content before its type or shape.
	var p tensorpb.TensorProto
	if err := UnmarshalUntil(rest, &p, ended); err != nil {
		if status.CodeOf(err) == status.ResourceExhausted || ended != nil && ended() != nil {
			return fail(err)
		}
		return fail(status.InvalidArgumentf("A tensor's message is malformed: %v", err))
	}
	p.Dtype = dtype.Proto()
	if p.TensorShape == nil {
		p.TensorShape = shape.Proto()
	}
	if t != nil {
		switch {
		case packed:
			p.TensorContent = appendPacked(nil, t.Strings())
		case t.dtype == String:
			p.StringVal = append(texts.messages(t), p.StringVal...)
		default:
			p.TensorContent = append([]byte(nil), t.Data()...)
		}
		t.Release()
		t = nil
	}
	return FromTensorProtoUntil(&p, pool, ended)
}

// lookout checks in a loop of short iterations whether its result is still wanted.
type lookout struct {
	ended func() error // may be nil
	n     int
}

// looksEach is the number of iterations, of some tens of nanoseconds each, between a lookout's checks.
const looksEach = 16 << 10

// another counts an iteration. It returns ended's error.
func (l *lookout) another() error {
	if l.n++; l.n%looksEach != 0 || l.ended == nil {
		return nil
	}
	return l.ended()
}

// texts collects the strings of a message as they arrive.
type texts struct {
	n     int // strings so far
	bytes int64
	room  []byte // for the next short ones
}

// roomOfTexts is the size in bytes of the chunks of memory that short strings share, so that most need no allocation of their own. Any of
// the strings keeps its whole chunk alive.
const roomOfTexts = 512

// put stores b as the next element of t. Extra strings are dropped, as in FromTensorProto.
func (x *texts) put(t *Tensor, b []byte) {
	if x.n >= t.n {
		return
	}
	var s string
	switch {
	case len(b) > roomOfTexts/8:
		s = string(b)
	case len(b) > 0:
		if len(b) > len(x.room) {
			x.room = make([]byte, roomOfTexts)
		}
		s = unsafe.String(&x.room[0], copy(x.room, b)) // this part of room is not written to again
		x.room = x.room[len(b):]
	}
	t.Strings()[x.n] = s
	x.n++
	x.bytes += int64(len(b))
}

// end fills the remaining elements of t with the last string, and counts the strings' bytes in a pool.
func (x *texts) end(t *Tensor, pool *Pool) error {
	if x.n == 0 {
		return nil
	}
	list := t.Strings()
	for i := x.n; i < len(list); i++ {
		list[i] = list[x.n-1]
	}
	return t.countStrings(pool, x.bytes)
}

// messages returns the strings received so far in the form of a tensorflow.TensorProto.
func (x *texts) messages(t *Tensor) [][]byte {
	all := make([][]byte, x.n)
	for i, s := range t.Strings()[:x.n] {
		all[i] = []byte(s)
	}
	return all
}

// unpackStrings decodes the strings of a tensor_content, in the format of appendPacked.
func unpackStrings(content []byte, shape Shape, pool *Pool, ended func() error) (*Tensor, error) {
	n, err := shape.NumElements()
	if err != nil {
		return nil, err
	}
	malformed := status.InvalidArgumentf("tensor_content of %d bytes does not hold %d strings", len(content), n)
	if n > int64(len(content)) { // each takes at least one byte
		return nil, malformed
	}
	b := content
	for range n {
		_, size := protowire.ConsumeVarint(b)
		if size < 0 {
			return nil, malformed
		}
		b = b[size:]
	}
	t, err := New(pool, String, shape)
	if err != nil {
		return nil, err
	}
	if err := t.countStrings(pool, int64(len(b))); err != nil {
		t.Release()
		return nil, err
	}
	var texts texts
	look := lookout{ended: ended}
	for range n {
		if err := look.another(); err != nil {
			t.Release()
			return nil, err
		}
		l, size := protowire.ConsumeVarint(content)
		if l > uint64(len(b)) {
			t.Release()
			return nil, malformed
		}
		texts.put(t, b[:l])
		b, content = b[l:], content[size:]
	}
	if len(b) > 0 {
		t.Release()
		return nil, malformed
	}
	return t, nil
}

func holdsElements(shape Shape) bool {
	n, err := shape.NumElements()
	return err == nil && n > 0
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

// appendShape decodes a tensorflow.TensorShapeProto.
func appendShape(shape Shape, b []byte) (Shape, error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, errTruncated
		}
		b = b[n:]
		if num != fieldDim || typ != protowire.BytesType {
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

// NewBytes returns a Source over b.
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

// Offset returns the number of bytes read.
func (s *Bytes) Offset() int { return s.off }

package wire

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Pieces is a message that is being received.
type Pieces interface {
	// Piece gives the next bytes, at least one, which are valid until the next call of a method.
	Piece() ([]byte, error)
	// ReadFull fills dst with the next bytes.
	ReadFull(dst []byte) error
}

// Reader walks over a protobuf message that lies in pieces, as a transport received it, or that is still being
// received. It is a tensor.Source.
type Reader struct {
	rest mem.BufferSlice
	from Pieces // what follows rest; nil for nothing
	cur  []byte
	off  int
	end  int
	err  error // of from
}

var _ tensor.Source = (*Reader)(nil)

// ErrMalformed is the error of a message that ends too early or contradicts itself.
var ErrMalformed = status.InvalidArgumentf("The message is malformed")

// NewReader reads a message that is there. Nothing that was not copied is valid when its buffers are let go.
func NewReader(data mem.BufferSlice) Reader { return Reader{rest: data, end: data.Len()} }

// ReadFrom reads a message of so many bytes as it comes.
func ReadFrom(pieces Pieces, size int) Reader { return Reader{from: pieces, end: size} }

// short is why the message goes no further.
func (r *Reader) short() error {
	if r.err != nil {
		return r.err
	}
	return ErrMalformed
}

// End is the message's length in bytes.
func (r *Reader) End() int { return r.end }

// fill makes cur hold something, unless the message is at its end.
func (r *Reader) fill() bool {
	for len(r.cur) == 0 {
		if len(r.rest) == 0 {
			if r.from == nil || r.off == r.end || r.err != nil {
				return false
			}
			r.cur, r.err = r.from.Piece()
			return r.err == nil
		}
		r.cur, r.rest = r.rest[0].ReadOnlyData(), r.rest[1:]
	}
	return true
}

// Offset is the number of bytes read.
func (r *Reader) Offset() int { return r.off }

// Varint reads one varint, which may be cut between pieces.
func (r *Reader) Varint() (uint64, error) {
	if v, n := protowire.ConsumeVarint(r.cur); n > 0 {
		r.cur = r.cur[n:]
		r.off += n
		return v, nil
	}
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		if !r.fill() {
			return 0, r.short()
		}
		b := r.cur[0]
		r.cur = r.cur[1:]
		r.off++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, ErrMalformed
}

// ReadFull fills dst.
func (r *Reader) ReadFull(dst []byte) error {
	for len(dst) > 0 {
		if len(r.cur) == 0 && len(r.rest) == 0 && r.from != nil {
			r.off += len(dst)
			return r.from.ReadFull(dst)
		}
		if !r.fill() {
			return r.short()
		}
		n := copy(dst, r.cur)
		dst, r.cur = dst[n:], r.cur[n:]
		r.off += n
	}
	return nil
}

// Next returns n bytes, without a copy where they lie in one piece. They are valid until the next call of a method.
func (r *Reader) Next(n int) ([]byte, error) {
	if n < 0 || n > r.end-r.off {
		return nil, ErrMalformed
	}
	if n <= len(r.cur) {
		b := r.cur[:n:n]
		r.cur = r.cur[n:]
		r.off += n
		return b, nil
	}
	b := make([]byte, n)
	return b, r.ReadFull(b)
}

// Discard passes over n bytes.
func (r *Reader) Discard(n int) error {
	for n > 0 {
		if !r.fill() {
			return r.short()
		}
		k := min(n, len(r.cur))
		r.cur, r.off, n = r.cur[k:], r.off+k, n-k
	}
	return nil
}

// Text reads a length-prefixed string.
func (r *Reader) Text() (string, error) {
	n, err := r.Length()
	if err != nil {
		return "", err
	}
	b, err := r.Next(n)
	return string(b), err
}

// TextLike is Text, and likely gives the same string as before.
func (r *Reader) TextLike(before string) (string, error) {
	n, err := r.Length()
	if err != nil {
		return "", err
	}
	b, err := r.Next(n)
	if string(b) == before {
		return before, err
	}
	return string(b), err
}

// Length reads a length and checks it against what is left.
func (r *Reader) Length() (int, error) {
	n, err := r.Varint()
	if err != nil {
		return 0, err
	}
	if n > uint64(r.end-r.off) {
		return 0, ErrMalformed
	}
	return int(n), nil
}

// Fields calls read for each field of a message of n bytes; read returns false for a field that
// it does not know, which is passed over.
func (r *Reader) Fields(n int, read func(num protowire.Number, typ protowire.Type) (bool, error)) error {
	end := r.off + n
	for r.off < end {
		tag, err := r.Varint()
		if err != nil {
			return err
		}
		num, typ := protowire.DecodeTag(tag)
		known, err := read(num, typ)
		if err == nil && !known {
			err = r.skip(typ)
		}
		if err != nil {
			return err
		}
	}
	if r.off != end {
		return ErrMalformed
	}
	return nil
}

func (r *Reader) skip(typ protowire.Type) error {
	var n int
	var err error
	switch typ {
	case protowire.VarintType:
		_, err = r.Varint()
		return err
	case protowire.BytesType:
		n, err = r.Length()
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	default:
		return ErrMalformed
	}
	if err != nil {
		return err
	}
	return r.Discard(n)
}

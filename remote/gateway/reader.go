package gateway

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// reader walks over a message that lies in pieces, as the transport received it. It is a
// tensor.Source.
type reader struct {
	rest mem.BufferSlice
	cur  []byte
	off  int
	end  int
}

var _ tensor.Source = (*reader)(nil)

var errTruncated = status.InvalidArgumentf("The request's message is malformed")

func newReader(data mem.BufferSlice) reader { return reader{rest: data, end: data.Len()} }

// fill makes cur hold something, unless the message is at its end.
func (r *reader) fill() bool {
	for len(r.cur) == 0 {
		if len(r.rest) == 0 {
			return false
		}
		r.cur, r.rest = r.rest[0].ReadOnlyData(), r.rest[1:]
	}
	return true
}

// Offset is the number of bytes read.
func (r *reader) Offset() int { return r.off }

// Varint reads one varint, which may be cut between pieces.
func (r *reader) Varint() (uint64, error) {
	if v, n := protowire.ConsumeVarint(r.cur); n > 0 {
		r.cur = r.cur[n:]
		r.off += n
		return v, nil
	}
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		if !r.fill() {
			return 0, errTruncated
		}
		b := r.cur[0]
		r.cur = r.cur[1:]
		r.off++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, errTruncated
}

// ReadFull fills dst.
func (r *reader) ReadFull(dst []byte) error {
	for len(dst) > 0 {
		if !r.fill() {
			return errTruncated
		}
		n := copy(dst, r.cur)
		dst, r.cur = dst[n:], r.cur[n:]
		r.off += n
	}
	return nil
}

// Next returns n bytes, without a copy where they lie in one piece.
func (r *reader) Next(n int) ([]byte, error) {
	if n < 0 || n > r.end-r.off {
		return nil, errTruncated
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

// discard passes over n bytes.
func (r *reader) discard(n int) error {
	for n > 0 {
		if !r.fill() {
			return errTruncated
		}
		k := min(n, len(r.cur))
		r.cur, r.off, n = r.cur[k:], r.off+k, n-k
	}
	return nil
}

// text reads a length-prefixed string.
func (r *reader) text() (string, error) {
	n, err := r.length()
	if err != nil {
		return "", err
	}
	b, err := r.Next(n)
	return string(b), err
}

// textLike is text, and likely gives the same string as before.
func (r *reader) textLike(before string) (string, error) {
	n, err := r.length()
	if err != nil {
		return "", err
	}
	b, err := r.Next(n)
	if string(b) == before {
		return before, err
	}
	return string(b), err
}

// length reads a length and checks it against what is left.
func (r *reader) length() (int, error) {
	n, err := r.Varint()
	if err != nil {
		return 0, err
	}
	if n > uint64(r.end-r.off) {
		return 0, errTruncated
	}
	return int(n), nil
}

// fields calls read for each field of a message of n bytes; read returns false for a field that
// it does not know, which is passed over.
func (r *reader) fields(n int, read func(num protowire.Number, typ protowire.Type) (bool, error)) error {
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
		return errTruncated
	}
	return nil
}

func (r *reader) skip(typ protowire.Type) error {
	var n int
	var err error
	switch typ {
	case protowire.VarintType:
		_, err = r.Varint()
		return err
	case protowire.BytesType:
		n, err = r.length()
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	default:
		return errTruncated
	}
	if err != nil {
		return err
	}
	_, err = r.Next(n)
	return err
}

package wire

import (
	"hash/maphash"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Pieces is a message that is being received.
type Pieces interface {
	// Piece returns the next bytes, at least one. They are valid until the next call of a method.
	Piece() ([]byte, error)
	// ReadFull fills dst with the next bytes.
	ReadFull(dst []byte) error
}

// Reader reads a protobuf message that is in several pieces, as a transport received it, or that is still being
// received. It is a tensor.Source.
type Reader struct {
	rest mem.BufferSlice
	from Pieces // provides what follows rest; nil if nothing does
	cur  []byte
	off  int
	end  int
	err  error // of from

	ended  func() error  // nil if the message is always wanted
	looks  int           // fields until the next call of ended
	sum    *maphash.Hash // of large contents; nil if not wanted
	summed int           // bytes added to sum
}

const (
	// largeContent is the size in bytes from which a field's contents are added to a Reader's sum. They are added while they are copied and
	// still in the processor's cache, sumPiece bytes at a time.
	largeContent = 64 << 10
	sumPiece     = 64 << 10
)

// fieldLooks is the number of fields after which a Reader calls ended.
const fieldLooks = 1024

// Until makes Fields and the reading of large contents fail when ended, which may be nil, returns an error: nobody wants the message any more.
func (r *Reader) Until(ended func() error) { r.ended = ended }

// Wanted returns the function given to Until, or nil.
func (r *Reader) Wanted() func() error { return r.ended }

// Ended returns the error of the function given to Until, or nil.
func (r *Reader) Ended() error {
	if r.ended == nil {
		return nil
	}
	return r.ended()
}

// Sum adds the contents of large fields to h as they are read.
func (r *Reader) Sum(h *maphash.Hash) { r.sum = h }

// Summed returns how many bytes were added to the sum.
func (r *Reader) Summed() int { return r.summed }

var _ tensor.Source = (*Reader)(nil)

// ErrMalformed is the error of a message that ends too early or contradicts itself.
var ErrMalformed = status.InvalidArgumentf("The message is malformed")

// NewReader returns a Reader of a complete message. Results that were not copied become invalid when its buffers are freed.
func NewReader(data mem.BufferSlice) Reader { return Reader{rest: data, end: data.Len()} }

// ReadFrom returns a Reader of a message of size bytes that is being received.
func ReadFrom(pieces Pieces, size int) Reader { return Reader{from: pieces, end: size} }

// short returns why the message ends early.
func (r *Reader) short() error {
	if r.err != nil {
		return r.err
	}
	return ErrMalformed
}

// End returns the message's length in bytes.
func (r *Reader) End() int { return r.end }

// fill makes cur non-empty. It returns false at the end of the message or after an error.
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

// Offset returns the number of bytes read.
func (r *Reader) Offset() int { return r.off }

// Varint reads one varint, which may be split across pieces.
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
	if r.sum == nil || len(dst) < largeContent {
		return r.readFull(dst)
	}
	for len(dst) > 0 {
		piece := dst[:min(len(dst), sumPiece)]
		if err := r.readFull(piece); err != nil {
			return err
		}
		_, _ = r.sum.Write(piece) // never fails
		r.summed += len(piece)
		dst = dst[len(piece):]
	}
	return nil
}

func (r *Reader) readFull(dst []byte) error {
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

// Next returns n bytes, without a copy if they are in one piece. They are valid until the next call of a method.
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

// Discard skips n bytes.
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

// TextLike is Text, but returns before if the text equals it, which saves an allocation.
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

// Length reads a length and checks that so many bytes are left.
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

// Fields calls read for each field of a message of n bytes. read returns false for an unknown
// field, which is then skipped.
func (r *Reader) Fields(n int, read func(num protowire.Number, typ protowire.Type) (bool, error)) error {
	end := r.off + n
	for r.off < end {
		if r.looks--; r.looks < 0 {
			r.looks = fieldLooks
			if err := r.Ended(); err != nil {
				return err
			}
		}
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

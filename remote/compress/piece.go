package compress

import (
	"slices"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
)

// Append appends the compressed bytes of a piece to dst. width is the size, in bytes, of the piece's elements. If compression does not make
// the piece smaller, or the piece is longer than MaxPiece, ok is false and dst is returned unchanged: the piece must be sent uncompressed.
// dst must not overlap src, which is not modified. Append is safe for concurrent use.
func (a Algorithm) Append(dst, src []byte, width int) (out []byte, ok bool) {
	if a == None || !a.Valid() || len(src) == 0 || len(src) > MaxPiece {
		return dst, false
	}
	plain := src
	if a.shuffles(width) {
		b := scratches.Get().(*[]byte)
		defer scratches.Put(b)
		plain = resize(b, len(src))
		shuffle(plain, src, width)
	}
	out, ok = a.compress(slices.Grow(dst, a.bound(len(src))), plain)
	if !ok || len(out)-len(dst) >= len(src) {
		return out[:len(dst)], false
	}
	return out, true
}

// compress appends the compressed form of src to dst, which has the capacity of bound. ok is false if the algorithm is None.
func (a Algorithm) compress(dst, src []byte) (out []byte, ok bool) {
	switch a.family() {
	case familyDeflate:
		return appendDeflate(dst, src, a.level())
	case familyZstd:
		return appendZstd(dst, src, a.level())
	case familyS2:
		return appendS2(dst, src, a.level())
	}
	return dst, false
}

// bound returns the capacity that the compressor of n bytes needs to avoid allocating.
func (a Algorithm) bound(n int) int {
	if a.family() == familyS2 {
		return s2Bound(n)
	}
	return n + 64 // zstd's frame around uncompressed blocks
}

// Decompress fills dst with the decompressed src; width must be the one used for compression. It writes only to dst, and does not allocate
// in proportion to what src claims. If src is malformed, or is not a piece of exactly len(dst) bytes, the error is DATA_LOSS and dst is
// undefined. Decompress is safe for concurrent use.
func (a Algorithm) Decompress(dst, src []byte, width int) error {
	if len(dst) == 0 || len(dst) > MaxPiece {
		return status.Errorf(status.DataLoss, "A compressed piece of %d bytes; there are pieces of 1 to %d", len(dst), MaxPiece)
	}
	plain := dst
	if a.shuffles(width) {
		b := scratches.Get().(*[]byte)
		defer scratches.Put(b)
		plain = resize(b, len(dst))
	}
	var err error
	switch a.family() {
	case familyDeflate:
		err = readDeflate(plain, src)
	case familyZstd:
		err = readZstd(plain, src)
	case familyS2:
		err = readS2(plain, src)
	default:
		return status.Errorf(status.DataLoss, "A piece is compressed by the unknown algorithm %#02x", byte(a))
	}
	if err != nil {
		return status.Errorf(status.DataLoss, "A piece of %d bytes, compressed with %v, is malformed: %v", len(dst), a, err)
	}
	if a.shuffles(width) {
		unshuffle(dst, plain, width)
	}
	return nil
}

// scratches are buffers for shuffled pieces.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// resize makes *b n bytes long and returns it, with arbitrary contents.
func resize(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	return *b
}

package http2

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/troupe-run/troupe/remote/internal/freed"
)

const (
	// chunkSize is the largest piece of a message in bytes. The first piece is smallPiece for a message
	// that comes in small frames, and firstPiece for one that comes in larger frames.
	chunkSize  = 1 << chunkBits
	smallPiece = 1 << smallBits
	firstPiece = 64 << 10

	chunkBits, smallBits = 20, 14
)

// piece returns memory for n bytes of a message, at most chunkSize, with arbitrary contents. Unless it is small, it comes
// from a pool, and returns to it when freed.
func piece(n int) mem.Buffer {
	n = min(n, chunkSize)
	if n <= smallPiece {
		return mem.SliceBuffer(make([]byte, n))
	}
	b := pieces.Get(n)
	return mem.NewBuffer(b, pieces)
}

// pieceSize returns how many bytes piece allocates for n.
func pieceSize(n int) int {
	n = min(n, chunkSize)
	if n <= smallPiece {
		return n
	}
	return 1 << sizeClass(n)
}

// sizeClass returns the binary logarithm of the memory for n bytes.
func sizeClass(n int) int { return bits.Len(uint(n - 1)) }

// pieces pools the memory of messages. Pool i has pieces of 1<<(smallBits+1+i) bytes.
var pieces = &piecePool{}

type piecePool [chunkBits - smallBits]sync.Pool

func (p *piecePool) class(bits int) *sync.Pool { return &p[bits-smallBits-1] }

// Get returns n bytes, more than smallPiece and at most chunkSize, with arbitrary contents.
func (p *piecePool) Get(n int) *[]byte {
	class := sizeClass(n)
	b, ok := p.class(class).Get().(*[]byte)
	if !ok {
		fresh := make([]byte, 1<<class)
		b = &fresh
	}
	*b = (*b)[:n]
	return b
}

// Put returns memory that came from Get.
func (p *piecePool) Put(b *[]byte) {
	*b = (*b)[:cap(*b)]
	freed.Overwrite(*b)
	p.class(sizeClass(len(*b))).Put(b)
}

package http2

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

const (
	// chunkSize is the memory in bytes that a large message grows by, smallPiece what one grows by
	// that comes in small frames, and firstPiece is the first memory of one that comes in larger frames.
	chunkSize  = 1 << chunkBits
	smallPiece = 1 << smallBits
	firstPiece = 64 << 10

	chunkBits, smallBits = 20, 14
)

// piece gives memory for n bytes of a message, or for the first chunk of them, with arbitrary contents. It is from a
// pool unless it is small, and goes back to it when it is freed.
func piece(n int) mem.Buffer {
	n = min(n, chunkSize)
	if n <= smallPiece {
		return mem.SliceBuffer(make([]byte, n))
	}
	b := pieces.Get(n)
	return mem.NewBuffer(b, pieces)
}

// pieceSize is how many bytes piece takes for n.
func pieceSize(n int) int {
	n = min(n, chunkSize)
	if n <= smallPiece {
		return n
	}
	return 1 << sizeClass(n)
}

// sizeClass is the binary logarithm of the memory for n bytes.
func sizeClass(n int) int { return bits.Len(uint(n - 1)) }

// pieces are the pooled memory of messages, by its binary logarithm beyond that of small pieces.
var pieces = &piecePool{}

type piecePool [chunkBits - smallBits]sync.Pool

func (p *piecePool) class(bits int) *sync.Pool { return &p[bits-smallBits-1] }

// Get gives n bytes, more than smallPiece and at most chunkSize, with arbitrary contents.
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

// Put takes memory back that Get gave.
func (p *piecePool) Put(b *[]byte) {
	*b = (*b)[:cap(*b)]
	p.class(sizeClass(len(*b))).Put(b)
}

package link

import (
	"encoding/binary"
	"hash/crc32"
	"io"

	"google.golang.org/grpc/mem"

	"github.com/troupe-run/troupe/graph/status"
)

// A bulk stream is a sequence of frames, each one gRPC message: a fixed head, for the first
// frame of a tensor its header, and a piece of its data. The head has, in little endian:
//
//	0  uint8  kind
//	4  uint32 length of the header in bytes
//	8  uint64 step
//	16 uint64 length of the whole data
//	24 uint64 where this piece begins in the data
//	32 uint32 CRC-32C of the piece
//	36 uint32 CRC-32C of the head up to here and the header
type frame struct {
	kind   frameKind
	step   uint64
	header []byte
	total  uint64
	offset uint64

	// Sending: the piece, and what gives its memory back.
	piece []byte
	freed mem.BufferPool

	// Receiving: the piece in the transport's memory, referenced until close.
	sum uint32
	in  mem.BufferSlice
}

type frameKind uint8

const (
	frameHello   frameKind = iota + 1 // the header is a Greeting
	frameBegin                        // a tensor begins
	frameMore                         // the tensor goes on
	frameAbandon                      // the tensor ends unfinished: its step is over
)

const (
	headSize  = 40
	pieceSize = 1 << 20  // bytes that a sender puts into one frame
	maxHeader = 64 << 10 // bytes
	maxPiece  = 16 << 20 // bytes that a receiver takes in one frame
	maxTotal  = 1 << 46  // bytes: beyond any memory, and far from overflow
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MarshalWire writes the frame; the piece is not copied.
func (f *frame) MarshalWire() (mem.BufferSlice, error) {
	head := make([]byte, headSize, headSize+len(f.header))
	head[0] = byte(f.kind)
	binary.LittleEndian.PutUint32(head[4:], uint32(len(f.header)))
	binary.LittleEndian.PutUint64(head[8:], f.step)
	binary.LittleEndian.PutUint64(head[16:], f.total)
	binary.LittleEndian.PutUint64(head[24:], f.offset)
	binary.LittleEndian.PutUint32(head[32:], crc32.Checksum(f.piece, castagnoli))
	sum := crc32.Update(crc32.Checksum(head[:36], castagnoli), castagnoli, f.header)
	binary.LittleEndian.PutUint32(head[36:], sum)
	head = append(head, f.header...)
	switch {
	case len(f.piece) == 0:
		return mem.BufferSlice{mem.SliceBuffer(head)}, nil
	case mem.IsBelowBufferPoolingThreshold(len(f.piece)):
		// gRPC would not tell when it has written so little; a copy lets the memory go at once.
		head = append(head, f.piece...)
		f.freed.Put(&f.piece)
		return mem.BufferSlice{mem.SliceBuffer(head)}, nil
	}
	piece := f.piece[:len(f.piece):len(f.piece)]
	return mem.BufferSlice{mem.SliceBuffer(head), mem.NewBuffer(&piece, f.freed)}, nil
}

// UnmarshalWire reads all but the piece, which it references.
func (f *frame) UnmarshalWire(data mem.BufferSlice) error {
	n := data.Len()
	if n < headSize {
		return status.InvalidArgumentf("A frame of %d bytes is too short.", n)
	}
	reader := data.Reader()
	defer reader.Close()
	var head [headSize]byte
	if _, err := io.ReadFull(reader, head[:]); err != nil {
		return status.Internalf("reading a frame: %v", err)
	}
	size := binary.LittleEndian.Uint32(head[4:])
	if size > maxHeader || int(size) > n-headSize {
		return status.InvalidArgumentf("A frame's header of %d bytes is too long.", size)
	}
	*f = frame{kind: frameKind(head[0]), step: binary.LittleEndian.Uint64(head[8:]), total: binary.LittleEndian.Uint64(head[16:]),
		offset: binary.LittleEndian.Uint64(head[24:]), sum: binary.LittleEndian.Uint32(head[32:]), header: make([]byte, size)}
	if _, err := io.ReadFull(reader, f.header); err != nil {
		return status.Internalf("reading a frame: %v", err)
	}
	if crc32.Update(crc32.Checksum(head[:36], castagnoli), castagnoli, f.header) != binary.LittleEndian.Uint32(head[36:]) {
		return status.New(status.DataLoss, "A frame's checksum is wrong.")
	}
	piece := uint64(n - headSize - int(size))
	if piece > maxPiece || f.total > maxTotal || f.offset > f.total || piece > f.total-f.offset {
		return status.InvalidArgumentf("A frame claims bytes [%d, %d) of %d.", f.offset, f.offset+piece, f.total)
	}
	data.Ref()
	f.in = data
	return nil
}

// size is the length of a received piece.
func (f *frame) size() int { return f.in.Len() - headSize - len(f.header) }

// copyTo copies a received piece, which dst is long enough for, and checks it.
func (f *frame) copyTo(dst []byte) error {
	reader := f.in.Reader()
	defer reader.Close()
	if _, err := reader.Discard(headSize + len(f.header)); err != nil {
		return status.Internalf("reading a frame: %v", err)
	}
	dst = dst[:f.size()]
	if _, err := io.ReadFull(reader, dst); err != nil {
		return status.Internalf("reading a frame: %v", err)
	}
	if crc32.Checksum(dst, castagnoli) != f.sum {
		return status.Errorf(status.DataLoss, "The checksum of the bytes [%d, %d) of a tensor of step %d is wrong.", f.offset, f.offset+uint64(len(dst)), f.step)
	}
	return nil
}

// close lets the transport's memory of a received frame go.
func (f *frame) close() {
	f.in.Free()
	f.in = nil
}

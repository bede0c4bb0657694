package link

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/compress"
)

// A stream of tensors runs beside a link, so the link's messages do not queue behind them. It
// is a sequence of frames, each one message: a fixed head, for some kinds a header, and for some a
// piece of a tensor. The head consists of, in little endian:
//
//	0  uint8  kind
//	1  uint8  compress.Algorithm of the piece
//	2  uint8  size in bytes of the elements of a compressed piece
//	4  uint32 length of the header in bytes
//	8  uint64 step
//	16 uint64 length of the tensor
//	24 uint64 where: the offset of the piece in the tensor; or the ticket of a lent tensor (see
//	          package samehost); or the number of the frame that is answered
//	32 uint32 number: how many frames came before on the stream in the same direction
//	36 uint32 CRC-32C of the piece
//	40 uint32 CRC-32C of the head up to here and the header
//
// The sender begins with a hello and the receiver answers with a welcome or a refusal. Then
// tensors flow one way, and answers about lent tensors the other.
type frame struct {
	kind   frameKind
	step   uint64
	header []byte
	total  uint64
	where  uint64
	number uint32
	sum    uint32 // of the piece
	size   int    // bytes of the piece
	by     compress.Algorithm
	width  int // bytes of an element, if the piece is compressed
	plain  int // bytes of the tensor that the piece stands for
}

type frameKind uint8

const (
	frameHello   frameKind = iota + 1 // the header is a wire.Hello
	frameWelcome                      // the header is a wire.Welcome
	frameBegin                        // a tensor begins; the header is the sink's
	frameMore                         // the tensor continues
	frameAbandon                      // the tensor ends unfinished: its step is over
	frameAllow                        // the receiver may read the sender's memory
	frameReads                        // the receiver can read it
	frameLend                         // a tensor is in the sender's memory; the header is the sink's
	frameRead                         // a lent tensor was read
	frameUnread                       // a lent tensor could not be read: send it, and all later ones, on the stream
)

const (
	frameHead = 44       // bytes
	pieceSize = 1 << 20  // bytes that a sender puts into one frame
	maxHeader = 64 << 10 // bytes
	maxTotal  = 1 << 46  // bytes: beyond any memory, and far from overflow
)

// encode returns the head and header of a frame with that piece. It reuses the memory of buf.
func (f *frame) encode(buf, piece []byte) []byte {
	b := append(buf[:0], make([]byte, frameHead)...)
	b[0], b[1], b[2] = byte(f.kind), byte(f.by), byte(f.width)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(f.header)))
	binary.LittleEndian.PutUint64(b[8:], f.step)
	binary.LittleEndian.PutUint64(b[16:], f.total)
	binary.LittleEndian.PutUint64(b[24:], f.where)
	binary.LittleEndian.PutUint32(b[32:], f.number)
	binary.LittleEndian.PutUint32(b[36:], checksum(piece))
	sum := crc32.Update(checksum(b[:40]), castagnoli, f.header)
	binary.LittleEndian.PutUint32(b[40:], sum)
	return append(b, f.header...)
}

// readFrame reads the next frame except for its piece, which is next in the stream. Its header is stored in
// buf until the next call. Errors of the connection are returned as they are. A bad frame is INVALID_ARGUMENT
// or DATA_LOSS.
func readFrame(s Stream, number uint32, buf *[]byte) (*frame, error) {
	n, err := s.Next()
	if err != nil {
		return nil, err
	}
	if n < frameHead {
		return nil, status.InvalidArgumentf("A frame of %d bytes is too short.", n)
	}
	var b [frameHead]byte
	if err := readAll(s, b[:]); err != nil {
		return nil, err
	}
	header := binary.LittleEndian.Uint32(b[4:])
	if header > maxHeader || int(header) > n-frameHead {
		return nil, status.InvalidArgumentf("A frame's header of %d bytes is too long.", header)
	}
	f := &frame{kind: frameKind(b[0]), step: binary.LittleEndian.Uint64(b[8:]), total: binary.LittleEndian.Uint64(b[16:]),
		where: binary.LittleEndian.Uint64(b[24:]), number: binary.LittleEndian.Uint32(b[32:]), sum: binary.LittleEndian.Uint32(b[36:]),
		size: n - frameHead - int(header), by: compress.Algorithm(b[1]), width: int(b[2])}
	if f.header, err = readGrowing(s, *buf, int(header)); err != nil {
		return nil, err
	}
	*buf = f.header
	if crc32.Update(checksum(b[:40]), castagnoli, f.header) != binary.LittleEndian.Uint32(b[40:]) {
		return nil, status.New(status.DataLoss, "A frame's checksum is wrong.")
	}
	if f.number != number {
		return nil, status.Errorf(status.DataLoss, "Frame %d came where number %d was due.", f.number, number)
	}
	if b[3] != 0 || f.total > maxTotal {
		return nil, status.InvalidArgumentf("A frame claims a tensor of %d bytes.", f.total)
	}
	switch f.kind {
	case frameBegin, frameMore:
		if f.where > f.total || uint64(f.size) > f.total-f.where {
			return nil, status.InvalidArgumentf("A frame claims %d bytes from %d on of %d.", f.size, f.where, f.total)
		}
		f.plain = f.size
		if f.by != compress.None {
			// A sender compresses only whole pieces, and only those that become smaller.
			f.plain = int(min(pieceSize, f.total-f.where))
			if !f.by.Valid() || f.size >= f.plain {
				return nil, status.InvalidArgumentf("A frame has a piece of %d bytes for %d, compressed by algorithm %d.", f.size, f.plain, f.by)
			}
		}
	default:
		if f.size != 0 || f.by != compress.None {
			return nil, status.InvalidArgumentf("A frame of kind %d carries %d bytes.", f.kind, f.size)
		}
	}
	return f, nil
}

// piece reads and checks the frame's piece and stores it, decompressed, in dst, whose length is f.plain. A
// compressed piece passes through buf.
func (f *frame) piece(s Stream, dst []byte, buf *[]byte) error {
	sent := dst
	if f.by != compress.None {
		*buf = slices.Grow((*buf)[:0], f.size)[:f.size]
		sent = *buf
	}
	if err := readAll(s, sent); err != nil {
		return err
	}
	if checksum(sent) != f.sum {
		return status.Errorf(status.DataLoss, "The checksum of %d bytes from %d on of a tensor of step %d is wrong.", len(dst), f.where, f.step)
	}
	if f.by != compress.None {
		return f.by.Decompress(dst, sent, f.width)
	}
	return nil
}

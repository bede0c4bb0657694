package tfrecord

import (
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/snappy"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/files"
)

// A Snappy-compressed file is a sequence of blocks. Each is the length of the compressed block, as four bytes in big-endian order, and the
// block in Snappy's block format (tsl/lib/io/snappy).

const (
	// snappyBlock is the number of bytes in a block that a writer makes.
	snappyBlock = 256 << 10
	// maxSnappyBlock limits the bytes of a block that is read, compressed or not. TensorFlow's buffers hold at most 2 GiB.
	maxSnappyBlock = 1 << 31
)

// snappyWriter buffers writes until they fill a block.
type snappyWriter struct {
	file   io.Writer
	buffer []byte
	out    []byte
}

func (w *snappyWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part := min(len(p), snappyBlock-len(w.buffer))
		w.buffer, p = append(w.buffer, p[:part]...), p[part:]
		if len(w.buffer) == snappyBlock {
			if err := w.Flush(); err != nil {
				return n - len(p), err
			}
		}
	}
	return n, nil
}

// Flush writes the buffered bytes as a block.
func (w *snappyWriter) Flush() error {
	if len(w.buffer) == 0 {
		return nil
	}
	need := 4 + snappy.MaxEncodedLen(len(w.buffer))
	if cap(w.out) < need {
		w.out = make([]byte, need)
	}
	block := snappy.Encode(w.out[4:need], w.buffer)
	w.buffer = w.buffer[:0]
	binary.BigEndian.PutUint32(w.out[:4], uint32(len(block)))
	_, err := w.file.Write(w.out[:4+len(block)])
	return err
}

func (w *snappyWriter) Close() error { return w.Flush() }

// snappyReader reads the content of the blocks.
type snappyReader struct {
	file  io.Reader
	block []byte
	plain []byte
	rest  []byte // of plain
}

func (r *snappyReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *snappyReader) next() error {
	var header [4]byte
	if _, err := io.ReadFull(r.file, header[:]); err != nil {
		return err // io.EOF, even within the length
	}
	size := int64(binary.BigEndian.Uint32(header[:]))
	if size > maxSnappyBlock {
		return status.Errorf(status.DataLoss, "a Snappy block has %d bytes, more than the limit of %d", size, int64(maxSnappyBlock))
	}
	var err error
	if r.block, err = files.Fill(r.file, r.block, int(size), "a Snappy block"); err != nil {
		return err
	}
	n, err := snappy.DecodedLen(r.block)
	// A block is at most about 21 times its compressed size; a larger length is forged.
	if err != nil || n > maxSnappyBlock || n > 64+64*len(r.block) {
		return status.New(status.DataLoss, "a Snappy block has a length that is not valid")
	}
	if cap(r.plain) < n {
		if err := files.Reserve("a Snappy block", int64(n)); err != nil {
			return err
		}
		defer tensor.Host.Unreserve(int64(n)) // from then on, it is part of the heap
		r.plain = make([]byte, n)
	}
	if r.rest, err = snappy.Decode(r.plain[:cap(r.plain)], r.block); err != nil {
		return status.New(status.DataLoss, "a Snappy block is corrupted")
	}
	return nil
}

package tfrecord

import (
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"github.com/troupe-run/troupe/graph/status"
)

// keepBuffer is the largest record whose buffer a writer keeps for reuse.
const keepBuffer = 1 << 20

// A Writer appends records to a file. It is not safe for concurrent use.
type Writer struct {
	out        io.Writer
	compressor interface {
		io.WriteCloser
		Flush() error
	}
	buffer []byte
	closed bool
}

// NewWriter returns a Writer to w, compressed with c. Without compression, each record is one call of w.Write, so a process that dies
// leaves at most its last record incomplete. The caller owns w and closes it after Close.
func NewWriter(w io.Writer, c Compression) *Writer {
	switch c {
	case ZLIB:
		z := zlib.NewWriter(w)
		return &Writer{out: z, compressor: z}
	case GZIP:
		z := gzip.NewWriter(w)
		return &Writer{out: z, compressor: z}
	}
	if c == Snappy {
		s := &snappyWriter{file: w}
		return &Writer{out: s, compressor: s}
	}
	return &Writer{out: w}
}

// Write appends one record.
func (w *Writer) Write(record []byte) error {
	if w.closed {
		return status.New(status.FailedPrecondition, "Writer not initialized or previously closed")
	}
	_, err := w.out.Write(w.frame(record))
	return err
}

func (w *Writer) frame(record []byte) []byte {
	b := Append(w.buffer[:0], record)
	if cap(b) <= keepBuffer {
		w.buffer = b
	}
	return b
}

// Append appends the bytes of a record to file, uncompressed.
func Append(file, record []byte) []byte {
	start := len(file)
	file = binary.LittleEndian.AppendUint64(file, uint64(len(record)))
	file = binary.LittleEndian.AppendUint32(file, checksum(file[start:]))
	file = append(file, record...)
	return binary.LittleEndian.AppendUint32(file, checksum(record))
}

// Flush writes all buffered data to the file. It makes compressed files somewhat larger.
func (w *Writer) Flush() error {
	if w.closed {
		return status.New(status.FailedPrecondition, "Writer not initialized or previously closed")
	}
	if w.compressor == nil {
		return nil
	}
	return w.compressor.Flush()
}

// Close ends a compressed file. Nothing can be written after it. Closing again does nothing.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed, w.buffer = true, nil
	if w.compressor == nil {
		return nil
	}
	return w.compressor.Close()
}

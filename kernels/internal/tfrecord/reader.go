package tfrecord

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/files"
)

// readAhead is the size of a reader's buffer.
const readAhead = 64 << 10

// A Reader returns the records of a file one after the other. It is not safe for concurrent use.
type Reader struct {
	in     io.Reader
	limit  uint64
	offset uint64
	record []byte
	err    error
}

// NewReader returns a Reader of r, which is compressed with c. A record of more than limit bytes is rejected; a limit of 0 means no limit.
// The caller owns and closes r.
func NewReader(r io.Reader, c Compression, limit uint64) *Reader {
	in := bufio.NewReaderSize(r, readAhead)
	if limit == 0 {
		limit = math.MaxInt - headerSize - footerSize
	}
	if c == None {
		return &Reader{in: in, limit: limit}
	}
	return &Reader{in: &inflater{file: in, compression: c}, limit: limit}
}

// Offset returns where the next record begins, in uncompressed bytes.
func (r *Reader) Offset() uint64 { return r.offset }

// Next returns the next record, in memory that the next call overwrites. At the end of the file, even within a header, the error is io.EOF.
// A truncated or corrupted record is DATA_LOSS, one beyond the limit RESOURCE_EXHAUSTED; the file's own errors are returned unchanged.
// After an error, every further call returns the same error.
func (r *Reader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	record, err := r.read()
	if err != nil {
		r.err, r.record = err, nil
		return nil, err
	}
	return record, nil
}

func (r *Reader) read() ([]byte, error) {
	var header [headerSize]byte
	switch _, err := io.ReadFull(r.in, header[:]); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, io.EOF
	case err != nil:
		return nil, err
	}
	if binary.LittleEndian.Uint32(header[8:]) != checksum(header[:8]) {
		return nil, corrupted(r.offset)
	}
	length := binary.LittleEndian.Uint64(header[:])
	switch {
	case length >= math.MaxUint64-footerSize:
		return nil, status.New(status.DataLoss, "record size too large")
	case length > r.limit:
		return nil, status.Errorf(status.ResourceExhausted, "record at %d has %d bytes, more than the limit of %d", r.offset, length, r.limit)
	}
	data, err := r.take(int(length) + footerSize)
	switch {
	case errors.Is(err, io.EOF):
		return nil, status.Errorf(status.DataLoss, "truncated record at %d' failed with %s", r.offset, r.endOfFile())
	case err != nil:
		return nil, err
	}
	data, crc := data[:length], binary.LittleEndian.Uint32(data[length:])
	if crc != checksum(data) {
		return nil, corrupted(r.offset + headerSize)
	}
	r.offset += headerSize + length + footerSize
	return data, nil
}

func corrupted(offset uint64) error {
	hint := ""
	if offset == 0 {
		hint = " (Is this even a TFRecord file?)"
	}
	return status.Errorf(status.DataLoss, "corrupted record at %d%s", offset, hint)
}

// endOfFile returns TensorFlow's wording for the end of a plain or a compressed file.
func (r *Reader) endOfFile() string {
	if _, ok := r.in.(*inflater); ok {
		return "EOF reached"
	}
	return "Read less bytes than requested"
}

// take reads n bytes. A length with a valid checksum may still be forged. It returns io.EOF if the data ends before that.
func (r *Reader) take(n int) (b []byte, err error) {
	if b, err = files.Fill(r.in, r.record, n, "a record"); err == nil {
		r.record = b
	}
	return b, err
}

// An inflater decompresses a file. It opens the file with the first read, so creating one neither blocks nor fails.
type inflater struct {
	file        io.Reader
	compression Compression
	open        io.Reader
}

func (f *inflater) Read(p []byte) (int, error) {
	if f.open == nil {
		var err error
		switch f.compression {
		case ZLIB:
			f.open, err = zlib.NewReader(f.file)
		case Snappy:
			f.open = &snappyReader{file: f.file}
		default:
			f.open, err = gzip.NewReader(f.file)
		}
		if err != nil {
			f.open = nil
			return 0, inflateError(err)
		}
	}
	n, err := f.open.Read(p)
	return n, inflateError(err)
}

// inflateError describes corrupt compressed data as zlib does. Truncated data is an end of file.
func inflateError(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.EOF
	case errors.Is(err, zlib.ErrHeader), errors.Is(err, gzip.ErrHeader):
		return status.New(status.DataLoss, "inflate() failed with error -3: incorrect header check")
	case errors.Is(err, zlib.ErrChecksum), errors.Is(err, gzip.ErrChecksum):
		return status.New(status.DataLoss, "inflate() failed with error -3: incorrect data check")
	case errors.Is(err, zlib.ErrDictionary):
		return status.New(status.DataLoss, "inflate() failed with error 2: need dictionary")
	case errors.As(err, &corrupt):
		return status.Errorf(status.DataLoss, "inflate() failed with error -3: invalid data near byte %d", int64(corrupt))
	}
	return err
}

// NewInflater returns a reader that decompresses r, with ZLIB or GZIP. Corrupt data is DATA_LOSS; truncated data ends with io.EOF, as in
// TensorFlow.
func NewInflater(r io.Reader, c Compression) io.Reader { return &inflater{file: r, compression: c} }

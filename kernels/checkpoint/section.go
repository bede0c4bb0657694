package checkpoint

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// section reads a part of a file and checksums the data.
type section struct {
	src      Source
	off, end int64
	crc      uint32
}

func (s *section) Read(p []byte) (int, error) {
	if s.off >= s.end {
		return 0, io.EOF
	}
	n, err := s.src.ReadAt(p[:min(int64(len(p)), s.end-s.off)], s.off)
	s.crc = crc32.Update(s.crc, castagnoli, p[:n])
	s.off += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// reader reads a section through a buffer.
type reader struct {
	*bufio.Reader
	from *section
}

func newReader(s *section) *reader {
	return &reader{bufio.NewReaderSize(s, int(min(s.end-s.off, chunk))), s}
}

// left returns the number of unread bytes in the section.
func (r *reader) left() int64 { return r.from.end - r.from.off + int64(r.Buffered()) }

// discard reads and drops n bytes, which count for the checksum.
func (r *reader) discard(n int64) error {
	for n > 0 {
		k, err := r.Discard(int(min(n, 1<<30)))
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// jump skips n bytes, which do not count for the checksum.
func (r *reader) jump(n int64) {
	if b := int64(r.Buffered()); n > b {
		r.from.off += n - b
		r.Reset(r.from)
	} else {
		_, _ = r.Discard(int(n)) // they are buffered
	}
}

// text reads a string of n bytes. It allocates memory only if the section has that many bytes left.
func (r *reader) text(n uint64) (string, error) {
	if n > uint64(r.left()) {
		return "", io.ErrUnexpectedEOF
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return unsafe.String(unsafe.SliceData(b), len(b)), err
}

// readStrings fills list with what writeStrings wrote, and returns the checksum that the entry should have.
func readStrings(r *reader, list []string, big bool) (crc uint32, err error) {
	var order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	} = binary.LittleEndian
	if big {
		order = binary.BigEndian
	}
	var buf [8]byte
	lengths := make([]uint64, len(list))
	for i := range lengths {
		if lengths[i], err = binary.ReadUvarint(r); err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, appendLength(buf[:0], lengths[i], order))
	}
	if _, err := io.ReadFull(r, buf[:4]); err != nil {
		return 0, err
	}
	if want := unmask(order.Uint32(buf[:4])); want != crc {
		return 0, status.Errorf(status.DataLoss, "The length checksum does not match: expected %08d but actual is %08d", want, crc)
	}
	crc = crc32.Update(crc, castagnoli, buf[:4])
	for i, n := range lengths {
		if list[i], err = r.text(n); err != nil {
			return 0, err
		}
		crc = updateString(crc, list[i])
	}
	return crc, nil
}

// readVariants fills list with what writeVariants wrote, and returns the checksum that the entry should have.
func readVariants(r *reader, list []any, codec Codec) (crc uint32, err error) {
	var buf [8]byte
	for i := range list {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return 0, err
		}
		data, err := r.text(n)
		if err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, binary.LittleEndian.AppendUint64(buf[:0], n))
		crc = updateString(crc, data)
		if _, err := io.ReadFull(r, buf[:4]); err != nil {
			return 0, err
		}
		if want := unmask(binary.LittleEndian.Uint32(buf[:4])); want != crc {
			return 0, status.Errorf(status.DataLoss, "The checksum after Variant %d does not match. Expected: %08d Actual: %08d", i, want, crc)
		}
		if list[i], err = codec.Decode([]byte(data)); err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, buf[:4])
	}
	return crc, nil
}

// swap reverses the byte order of elements.
func swap(data []byte, dtype tensor.DType) {
	size := dtype.Size()
	if dtype.IsComplex() {
		size /= 2
	}
	if size <= 1 {
		return
	}
	for len(data) > 0 {
		slices.Reverse(data[:size])
		data = data[size:]
	}
}

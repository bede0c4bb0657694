package checkpoint

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"sort"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mask converts a checksum to its stored form, since checksums of data that contains checksums are weak.
func mask(crc uint32) uint32 { return (crc>>15 | crc<<17) + 0xa282ead8 }

func unmask(crc uint32) uint32 {
	crc -= 0xa282ead8
	return crc>>17 | crc<<15
}

// summed counts and checksums what is written through it.
type summed struct {
	w   io.Writer
	n   int64
	crc uint32
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.n += int64(n)
	s.crc = crc32.Update(s.crc, castagnoli, b[:n])
	return n, err
}

// blockWriter writes one block of a table entry by entry; no entry need fit in memory.
type blockWriter struct {
	out      summed
	interval int // entries between restarts
	restarts []uint32
	count    int
	last     string
	scratch  []byte
}

func newBlock(w io.Writer, interval int) *blockWriter {
	return &blockWriter{out: summed{w: w}, interval: interval, restarts: []uint32{0}}
}

// add writes an entry, whose key must come after the last one. write must write size bytes.
func (b *blockWriter) add(key string, size int64, write func(io.Writer) error) error {
	shared := 0
	if b.count == b.interval {
		b.restarts = append(b.restarts, uint32(b.out.n))
		b.count = 0
	} else {
		for shared < min(len(b.last), len(key)) && b.last[shared] == key[shared] {
			shared++
		}
	}
	b.scratch = binary.AppendUvarint(b.scratch[:0], uint64(shared))
	b.scratch = binary.AppendUvarint(b.scratch, uint64(len(key)-shared))
	b.scratch = binary.AppendUvarint(b.scratch, uint64(size))
	b.scratch = append(b.scratch, key[shared:]...)
	if _, err := b.out.Write(b.scratch); err != nil {
		return err
	}
	b.last = key
	b.count++
	return write(&b.out)
}

func (b *blockWriter) addBytes(key string, value []byte) error {
	return b.add(key, int64(len(value)), func(w io.Writer) error {
		_, err := w.Write(value)
		return err
	})
}

// estimate returns the size of the block if it ended here.
func (b *blockWriter) estimate() int64 { return b.out.n + 4*int64(len(b.restarts)) + 4 }

// finish ends the block, which began at the given offset of its file, and returns its handle.
func (b *blockWriter) finish(offset int64) (handle, error) {
	tail := b.scratch[:0]
	for _, r := range b.restarts {
		tail = binary.LittleEndian.AppendUint32(tail, r)
	}
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(b.restarts)))
	h := handle{uint64(offset), uint64(b.out.n) + uint64(len(tail))}
	tail = append(tail, 0) // not compressed
	if _, err := b.out.Write(tail); err != nil {
		return h, err
	}
	_, err := b.out.Write(binary.LittleEndian.AppendUint32(nil, mask(b.out.crc)))
	return h, err
}

// blockReader returns the entries of a block one after the other.
type blockReader struct {
	all, data []byte // the entries, and the unread ones
	restarts  []byte // offsets of entries whose keys are stored in full
	key       []byte
}

// newBlockReader returns a reader for the content of a block, without its trailer.
func newBlockReader(data []byte) (*blockReader, error) {
	if len(data) < 4 {
		return nil, dataLoss("bad block contents")
	}
	restarts := uint64(binary.LittleEndian.Uint32(data[len(data)-4:]))
	if restarts > uint64(len(data)-4)/4 {
		return nil, dataLoss("bad block contents")
	}
	end := uint64(len(data)) - 4 - 4*restarts
	return &blockReader{all: data[:end], data: data[:end], restarts: data[end : len(data)-4]}, nil
}

// seek skips entries before the key, though not necessarily all of them.
func (b *blockReader) seek(key string) error {
	var failed error
	from := func(i int) []byte {
		at := binary.LittleEndian.Uint32(b.restarts[4*i:])
		if int64(at) > int64(len(b.all)) {
			failed = dataLoss("bad entry in block")
			return nil
		}
		return b.all[at:]
	}
	after := sort.Search(len(b.restarts)/4, func(i int) bool {
		if b.data, b.key = from(i), b.key[:0]; failed != nil {
			return true
		}
		k, _, err := b.next()
		if err != nil {
			failed = dataLoss("bad entry in block")
		}
		return string(k) >= key
	})
	if failed != nil || after <= 1 {
		b.data, b.key = b.all, b.key[:0]
		return failed
	}
	b.data, b.key = from(after-1), b.key[:0]
	return failed
}

// next returns the next entry, valid until the following call, or io.EOF.
func (b *blockReader) next() (key, value []byte, err error) {
	if len(b.data) == 0 {
		return nil, nil, io.EOF
	}
	var sizes [3]uint64
	for i := range sizes {
		v, n := binary.Uvarint(b.data)
		if n <= 0 {
			return nil, nil, dataLoss("bad entry in block")
		}
		sizes[i], b.data = v, b.data[n:]
	}
	shared, own, size := sizes[0], sizes[1], sizes[2]
	if shared > uint64(len(b.key)) || own > uint64(len(b.data)) || size > uint64(len(b.data))-own {
		return nil, nil, dataLoss("bad entry in block")
	}
	b.key = append(b.key[:shared], b.data[:own]...)
	value = b.data[own : own+size]
	b.data = b.data[own+size:]
	return b.key, value, nil
}

// separator returns a short key that is at least a and less than b, where a is less than b.
func separator(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	if n < min(len(a), len(b)) && a[n] < 0xff && a[n]+1 < b[n] {
		return a[:n] + string([]byte{a[n] + 1})
	}
	return a
}

// successor returns a short key that is at least a.
func successor(a string) string {
	n := 0
	for n < len(a) && a[n] == 0xff {
		n++
	}
	if n == len(a) {
		return a
	}
	return a[:n] + string([]byte{a[n] + 1})
}

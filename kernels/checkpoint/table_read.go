package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"sort"

	"github.com/klauspost/compress/snappy"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/files"
)

func dataLoss(what string) error { return status.New(status.DataLoss, what) }

// maxSnappy limits the ratio of decompressed to compressed size of a block: a copy of 64 bytes takes at least two.
const maxSnappy = 64

// tableReader reads a table. It keeps the index and one block in memory. It must be used by one goroutine only.
type tableReader struct {
	src   Source
	index []indexed
	at    int // index of the loaded block, -1 for none
	block []byte
}

// indexed is a block and an upper bound of its keys.
type indexed struct {
	last   []byte
	handle handle
}

func openTable(src Source) (*tableReader, error) {
	size := src.Size()
	if size < footerSize {
		return nil, dataLoss("file is too short to be an sstable")
	}
	var footer [footerSize]byte
	if _, err := src.ReadAt(footer[:], size-footerSize); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint64(footer[footerSize-8:]) != tableMagic {
		return nil, dataLoss("not an sstable (bad magic number)")
	}
	_, rest, err := readHandle(footer[:footerSize-8])
	if err != nil {
		return nil, err
	}
	at, _, err := readHandle(rest)
	if err != nil {
		return nil, err
	}
	t := &tableReader{src: src, at: -1}
	data, err := t.read(at)
	if err != nil {
		return nil, err
	}
	return t, t.readIndex(data)
}

// readIndex rejects overlapping blocks, so a file never has more to read than its length.
func (t *tableReader) readIndex(data []byte) error {
	b, err := newBlockReader(data)
	if err != nil {
		return err
	}
	end := uint64(0)
	for {
		key, value, err := b.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		h, _, err := readHandle(value)
		if err != nil {
			return err
		}
		if h.offset < end || h.size > uint64(t.src.Size()) || h.offset > uint64(t.src.Size()) {
			return dataLoss("bad block handle")
		}
		end = h.offset + h.size + trailerSize
		t.index = append(t.index, indexed{bytes.Clone(key), h})
	}
}

// read returns the content of a block. Its memory is counted before it is allocated: the table alone says how large a block is, and a
// compressed one how large it becomes.
func (t *tableReader) read(h handle) ([]byte, error) {
	size := uint64(t.src.Size())
	if h.offset > size || h.size > size || h.offset+h.size+trailerSize > size {
		return nil, dataLoss("truncated block read")
	}
	if err := files.Reserve("a block", int64(h.size)+trailerSize); err != nil {
		return nil, err
	}
	defer tensor.Host.Unreserve(int64(h.size) + trailerSize)
	data := make([]byte, h.size+trailerSize)
	if _, err := t.src.ReadAt(data, int64(h.offset)); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(data[h.size+1:]) != mask(crc32.Checksum(data[:h.size+1], castagnoli)) {
		return nil, dataLoss("block checksum mismatch")
	}
	switch kind := data[h.size]; kind {
	case 0:
		return data[:h.size:h.size], nil
	case 1:
		n, err := snappy.DecodedLen(data[:h.size])
		if err != nil || uint64(n) > maxSnappy*h.size {
			return nil, dataLoss("corrupted compressed block contents")
		}
		if err := files.Reserve("a decompressed block", int64(n)); err != nil {
			return nil, err
		}
		defer tensor.Host.Unreserve(int64(n))
		plain, err := snappy.Decode(nil, data[:h.size])
		if err != nil {
			return nil, dataLoss("corrupted compressed block contents")
		}
		return plain, nil
	}
	return nil, dataLoss("bad block type")
}

// load loads block i into memory.
func (t *tableReader) load(i int) (*blockReader, error) {
	if t.at != i {
		data, err := t.read(t.index[i].handle)
		if err != nil {
			return nil, err
		}
		t.at, t.block = i, data
	}
	return newBlockReader(t.block)
}

// get returns the value of a key, valid until the next call; ok is false if the key does not exist.
func (t *tableReader) get(key string) (value []byte, ok bool, err error) {
	i := sort.Search(len(t.index), func(i int) bool { return string(t.index[i].last) >= key })
	if i == len(t.index) {
		return nil, false, nil
	}
	b, err := t.load(i)
	if err != nil {
		return nil, false, err
	}
	if err := b.seek(key); err != nil {
		return nil, false, err
	}
	for {
		k, v, err := b.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		case string(k) == key:
			return v, true, nil
		case string(k) > key:
			return nil, false, nil
		}
	}
}

// each calls f for each entry in key order; the arguments are valid during the call.
func (t *tableReader) each(f func(key, value []byte) error) error {
	for i := range t.index {
		b, err := t.load(i)
		if err != nil {
			return err
		}
		for {
			k, v, err := b.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if err := f(k, v); err != nil {
				return err
			}
		}
	}
	return nil
}

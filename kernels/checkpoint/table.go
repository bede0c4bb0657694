package checkpoint

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
)

// The index of a checkpoint is a sorted table in the format of LevelDB: blocks of entries whose
// keys share prefixes, a block that indexes them, and a footer.
const (
	tableMagic      = 0xdb4775248b80fb57
	footerSize      = 48
	trailerSize     = 5 // a block's compression and checksum
	blockSize       = 1 << 18
	restartInterval = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mask is how checksums are stored, since those of data that hold checksums are weak.
func mask(crc uint32) uint32 { return (crc>>15 | crc<<17) + 0xa282ead8 }

type entry struct {
	key, value string
}

// block builds a block of entries, which come in the order of their keys.
type block struct {
	data     []byte
	restarts []uint32
	count    int
	last     string
}

func (b *block) add(e entry) {
	shared := 0
	if b.count%restartInterval == 0 {
		b.restarts = append(b.restarts, uint32(len(b.data)))
	} else {
		for shared < min(len(b.last), len(e.key)) && b.last[shared] == e.key[shared] {
			shared++
		}
	}
	b.data = binary.AppendUvarint(b.data, uint64(shared))
	b.data = binary.AppendUvarint(b.data, uint64(len(e.key)-shared))
	b.data = binary.AppendUvarint(b.data, uint64(len(e.value)))
	b.data = append(append(b.data, e.key[shared:]...), e.value...)
	b.last = e.key
	b.count++
}

// finish appends the block to the file and gives its handle.
func (b *block) finish(file []byte) (out []byte, handle string) {
	if len(b.restarts) == 0 {
		b.restarts = []uint32{0}
	}
	for _, r := range b.restarts {
		b.data = binary.LittleEndian.AppendUint32(b.data, r)
	}
	b.data = binary.LittleEndian.AppendUint32(b.data, uint32(len(b.restarts)))
	h := binary.AppendUvarint(nil, uint64(len(file)))
	h = binary.AppendUvarint(h, uint64(len(b.data)))
	b.data = append(b.data, 0) // not compressed
	crc := crc32.Checksum(b.data, castagnoli)
	file = append(file, b.data...)
	return binary.LittleEndian.AppendUint32(file, mask(crc)), string(h)
}

// encodeTable makes a table of entries, which must be sorted by key.
func encodeTable(entries []entry) []byte {
	var file []byte
	var index, data block
	flush := func() {
		if data.count == 0 {
			return
		}
		last := data.last
		var handle string
		file, handle = data.finish(file)
		index.add(entry{last, handle})
		data = block{}
	}
	for _, e := range entries {
		data.add(e)
		if len(data.data) >= blockSize {
			flush()
		}
	}
	flush()
	file, metaHandle := new(block).finish(file)
	file, indexHandle := index.finish(file)
	footer := append([]byte(metaHandle), indexHandle...)
	footer = append(footer, make([]byte, footerSize-8-len(footer))...)
	return binary.LittleEndian.AppendUint64(append(file, footer...), tableMagic)
}

func corrupt(what string) error {
	return status.Errorf(status.DataLoss, "The checkpoint's index is corrupt: %s", what)
}

// decodeTable reads all entries of a table.
func decodeTable(file []byte) ([]entry, error) {
	if len(file) < footerSize || binary.LittleEndian.Uint64(file[len(file)-8:]) != tableMagic {
		return nil, corrupt("not an sstable (bad magic number)")
	}
	footer := file[len(file)-footerSize : len(file)-8]
	_, rest, ok := readHandle(footer)
	if !ok {
		return nil, corrupt("bad footer")
	}
	indexAt, _, ok := readHandle(rest)
	if !ok {
		return nil, corrupt("bad footer")
	}
	index, err := decodeBlock(file, indexAt)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, e := range index {
		at, _, ok := readHandle([]byte(e.value))
		if !ok {
			return nil, corrupt("bad block handle")
		}
		list, err := decodeBlock(file, at)
		if err != nil {
			return nil, err
		}
		entries = append(entries, list...)
	}
	if !slices.IsSortedFunc(entries, func(a, b entry) int { return bytes.Compare([]byte(a.key), []byte(b.key)) }) {
		return nil, corrupt("keys out of order")
	}
	return entries, nil
}

type handle struct{ offset, size uint64 }

func readHandle(b []byte) (h handle, rest []byte, ok bool) {
	var n int
	if h.offset, n = binary.Uvarint(b); n <= 0 {
		return h, nil, false
	}
	b = b[n:]
	if h.size, n = binary.Uvarint(b); n <= 0 {
		return h, nil, false
	}
	return h, b[n:], true
}

func decodeBlock(file []byte, h handle) ([]entry, error) {
	total := uint64(len(file))
	if h.offset > total || h.size > total || h.offset+h.size+trailerSize > total || h.size < 4 {
		return nil, corrupt("a block lies outside of the file")
	}
	data := file[h.offset : h.offset+h.size+1]
	if crc := binary.LittleEndian.Uint32(file[h.offset+h.size+1:]); crc != mask(crc32.Checksum(data, castagnoli)) {
		return nil, corrupt("block checksum mismatch")
	}
	if data[h.size] != 0 {
		return nil, status.Unimplementedf("The checkpoint's index is compressed, which is not supported")
	}
	data = data[:h.size]
	restarts := uint64(binary.LittleEndian.Uint32(data[len(data)-4:]))
	if restarts*4+4 > uint64(len(data)) {
		return nil, corrupt("bad restarts")
	}
	data = data[:uint64(len(data))-4-restarts*4]
	var entries []entry
	last := ""
	for len(data) > 0 {
		var sizes [3]uint64
		for i := range sizes {
			v, n := binary.Uvarint(data)
			if n <= 0 {
				return nil, corrupt("bad entry")
			}
			sizes[i], data = v, data[n:]
		}
		shared, own, size := sizes[0], sizes[1], sizes[2]
		if shared > uint64(len(last)) || own > uint64(len(data)) || size > uint64(len(data))-own {
			return nil, corrupt("bad entry")
		}
		last = last[:shared] + string(data[:own])
		entries = append(entries, entry{last, string(data[own : own+size])})
		data = data[own+size:]
	}
	return entries, nil
}

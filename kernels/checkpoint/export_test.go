package checkpoint

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/klauspost/compress/snappy"
)

// BuildTable returns a table of the entries.
func BuildTable(entries map[string][]byte) []byte {
	var b bytes.Buffer
	t := newTable(&b)
	for _, k := range slices.Sorted(maps.Keys(entries)) {
		if err := t.addBytes(k, entries[k]); err != nil {
			panic(err)
		}
	}
	if err := t.finish(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// TableOfBlock returns a table of one block that holds data, with any compression byte and valid checksums.
func TableOfBlock(data []byte, compression byte, last string) []byte {
	raw := func(file, data []byte, kind byte) ([]byte, handle) {
		h := handle{uint64(len(file)), uint64(len(data))}
		data = append(bytes.Clone(data), kind)
		file = append(file, data...)
		return binary.LittleEndian.AppendUint32(file, mask(crc32.Checksum(data, castagnoli))), h
	}
	var file []byte
	file, at := raw(file, data, compression)
	var index bytes.Buffer
	b := newBlock(&index, 1)
	_ = b.addBytes(last, at.encode())
	indexAt, _ := b.finish(int64(len(file)))
	file = append(file, index.Bytes()...)
	footer := append(handle{}.encode(), indexAt.encode()...)
	footer = append(footer, make([]byte, footerSize-8-len(footer))...)
	return binary.LittleEndian.AppendUint64(append(file, footer...), tableMagic)
}

// SnappyTable is BuildTable with its one block compressed, as older versions of TensorFlow wrote it.
func SnappyTable(entries map[string][]byte) []byte {
	var b bytes.Buffer
	block := newBlock(&b, restartInterval)
	last := ""
	for _, k := range slices.Sorted(maps.Keys(entries)) {
		_ = block.addBytes(k, entries[k])
		last = k
	}
	h, _ := block.finish(0)
	return TableOfBlock(snappy.Encode(nil, b.Bytes()[:h.size]), 1, last)
}

// TableEntries reads all entries of a table, both sequentially and by key.
func TableEntries(src Source) (map[string][]byte, error) {
	t, err := openTable(src)
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	if err := t.each(func(k, v []byte) error {
		all[string(k)] = bytes.Clone(v)
		return nil
	}); err != nil {
		return nil, err
	}
	for k := range all {
		if _, _, err := t.get(k); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// SliceKey is sliceKey.
var SliceKey = sliceKey

// ShardsOf is shardsOf.
var ShardsOf = shardsOf

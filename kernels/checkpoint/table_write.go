package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
)

// Tables have the format of LevelDB: blocks of sorted entries with prefix-compressed keys, a block that indexes them, and a footer. Both
// checkpoint formats are built of tables.
const (
	tableMagic      = 0xdb4775248b80fb57
	footerSize      = 48
	trailerSize     = 5 // a block's compression and checksum
	blockSize       = 1 << 18
	restartInterval = 16
)

// tableWriter writes a table, byte for byte as TensorFlow's builder does for the same entries.
type tableWriter struct {
	w      *bufio.Writer
	offset int64
	index  *blockWriter
	blocks bytes.Buffer // the index, which comes last
	data   *blockWriter
	ended  *handle // of the last block, whose index entry depends on the key that follows
	last   string
}

func newTable(w io.Writer) *tableWriter {
	t := &tableWriter{w: bufio.NewWriterSize(w, 1<<16)}
	t.index = newBlock(&t.blocks, 1)
	return t
}

// add writes an entry, whose key must come after the last one. write must write size bytes.
func (t *tableWriter) add(key string, size int64, write func(io.Writer) error) error {
	if int64(len(key))+size >= 2*blockSize {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if t.ended != nil {
		if err := t.index.addBytes(separator(t.last, key), t.ended.encode()); err != nil {
			return err
		}
		t.ended = nil
	}
	if t.data == nil {
		t.data = newBlock(t.w, restartInterval)
	}
	t.last = key
	if err := t.data.add(key, size, write); err != nil {
		return err
	}
	if t.data.estimate() >= blockSize {
		return t.flush()
	}
	return nil
}

func (t *tableWriter) addBytes(key string, value []byte) error {
	return t.add(key, int64(len(value)), func(w io.Writer) error {
		_, err := w.Write(value)
		return err
	})
}

func (t *tableWriter) flush() error {
	if t.data == nil {
		return nil
	}
	h, err := t.end(t.data)
	t.data, t.ended = nil, &h
	return err
}

func (t *tableWriter) end(b *blockWriter) (handle, error) {
	h, err := b.finish(t.offset)
	t.offset += b.out.n
	return h, err
}

// finish writes the pending block, the index and the footer.
func (t *tableWriter) finish() error {
	if err := t.flush(); err != nil {
		return err
	}
	meta, err := t.end(newBlock(t.w, restartInterval))
	if err != nil {
		return err
	}
	if t.ended != nil {
		if err := t.index.addBytes(successor(t.last), t.ended.encode()); err != nil {
			return err
		}
	}
	index, err := t.end(t.index)
	if err != nil {
		return err
	}
	if _, err := t.w.Write(t.blocks.Bytes()); err != nil {
		return err
	}
	footer := append(meta.encode(), index.encode()...)
	footer = append(footer, make([]byte, footerSize-8-len(footer))...)
	if _, err := t.w.Write(binary.LittleEndian.AppendUint64(footer, tableMagic)); err != nil {
		return err
	}
	return t.w.Flush()
}

// handle is the position of a block.
type handle struct{ offset, size uint64 }

func (h handle) encode() []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, h.offset), h.size)
}

func readHandle(b []byte) (h handle, rest []byte, err error) {
	var n int
	if h.offset, n = binary.Uvarint(b); n <= 0 {
		return h, nil, dataLoss("bad block handle")
	}
	b = b[n:]
	if h.size, n = binary.Uvarint(b); n <= 0 {
		return h, nil, dataLoss("bad block handle")
	}
	return h, b[n:], nil
}
